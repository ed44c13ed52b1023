"""Checks a target: this machine, the SDK, and the board, on which built programs run."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.build.elf import read_needs
from harness.config.targets import host_architecture
from harness.doctor.checks import build_check, read_checks, run_check
from harness.doctor.requirements import (
    ARM64_PROGRAMS,
    COMPILER,
    DOCKER_ENGINE,
    DoesNotApplyError,
    Finding,
    Requirement,
    look,
    requirement_named,
)
from harness.errors import HarnessError, TargetMismatchError
from harness.qemu.binfmt import arm64_interpreter
from harness.sdk.wheel import tensorflow_sdk

if TYPE_CHECKING:
    from harness.boards.base import Board
    from harness.config.targets import Target
    from harness.doctor.checks import Check

ANSWER_SECONDS = 30.0
_QEMU, _IMAGE, _BOARD, _SDK = "QEMU", "image", "board", "libtensorflow SDK"


def examine_target(target: Target, board: Board) -> Generator[Finding, None, None]:
    """Makes all checks in order; a check is skipped if one of its requirements failed.

    The board is connected when it is needed, and released when the generator ends or is closed.
    """
    met: set[str] = set()
    with contextlib.ExitStack() as connection:
        for requirement in _requirements(target, board, connection):
            finding = look(requirement, met)
            if finding.ok:
                met.add(requirement.name)
            yield finding


def _requirements(target: Target, board: Board, connection: contextlib.ExitStack) -> Iterator[Requirement]:
    yield requirement_named(COMPILER)
    if board.emulated:
        yield from _emulation(target)
    yield Requirement(
        name=_BOARD,
        purpose="runs programs for the target",
        find=lambda: _connect(target, board, connection),
        hint="Check that it is switched on, and its address, user and key in the boards file.",
        needs=(_IMAGE,) if board.emulated else (),
    )
    yield Requirement(
        name=_SDK,
        purpose="lets programs for the target use TensorFlow",
        find=lambda: _sdk(target),
        hint="`harness build --with tensorflow` makes it.",
    )
    for check in read_checks():
        yield from _check(check, target, board)


def _emulation(target: Target) -> Iterator[Requirement]:
    yield requirement_named(DOCKER_ENGINE)
    yield requirement_named(ARM64_PROGRAMS)
    yield Requirement(
        name=_QEMU,
        purpose="emulates the target's core",
        find=lambda: _emulated_core(target),
        hint="Install a newer qemu-user-static, for example from Debian's backports.",
        needs=(ARM64_PROGRAMS,),
    )
    yield Requirement(
        name=_IMAGE,
        purpose="is the system of the emulated board",
        find=lambda: _image(target),
        hint=f"`harness image --target {target.name}` builds it.",
        needs=(DOCKER_ENGINE, ARM64_PROGRAMS, _QEMU),
    )


def _check(check: Check, target: Target, board: Board) -> Iterator[Requirement]:
    """Two steps, as the build is a useful check even without a board."""
    yield Requirement(
        name=check.source,
        purpose="is a program for the target",
        find=lambda: _built(check, target),
        hint="Run `harness doctor` to check the compiler.",
        needs=(COMPILER, *((_SDK,) if check.sdk else ())),
    )
    yield Requirement(
        name=check.name,
        purpose=check.purpose,
        find=lambda: run_check(check, target, board),
        hint=check.hint,
        needs=(check.source, _BOARD),
        expected=check.expected(target),
    )


def _emulated_core(target: Target) -> str:
    """The emulator that the kernel starts, if it supports the target's core."""
    core = (target.qemu_cpu or "").partition(",")[0]
    if host_architecture() == "aarch64":
        return f"not used: this machine is arm64, and programs run on its core instead of {core}"
    interpreter = arm64_interpreter() or ""
    # Started by the link in binfmt_misc, it would treat every option as one of the program.
    emulator = Path(interpreter).resolve()
    try:
        version, cores = (_said(emulator, *words) for words in (["--version"], ["-cpu", "help"]))
    except OSError:  # registered from inside a container, as by docker/binfmt
        return f"{interpreter}, which cannot be checked for {core} from here"
    if core not in cores.split():
        raise HarnessError(f"{version.splitlines()[0]} does not support the core {core}")
    return f"{version.splitlines()[0]} emulates {core}"


def _said(program: Path, *words: str) -> str:
    done = subprocess.run(
        [str(program), *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    return done.stdout or "it"


def _image(target: Target) -> str:
    from harness.images.image import build_image

    image = build_image(target).image
    return f"{image.tag} on {image.described()}"


def _connect(target: Target, board: Board, connection: contextlib.ExitStack) -> str:
    connection.enter_context(board)
    machine = board.run(["uname", "-srm"], timeout=ANSWER_SECONDS).stdout.strip()
    if not machine.endswith(target.architecture):
        raise TargetMismatchError(
            f"{board.name} reports {machine or 'no architecture'}, "
            f"but {target.name} is {target.architecture}",
            hint="Check `target` in the boards file, and that the board has a 64-bit system.",
        )
    return f"{board.name} answers: {machine}"


def _sdk(target: Target) -> str:
    if target.tensorflow is None:
        raise DoesNotApplyError(f"the target {target.name} has no TensorFlow pinned")
    sdk = tensorflow_sdk(target)
    return f"TensorFlow {sdk.version}, needs glibc {sdk.glibc_needed}"


def _built(check: Check, target: Target) -> str:
    return f"built, needs glibc {read_needs(build_check(check, target)).glibc}"
