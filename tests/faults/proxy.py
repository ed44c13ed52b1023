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


class Proxy:
    """Forwards a port. What is armed happens once, to the first connection that gets so far."""

    UPSTREAM, DOWNSTREAM = 0, 1

    def __init__(self, port: int) -> None:
        self.board_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._cut_after: list[int | None] = [None, None]
        self._corrupt = [False, False]
        self._stalled_until = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Resets every connection that is open."""
        with self._lock:
            links = list(self._links)
        for link in links:
            self._reset(link)

    def cut_after(self, direction: int, count: int) -> None:
        """Resets the next connection that has carried so many bytes more in a direction."""
        with self._lock:
            for link in self._links:
                link.sent[direction] = 0
            self._cut_after[direction] = count

    def corrupt(self, direction: int) -> None:
        """Changes a bit in the next bytes that pass."""
        self._corrupt[direction] = True

    def stall(self, seconds: float) -> None:
        """Lets nothing through for a while."""
        self._stalled_until = time.monotonic() + seconds

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
                self._links.add(link)
            for direction, (source, sink) in enumerate(((client, server), (server, client))):
                arguments = (link, direction, source, sink)
                threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def _forward(self, link: _Link, direction: int, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                time.sleep(max(0.0, self._stalled_until - time.monotonic()))
                if self._corrupt[direction]:
                    self._corrupt[direction] = False
                    data = bytes([data[0] ^ 0x40]) + data[1:]
                link.sent[direction] += len(data)
                limit = self._cut_after[direction]
                if limit is not None and link.sent[direction] > limit:
                    self._cut_after[direction] = None
                    break
                sink.sendall(data)
        self._reset(link)

    def _reset(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)
        for end in (link.client, link.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError):
                end.close()
