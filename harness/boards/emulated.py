"""An emulated board: an arm64 container under QEMU's user emulation, with an OpenSSH server.

Once connected it is an SshBoard. The container listens only on the loopback interface, with a new host key
and a new user key; everything in it runs as an unprivileged user. QEMU emulates the target's core:
instructions that the core lacks raise SIGILL.
"""

from __future__ import annotations

import base64
import io
import re
import socket
import tarfile
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.boards.base import Completed
from harness.boards.ssh.address import SshAddress
from harness.boards.ssh.board import SshBoard
from harness.boards.ssh.host_keys import HostKey, parse_host_key
from harness.errors import BoardUnreachableError, ConfigurationError
from harness.images import docker_engine
from harness.images.container import OWNER_LABEL, remove, remove_stale
from harness.images.image import PLATFORM, build_image
from harness.images.process_identity import own_identity
from harness.qemu.cpu_description import MOUNT_POINT as CPU_DESCRIPTION
from harness.qemu.cpu_description import prepare_cpu_description
from harness.qemu.profiler import (
    MOUNT_POINT,
    BlockProfiler,
    prepare_profiler,
    profiling_failed,
    without_marks,
)
from harness.sdk.layout import sdk_directory

if TYPE_CHECKING:
    from pathlib import Path

    from docker import DockerClient
    from paramiko import PKey

    from harness.config.targets import Target

SSH_PORT = "2222/tcp"
START_SECONDS = 60.0
_USER = 1000
_HOME = "/home/board"
_SDKS = "/opt/sdk"  # this machine's, read-only


def seen_below(folder: Path, path: Path) -> str | None:
    """The path of a file relative to a folder. None if not all users may read the file and its folders."""
    try:
        inside = path.resolve().relative_to(folder.resolve())
        steps = [folder.resolve() / part for part in (*reversed(inside.parents), inside)]
        if all(step.stat().st_mode & (0o005 if step.is_dir() else 0o004) for step in steps):
            return inside.as_posix()
    except (OSError, ValueError):
        pass
    return None


class EmulatedBoard(SshBoard):
    """A container that lives from `__enter__` to `__exit__`."""

    emulated = True

    def __init__(self, target: Target) -> None:
        super().__init__(f"{target.name} (emulated)", target)
        if not target.qemu_cpu or not re.fullmatch(r"[a-z0-9._,=-]+", target.qemu_cpu):
            raise ConfigurationError(
                f"the target {target.name} has no `cpu` that QEMU emulates",
                hint="Set cpu or qemu_cpu in its file; `qemu-aarch64 -cpu help` lists the cores.",
            )
        self.container_name = docker_engine.container_name(target.name)
        self._client: DockerClient | None = None
        self._container: Any = None
        self._profiler: BlockProfiler | None = None

    def _connect(self) -> None:
        image = build_image(self.target).image
        self._client = client = docker_engine.connect()
        with docker_engine.answering("removing old containers"):
            remove_stale(client)
        self._profiler = prepare_profiler()
        self.profiler = self if self._profiler else None
        host_key, host_private = _make_key()
        user_key, user_private = _make_key()
        with docker_engine.answering(f"starting the container of {self.name}"):
            self._container = self._create(client, image.id)
            self._container.put_archive(_HOME, board_keys(host_private, user_key, str(self.target.qemu_cpu)))
            self._container.start()
            port = self._published_port()
        self.address = SshAddress(
            host="127.0.0.1",
            port=port,
            user="board",
            key=_paramiko_key(user_private),
            host_key=host_key,
        )
        with docker_engine.answering(f"watching the container of {self.name}"):
            self._wait_for_server(port)
        super()._connect()

    def _create(self, client: DockerClient, image: str) -> Any:
        from docker.types import Mount, Ulimit

        mounts = []
        if self.target.board is not None:
            description = prepare_cpu_description(self.target.board)
            mounts.append(Mount(CPU_DESCRIPTION, str(description), type="bind", read_only=True))
        if self._profiler is not None:
            mounts.append(Mount(str(MOUNT_POINT), str(self._profiler.folder), type="bind", read_only=True))
        sdk_directory().mkdir(parents=True, exist_ok=True)
        mounts.append(Mount(_SDKS, str(sdk_directory()), type="bind", read_only=True))
        return client.containers.create(
            image,
            name=self.container_name,
            labels={OWNER_LABEL: own_identity()},
            platform=PLATFORM,
            ports={SSH_PORT: ("127.0.0.1", 0)},  # any free port
            mounts=mounts,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            ulimits=[Ulimit(name="core", soft=0, hard=0)],
        )

    def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
        """Stores every file, except those of SDKs, such as the 850 MB of libtensorflow: the container mounts
        their folder."""
        seen = {name: seen_below(sdk_directory(), path) for name, path in files.items()}
        sent = super().deploy({name: path for name, path in files.items() if seen[name] is None})
        return {name: sent[name] if below is None else f"{_SDKS}/{below}" for name, below in seen.items()}

    def _published_port(self) -> int:
        self._container.reload()
        bindings = self._container.ports.get(SSH_PORT)
        if not bindings:
            raise self._failed("it ended immediately")
        return int(bindings[0]["HostPort"])

    def _wait_for_server(self, port: int) -> None:
        """Waits for the server's banner; Docker accepts connections before the server runs."""
        deadline = time.monotonic() + START_SECONDS
        while not _greets(port):
            self._container.reload()
            if self._container.status != "running":
                raise self._failed("it ended immediately")
            if time.monotonic() > deadline:
                raise self._failed(f"no answer after {START_SECONDS:g} s")
            time.sleep(0.05)

    def _failed(self, what: str) -> BoardUnreachableError:
        said = self._container.logs(tail=5).decode("utf-8", "replace").strip()
        return BoardUnreachableError(
            f"{self.name}: the container does not serve SSH: {what}"
            + (f"; its output: {said}" if said else ""),
            hint="`harness doctor` checks whether this machine can run arm64 programs.",
        )

    def _disconnect(self, *, hurry: bool = False) -> None:
        super()._disconnect(hurry=hurry)
        container, self._container = self._container, None
        client, self._client = self._client, None
        if container is not None:
            remove(container)
        if client is not None:
            client.close()

    def profile(
        self,
        argv: Sequence[str],
        output: Path,
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
    ) -> Completed:
        """Runs `argv` under QEMU's profiler, and fetches the profile, over the same connection."""
        profiler = self._profiler
        assert profiler is not None  # else self.profiler is None
        with self._temporary_file() as path:
            command = profiler.command(self.target, argv, environment or {}, path)
            result = self.run(command, timeout=timeout)
            if result.status != 0:
                raise profiling_failed(self.name, result.status, result.stderr)
            with self.reachable("checking the profile"):
                written = self._has(path)
            if not written:
                raise without_marks(self.name, result.stderr)
            self.fetch(path, output)
        return result


def _greets(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=START_SECONDS) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _make_key() -> tuple[HostKey, bytes]:
    """A new Ed25519 key: the public key, and the private key as an OpenSSH file."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    file = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    return parse_host_key(public.decode()), file


def _paramiko_key(private: bytes) -> PKey:
    from paramiko import Ed25519Key

    return Ed25519Key.from_private_key(io.StringIO(private.decode()))


def board_keys(host_private: bytes, user_key: HostKey, cpu: str) -> bytes:
    """The board's keys and core, as an archive to unpack in its home folder."""
    public = base64.b64encode(user_key.blob).decode()
    files = {
        "host_key": host_private,
        "authorized_keys": f'environment="QEMU_CPU={cpu}" {user_key.kind} {public}\n'.encode(),
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f".sshd/{name}")
            member.size, member.mode, member.uid, member.gid = len(data), 0o600, _USER, _USER
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
