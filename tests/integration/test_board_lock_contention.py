"""The lock's scripts under contention, in the shells that boards have, without a connection."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from started_processes import running

from harness.boards.command_line import quoted, split_pid, wrapped
from harness.boards.ssh import session
from harness.boards.ssh.lock import release_command, take_command
from harness.boards.ssh.session import keeper_command

ODD = 'it\'s a "folder" $(touch oops) `id`\n*ü'


@dataclass(frozen=True, kw_only=True)
class Board:
    """A folder as on a board, and where its programs are looked for."""

    folder: str
    path: str

    def run(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, capture_output=True, text=True, check=False, env={"PATH": self.path})

    @contextlib.contextmanager
    def keeper(self) -> Iterator[Keeper]:
        with subprocess.Popen(
            keeper_command(self.folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={"PATH": self.path},
        ) as process:
            assert process.stdout is not None
            try:
                yield Keeper(process=process, session=process.stdout.readline().strip())
            finally:
                assert process.stdin is not None
                process.stdin.close()

    def clean(self) -> None:
        """Starts a session, which ends sessions of dead keepers."""
        with self.keeper() as keeper:
            assert keeper.session

    def left(self) -> list[str]:
        """The remains of sessions."""
        parts = ("sessions/*", "ended/*", "lock/held/*", "partial/*", "undo-*")
        return [str(path) for part in parts for path in Path(self.folder).glob(part)]


@dataclass(frozen=True, kw_only=True)
class Keeper:
    process: subprocess.Popen[str]
    session: str

    def kill(self) -> None:
        """SIGKILL to all that could tidy up."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module", params=["dash", "bash", "busybox"])
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of programs in which `sh` is that shell; BusyBox has programs of its own, too."""
    found = shutil.which(request.param)
    if found is None:
        pytest.skip(f"{request.param} is not installed")
    folder = tmp_path_factory.mktemp("bin")
    names = ["sh"]
    if request.param == "busybox":
        listed = subprocess.run([found, "--list"], capture_output=True, text=True, check=True)
        names = [name for name in listed.stdout.split() if name != "flock"]
    for name in names:
        (folder / name).symlink_to(found)
    return f"{folder}:{os.environ['PATH']}"


@pytest.fixture
def board(programs: str, tmp_path: Path) -> Board:
    return Board(folder=str(tmp_path / ODD), path=programs)


def take(board: Board, keeper: Keeper, who: str = "me") -> list[str]:
    result = board.run(take_command(board.folder, keeper.session, who))
    return result.stdout.splitlines() if result.returncode == 0 else ["failed"]


def test_the_first_one_takes_it_and_the_second_is_told(board: Board) -> None:
    with board.keeper() as first, board.keeper() as second:
        assert take(board, first, "$(id) `id` it's me") == ["taken"]
        busy, who, since = take(board, second)
        assert (busy, who) == ("busy", "$(id) `id` it's me")
        assert since.endswith("UTC")
        assert take(board, first) == ["taken"]  # it has it still, where giving it back has failed
        board.run(release_command(board.folder, second.session))  # not its own
        assert take(board, second)[0] == "busy"
        board.run(release_command(board.folder, first.session))
        assert take(board, second) == ["taken"]
        board.run(release_command(board.folder, first.session))  # late
        assert take(board, first)[0] == "busy"
    assert not board.left()
    assert list(Path(board.folder).parent.iterdir()) == [Path(board.folder)]


def test_it_is_free_when_the_holders_connection_ends(board: Board) -> None:
    with board.keeper() as second:
        with board.keeper() as first:
            assert take(board, first) == ["taken"]
        assert take(board, second) == ["taken"]


def test_it_is_taken_from_a_killed_keeper_once_its_programs_are_dead(board: Board, tmp_path: Path) -> None:
    with board.keeper() as second:
        with board.keeper() as first:
            assert take(board, first) == ["taken"]
            program = start(board, first, ["sh", "-c", "sleep 100 & sleep 100"])
            first.kill()
        assert Path(board.folder, "lock/held", first.session).exists()
        assert take(board, second) == ["taken"]
        assert program.wait(timeout=5) == -signal.SIGKILL
        assert not processes_of(program.pid)
        assert [path.name for path in Path(board.folder, "lock/held").iterdir()] == [second.session]


@pytest.mark.parametrize("how", ["closed", "killed", "killed, and another one waits"])
def test_settings_of_a_session_are_restored_before_its_lock_is_released(
    board: Board, tmp_path: Path, how: str
) -> None:
    value = tmp_path / "a value's place"
    value.write_text("set\n")
    with board.keeper() as second:
        with board.keeper() as first:
            assert take(board, first) == ["taken"]
            undo = Path(board.folder, "sessions", first.session, "undo")
            lock = f"{board.folder}/lock/held/{first.session}"
            undo.write_text(f"[ -f {quoted([lock])} ] && echo old >{quoted([str(value)])}\n")
            if how != "closed":
                first.kill()
        if how == "killed":
            board.clean()
        assert take(board, second) == ["taken"]
        assert value.read_text() == "old\n"
    assert not board.left()


@pytest.mark.parametrize("how", ["lock given back", "closed", "killed"])
def test_settings_that_cannot_be_restored_are_left_to_the_next_holder(
    board: Board, tmp_path: Path, how: str
) -> None:
    value, repaired = tmp_path / "a value's place", tmp_path / "repaired"
    value.write_text("set\n")
    undo = f"[ -f {quoted([str(repaired)])} ] || exit 1\necho old >{quoted([str(value)])}\n"
    with board.keeper() as third:
        with board.keeper() as first, board.keeper() as second:
            assert take(board, first) == ["taken"]
            Path(board.folder, "sessions", first.session, "undo").write_text(undo)
            if how == "lock given back":
                board.run(release_command(board.folder, first.session))
            elif how == "killed":
                first.kill()
            else:
                assert first.process.stdin is not None
                first.process.stdin.close()
                first.process.wait()
            assert take(board, second) == ["taken"]
            given = Path(board.folder, "sessions", second.session, "undo")
            assert given.read_text() == undo
            repaired.touch()
            assert value.read_text() == "set\n"  # nobody does it while another one measures
        assert value.read_text() == "old\n"
        assert take(board, third) == ["taken"]
        assert not Path(board.folder, "sessions", third.session, "undo").exists()
    assert not board.left()


def test_after_a_restart_of_the_board_nothing_is_tried_again(board: Board, tmp_path: Path) -> None:
    board.clean()
    old = Path(board.folder, "undo-6e1ed56a-0000-4000-8000-000000000001")
    old.write_text(f"touch {quoted([str(tmp_path / 'executed')])}\n")
    with board.keeper() as keeper:
        assert not old.exists()
        assert take(board, keeper) == ["taken"]
    assert not (tmp_path / "executed").exists()


def start(board: Board, keeper: Keeper, argv: list[str]) -> subprocess.Popen[bytes]:
    line = wrapped(argv, {}, f"{board.folder}/sessions/{keeper.session}/running")
    program = subprocess.Popen(
        ["sh", "-c", line], stdout=subprocess.PIPE, start_new_session=True, env={"PATH": board.path}
    )
    assert program.stdout is not None
    with program.stdout:
        assert split_pid(program.stdout.readline().decode())[0] == program.pid
    return program


def processes_of(group: int) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True)
    lines = [line.split(None, 2) for line in listed.stdout.splitlines()]
    return [" ".join(words) for words in lines if words[0] == str(group) and words[1][0] != "Z"]


def test_programs_are_killed_when_the_connection_ends(board: Board) -> None:
    with board.keeper() as keeper:
        program = start(board, keeper, ["sh", "-c", "trap '' TERM HUP; sleep 100 & sleep 100"])
        other = start(board, keeper, ["sleep", "100"])
        wait_until(lambda: len(processes_of(program.pid)) > 2)
    assert program.wait(timeout=5) == other.wait(timeout=5) == -signal.SIGKILL
    # The kernel ends the others of a group one after another.
    wait_until(lambda: not processes_of(program.pid) + processes_of(keeper.process.pid))
    assert not board.left()


def test_children_are_killed_when_the_first_process_of_their_group_is_gone(board: Board) -> None:
    with board.keeper() as keeper:
        program = start(board, keeper, ["sh", "-c", "sleep 100 & sleep 100"])
        wait_until(lambda: len(processes_of(program.pid)) > 2)
        program.kill()
        program.wait()
        assert processes_of(program.pid)
    assert not processes_of(program.pid)


def test_keepers_whose_input_ends_at_once_leave_nothing(board: Board) -> None:
    groups = []
    for _ in range(20):
        with board.keeper() as keeper:
            groups.append(keeper.process.pid)
    wait_until(lambda: not any(processes_of(group) for group in groups))
    assert not board.left()


def test_a_keeper_that_hears_nothing_ends_its_session(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SILENCE_SECONDS", 1)
    with board.keeper() as keeper:
        assert take(board, keeper) == ["taken"]
        program = start(board, keeper, ["sleep", "100"])
        assert keeper.process.stdin is not None
        for _ in range(8):
            keeper.process.stdin.write("\n")
            keeper.process.stdin.flush()
            time.sleep(0.4)
        assert program.poll() is None
        assert program.wait(timeout=10) == -signal.SIGKILL
        wait_until(lambda: not board.left())
        wait_until(lambda: not processes_of(keeper.process.pid))


def test_a_killed_keeper_is_noticed_by_its_own_watch(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SILENCE_SECONDS", 1)
    with board.keeper() as keeper:
        program = start(board, keeper, ["sleep", "100"])
        keeper.process.kill()
        assert program.wait(timeout=10) == -signal.SIGKILL
        wait_until(lambda: not board.left())


def wait_until(condition: object) -> None:
    assert callable(condition)
    for _ in range(100):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("it does not come true")


def test_a_restart_of_the_board_frees_it_and_kills_nobody(board: Board) -> None:
    with board.keeper() as keeper, running(["sleep", "100"]) as stranger:
        dead = f"{keeper.session.rsplit('-', 5)[0]}-00000000-0000-0000-0000-000000000000"
        folder = Path(board.folder)
        (folder / "sessions" / dead / "running").mkdir(parents=True)
        (folder / "sessions" / dead / "running" / f"{stranger.pid}-{start_of(stranger.pid)}").touch()
        (folder / "lock" / "held").mkdir()
        (folder / "lock" / "held" / dead).touch()
        assert take(board, keeper) == ["taken"]
        assert stranger.poll() is None
        stranger.kill()
        board.clean()
        assert [path.name for path in (folder / "sessions").iterdir()] == [keeper.session]


def test_a_later_process_with_the_number_is_left_alone(board: Board) -> None:
    with board.keeper() as keeper, running(["sleep", "100"]) as stranger:
        entry = f"{stranger.pid}-{int(start_of(stranger.pid)) - 1}"
        Path(board.folder, "sessions", keeper.session, "running", entry).touch()
        keeper.kill()
        board.clean()
        assert not board.left()
        assert stranger.poll() is None
        stranger.kill()


def start_of(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[19]


def test_unknown_files_that_block_the_lock_are_removed(board: Board) -> None:
    with board.keeper() as keeper:
        folder = Path(board.folder)
        (folder / "lock" / "held").mkdir()
        (folder / "lock" / "held" / "no session's").touch()
        (folder / "sessions" / "$(touch oops) x").mkdir()
        (folder / "ended" / "a b").mkdir()
        assert take(board, keeper) == ["taken"]
        board.clean()
        assert board.left() == [
            f"{folder}/sessions/{keeper.session}",
            f"{folder}/lock/held/{keeper.session}",
        ]


def test_uploads_that_were_cut_are_kept(board: Board) -> None:
    with board.keeper() as keeper:
        Path(board.folder, "sessions", keeper.session, "uploads", "00ff").write_bytes(b"half")
        Path(board.folder, "sessions", keeper.session, "temporary").write_bytes(b"more")
        keeper.kill()
    board.clean()
    assert [Path(path).read_bytes() for path in board.left()] == [b"half"]


def test_a_folder_is_tightened(board: Board) -> None:
    Path(board.folder).mkdir(mode=0o755)
    with board.keeper():
        assert Path(board.folder).stat().st_mode & 0o777 == 0o700
        assert all(path.stat().st_mode & 0o077 == 0 for path in Path(board.folder).rglob("*"))


def test_never_two_hold_it(
    board: Board, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Holders run a program that locks a file, which fails if another one's still runs; some are killed."""
    monkeypatch.setattr(session, "SILENCE_SECONDS", 1000)  # nothing is said to these keepers
    failures: list[str] = []
    doomed: list[subprocess.Popen[bytes]] = []
    rounds = 50 if request.node.callspec.params["programs"] == "dash" else 10

    def contend(seed: int) -> None:
        dice = random.Random(seed)
        left = rounds
        while left > 0:
            with board.keeper() as keeper:
                killed = False
                while left > 0 and not killed:
                    killed = hold_once(keeper, dice)
                    left -= 1

    def hold_once(keeper: Keeper, dice: random.Random) -> bool:
        """Takes the lock and gives it back; or kills the keeper that has it."""
        while (said := take(board, keeper)[0]) == "busy":
            time.sleep(dice.uniform(0.02, 0.2))
        if said != "taken":
            failures.append(said)
        dies = dice.random() < 0.2
        alone = ["flock", "-n", "-E", "9", str(tmp_path / "inside")]
        program = start(board, keeper, [*alone, "sleep", "100" if dies else "0.002"])
        if dies:
            time.sleep(dice.uniform(0, 0.02))
            keeper.kill()
            doomed.append(program)
            return True
        if program.wait(timeout=60) != 0:
            failures.append(f"the program ended with {program.returncode}")
        board.run(release_command(board.folder, keeper.session))
        return False

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(contend, range(8)))  # raises what they raise
    board.clean()
    assert doomed
    failures += [str(program.returncode) for program in doomed if program.wait(timeout=5) != -signal.SIGKILL]
    assert not failures
    assert not board.left()
