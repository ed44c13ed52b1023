"""Errors and remains of an image build on a machine that lacks something."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from harness.build.log import BuildLog, build_log
from harness.config.targets import load_target
from harness.errors import BuildError
from harness.images import bootstrap as bootstrapping
from harness.images.availability import emulation_missing
from harness.images.bootstrap import base_tag, bootstrap
from harness.images.debian import Release
from harness.images.recipe import Recipe, read_recipe

pytestmark = pytest.mark.emulation

TARGET = load_target("pi4")
BOOTSTRAP = """
import docker
from pathlib import Path
from harness.images.bootstrap import bootstrap
from harness.build.log import build_log
from harness.images.recipe import read_recipe
from harness.config.targets import load_target
from harness.resources import cache_directory
recipe = read_recipe(load_target("pi4"))
with build_log(cache_directory() / "log", "image test") as log:
    bootstrap(docker.from_env(), recipe, recipe.releases[0], log)
"""


@pytest.fixture(scope="module", autouse=True)
def _as_root() -> None:
    if missing := emulation_missing(TARGET):
        pytest.skip("; ".join(missing))
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("only root can take away a network, or mount a small disk")


def harness(
    *words: str, before: tuple[str, ...] = (), cache: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, sys.executable, *words],
        env={**os.environ, "HARNESS_CACHE": str(cache), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def files_in(folder: Path) -> set[str]:
    """The files there, without logs and locks."""
    return {path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


@contextlib.contextmanager
def disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def grow(folder: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)


def test_without_docker(tmp_path: Path) -> None:
    done = harness(
        "-m", "harness", "image", "--target", "pi4", cache=tmp_path, DOCKER_HOST=f"unix://{tmp_path}/absent"
    )
    assert done.returncode == 3
    assert "the Docker Engine does not answer: no such file or directory" in done.stderr
    assert "apt-get install docker.io" in done.stderr
    assert not files_in(tmp_path)


def test_without_qemu(tmp_path: Path) -> None:
    hidden = ("unshare", "-m", "sh", "-c", 'umount /proc/sys/fs/binfmt_misc; exec "$@"', "sh")
    done = harness("-m", "harness", "image", "--target", "pi4", "--fresh", before=hidden, cache=tmp_path)
    assert done.returncode == 3
    assert "cannot run arm64 programs" in done.stderr
    assert "apt-get install qemu-user-static binfmt-support" in done.stderr
    assert not files_in(tmp_path)


def test_without_a_network(tmp_path: Path) -> None:
    done = harness("-c", BOOTSTRAP, before=("unshare", "-n"), cache=tmp_path)
    assert "BuildError: Debian's archive cannot be reached: " in done.stderr
    assert files_in(tmp_path) == {"log"}


def test_with_a_full_disk_below_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "small"
    recipe = read_recipe(TARGET)
    release = recipe.releases[0]
    monkeypatch.setenv("HARNESS_CACHE", str(small))
    client = docker.from_env()
    try:
        with disk(small, "20m"):
            with (
                pytest.raises(
                    BuildError, match=r"not enough disk space to build a base .* No space left on device"
                ) as caught,
                build_log(small / "log", "image test") as log,
            ):
                bootstrap(client, recipe, release, log)
            assert "HARNESS_CACHE" in caught.value.hint
            assert files_in(small) == {"log"}
            grow(small, "400m")
            with build_log(small / "log", "image test") as log:
                assert bootstrap(client, recipe, release, log) == base_tag(recipe, release)
            assert files_in(small) == {"log"}
    finally:
        client.close()


def test_with_a_disk_that_is_full_before_the_log_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tmp_path / "small"
    monkeypatch.setenv("HARNESS_CACHE", str(small))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    recipe = read_recipe(TARGET)
    client = docker.from_env()
    try:
        with (
            disk(small, "4k"),
            pytest.raises(BuildError, match="No space left on device"),
            build_log(small / "log", "image test", room="Make room.") as log,
        ):
            bootstrap(client, recipe, recipe.releases[0], log)
        assert not list(temporary.iterdir())  # mmdebstrap was ended, and took its own files with it
    finally:
        client.close()


@pytest.fixture
def small_engine(tmp_path: Path) -> Iterator[tuple[docker.DockerClient, Path]]:
    """A Docker Engine of the test's own on a disk of 20 MB."""
    folder = tmp_path / "disk"
    server = shutil.which("dockerd")
    if server is None:
        pytest.skip("needs dockerd")
    with (
        tempfile.TemporaryDirectory() as short,  # for sockets, whose paths may have 104 characters
        disk(folder, "20m"),
        (tmp_path / "dockerd.log").open("w") as log,
    ):
        # In a network of its own: a second engine takes the first one's bridge away.
        words = ["unshare", "-n", server, f"--data-root={folder}/data", f"--exec-root={short}"]
        words += [
            f"--pidfile={tmp_path}/pid",
            f"--host=unix://{short}/socket",
            "--iptables=false",
            "--bridge=none",
        ]
        process = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            with contextlib.closing(answering(Path(short) / "socket", process)) as client:
                yield client, folder
        finally:
            process.terminate()
            process.wait(timeout=60)


def answering(path: Path, process: subprocess.Popen[bytes]) -> docker.DockerClient:
    for _ in range(100):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(path))
            return docker.DockerClient(base_url=f"unix://{path}", version="1.41")
        assert process.poll() is None
        time.sleep(0.2)
    raise AssertionError("dockerd does not answer")


def test_with_a_full_disk_below_the_docker_engine(
    small_engine: tuple[docker.DockerClient, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, folder = small_engine
    content = tmp_path / "content"
    content.write_bytes(os.urandom(30_000_000))

    def unpack(_program: str, _recipe: Recipe, _release: Release, layer: Path, _log: BuildLog) -> None:
        with tarfile.open(layer, "w") as tar:
            tar.add(content, "content")

    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(bootstrapping, "_unpack_debian", unpack)
    recipe = dataclasses.replace(read_recipe(TARGET), name="small")
    with build_log(tmp_path / "log", "image test") as log:
        with pytest.raises(BuildError, match=r"did not load the base: .*no space left on device") as caught:
            bootstrap(client, recipe, recipe.releases[0], log)
        assert "Docker Root Dir" in caught.value.hint
        assert not client.images.list(all=True)
        assert not files_in(tmp_path / "cache")
        grow(folder, "200m")
        tag = bootstrap(client, recipe, recipe.releases[0], log)
    assert client.images.get(tag).attrs["Architecture"] == "arm64"
