"""Where a board's loader looks for libraries that were deployed."""

from __future__ import annotations

import pytest

from harness.boards.base import library_path
from harness.errors import ConfigurationError


def test_every_folder_is_named_once() -> None:
    assert library_path([]) == {}
    paths = ["/it's a/one/liba.so", "/it's a/two/libb.so", "/it's a/one/libc.so"]
    assert library_path(paths) == {"LD_LIBRARY_PATH": "/it's a/one:/it's a/two"}


@pytest.mark.parametrize("folder", ["/a:b", "/a;b", "/$ORIGIN"])
def test_a_folder_that_the_loader_would_take_for_others_is_refused(folder: str) -> None:
    with pytest.raises(ConfigurationError, match=r"must not have : ; or \$ in its name"):
        library_path([f"{folder}/liba.so"])
