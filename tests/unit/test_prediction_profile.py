"""Reading the output of QEMU's plugin."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from profiles import NOP, Row, write_profile

from harness.errors import HarnessError
from harness.prediction.profile import LAYER_ENDED, MAGIC, RUN_ENDED, read_profile

MISSED: Row = (1, 7, (3, 2, 1), (30, 20, 10))

writes_a_file = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(path: Path) -> bytes:
    write_profile(path, [NOP, 2 * NOP], [(LAYER_ENDED, 5, [(0, 100), MISSED]), (RUN_ENDED, 1, [(1, 2)])])
    return path.read_bytes()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "profile"


def test_blocks_and_segments_are_read(file: Path) -> None:
    written(file)
    profile = read_profile(file)
    assert list(profile.blocks) == [NOP, 2 * NOP]
    layer, rest = profile.segments
    assert (layer.layer, rest.layer) == (0, None)
    assert (layer.written_back, rest.written_back) == (5, 1)
    assert (layer.blocks.tolist(), layer.runs.tolist()) == ([0, 1], [100, 7])
    assert layer.misses.tolist() == [[0, 0, 0], [3, 2, 1]]
    assert layer.streamed.tolist() == [[0, 0, 0], [30, 20, 10]]
    assert profile.instructions == 100 + 2 * 7 + 2 * 2


def test_a_truncated_profile_is_an_error(file: Path) -> None:
    whole = written(file)
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(HarnessError, match=r"at byte \d+: truncated"):
            read_profile(file)


def test_bytes_after_the_end_are_refused(file: Path) -> None:
    file.write_bytes(written(file) + b"more")
    with pytest.raises(HarnessError, match="4 bytes after the end"):
        read_profile(file)


def test_another_file_is_refused(file: Path) -> None:
    file.write_bytes(b"#!/bin/sh\nexit 1\n")
    with pytest.raises(HarnessError, match="at byte 0: not a block profile"):
        read_profile(file)


def test_a_missing_file_is_an_error(file: Path) -> None:
    with pytest.raises(HarnessError, match="cannot be read: No such file"):
        read_profile(file)


def test_a_segment_refers_to_earlier_blocks_only(file: Path) -> None:
    write_profile(file, [NOP], [(RUN_ENDED, 0, [(1, 1)])])
    with pytest.raises(HarnessError, match="refers to block 1 of 1"):
        read_profile(file)


def test_an_unknown_kind_of_record_is_refused_with_its_offset(file: Path) -> None:
    file.write_bytes(MAGIC + struct.pack("<II", 9, 0))
    with pytest.raises(HarnessError, match="at byte 8: unknown kind of record 9"):
        read_profile(file)


@pytest.mark.parametrize(
    "row", [(0, 1 << 60), (0, 1, (2**32 - 1, 0, 0), (0, 0, 0)), (0, 1, (0, 0, 0), (0, 0, 2**32 - 1))]
)
def test_a_count_out_of_range_is_refused(file: Path, row: Row) -> None:
    write_profile(file, [NOP], [(RUN_ENDED, 0, [row])])
    with pytest.raises(HarnessError, match="a count is out of range"):
        read_profile(file)


@writes_a_file
@given(garbage=st.binary(max_size=200))
def test_random_bytes_cause_at_most_an_error(file: Path, garbage: bytes) -> None:
    file.write_bytes(MAGIC + garbage)
    with pytest.raises(HarnessError):
        read_profile(file)


@writes_a_file
@given(at=st.integers(min_value=0), value=st.integers(min_value=0, max_value=255))
def test_a_changed_byte_is_an_error_or_another_profile(file: Path, at: int, value: int) -> None:
    data = bytearray(written(file))
    data[at % len(data)] = value
    file.write_bytes(data)
    try:
        profile = read_profile(file)
    except HarnessError:
        return
    assert len(profile.segments) <= 2


def test_twenty_thousand_blocks_are_read_in_well_under_a_second(file: Path) -> None:
    write_profile(
        file, [10 * NOP] * 20_000, [(RUN_ENDED, 0, [(i, i, (1, 1, 1), (2, 2, 2)) for i in range(20_000)])]
    )
    start = time.process_time()
    profile = read_profile(file)
    assert time.process_time() - start < 1.0
    assert profile.instructions == 10 * sum(range(20_000))
