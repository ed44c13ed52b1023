"""Command lines for boards: every word arrives as it is."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.boards.command_line import completed, kill_group, leading, quoted, split_pid, wrapped

WORDS = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20), max_size=5
)


def shell(line: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["sh", "-c", line], capture_output=True, check=False)


@given(words=WORDS)
@settings(max_examples=60, deadline=None)
def test_every_word_arrives_unchanged(words: list[str]) -> None:
    line = quoted(["printf", "%s\\0", "first", *words])
    assert shell(line).stdout.split(b"\0")[:-1] == [b"first", *(word.encode() for word in words)]


@pytest.mark.parametrize("words", [[], ["sh", "-c", "a\0b"]])
def test_words_that_a_command_line_cannot_contain_are_refused(words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"at least one word|null character"):
        quoted(words)


def test_a_wrapped_command_prints_its_process_number_before_its_output(tmp_path: Path) -> None:
    result = shell(wrapped(["sh", "-c", "echo $PPID; echo 'it is $HOME' >&2; exit 3"], {}, str(tmp_path)))
    group, output = split_pid(result.stdout.decode())
    assert output == f"{group}\n"  # the program's parent is the shell whose number was printed
    assert result.stderr == b"it is $HOME\n"
    assert result.returncode == 3


def test_a_wrapped_command_is_entered_among_the_running_while_it_runs(tmp_path: Path) -> None:
    folder = tmp_path / "it's $(a) folder\nü"
    folder.mkdir()
    result = shell(wrapped(["ls", str(folder)], {}, str(folder)))
    group, entry = split_pid(result.stdout.decode())
    assert entry.startswith(f"{group}-")
    assert entry[len(f"{group}-") :].strip().isdecimal()
    assert not list(folder.iterdir())


def test_a_command_is_not_started_if_its_group_cannot_be_recorded(tmp_path: Path) -> None:
    result = shell(wrapped(["touch", str(tmp_path / "started")], {}, str(tmp_path / "ended")))
    assert split_pid(result.stdout.decode()) == (None, "")
    assert result.returncode != 0
    assert not (tmp_path / "started").exists()


def test_a_wrapped_command_gets_its_variables(tmp_path: Path) -> None:
    words = ["sh", "-c", 'printf "%s|" "$A" "$B"']
    result = shell(wrapped(words, {"A": "/x:/y", "B": "it's $HOME"}, str(tmp_path)))
    assert split_pid(result.stdout.decode())[1] == "/x:/y|it's $HOME|"


def test_output_without_a_process_number_is_kept() -> None:
    assert split_pid("no number\n") == (None, "no number\n")
    assert split_pid("") == (None, "")
    assert split_pid("17") == (None, "17")  # the line was cut off: it may be 1712


def test_a_death_by_signal_is_reported_as_subprocess_reports_it(tmp_path: Path) -> None:
    result = shell(wrapped(["sh", "-c", "kill -SEGV $$"], {}, str(tmp_path)))
    assert completed(result.returncode, "", "").status == -signal.SIGSEGV


def test_ordinary_statuses_stay() -> None:
    assert [completed(status, "", "").status for status in (0, 1, 127, 255)] == [0, 1, 127, 255]


def test_a_group_is_killed_with_its_children() -> None:
    process = subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True)
    assert shell(kill_group(process.pid)).returncode == 0
    assert process.wait(timeout=5) == -signal.SIGKILL
    assert any(group_is_gone(process.pid) for _ in range(100))


def group_is_gone(group: int) -> bool:
    """Whether no process of the group is left; else waits a little, as an orphan must be reaped first."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    time.sleep(0.05)
    return False


@pytest.mark.parametrize(("leader", "word"), [(True, ""), (False, "setsid")])
def test_a_command_leads_a_group_whatever_the_server_does(leader: bool, word: str) -> None:
    script = 'read -r stat </proc/$$/stat; set -- ${stat##*) }; echo "$3 $$ ${led:-}"'
    done = subprocess.run(
        leading(["sh", "-c", script]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        start_new_session=leader,
        env=os.environ | {"led": "something else"},
    )
    group, process, led = done.stdout.removesuffix("\n").split(" ")
    assert group == process
    assert led == word


def test_without_setsid_nothing_runs_that_could_not_be_ended(tmp_path: Path) -> None:
    words = leading(["touch", str(tmp_path / "started")])
    words[0] = shutil.which("sh") or "sh"
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False, env={"PATH": str(tmp_path)})
    assert (done.stdout, done.returncode) == ("no group\n", 1)
    assert not list(tmp_path.iterdir())


def test_killing_a_group_that_is_gone_is_no_error() -> None:
    process = subprocess.Popen(["true"], start_new_session=True)
    process.wait()
    result = shell(kill_group(process.pid))
    assert (result.returncode, result.stderr) == (0, b"")
