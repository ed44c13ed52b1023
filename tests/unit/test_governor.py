"""Governors are held and restored, through the real script and each shell that is installed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from fake_boards import SHELLS, ShellBoard, bare, folder_of, raspberry_pi, write

from harness.boards.base import MOST_OUTPUT, Completed
from harness.boards.paths import BoardPaths
from harness.boards.sensors import governor
from harness.boards.sensors.governor import held_governor, restore_governors
from harness.errors import BoardUnreachableError


@pytest.fixture(params=SHELLS)
def board(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShellBoard:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    return ShellBoard(request.param, tmp_path / "programs")


@pytest.fixture
def paths(tmp_path: Path) -> BoardPaths:
    """A Raspberry Pi whose last core has a governor of its own."""
    paths = raspberry_pi(tmp_path)
    governor_file(paths, 3).write_text("schedutil\n")
    return paths


BEFORE = ["ondemand", "ondemand", "ondemand", "schedutil"]


def governor_file(paths: BoardPaths, core: int) -> Path:
    return Path(paths.sys) / f"devices/system/cpu/cpu{core}/cpufreq/scaling_governor"


def governors(paths: BoardPaths) -> list[str]:
    return [governor_file(paths, core).read_text().strip() for core in range(4)]


def test_all_cores_are_held_and_restored(board: ShellBoard, paths: BoardPaths) -> None:
    with held_governor(board, paths, "performance") as held:
        assert (held.held, held.reason, held.hint) == (True, "", "")
        assert governors(paths) == ["performance"] * 4
        assert Path(board.restore_script).stat().st_mode & 0o777 == 0o600
    assert governors(paths) == BEFORE
    assert not Path(board.restore_script).exists()
    assert not list(Path.cwd().iterdir())  # nothing in a path was executed


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_governors_are_restored_after_an_error(
    board: ShellBoard, paths: BoardPaths, error: type[BaseException]
) -> None:
    def fail() -> None:
        with held_governor(board, paths):
            assert governors(paths) == ["performance"] * 4
            raise error

    with pytest.raises(error):
        fail()
    assert governors(paths) == BEFORE


class DyingBoard(ShellBoard):
    """Answers as often as it is told, then is gone."""

    answers = 1

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        most_output: int = MOST_OUTPUT,
    ) -> Completed:
        if not self.answers:
            raise BoardUnreachableError("host: gone")
        self.answers -= 1
        return super().run(argv, timeout=timeout, environment=environment, most_output=most_output)


def left_held(board: ShellBoard, paths: BoardPaths, folder: Path) -> None:
    """As a harness leaves a board that was lost while its governors were held."""
    dying = DyingBoard("dash", folder / "other programs")
    dying.restore_script = board.restore_script
    with held_governor(dying, paths) as held:
        assert held.held
    assert governors(paths) == ["performance"] * 4


def test_the_script_restores_governors_after_a_lost_connection(
    tmp_path: Path, board: ShellBoard, paths: BoardPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    left_held(board, paths, tmp_path)
    assert capsys.readouterr().err == ""  # the board does it by itself: by this
    assert board.run(["sh", board.restore_script], timeout=20).status == 0
    assert governors(paths) == BEFORE


def test_a_later_harness_restores_governors_of_one_that_died(
    tmp_path: Path, board: ShellBoard, paths: BoardPaths
) -> None:
    left_held(board, paths, tmp_path)
    # Another one holds first: what the first one found is not forgotten.
    with held_governor(board, paths, "powersave") as held:
        assert held.held
        assert governors(paths) == ["powersave"] * 4
    assert governors(paths) == BEFORE
    assert restore_governors(board, paths)
    assert governors(paths) == BEFORE


def test_a_failure_to_restore_is_a_warning(
    board: ShellBoard, paths: BoardPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    with held_governor(board, paths):
        governor_file(paths, 2).unlink()
        governor_file(paths, 2).symlink_to("/proc/sys/kernel/random/uuid")  # cannot be written, even by root
    assert "could not restore the CPU governors; retried at the next run" in capsys.readouterr().err
    assert Path(board.restore_script).exists()


def test_a_restarted_board_is_not_restored(tmp_path: Path, board: ShellBoard, paths: BoardPaths) -> None:
    left_held(board, paths, tmp_path)
    write(folder_of(paths), {"proc/sys/kernel/random/boot_id": "another\n"})
    assert restore_governors(board, paths)
    assert governors(paths) == ["performance"] * 4
    assert not Path(board.restore_script).exists()


def test_a_removed_script_changes_nothing(board: ShellBoard, paths: BoardPaths) -> None:
    with held_governor(board, paths):
        text = Path(board.restore_script).read_text()
        gone = board.run(["sh", "-c", text, "/nowhere/undo"], timeout=20)
        assert gone.status == 0
        assert governors(paths) == ["performance"] * 4


def test_a_board_without_governors_says_so(board: ShellBoard, tmp_path: Path) -> None:
    with held_governor(board, bare(tmp_path)) as held:
        assert not held.held
        assert "has no CPU governor" in held.reason


def test_missing_permission_is_reported(board: ShellBoard, paths: BoardPaths) -> None:
    governor_file(paths, 3).unlink()
    governor_file(paths, 3).symlink_to("/proc/sys/kernel/random/uuid")  # cannot be written, even by root
    with held_governor(board, paths) as held:
        assert not held.held
        assert "this user may not set it" in held.reason
        assert "echo performance | sudo tee" in held.hint
        assert governors(paths)[:3] == ["performance"] * 3


def test_governors_are_not_changed_without_a_restore_script(
    board: ShellBoard, paths: BoardPaths, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    for undo in (str(tmp_path / "nowhere" / "undo"), str(folder)):
        board.restore_script = undo
        with held_governor(board, paths) as held:
            assert not held.held
            assert "the restore script cannot be written" in held.reason
            assert undo in held.hint
            assert governors(paths) == BEFORE
    assert not list(folder.iterdir())


def test_an_invalid_governor_is_not_in_the_restore_script(board: ShellBoard, paths: BoardPaths) -> None:
    for core, name in enumerate(("$(touch executed)", "", "a;touch executed")):
        governor_file(paths, core).write_text(f"{name}\n")
    with held_governor(board, paths) as held:
        assert held.held
    assert governors(paths) == ["performance"] * 3 + BEFORE[3:]
    assert not list(Path.cwd().iterdir())


def test_a_damaged_script_of_another_boot_is_not_run(board: ShellBoard, paths: BoardPaths) -> None:
    Path(board.restore_script).write_text("# bo\0\ntouch executed\n")
    assert restore_governors(board, paths)
    assert not Path(board.restore_script).exists()
    assert not list(Path.cwd().iterdir())


@pytest.fixture
def forbidden(paths: BoardPaths) -> Path:
    """A core's governor that nobody may write, not even root; a file may be put in its place."""
    file = governor_file(paths, 3)
    file.unlink()
    file.symlink_to("/proc/sys/kernel/random/boot_id")
    return file


def stand_in_for_sudo(board: ShellBoard, script: str) -> None:
    sudo = board.programs / "sudo"
    sudo.write_text(f"#!/bin/sh\n{script}\n")
    sudo.chmod(0o755)


def test_sudo_is_used_only_if_configured(board: ShellBoard, paths: BoardPaths, forbidden: Path) -> None:
    stand_in_for_sudo(board, '[ "$1 $2" = "-n tee" ] || exit 1; rm -f "$3"; exec "$2" "$3"')
    with held_governor(board, paths) as held:
        assert not held.held
    assert forbidden.is_symlink()
    with held_governor(board, replace(paths, sudo=True)) as held:
        assert held.held
        assert governors(paths) == ["performance"] * 4
    assert governors(paths)[:3] == BEFORE[:3]
    assert forbidden.read_text() == Path("/proc/sys/kernel/random/boot_id").read_text()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "echo 'sudo: a password is required' >&2; exit 1",
            "sudo failed on the board: sudo: a password is required",
        ),
        (
            r"printf 'sudo: no\nrefused core \033[31m performance' >&2; exit 1",
            "failed on the board: sudo: no refused core",
        ),
        ("exit 127", "this user may not set it"),
    ],
)
@pytest.mark.usefixtures("forbidden")
def test_a_sudo_that_refuses_is_reported_with_its_message(
    board: ShellBoard, paths: BoardPaths, script: str, said: str
) -> None:
    stand_in_for_sudo(board, script)
    with held_governor(board, replace(paths, sudo=True)) as held:
        assert not held.held
        assert said in held.reason
        assert held.reason.isprintable()
        assert ("NOPASSWD: /usr/bin/tee" in held.hint) == ("sudo failed on the board" in held.reason)
        assert governors(paths)[:3] == ["performance"] * 3
    assert governors(paths)[:3] == BEFORE[:3]


@pytest.mark.usefixtures("forbidden")
def test_a_board_without_sudo_says_so(
    board: ShellBoard, paths: BoardPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", without_sudo(board.programs))
    with held_governor(board, replace(paths, sudo=True)) as held:
        assert not held.held
        assert "sudo: not found" in held.reason


def without_sudo(programs: Path) -> str:
    for name in ("mv", "rm", "tee", "cat"):
        if not (programs / name).exists():
            (programs / name).symlink_to(str(shutil.which(name)))
    return str(programs)


@pytest.mark.usefixtures("forbidden")
def test_a_sudo_that_hangs_is_a_warning(
    board: ShellBoard, paths: BoardPaths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(governor, "GOVERNOR_SECONDS", 0.5)
    stand_in_for_sudo(board, "sleep 60")
    with held_governor(board, replace(paths, sudo=True)) as held:
        assert not held.held
        assert "took more than 0.5 s" in held.reason
        assert "sudo -n true" in held.hint
    assert governors(paths)[:3] == BEFORE[:3]
    capsys.readouterr()
