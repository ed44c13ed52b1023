"""The campaign's faults of boards, connections, disks and the orchestrator, and their possible effects."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from board import LITTLE_MEMORY, Board
from proxy import Proxy

AWAITED_SECONDS = 5.0  # wait for a prepared fault

# What says that the connection to a board was lost, or could not be had: harness/boards/ssh/,
# and what paramiko and the system say of a socket.
_LOST = (
    "the connection was lost", "timed out", "connecting:", "the board ended the session",
    "Connection reset", "refused", "Unable to connect", "Socket is closed", "Broken pipe",
    "SSH session not active", "Error reading SSH protocol banner", "Mismatched MAC",
)  # fmt: skip
# Its files were taken from under a session that is about to end.
_CLEARED = ("No such file", "there is no file", "not found", "cannot be opened")
_NO_ROOM = ("not enough free space", "No space left", "cannot be stored", "the board reported an error")


@dataclass(frozen=True)
class Kind:
    """A kind of fault: how often it comes beside others, and what an error says that tells of it."""

    name: str
    weight: int
    phrases: tuple[str, ...]
    partly: bool = False  # whether it does harm also where it does not happen as it should

    @property
    def on_host(self) -> bool:
        return self.name in ("fill_host_disk", "kill_orchestrator")


# Quick ones come more often, so that a sweep gets on.
KINDS = (
    Kind("cut_upload", 3, (*_LOST, *_CLEARED), partly=True),
    Kind("cut_run", 5, _LOST),
    Kind("cut_download", 5, _LOST),
    Kind("corrupt_connection", 4, _LOST),
    Kind("stall_connection", 4, _LOST),
    Kind("reboot", 4, _LOST),
    Kind("kill_engine", 3, ("SIGKILL",)),
    Kind("hang_engine", 3, ("did not end within",)),
    Kind("out_of_memory", 3, (*_LOST, "memory"), partly=True),
    Kind(
        "fill_board_disk",
        2,
        (*_LOST, *_CLEARED, "not enough free space", "No space left", "cannot be stored"),
        partly=True,
    ),
    Kind("wrong_hash", 3, (*_LOST, "damaged"), partly=True),
    Kind("clock_jump", 3, ()),
    Kind("change_host_key", 1, (*_LOST, "its host key has changed"), partly=True),
    Kind("fill_host_disk", 2, ("no space left for results", "No space left")),
    Kind("kill_orchestrator", 2, ()),
)


class Faults:
    """Does them. Each method does one thing, to a board or to the orchestrator, and returns whether it
    happened: whether something was there that it struck."""

    def __init__(self, chance: random.Random, host_disk: Path, over: Callable[[], bool]) -> None:
        """`host_disk` is what the orchestrator writes to; `over` says that a sweep has ended meanwhile."""
        self.chance = chance
        self.host_disk = host_disk
        self.over = over
        self.orchestrator: subprocess.Popen[str] | None = None

    def do(self, kind: Kind, board: Board) -> bool:
        happened: bool = getattr(self, kind.name)(board)
        return happened

    def cut_upload(self, board: Board) -> bool:
        """Removes the deployed files, so that they are sent again, and cuts the transfer."""
        board.proxy.cut()
        board.forget_files()
        board.proxy.cut()
        # Nothing but an upload sends so much to a board.
        after = self.chance.randrange(20_000, 1_000_000)
        return self._awaited(board.proxy, board.proxy.cut_after(Proxy.UPSTREAM, after))

    def cut_run(self, board: Board) -> bool:
        return bool(board.engines()) and board.proxy.cut() > 0

    def cut_download(self, board: Board) -> bool:
        """Ends while an engine's output comes back: once one runs, nothing else comes that is as long."""

        def lasting() -> bool:  # and not what a connection leaves that was cut just now
            before = set(board.engines("bench"))
            time.sleep(0.1)
            return bool(before.intersection(board.engines("bench")))

        if not self._until(lasting):
            return False
        after = self.chance.randrange(500, 1000)
        return self._awaited(board.proxy, board.proxy.cut_after(Proxy.DOWNSTREAM, after, open_now=True))

    def corrupt_connection(self, board: Board) -> bool:
        direction = self.chance.choice((Proxy.UPSTREAM, Proxy.DOWNSTREAM))
        return self._awaited(board.proxy, board.proxy.corrupt(direction))

    def stall_connection(self, board: Board) -> bool:
        seconds = self.chance.uniform(0.3, 2.0)
        return board.proxy.stall(seconds).wait(seconds)

    def reboot(self, board: Board) -> bool:
        board.reboot(self.chance.uniform(0.1, 1.5))
        return True

    def kill_engine(self, board: Board) -> bool:
        return self._until(lambda: board.signal_engine(signal.SIGKILL))

    def hang_engine(self, board: Board) -> bool:
        return self._until(lambda: board.signal_engine(signal.SIGSTOP))

    def out_of_memory(self, board: Board) -> bool:
        """Connections that are open are struck as well: an engine is started on one of them."""
        try:
            board.limit_memory(LITTLE_MEMORY)
            return self._until(lambda: board.starts_engine_within(LITTLE_MEMORY))
        finally:
            for _ in range(2):  # what was forked while the first looked
                board.limit_memory(resource.RLIM_INFINITY)

    def fill_board_disk(self, board: Board) -> bool:
        """Full when files have to be sent again, which somebody has to come for."""
        before = board.proxy.accepted
        board.proxy.cut()
        board.forget_files()
        board.fill_disk()
        board.proxy.cut()
        try:
            came = self._until(lambda: board.proxy.accepted > before)
            time.sleep(0.5)
        finally:
            board.free_disk()
        return came

    def wrong_hash(self, board: Board) -> bool:
        board.proxy.cut()  # what is there was found right by whoever is connected
        damaged = board.damage_file(self.chance)
        board.proxy.cut()
        return damaged

    def clock_jump(self, board: Board) -> bool:
        """The clock of whatever runs there, for good, by up to a year."""
        board.set_clock(self.chance.choice((-1, 1)) * self.chance.randint(60, 366 * 86400))
        return True

    def change_host_key(self, board: Board) -> bool:
        """Another key until somebody has come."""
        board.use_host_key("other")
        before = board.proxy.accepted
        try:
            came = self._until(lambda: board.proxy.accepted > before)
            time.sleep(0.3)
        finally:
            board.use_host_key("host")
        return came

    def fill_host_disk(self, _board: Board) -> bool:
        filler = self.host_disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 14))
        time.sleep(self.chance.uniform(0.2, 1.0))
        filler.unlink()
        return not self.over()

    def kill_orchestrator(self, _board: Board) -> bool:
        process = self.orchestrator
        if process is None or process.poll() is not None:
            return False
        process.kill()
        return process.wait() == -signal.SIGKILL

    def _until(self, found: Callable[[], bool]) -> bool:
        """Whether it is found in time, and within the sweep."""
        deadline = time.monotonic() + AWAITED_SECONDS
        while not (yes := found()) and time.monotonic() < deadline and not self.over():
            time.sleep(0.01)
        return yes

    def _awaited(self, proxy: Proxy, happened: threading.Event) -> bool:
        self._until(happened.is_set)
        proxy.disarm()
        return happened.is_set()
