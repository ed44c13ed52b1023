"""Temporary files and folders, and their removal after SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import temporary
from harness.temporary import fresh_folder, remove_left, temporary_file, temporary_folder

HOLDS = """
import sys, time
from pathlib import Path
from harness.files import written_whole
from harness.temporary import fresh_folder, temporary_folder
with temporary_folder("forward") as folder, written_whole(Path(sys.argv[1])) as file:
    (folder / "heads").mkdir()
    (folder / "heads" / "big").write_bytes(b"x" * 1000)
    file.write(b"half")
    file.flush()
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary, "_looked_into", set())


def hold(folder: Path) -> subprocess.Popen[str]:
    """A process that has a temporary folder in `folder` and an unfinished file in `folder`/results."""
    (folder / "results").mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(folder / "results" / "report.json")],
        env=os.environ | {"TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert Path(process.stdout.readline().strip()).is_dir()
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_they_are_private_and_go_with_the_block(tmp_path: Path) -> None:
    with temporary_folder("one", within=tmp_path) as folder, temporary_file(tmp_path) as (path, file):
        file.write(b"x")
        (folder / "inside").write_text("")
        assert [path.stat().st_mode & 0o777, folder.stat().st_mode & 0o777] == [0o600, 0o700]
    assert names(tmp_path) == []


def test_a_file_that_got_another_name_stays(tmp_path: Path) -> None:
    with temporary_file(tmp_path) as (path, file):
        file.write(b"x")
        path.replace(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"x"
    assert names(tmp_path) == ["a"]


def test_the_next_command_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    process = hold(tmp_path)
    end(process)
    assert len(names(tmp_path)) == 2, "the killed process could remove nothing"
    assert len(names(tmp_path / "results")) == 1
    command = [sys.executable, "-m", "harness", "targets"]
    subprocess.run(command, env=os.environ | {"TMPDIR": str(tmp_path)}, check=True, capture_output=True)
    assert names(tmp_path) == ["results"]
    remove_left(tmp_path / "results")
    assert names(tmp_path / "results") == []


def test_the_next_file_in_a_folder_replaces_a_half_written_one(tmp_path: Path) -> None:
    end(hold(tmp_path))
    from harness.files import write_atomically

    write_atomically(tmp_path / "results" / "report.json", b"whole")
    assert names(tmp_path / "results") == ["report.json"]


def test_files_of_a_living_process_are_not_removed(tmp_path: Path) -> None:
    process = hold(tmp_path)
    try:
        before = names(tmp_path), names(tmp_path / "results")
        for folder in (tmp_path, tmp_path / "results"):
            remove_left(folder)
        assert (names(tmp_path), names(tmp_path / "results")) == before
        process.send_signal(signal.SIGSTOP)  # and one that does nothing for now
        with temporary_folder("another", within=tmp_path):
            pass
        assert names(tmp_path) == before[0]
    finally:
        end(process)


def test_only_own_files_and_folders_are_removed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    (tmp_path / "harness-link-12345678.tmp").symlink_to(precious)
    for name in ("harness-notes", "harness-notes.tmp", "my-harness-notes-12345678.tmp"):
        (tmp_path / name).write_text("no temporary name")
    os.mkfifo(tmp_path / "harness-fifo-12345678.tmp")
    (tmp_path / "harness-public-12345678.tmp").mkdir(mode=0o755)
    (tmp_path / "harness-left-12345678.tmp").mkdir(mode=0o700)
    (tmp_path / ".harness-12345678.tmp").write_text("left")
    left = {"harness-left-12345678.tmp", ".harness-12345678.tmp"}
    kept = sorted(set(names(tmp_path)) - left)
    if os.geteuid() == 0:
        foreign = tmp_path / "harness-foreign-12345678.tmp"
        foreign.mkdir(mode=0o700)
        os.chown(foreign, 12345, 12345)
        kept.append(foreign.name)
    remove_left(tmp_path)
    assert names(tmp_path) == sorted(kept)
    assert (precious / "file").read_text() == "kept"


def test_none_is_taken_away_while_others_look_for_left_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Forgetful(set[Path]):
        def add(self, element: Path) -> None:
            """Every call is the first one of its process."""

    monkeypatch.setattr(temporary, "_looked_into", Forgetful())

    def use(number: int) -> None:
        with temporary_folder("busy", within=tmp_path) as folder, temporary_file(tmp_path) as (path, file):
            (folder / "inside").write_text(str(number))
            file.write(b"x")
            assert (folder / "inside").read_text() == str(number)
            path.replace(tmp_path / f"{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(200)))
    assert names(tmp_path) == sorted(map(str, range(200)))


def test_a_folder_that_is_missing_is_left_to_what_needs_it(tmp_path: Path) -> None:
    remove_left(tmp_path / "gone")
    with pytest.raises(FileNotFoundError), temporary_folder("x", within=tmp_path / "gone"):
        pass


def test_a_fresh_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "made"
    with fresh_folder(folder) as fresh:
        (fresh / "file").write_text("mine")
        assert not folder.exists()
    assert [path.name for path in folder.parent.iterdir()] == ["made"]
    assert (folder / "file").read_text() == "mine"


@pytest.mark.parametrize("replace", [False, True])
def test_a_fresh_folder_goes_with_an_error(tmp_path: Path, replace: bool) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "file").write_text("old")

    def fail_half_way() -> None:
        with fresh_folder(tmp_path / "made", replace=replace) as fresh:
            (fresh / "file").write_text("new")
            raise ValueError("half")

    with pytest.raises(ValueError, match="half"):
        fail_half_way()
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert (tmp_path / "made" / "file").read_text() == "old"


@pytest.mark.parametrize(("replace", "kept"), [(False, "theirs"), (True, "mine")])
def test_a_fresh_folder_that_another_process_has_made_meanwhile(
    tmp_path: Path, replace: bool, kept: str
) -> None:
    folder = tmp_path / "made"
    with fresh_folder(folder, replace=replace) as fresh:
        (fresh / "file").write_text("mine")
        folder.mkdir()
        (folder / "file").write_text("theirs")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert (folder / "file").read_text() == kept


def test_a_fresh_folder_that_cannot_be_renamed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError), fresh_folder(tmp_path / "made"):
        (tmp_path / "made").write_text("a file has the name")
