"""A short campaign of faults (tests/faults/campaign.py runs a long one)."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from harness.boards import emulation_missing
from harness.configuration.targets import load_target

FAULTS = Path(__file__).resolve().parents[1] / "faults"
pytestmark = [pytest.mark.engine, pytest.mark.emulation]


def test_every_cell_ends_once_with_its_digest_or_the_faults_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("only root can give boards namespaces and disks of their own")
    if missing := emulation_missing(load_target("pi4")):
        pytest.skip("; ".join(missing))
    monkeypatch.setattr(sys, "path", [str(FAULTS), *sys.path])
    from campaign import campaign

    with campaign(seed=7, faults=30) as running:
        tally = running.run()
    assert tally.holds, tally
    assert tally.done > 0
    assert sum(tally.faults.values()) == 30
