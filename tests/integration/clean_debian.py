"""A container with a clean Debian, where pip is configured as on this machine."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.types import Mount

from harness.images.bootstrap import KEYRING, MIRROR
from harness.images.container import OWNER_LABEL
from harness.images.docker_engine import container_name
from harness.images.image import PROXIES
from harness.images.process_identity import own_identity

SUITE = "bookworm"
# Python and its venv module, as the README asks for; iproute2 gives a board its address.
PACKAGES = ("ca-certificates", "iproute2", "python3", "python3-venv")
TAG = f"harness/tests-{SUITE}:{hashlib.sha256(' '.join(PACKAGES).encode()).hexdigest()[:16]}"
HOME = "/root"


@dataclass(frozen=True)
class Finished:
    """A finished script: its exit status and all that it printed."""

    status: int
    said: str


@dataclass(frozen=True)
class CleanDebian:
    """A running container."""

    container: Any

    def run(self, script: str, *, folder: str = HOME, shell: str = "bash -euo pipefail -c") -> Finished:
        done = self.container.exec_run([*shell.split(), script], workdir=folder, environment={"HOME": HOME})
        return Finished(done.exit_code, done.output.decode("utf-8", "replace"))

    def write(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Writes files, which only root may read."""
        put(self.container, folder, files)


@contextlib.contextmanager
def clean_debian(
    client: docker.DockerClient, *mounts: Mount, environment: Mapping[str, str] | None = None
) -> Iterator[CleanDebian]:
    """A container that reaches package registries as this machine does. It has no privileges."""
    settings, named = pip_configuration()
    settings |= {name: os.environ[name] for name in PROXIES if name in os.environ} | dict(environment or {})
    container = client.containers.create(
        _base(client),
        ["sleep", "infinity"],
        name=container_name("newcomer"),
        labels={OWNER_LABEL: own_identity()},
        environment=settings,
        mounts=[*(bind(path, read_only=True) for path in named), *mounts],
        init=True,
    )
    try:
        container.start()
        yield CleanDebian(container)
    finally:
        container.remove(force=True, v=True)


def bind(path: Path, *, read_only: bool) -> Mount:
    """A file or folder of this machine, at the same place."""
    return Mount(str(path), str(path), type="bind", read_only=read_only)


def pip_configuration() -> tuple[dict[str, str], list[Path]]:
    """This machine's configuration of pip as environment variables, and the paths that it names."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    variables, named = {}, set()
    for section, key, literal in re.findall(r"^(global|:env:)\.(\S+?)=(.*)$", listed.stdout, re.MULTILINE):
        value = " ".join(str(ast.literal_eval(literal)).split())
        if section == ":env:" or f"PIP_{_variable(key)}" not in variables:
            variables[f"PIP_{_variable(key)}"] = value
        # An index in a folder refers to files beside it.
        named |= {
            Path(word.removeprefix("file://")).parent if word.startswith("file://") else Path(word)
            for word in value.split()
            if "/" in word
        }
    return variables, sorted(path for path in named if path.is_absolute() and path.exists())


def _variable(key: str) -> str:
    return key.upper().replace("-", "_")


def _base(client: docker.DockerClient) -> str:
    """The image; made from Debian's archive if the Docker Engine lacks it."""
    if client.images.list(TAG):
        return TAG
    program = shutil.which("mmdebstrap")
    if program is None:
        pytest.skip("mmdebstrap is not installed: apt-get install mmdebstrap")
    source = f"deb [signed-by={KEYRING}] {MIRROR} {SUITE} main"
    made = subprocess.Popen(
        [
            *(program, "--variant=minbase", f"--include={','.join(PACKAGES)}", "--format=tar"),
            *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("doc", "locale", "man")),
            *(SUITE, "-", source),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with made:
        layer, said = made.communicate()
    assert made.returncode == 0, said[-3000:].decode("utf-8", "replace")
    repository, _, tag = TAG.partition(":")
    client.api.import_image_from_data(layer, repository=repository, tag=tag)
    return TAG


def put(container: Any, folder: str, files: Mapping[str, bytes], owner: int = 0) -> None:
    """Writes files to a container, with folders; only their owner may read them."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, data in files.items():
            *parents, _ = Path(name).parts
            for depth in range(1, len(parents) + 1):
                above = tarfile.TarInfo("/".join(parents[:depth]))
                above.type, above.mode, above.uid, above.gid = tarfile.DIRTYPE, 0o755, owner, owner
                tar.addfile(above)
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uid, member.gid = len(data), 0o600, owner, owner
            tar.addfile(member, io.BytesIO(data))
    container.put_archive(folder, archive.getvalue())


def checkout(repository: Path) -> bytes:
    """The tracked files of a repository as they are in its folder, as an archive."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=True
    )
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in listed.stdout.split("\0")[:-1]:
            if (repository / name).exists():  # not deleted since the last commit
                tar.add(repository / name, name)
    return archive.getvalue()
