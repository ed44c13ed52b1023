"""`harness doctor`: what this machine has for each feature, and, asked to, getting what it lacks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness import console

if TYPE_CHECKING:
    from harness.machine.requirements import Finding


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument(
        "--install",
        action="store_true",
        help="install what is missing (Debian and Ubuntu, as root; otherwise it says what is left out)",
    )
    parser.add_argument("--tests", action="store_true", help="also what the project's own tests need")


def run(arguments: argparse.Namespace) -> int:
    """Exit status 0 also where something is missing: the features that lack it say so and are skipped."""
    from harness.machine.installation import cannot_install, install
    from harness.machine.requirements import examine

    findings = examine(tests=arguments.tests)
    installed: list[str] = []
    if arguments.install and not all(finding.ok for finding in findings):
        if reason := cannot_install():
            names = ", ".join(finding.requirement.name for finding in findings if not finding.ok)
            console.warn(f"{reason}; left out: {names}")
        else:
            installed = install(findings)
            findings = examine(tests=arguments.tests)
    if arguments.json:
        console.emit_json({"findings": [_row(finding) for finding in findings], "installed": installed})
    else:
        _print(findings)
    return 0


def _row(finding: Finding) -> dict[str, object]:
    requirement = finding.requirement
    return {
        "name": requirement.name,
        "purpose": requirement.purpose,
        "ok": finding.ok,
        "found": finding.found,
        "cure": None if finding.ok else requirement.cure,
    }


def _print(findings: Sequence[Finding]) -> None:
    for finding in findings:
        requirement = finding.requirement
        mark = "✓" if finding.ok else "✕"
        print(f"{mark} {requirement.name}: {finding.found or f'missing; it {requirement.purpose}'}")
        if not finding.ok:
            print(f"    {requirement.cure}")
