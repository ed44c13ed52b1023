"""A TCP proxy on loopback between the orchestrator and a board, which fails as networks do."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass, field

CHUNK = 16 << 10


@dataclass(eq=False)
class _Link:
    """One connection through the proxy."""

    client: socket.socket
    server: socket.socket
    sent: list[int] = field(default_factory=lambda: [0, 0])  # bytes to the board, and from it


@dataclass(frozen=True, kw_only=True)
class _Armed:
    """A fault in one direction, after this many more bytes on one of the connections."""

    kind: str  # cut or corrupt
    direction: int
    after: int
    links: frozenset[_Link] | None  # None: also those that come yet
    happened: threading.Event = field(default_factory=threading.Event)


class Proxy:
    """Forwards a port. What is armed happens once, to the first connection that gets so far, and may be
    waited for; what was armed before is forgotten.
    """

    UPSTREAM, DOWNSTREAM = 0, 1

    def __init__(self, port: int) -> None:
        self.board_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._armed: _Armed | None = None
        self._stalled_until = 0.0
        self._stalled = threading.Event()
        self.accepted = 0  # connections, ever
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def cut(self) -> int:
        """Resets every connection that is open; how many these were."""
        with self._lock:
            links = list(self._links)
        for link in links:
            self._reset(link)
        return len(links)

    def cut_after(self, direction: int, count: int, *, open_now: bool = False) -> threading.Event:
        """Resets the first connection that carries more bytes than that in a direction, within them; with
        `open_now` one of those that are open."""
        return self._arm("cut", direction, count, open_now=open_now)

    def corrupt(self, direction: int) -> threading.Event:
        """Changes a bit in the next bytes that pass."""
        return self._arm("corrupt", direction, 0)

    def stall(self, seconds: float) -> threading.Event:
        """Lets nothing through for a while, which has happened when that held something up."""
        with self._lock:
            self._stalled = stalled = threading.Event()
            self._stalled_until = time.monotonic() + seconds
        return stalled

    def disarm(self) -> None:
        with self._lock:
            self._armed = None

    def _arm(self, kind: str, direction: int, after: int, *, open_now: bool = False) -> threading.Event:
        with self._lock:
            for link in self._links:
                link.sent[direction] = 0
            links = frozenset(self._links) if open_now else None
            self._armed = armed = _Armed(kind=kind, direction=direction, after=after, links=links)
        return armed.happened

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.board_port), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            link = _Link(client, server)
            with self._lock:
                self.accepted += 1
                self._links.add(link)
            for direction, (source, sink) in enumerate(((client, server), (server, client))):
                arguments = (link, direction, source, sink)
                threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def _forward(self, link: _Link, direction: int, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                self._wait_while_stalled()
                armed = self._take(link, direction, len(data))
                if armed is None:
                    sink.sendall(data)
                elif armed.kind == "corrupt":
                    sink.sendall(bytes([data[0] ^ 0x40]) + data[1:])
                else:
                    passed = link.sent[direction] - len(data)
                    sink.sendall(data[: armed.after - passed])
                    break
        self._reset(link)

    def _take(self, link: _Link, direction: int, count: int) -> _Armed | None:
        """The faults of the next bytes of a connection; counts these bytes."""
        with self._lock:
            link.sent[direction] += count
            armed = self._armed
            if armed is None or armed.direction != direction or link.sent[direction] <= armed.after:
                return None
            if armed.links is not None and link not in armed.links:
                return None
            self._armed = None
        armed.happened.set()
        return armed

    def _wait_while_stalled(self) -> None:
        left = self._stalled_until - time.monotonic()
        if left > 0:
            self._stalled.set()
            time.sleep(left)

    def _reset(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)
        for end in (link.client, link.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError):
                end.close()
