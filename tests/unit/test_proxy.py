"""The proxy that fails as networks do (tests/faults/proxy.py): what happens, and what it says of that."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from proxy import Proxy


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """In front of what sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def echo(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(1 << 16):
                    connection.sendall(data)
            except OSError:
                pass

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    found = Proxy(listener.getsockname()[1])
    yield found
    found.close()
    listener.close()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with connect(proxy) as found:
        assert exchange(found, b"there") == b"there"
        yield found


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=10)


def exchange(client: socket.socket, data: bytes) -> bytes:
    """What comes back, which is less where the connection ends."""
    found = b""
    try:
        client.sendall(data)
        while len(found) < len(data) and (piece := client.recv(1 << 16)):
            found += piece
    except OSError:
        pass
    return found


def test_a_connection_is_cut_within_the_bytes_and_not_before(proxy: Proxy, client: socket.socket) -> None:
    cut = proxy.cut_after(Proxy.DOWNSTREAM, 100)
    assert exchange(client, b"x" * 60) == b"x" * 60
    assert not cut.is_set()
    assert exchange(client, b"y" * 60) in (b"y" * 40, b"")  # a reset may overtake what was on its way
    assert cut.is_set()
    with connect(proxy) as other:  # it happens once
        assert exchange(other, b"z" * 500) == b"z" * 500


def test_faults_of_open_connections_do_not_affect_new_ones(proxy: Proxy, client: socket.socket) -> None:
    cut = proxy.cut_after(Proxy.UPSTREAM, 10, open_now=True)
    with connect(proxy) as other:
        assert exchange(other, b"x" * 50) == b"x" * 50
    assert not cut.is_set()
    exchange(client, b"x" * 50)
    assert cut.is_set()


def test_disarmed_faults_do_not_happen(proxy: Proxy, client: socket.socket) -> None:
    armed = [proxy.cut_after(Proxy.UPSTREAM, 10), proxy.corrupt(Proxy.UPSTREAM)]
    proxy.disarm()
    assert exchange(client, b"x" * 50) == b"x" * 50
    assert not any(event.is_set() for event in armed)


def test_a_byte_is_changed(proxy: Proxy, client: socket.socket) -> None:
    changed = proxy.corrupt(Proxy.UPSTREAM)
    assert not changed.is_set()
    assert exchange(client, b"abc") == bytes([ord("a") ^ 0x40]) + b"bc"
    assert changed.is_set()
    assert exchange(client, b"abc") == b"abc"


def test_a_stall_has_happened_once_it_held_something_up(proxy: Proxy, client: socket.socket) -> None:
    assert not proxy.stall(0.05).wait(0.1)
    begun = time.monotonic()
    held_up = proxy.stall(0.3)
    assert exchange(client, b"abc") == b"abc"
    assert held_up.is_set()
    assert time.monotonic() - begun >= 0.3


def test_every_connection_is_reset_and_counted(proxy: Proxy, client: socket.socket) -> None:
    with connect(proxy) as other:
        assert exchange(other, b"abc") == b"abc"
        assert (proxy.accepted, proxy.cut()) == (2, 2)
        assert exchange(client, b"abc") == b""
    assert proxy.cut() == 0
