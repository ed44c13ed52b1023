"""The self-test of a fresh engine, with scripts in the engine's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.build.emulator import Emulator
from harness.build.self_test import self_test
from harness.config.targets import Target
from harness.errors import BuildError, TargetMismatchError

TARGET = Target(name="desk", description="", architecture="aarch64", cpu="cortex-a57", glibc="2.27")
DIRECT = Emulator(prefix=(), description="run directly")

CAPS = 'if [ "$1" = caps ]; then echo \'{"best": "neon"}\'; exit; fi\n'
SAME = CAPS + 'echo \'{"digests": ["ab"]}\'\n'


def engine(folder: Path, body: str) -> Path:
    program = folder / "mpe"
    program.write_text(f"#!/bin/sh\n{body}")
    program.chmod(0o755)
    return program


def test_it_runs_every_precision_on_the_kernels_and_the_plain_loops(tmp_path: Path) -> None:
    log = tmp_path / "log"
    report = self_test(engine(tmp_path, f'echo "$@" >>"{log}"\n{SAME}'), TARGET, DIRECT)
    assert report["how"] == "run directly"
    assert report["caps"] == {"best": "neon"}
    calls = log.read_text().splitlines()
    for precision in ("fp32", "fp16", "int8"):
        mine = [call for call in calls if f"{precision}.cfg" in call]
        assert ["--algorithm reference" in call for call in mine] == [False, True]


def test_the_emulator_stands_before_the_engine(tmp_path: Path) -> None:
    shell = Emulator(prefix=("/bin/sh", "-e"), description="a shell")
    program = engine(tmp_path, SAME)
    program.chmod(0o644)  # cannot be run but by the emulator
    assert self_test(program, TARGET, shell)["precisions"] == ["fp32", "fp16", "int8"]


def test_an_illegal_instruction_means_the_core_lacks_it(tmp_path: Path) -> None:
    with pytest.raises(TargetMismatchError, match=r"mpe forward .*cortex-a57"):
        self_test(engine(tmp_path, CAPS + "kill -ILL $$\n"), TARGET, DIRECT)


def test_int8_kernels_that_differ_from_the_plain_loops_are_a_defect(tmp_path: Path) -> None:
    different = 'case "$*" in *int8*reference*) echo \'{"digests": ["cd"]}\'; exit ;; esac\n'
    with pytest.raises(BuildError, match="int8 kernels and its reference loops disagree"):
        self_test(engine(tmp_path, different + SAME), TARGET, DIRECT)


def test_float_kernels_may_differ_from_the_plain_loops(tmp_path: Path) -> None:
    different = 'case "$*" in *fp32*reference*) echo \'{"digests": ["cd"]}\'; exit ;; esac\n'
    self_test(engine(tmp_path, different + SAME), TARGET, DIRECT)


def test_an_error_of_the_engine_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="mpe: out of cheese"):
        self_test(engine(tmp_path, CAPS + "echo 'mpe: out of cheese' >&2; exit 1\n"), TARGET, DIRECT)


def test_caps_that_are_no_json_are_a_defect(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="is not JSON"):
        self_test(engine(tmp_path, "echo hello\n"), TARGET, DIRECT)


def test_an_emulator_with_too_old_a_glibc_says_nothing_about_the_engine(tmp_path: Path) -> None:
    old = 'echo "mpe: /lib/libc.so.6: version \\`GLIBC_2.36\' not found" >&2; exit 1\n'
    report = self_test(engine(tmp_path, old), TARGET, DIRECT)
    assert "GLIBC_2.36" in str(report["skipped"])
