"""Runs a new engine on a tiny network in every precision, on the target's core.

It detects instructions that the core lacks, symbols that the loader does not find, and int8 kernels that
differ from the reference loops.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import numpy as np

from harness.build.emulator import Emulator
from harness.build.instruction_sets import instruction_set_of
from harness.config.targets import Target
from harness.errors import BuildError, TargetMismatchError
from harness.temporary import temporary_folder

TIMEOUT = 120.0  # seconds; a run takes 0.05 s, under QEMU 0.2 s
_CHANNELS = 16

# Each kind of kernel once: a convolution, a depthwise, a pointwise and a connected layer.
_CFG = """\
[net]
width=16
height=16
channels=3
[convolutional]
filters=16
size=3
stride=2
pad=1
activation=leaky
{precision}
[convolutional]
filters=16
groups=16
size=3
pad=1
activation=relu6
{precision}
[convolutional]
filters=16
size=1
activation=linear
{precision}
[maxpool]
size=2
stride=2
[connected]
output=10
activation=linear
{precision}
[softmax]
"""


class _LoaderTooOldError(Exception):
    """The emulator's glibc is too old to load the program, which was therefore not tested."""


def self_test(engine: Path, target: Target, emulator: Emulator) -> dict[str, object]:
    """Returns a report for the manifest: how it was run, and the output of `mpe caps`.

    Raises TargetMismatchError for an illegal instruction, BuildError for wrong results.
    """
    report: dict[str, object] = {"how": emulator.description}
    try:
        report["caps"] = json.loads(_run(engine, target, emulator, ["caps"]))
        with temporary_folder("self-test") as folder:
            report["precisions"] = _inferences(engine, target, emulator, folder)
    except _LoaderTooOldError as error:
        return {"how": emulator.description, "skipped": str(error)}
    except json.JSONDecodeError as error:
        raise BuildError(f"{engine}: the output of `mpe caps` is not JSON: {error}") from None
    return report


def _inferences(engine: Path, target: Target, emulator: Emulator, folder: Path) -> list[str]:
    random = np.random.default_rng(1)
    weights = folder / "net.weights"
    parameters = [
        random.normal(0, 0.3, size).astype("<f4")
        for outputs, terms in ((_CHANNELS, 27), (_CHANNELS, 9), (_CHANNELS, _CHANNELS), (10, 16 * 16))
        for size in (outputs, outputs * terms)
    ]
    header = np.array([0, 2, 0, 0, 0], "<i4")  # version 0.2, with 64 bits of images seen
    weights.write_bytes(header.tobytes() + b"".join(part.tobytes() for part in parameters))
    picture = folder / "picture.npy"
    np.save(picture, random.integers(0, 256, (1, 16, 16, 3), dtype=np.uint8))
    for precision in ("fp32", "fp16", "int8"):
        cfg = folder / f"{precision}.cfg"
        keys = f"{precision}=1" + ("\nquantize=1" if precision == "int8" else "")
        cfg.write_text(_CFG.format(precision=keys), encoding="utf-8")
        command = [
            "forward",
            "--cfg",
            str(cfg),
            "--weights",
            str(weights),
            "--input",
            str(picture),
            "--digest",
        ]
        digests = [
            json.loads(_run(engine, target, emulator, command + more))["digests"]
            for more in ([], ["--algorithm", "reference"])
        ]
        if precision == "int8" and digests[0] != digests[1]:
            raise BuildError(
                f"{target.name}: the engine's int8 kernels and its reference loops disagree "
                f"({emulator.description})",
                hint="The engine or its compiler is at fault: please report this with the manifest.",
            )
    return ["fp32", "fp16", "int8"]


def _illegal_instruction(command: list[str], emulator: Emulator) -> str:
    """The instruction that stopped the program: the last one in QEMU's log of translated code."""
    if not emulator.prefix:
        return "an instruction"
    with temporary_folder("self-test") as folder:
        log = folder / "translated"
        traced = [emulator.prefix[0], "-d", "in_asm", "-D", str(log), *command[1:]]
        try:
            subprocess.run(
                traced, capture_output=True, timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL
            )
            words = re.findall(r"(?m)^0x[0-9a-f]+:\s+([0-9a-f]{8})\b(.*)$", log.read_text(errors="replace"))
        except (OSError, subprocess.TimeoutExpired):
            words = []
    if not words:
        return "an instruction"
    word, text = words[-1]
    known = instruction_set_of(int(word, 16))
    shown = " ".join(text.split())
    if not shown or shown.startswith(".byte"):  # unknown to QEMU's disassembler as well
        shown = f"0x{word}"
    return f"{shown}, an instruction of {known.name}," if known else f"{shown}, an instruction"


def _run(engine: Path, target: Target, emulator: Emulator, arguments: list[str]) -> str:
    command = [*emulator.prefix, str(engine), *arguments]
    shown = f"mpe {arguments[0]} ({emulator.description})"
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"{target.name}: {shown} did not end within {TIMEOUT:.0f} s") from None
    except OSError as error:
        raise BuildError(f"{target.name}: {shown} cannot be started: {error.strerror}") from None
    if done.returncode in (-signal.SIGILL, 128 + signal.SIGILL):
        raise TargetMismatchError(
            f"{target.name}: {shown} executed {_illegal_instruction(command, emulator)} which the core "
            f"{target.cpu or ''} does not have",
            hint="A source file outside engine/src/kernels/ was compiled with flags for newer cores.",
        )
    if "version `GLIBC_" in done.stderr:
        raise _LoaderTooOldError(done.stderr.strip().splitlines()[-1])
    if "unable to find CPU model" in done.stderr:
        raise BuildError(
            f"{target.name}: QEMU does not know the core {target.qemu_cpu or target.cpu}",
            hint="Set qemu_cpu in the target's file to a core with the same instructions; "
            "`qemu-aarch64 -cpu help` lists the known ones.",
        )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise BuildError(f"{target.name}: the new engine fails its self-test: {shown}: {last}")
    return done.stdout
