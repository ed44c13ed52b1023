"""Random weights: the right size, the right places, the same every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.config.random_weights import write_random_weights


def layer(kind: str, fan_in: int, out: tuple[int, int, int], extra: int) -> dict[str, object]:
    return {
        "type": kind,
        "out": list(out),
        "macs": fan_in * int(np.prod(out)),
        "parameters": out[0] * (fan_in + extra),
    }


NORMALISED = layer("convolutional", 27, (16, 8, 8), 4)
PLAIN = layer("convolutional", 16, (5, 8, 8), 1)
CONNECTED = layer("connected", 320, (10, 1, 1), 4)
POOL = {"type": "maxpool", "out": [16, 4, 4], "macs": 0, "parameters": 0}


def test_the_file_has_the_header_and_every_parameter(tmp_path: Path) -> None:
    size = write_random_weights(tmp_path / "w", [NORMALISED, POOL, PLAIN, CONNECTED], seed=1)
    parameters = 16 * 31 + 5 * 17 + 10 * 324
    assert size == (tmp_path / "w").stat().st_size == 20 + 4 * parameters
    assert np.fromfile(tmp_path / "w", "<i4", 3).tolist() == [0, 2, 0]


@pytest.mark.parametrize(
    ("kind", "start"), [("convolutional", 3 * 16), ("connected", 16 + 16 * 27 + 2 * 16)], ids=str
)
def test_variances_are_positive_where_the_engine_reads_them(tmp_path: Path, kind: str, start: int) -> None:
    write_random_weights(tmp_path / "w", [layer(kind, 27, (16, 1, 1), 4)], seed=1)
    values = np.fromfile(tmp_path / "w", "<f4", offset=20)
    variances = values[start : start + 16]
    assert variances.min() >= 0.5
    assert variances.max() <= 2.0


def test_a_seed_names_a_file(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_random_weights(tmp_path / name, [NORMALISED, PLAIN], seed)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()
