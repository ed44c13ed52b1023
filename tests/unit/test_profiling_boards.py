"""Where `harness predict` profiles: in a container, or without one."""

from __future__ import annotations

from functools import partial

import pytest

from harness.boards import qemu_user
from harness.boards.emulated import EmulatedBoard
from harness.boards.qemu_user import QemuUserBoard
from harness.config.targets import load_target
from harness.errors import BuildError
from harness.images import availability, image
from harness.prediction import engine_run
from harness.qemu import profiler

NO_DOCKER, NO_LIBRARY, NO_QEMU = "no Docker Engine", "no arm64 C library", "no qemu-aarch64"


@pytest.mark.parametrize(
    ("missing", "chosen"),
    [
        ((), EmulatedBoard),
        ((NO_LIBRARY,), EmulatedBoard),  # the container has one
        ((NO_DOCKER,), QemuUserBoard),
        ((NO_DOCKER, NO_LIBRARY), None),
        ((NO_QEMU,), None),
    ],
)
def test_a_container_is_preferred_and_not_required(
    missing: tuple[str, ...], chosen: type | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*names: str) -> list[str]:
        return [name for name in names if name in missing]

    monkeypatch.setattr(availability, "emulation_missing", lambda _: lacking(NO_DOCKER))
    monkeypatch.setattr(profiler, "profiling_missing", lambda: lacking(NO_QEMU))
    monkeypatch.setattr(qemu_user, "qemu_user_missing", lambda: lacking(NO_QEMU, NO_LIBRARY))
    monkeypatch.setattr(image, "build_image", lambda _: None)
    if chosen is None:
        with pytest.raises(BuildError, match=missing[-1]):
            engine_run._board_of(load_target("pi4"))
    else:
        made = engine_run._board_of(load_target("pi4"))
        assert isinstance(made, partial)
        assert made.func is chosen
