"""The command that switches a board's power."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from harness.boards.power import ACTIONS, PowerAction, PowerHook
from harness.errors import HarnessError


@pytest.mark.parametrize("action", ACTIONS)
def test_words_arrive_as_they_are_with_the_action_in_its_place(tmp_path: Path, action: PowerAction) -> None:
    out = tmp_path / "it's $(id) out"
    code = "import sys; open(sys.argv[1], 'w').write('|'.join(sys.argv[2:]))"
    words = ("a b", "$HOME", "*", "", "{action}", "port={action};{action}", "{other}")
    PowerHook(command=(sys.executable, "-c", code, str(out), *words)).switch(action)
    assert out.read_text() == f"a b|$HOME|*||{action}|port={action};{action}|{{other}}"


def test_the_last_output_is_shown_but_not_the_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    script = "echo first; echo 'no such outlet' >&2; exit 3"
    with pytest.raises(HarnessError, match=r"sh \(off\) failed with status 3\n") as error:
        PowerHook(command=("sh", "-c", script, "password", "{action}")).switch("off")
    shown = capsys.readouterr().err
    assert "sh (off) printed: no such outlet\n" in shown
    assert "password" not in f"{error.value}{shown}"


def test_a_command_without_readable_output_fails_clearly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for script, said in (("exit 1", "nothing"), (r"printf '\377\n'; exit 1", "\ufffd")):
        with pytest.raises(HarnessError, match="status 1"):
            PowerHook(command=("sh", "-c", script, "{action}")).switch("on")
        assert f"printed: {said}" in capsys.readouterr().err


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(HarnessError, match=r"/nowhere/pdu \(cycle\) cannot be started: No such file"):
        PowerHook(command=("/nowhere/pdu", "{action}")).switch("cycle")


def test_a_timeout_kills_the_command_and_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = 'sleep 60 & echo $$ $! >"$0"; wait'
    started = time.monotonic()
    with pytest.raises(HarnessError, match="did not end within 2 s"):
        PowerHook(command=("sh", "-c", script, str(pids), "{action}"), seconds=2).switch("off")
    assert time.monotonic() - started < 10
    shell, child = map(int, pids.read_text().split())
    with pytest.raises(ProcessLookupError):
        os.kill(shell, 0)
    stat = Path(f"/proc/{child}/stat")
    for _ in range(100):
        if not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail(f"process {child} was left behind")


def test_a_background_process_is_not_awaited(tmp_path: Path) -> None:
    started = time.monotonic()
    PowerHook(command=("sh", "-c", "sleep 20 & exit 0", "{action}")).switch("on")
    assert time.monotonic() - started < 15
