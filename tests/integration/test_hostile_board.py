"""A short trial of boards that lie (tests/faults/hostile_board.py tells all lies)."""

from __future__ import annotations

import os
import shutil

import pytest
from hostile_board import trial
from hostile_modes import BY_NAME, MODES
from hostile_shells import LIES_OF_SHELLS

pytestmark = pytest.mark.engine

LIES = ("nan", "too_many", "repeated", "int64", "surrogate", "flood", "no_hash", "ages")
SHELLS = ("greets", "state_flood")


@pytest.fixture(autouse=True)
def _possible() -> None:
    if (
        os.geteuid() != 0
        or not shutil.which("unshare")
        or not shutil.which("sshd", path="/usr/sbin:/usr/bin")
    ):
        pytest.skip("only root can give boards namespaces and disks of their own")


def test_lies_fail_their_own_cells_and_no_others() -> None:
    with trial(seed=7) as running:
        running.lies_of_engines([BY_NAME[name] for name in LIES])
        running.lies_of_shells([lie for lie in LIES_OF_SHELLS if lie.name in SHELLS])
        running.interrupt(1)
    tally = running.tally
    assert not tally.found, "\n".join(tally.found)
    assert tally.holds, tally
    assert set(tally.told) == {*LIES, *SHELLS}
    assert (tally.done, tally.failed) == (2 * 4 + 2 * 12, 2 * 8)


def test_there_are_forty_lies() -> None:
    assert len({mode.name for mode in MODES}) == len(MODES) >= 40
