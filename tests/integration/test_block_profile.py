"""QEMU's plugin: its counts, and the caches that it simulates."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.config.board_data import Cache
from harness.config.targets import load_target
from harness.errors import HarnessError
from harness.prediction.profile import RUN_ENDED, Profile, read_profile
from harness.qemu.profiler import prepare_profiler, profiling_missing

TARGET = load_target("pi4")
LINES = 16  # of a KiB

Run = Callable[..., Profile]


@pytest.fixture
def run(marked: Path, tmp_path: Path) -> Run:
    if missing := profiling_missing():
        pytest.skip("; ".join(missing))
    profiler = prepare_profiler()
    assert profiler is not None

    def profiled(word: str, *, caches: tuple[Cache, ...] | None = None) -> Profile:
        board = TARGET.board
        assert board is not None
        board = replace(board, caches=caches or board.caches)
        output = tmp_path / "profile"
        target = replace(TARGET, board=board)
        program = [str(marked), word]
        command = profiler.command(target, program, {}, str(output), folder=profiler.folder)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "done\n"
        return read_profile(output)

    return profiled


def missed(profile: Profile, level: int) -> int:
    return int(sum((part.misses + part.streamed)[:, level].sum() for part in profile.segments))


# Where no run before it has filled the caches, the profile replays its misses: the counts are the same.
warmed_or_replayed = pytest.mark.parametrize("read", ["r", "R"])


@warmed_or_replayed
def test_data_that_fits_into_l1_misses_once(read: str, run: Run) -> None:
    assert missed(run(f"{read}16"), 0) <= 4  # the stack and what else the program itself touches


@warmed_or_replayed
def test_data_that_fits_into_l2_misses_in_l1(read: str, run: Run) -> None:
    profile = run(f"{read}512")
    assert missed(profile, 0) == pytest.approx(512 * LINES, abs=8)
    assert missed(profile, 1) <= 8
    # In order: a prefetcher sees all but the first coming.
    assert sum(part.streamed[:, 0].sum() for part in profile.segments) >= 512 * LINES - 8


@warmed_or_replayed
def test_data_that_fits_into_no_cache_comes_from_memory(read: str, run: Run) -> None:
    profile = run(f"{read}4096")
    assert missed(profile, 1) == pytest.approx(4096 * LINES, abs=8)
    assert sum(part.written_back for part in profile.segments) <= 4


@pytest.mark.parametrize("write", ["w", "W"])
def test_dirty_lines_are_written_back_on_eviction(write: str, run: Run) -> None:
    profile = run(f"{write}4096")
    assert missed(profile, 1) == pytest.approx(4096 * LINES, abs=8)
    # As many as come in go out: the caches were full of written lines when it began.
    assert sum(part.written_back for part in profile.segments) == pytest.approx(4096 * LINES, abs=600)


@warmed_or_replayed
def test_the_least_recently_used_line_of_a_set_is_evicted(read: str, run: Run) -> None:
    # 48 KiB are three lines for each set of two: each is gone when its turn comes again. In a direct-mapped
    # cache of the same size only those sets are short that two of the lines share.
    assert missed(run(f"{read}48"), 0) == pytest.approx(48 * LINES, abs=8)
    direct = (Cache(kib=32, ways=1), Cache(kib=1024, ways=16))
    assert missed(run(f"{read}48", caches=direct), 0) == pytest.approx(32 * LINES, abs=8)


def test_segments_are_the_layers(run: Run) -> None:
    profile = run("l1000")
    assert [part.layer for part in profile.segments] == [0, 1, None]
    assert profile.segments[-1].mark == RUN_ENDED
    lengths = [len(block) // 4 for block in profile.blocks]
    executed = [
        sum(lengths[block] * int(runs) for block, runs in zip(part.blocks, part.runs, strict=True))
        for part in profile.segments
    ]
    assert executed[0] == pytest.approx(2 * 1000, abs=30)
    assert executed[1] == pytest.approx(2 * 2000, abs=30)


def test_without_marks_there_is_no_profile(run: Run, tmp_path: Path) -> None:
    run("10")
    (tmp_path / "profile").unlink()
    with pytest.raises((HarnessError, AssertionError)):
        run("dot")
    assert not (tmp_path / "profile").exists()
