"""Lists of cores are read as the engine reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.core_list import MOST_CORES, parse_cores


@pytest.mark.parametrize(
    ("text", "cores"), [("3", [3]), ("0-3", [0, 1, 2, 3]), ("2,0", [2, 0]), ("4-5,1,1023", [4, 5, 1, 1023])]
)
def test_lists_of_cores(text: str, cores: list[int]) -> None:
    assert parse_cores(text) == cores


# Those of engine/tests/thread_pool_test.cpp among them.
@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "0-",
        "-0",
        "a",
        "0,",
        "0;1",
        "1-0",
        "0,0",
        "99999999999",
        "1024",
        "0-9999999",
        " 1",
        "0-2,1",
        "٣",
    ],
)
def test_an_invalid_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_cores(text)


@given(st.lists(st.integers(0, MOST_CORES - 1), min_size=1, max_size=20, unique=True))
def test_cores_one_by_one_come_in_their_order(cores: list[int]) -> None:
    assert parse_cores(",".join(map(str, cores))) == cores


@given(st.text(alphabet="0123,-x\n", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        cores = parse_cores(text)
    except ValueError:
        return
    assert cores
    assert len(set(cores)) == len(cores)
