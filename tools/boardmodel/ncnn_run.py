"""Profiles ncnn's benchmark networks on emulated boards, with the ncnn version of each board's times."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.boards.emulated import EmulatedBoard
from harness.errors import ConfigurationError, HarnessError
from harness.prediction.profile import Profile, read_profile
from harness.runtimes.ncnn_runtime import NcnnRuntime
from harness.sdk.packages import UNPACKED, Python, archive_for

if TYPE_CHECKING:
    from harness.boards.base import Board
    from tools.boardmodel.published import PublishedBoard

# A Python program runs on the board: an image with Python 3.11, and its C library.
IMAGE, GLIBC = "pi4", "2.36"
PYTHON = "/usr/bin/python3"
TIMEOUT = 3600.0


@dataclass(frozen=True, kw_only=True)
class NcnnBoard:
    """An emulated board with an unpacked ncnn."""

    board: Board
    script: str  # paths on the board
    packages: str

    def profile(self, param: Path, size: int, output: Path, threads: int = 1) -> Profile:
        """The first thread of one inference with warm caches. Raises HarnessError with ncnn's output if it
        fails."""
        if self.board.profiler is None:
            from harness.qemu.profiler import profiling_missing

            raise HarnessError("; ".join(profiling_missing()))
        path = self.board.deploy({"param": param})["param"]
        self.board.profiler.profile(
            [PYTHON, self.script, path, str(size), str(threads)],
            output,
            timeout=TIMEOUT,
            environment={
                "PYTHONPATH": self.packages,
                "OMP_NUM_THREADS": str(threads),
                **NcnnRuntime.passive_threads,
            },
        )
        return read_profile(output)


@contextlib.contextmanager
def ncnn_board(published: PublishedBoard) -> Iterator[NcnnBoard]:
    """An emulated board with the target's core and the ncnn of its times."""
    target = replace(published.target, image=IMAGE, glibc=GLIBC)
    archive = archive_for(published.packages, Python(version="3.11", machine="aarch64", glibc=GLIBC))
    with EmulatedBoard(target) as board:
        # An emulated board sees the unpacked folder beside the archive.
        paths = board.deploy({"packages": archive, "script": Path(__file__).with_name("ncnn_inference.py")})
        yield NcnnBoard(board=board, script=paths["script"], packages=paths["packages"] + UNPACKED)


def find_params(folder: Path, inputs: Mapping[str, int]) -> dict[str, Path]:
    """The networks' files. Raises ConfigurationError if one is missing."""
    params = {name: folder / f"{name}.param" for name in inputs}
    missing = [name for name, path in params.items() if not path.is_file()]
    if missing:
        raise ConfigurationError(
            f"{folder}: has no {missing[0]}.param" + (f" and {len(missing) - 1} more" if missing[1:] else ""),
            hint="The networks are in the folder benchmark/ of https://github.com/Tencent/ncnn.",
        )
    return params
