"""Processes are told apart from later ones with the same number."""

from __future__ import annotations

import subprocess
import sys

from started_processes import running

from harness.images.process_identity import is_dead, own_identity

PRINT = "from harness.images.process_identity import own_identity; print(own_identity(), flush=True); input()"


def test_this_process_is_alive() -> None:
    assert not is_dead(own_identity())


def test_a_process_is_dead_once_it_has_ended() -> None:
    with running(
        [sys.executable, "-c", PRINT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        identity = process.stdout.readline().strip()
        assert not is_dead(identity)
        process.kill()
    assert is_dead(identity)


def test_a_later_process_with_the_number_is_not_taken_for_it() -> None:
    boot, namespace, number, start = own_identity().split()
    assert is_dead(f"{boot} {namespace} {number} {int(start) - 1}")


def test_before_this_boot_everything_is_dead() -> None:
    _, namespace, number, start = own_identity().split()
    assert is_dead(f"another-boot {namespace} {number} {start}")


def test_processes_of_other_namespaces_are_not_dead() -> None:
    boot, _, number, start = own_identity().split()
    assert not is_dead(f"{boot} pid:[1] {number} {int(start) - 1}")
    assert not is_dead("")
    assert not is_dead("somebody else's label")
