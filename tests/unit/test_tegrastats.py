"""Lines as Jetsons of several kinds print them, and others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.sensors.tegrastats import TegraStats, parse_tegrastats

NANO = (
    "RAM 613/3964MB (lfb 634x4MB) SWAP 0/1982MB (cached 0MB) CPU [2%@102,1%@102,off,off] EMC_FREQ 0% "
    "GR3D_FREQ 0% PLL@39C CPU@40.5C PMIC@100C GPU@41C AO@46C thermal@41C POM_5V_IN 900/943 POM_5V_CPU 123/123"
)
NANO_AS_ROOT = (
    "RAM 1234/1979MB (lfb 4x4MB) IRAM 0/252kB(lfb 252kB) CPU [12%@1479,17%@1479] EMC_FREQ 0%@1600 "
    "GR3D_FREQ 0%@921 APE 25 CPU@29.5C POM_5V_IN 1812/1812"
)
ORIN = (
    "01-24-2024 09:17:09 RAM 3503/7337MB (lfb 7x1MB) SWAP 430/3668MB (cached 1MB) CPU [11%@729,off] "
    "EMC_FREQ 0%@2133 GR3D_FREQ 0%@[305] NVDEC off APE 174 CV0@-256C cpu@44.093C tj@46.968C "
    "VDD_IN 4915mW/4915mW VDD_CPU_GPU_CV 449mW/449mW"
)


@pytest.mark.parametrize(
    ("line", "stats"),
    [
        (
            NANO,
            TegraStats(
                memory_mhz=None,
                temperatures={
                    "PLL": 39_000, "CPU": 40_500, "PMIC": 100_000,
                    "GPU": 41_000, "AO": 46_000, "thermal": 41_000,
                },
                rails={"POM_5V_IN": 900_000, "POM_5V_CPU": 123_000},
            ),
        ),
        (
            NANO_AS_ROOT,
            TegraStats(memory_mhz=1600, temperatures={"CPU": 29_500}, rails={"POM_5V_IN": 1_812_000}),
        ),
        (
            ORIN,
            TegraStats(
                memory_mhz=2133,
                temperatures={"CV0": -256_000, "cpu": 44_093, "tj": 46_968},
                rails={"VDD_IN": 4_915_000, "VDD_CPU_GPU_CV": 449_000},
            ),
        ),
    ],
)  # fmt: skip
def test_a_line(line: str, stats: TegraStats) -> None:
    assert parse_tegrastats(line) == stats
    assert parse_tegrastats(line + "\r") == stats


@given(
    st.text()
    | st.text(alphabet="RAM CPU@EMC_FREQ VDD_IN0123456789./%mWC").map(lambda text: f"RAM 1/2MB {text}")
)
def test_any_text(line: str) -> None:
    stats = parse_tegrastats(line)
    if stats is not None:
        assert all(0 <= value <= 10**10 for value in stats.rails.values())
        assert all(-1_000_000 < value < 1_000_000 for value in stats.temperatures.values())


def test_a_rail_of_a_megawatt_is_not_known() -> None:
    stats = parse_tegrastats(NANO.replace("POM_5V_IN 900/943", "POM_5V_IN 999999999/943"))
    assert stats is not None
    assert stats.rails == {"POM_5V_CPU": 123_000}


@pytest.mark.parametrize(
    "line", ["", "CPU@40C", "12.50 1800000 48312 0x0 - -", "usage: tegrastats [options]"]
)
def test_a_line_of_something_else(line: str) -> None:
    assert parse_tegrastats(line) is None
