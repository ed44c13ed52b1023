"""A local server of one file that misbehaves in the ways real ones do."""

from __future__ import annotations

import hashlib
import http.server
import re
import threading
from collections.abc import Iterator

import pytest

CONTENT = bytes(range(256)) * 1200
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves `content`; cuts the first `cuts` answers in half; `ranges` False ignores Range headers.

    With `announce` the size is said, with `chunked` it is not, and the end is.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.cuts = 0
        self.ranges = True
        self.announce = True
        self.status = 200
        self.chunked = False
        self.requested: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/model.weights"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"  # of chunks

    def do_GET(self) -> None:
        wanted = self.headers.get("Range", "")
        self.server.requested.append(wanted)
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        found = re.fullmatch(r"bytes=(\d+)-", wanted) if self.server.ranges else None
        start = int(found[1]) if found else 0
        whole = len(self.server.content)
        if start >= whole:
            self.send_error(416)
            return
        body = self.server.content[start:]
        self.send_response(206 if found else 200)
        if found:
            self.send_header("Content-Range", f"bytes {start}-{whole - 1}/{whole}")
        if self.server.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif self.server.announce:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = self.server.cuts > 0
        if cut:
            self.server.cuts -= 1
            body = body[: len(body) // 2]
        if self.server.chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) + (b"" if cut else b"0\r\n\r\n")
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
        """Tests are silent."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
