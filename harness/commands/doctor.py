"""`harness doctor`: checks the requirements of each feature on this machine, and installs missing ones.

With `--target` it checks a target: it builds programs for it and runs them on its board.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness import console
from harness.errors import ConfigurationError
from harness.text import printable

if TYPE_CHECKING:
    from harness.boards.base import Board
    from harness.config.targets import Target
    from harness.doctor.requirements import Finding


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument(
        "--install",
        action="store_true",
        help="install missing requirements (as root, on Debian and Ubuntu)",
    )
    parser.add_argument(
        "--tests", action="store_true", help="also check the requirements of the project's tests"
    )
    parser.add_argument(
        "--target",
        action="append",
        metavar="T",
        help="build programs for this target, run them on its board, check their output; can be repeated",
    )
    parser.add_argument(
        "--boards",
        type=Path,
        metavar="FILE",
        help="with --target: boards file; targets without a board are emulated",
    )


def run(arguments: argparse.Namespace) -> int:
    """Returns status 3 if a requirement of every command is missing or unusable. Missing optional ones are
    listed; the features that need them are skipped.

    With `--target`: 3 for a missing requirement, 4 for a program that fails or prints a wrong result, 5 for a
    board that does not answer; the highest of them.
    """
    from harness.doctor.installation import cannot_install, install
    from harness.doctor.requirements import examine

    if arguments.boards and not arguments.target:
        raise ConfigurationError(
            "--boards has no effect without --target",
            hint="Add --target; or use `harness boards --boards FILE` to check whether the boards answer.",
        )
    installed: list[str] = []
    findings = examine(tests=arguments.tests) if arguments.install or not arguments.target else []
    if arguments.install and not all(finding.ok for finding in findings):
        if reason := cannot_install():
            names = ", ".join(finding.requirement.name for finding in findings if not finding.ok)
            console.warn(f"{reason}; left out: {names}")
        else:
            installed = install(findings)
            findings = examine(tests=arguments.tests)
    if arguments.target:
        return _run_targets(arguments, installed)
    if arguments.json:
        rows = [_row(finding) | {"optional": finding.requirement.optional} for finding in findings]
        console.emit_json({"findings": rows, "installed": installed})
    else:
        _print(findings)
    return max((finding.exit_status for finding in findings), default=0)


def _run_targets(arguments: argparse.Namespace, installed: Sequence[str]) -> int:
    """Examines one target after the other; each finding is shown when it is made."""
    from harness.boards.inventory import open_board
    from harness.config.targets import load_target
    from harness.doctor.target import examine_target

    targets = {target.name: target for target in map(load_target, arguments.target)}
    boards = [(target, open_board(target, arguments.boards)) for target in targets.values()]
    status, rows = 0, []
    for target, board in boards:
        findings = []
        if not arguments.json:
            named = f"{target.name}: {target.description}, on the board {board.name}"
            print(printable(named), flush=True)
        with contextlib.closing(examine_target(target, board)) as examination:
            for finding in examination:
                findings.append(finding)
                if not arguments.json:
                    _print([finding])
        status = max(status, *(finding.exit_status for finding in findings))
        rows.append(_target_row(target, board, findings))
    if arguments.json:
        console.emit_json({"targets": rows, "installed": list(installed)})
    return status


def _target_row(target: Target, board: Board, findings: Sequence[Finding]) -> dict[str, object]:
    return {
        "target": target.name,
        "board": board.name,
        "emulated": board.emulated,
        "ok": all(finding.ok or finding.skipped for finding in findings),
        "findings": [_row(finding) | _more(finding) for finding in findings],
    }


def _row(finding: Finding) -> dict[str, object]:
    requirement = finding.requirement
    return {
        "name": requirement.name,
        "purpose": requirement.purpose,
        "ok": finding.ok,
        "found": finding.found,
        "hint": finding.hint or None,
    }


def _more(finding: Finding) -> dict[str, object]:
    """The keys that only findings of a target have; `expected` and `printed` are for executed programs."""
    from harness.doctor.checks import WrongOutputError

    expected = finding.requirement.expected
    wrong = finding.error.printed if isinstance(finding.error, WrongOutputError) else None
    return {
        "skipped": bool(finding.skipped),
        "reason": finding.reason or None,
        "expected": expected,
        "printed": finding.found if finding.ok and expected is not None else wrong,
    }


def _print(findings: Sequence[Finding]) -> None:
    for finding in findings:
        mark = "✓" if finding.ok else "-" if finding.skipped or finding.left_out else "✕"
        first, *more = (finding.found or finding.reason).splitlines()
        print(f"{mark} {finding.requirement.name}: {printable(first)}")
        for line in (*more, *finding.hint.splitlines()):
            print(f"    {printable(line)}")
    sys.stdout.flush()
