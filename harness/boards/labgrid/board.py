"""Boards of a labgrid coordinator: a place is acquired before its board is connected, and released after.

labgrid identifies a holder only by host and user, and its locks do not expire. So a file on this machine,
locked while the process lives, records the hold of a harness, and whether that harness still runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import time
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, Self

from harness import console
from harness.boards.labgrid.coordinator import Place, own_name, session_with
from harness.boards.ssh.board import SshBoard
from harness.errors import BoardUnreachableError, ConfigurationError, HarnessError
from harness.resources import cache_directory

POLL_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Hold:
    """The holder of a place, as `host/user`; None: nobody.

    `by`: "other" for another user or host, "running" for a harness of this user and machine, "dead" for
    one that is gone, "unknown" for this user by other means than a harness of this machine.
    """

    holder: str | None = None
    by: Literal["nobody", "other", "running", "dead", "unknown"] = "nobody"


def hold_of(place: Place) -> Hold:
    """The current holder. Raises HarnessError if the coordinator does not answer."""
    with _Claim(place) as claim, session_with(place.coordinator) as session:
        running = not claim.take()
        claim.leave()  # immediately, as another harness may want the place
        return _hold(session.place(place), claim, running=running)


def unlock(place: Place) -> str | None:
    """Releases a place that this user holds and no running harness of this machine works with.

    Returns the previous holder, or None if nobody held it. Raises HarnessError if it may not be released.
    """
    with _Claim(place) as claim:
        running = not claim.take()
        with session_with(place.coordinator) as session:
            hold = _hold(session.place(place), claim, running=running)
            if hold.by in ("other", "running"):
                raise _held(place, hold)
            session.release(place)
        claim.write("")
    return hold.holder


class PlaceBoard(SshBoard):
    """The board behind a place; its address is that of the place's NetworkService."""

    def __init__(self, place: Place, *board: Any, **more: Any) -> None:
        super().__init__(*board, **more)
        self._place = place
        self._given = self.address
        self._claim: _Claim | None = None
        self._acquired = False

    def __enter__(self) -> Self:
        try:
            self._acquire()
            return super().__enter__()
        except BaseException:
            self._release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._release()

    def _acquire(self) -> None:
        self._claim = claim = _Claim(self._place)
        until, waiting = time.monotonic() + self._place.wait_seconds, False
        while obstacle := self._attempt(claim):
            if time.monotonic() >= until:
                raise obstacle
            if not waiting:
                console.log(f"{self.name}: waiting: {obstacle.message}")
                waiting = True
            time.sleep(POLL_SECONDS)

    def _attempt(self, claim: _Claim) -> HarnessError | None:
        """Acquires the place, or returns the reason why it cannot. Takes over the hold of a dead harness."""
        place = self._place
        running = not claim.take()
        with session_with(place.coordinator) as session:
            hold = _hold(session.place(place), claim, running=running)
            if running or hold.by in ("other", "unknown"):
                return _held(place, hold)
            if hold.by == "nobody" and (refused := session.acquire(place)):
                return BoardUnreachableError(f"{place} cannot be acquired: {refused}")
            self._acquired = True
            acquired = session.place(place, anew=True)
            claim.write(_record(acquired))
            host, port, user = session.network_service(place, acquired)
        assert self._given is not None
        self.address = replace(self._given, host=host, port=port, user=self._given.user or user)
        return None

    def _release(self) -> None:
        claim, self._claim = self._claim, None
        acquired, self._acquired = self._acquired, False
        if claim is None:
            return
        with claim:
            if not acquired:
                return
            try:
                with session_with(self._place.coordinator) as session:
                    session.release(self._place)
                claim.write("")
            except HarnessError as error:  # the next harness on this machine takes it over
                console.warn(
                    f"{self._place} could not be released: {error.message}; run "
                    f"`harness boards unlock {shlex.quote(self.name)}`"
                )


def _hold(acquired: Any, claim: _Claim, *, running: bool) -> Hold:
    if not acquired.acquired:
        return Hold()
    if acquired.acquired != own_name():
        return Hold(holder=acquired.acquired, by="other")
    if running:
        return Hold(holder=acquired.acquired, by="running")
    return Hold(holder=acquired.acquired, by="dead" if claim.read() == _record(acquired) else "unknown")


def _record(acquired: Any) -> str:
    """Identifies a hold of a place, by its start."""
    return f"{acquired.acquired} {acquired.changed!r}"


def _held(place: Place, hold: Hold) -> HarnessError:
    if hold.by == "other":
        return BoardUnreachableError(
            f"{place} is held by {hold.holder}",
            hint="Ask the holder, or set wait_seconds under `labgrid` in the boards file to wait.",
        )
    if hold.by == "unknown":
        return BoardUnreachableError(
            f"{place} is held by {hold.holder}, but not by a harness on this machine",
            hint="If nobody uses it, release it with `harness boards unlock NAME`.",
        )
    return BoardUnreachableError(
        f"{place} is held by another harness on this machine",
        hint="Set wait_seconds under `labgrid` in the boards file to wait.",
    )


class _Claim:
    """This machine's file for a place: locked by the harness that uses it, with its hold as content."""

    def __init__(self, place: Place) -> None:
        key = hashlib.sha256(f"{place.coordinator}\0{place.name}".encode()).hexdigest()[:32]
        path = cache_directory() / "locks" / f"place-{key}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"{path}: cannot be written: {error.strerror}",
                hint="Set HARNESS_CACHE to a writable folder.",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def take(self) -> bool:
        """Locks the file. False if another process, or another board of this process, uses the place."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def leave(self) -> None:
        fcntl.flock(self._handle, fcntl.LOCK_UN)

    def read(self) -> str:
        """The recorded hold; "" if there is none."""
        return os.pread(self._handle, 1000, 0).decode(errors="replace")

    def write(self, text: str) -> None:
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, text.encode(), 0)
