"""Images, with a real Docker Engine."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import http.server
import io
import json
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from harness.build.log import BuildLog
from harness.config.targets import Target, load_target
from harness.errors import BuildError
from harness.images import image as images
from harness.images import recipe
from harness.images.availability import emulation_missing
from harness.images.bootstrap import base_tag, bootstrap
from harness.images.debian import Release
from harness.images.image import build_image
from harness.images.recipe import Base, Recipe, read_recipe
from harness.resources import cache_directory

pytestmark = pytest.mark.emulation

TARGET = load_target("pi4")


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    if missing := emulation_missing(TARGET):
        pytest.skip("; ".join(missing))
    build_image(TARGET)
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture
def dockerfile(
    engine: docker.DockerClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Path]:
    """A Dockerfile of the test's own in the place of the project's; its image is removed afterwards."""
    file = tmp_path / "Dockerfile.arm64"
    for module in (recipe, images):
        monkeypatch.setattr(module, "dockerfile", lambda: file)
    tags: list[str] = []
    original = images.image_tag

    def noting(recipe: Recipe) -> str:
        tags.append(original(recipe))
        return tags[-1]

    monkeypatch.setattr(images, "image_tag", noting)
    yield file
    for tag in set(tags):
        if engine.images.list(tag):
            engine.images.remove(tag)


def test_a_second_call_takes_less_than_three_seconds(engine: docker.DockerClient) -> None:
    started = time.monotonic()
    built = build_image(TARGET)
    assert time.monotonic() - started < 3
    assert built.cached
    assert engine.images.get(built.image.tag).attrs["Architecture"] == "arm64"


def test_an_image_is_built_again_when_its_dockerfile_changes(dockerfile: Path) -> None:
    dockerfile.write_text("ARG BASE\nFROM ${BASE}\nRUN echo one >/tmp/said\n")
    first = build_image(TARGET)
    assert not first.cached
    assert build_image(TARGET).image == first.image
    dockerfile.write_text("ARG BASE\nFROM ${BASE}\nRUN echo two >/tmp/said\n")
    second = build_image(TARGET)
    assert not second.cached
    assert second.image.tag != first.image.tag


def test_a_build_that_fails_leaves_no_image_and_the_next_one_works(
    engine: docker.DockerClient, dockerfile: Path
) -> None:
    dockerfile.write_text("ARG BASE\nFROM ${BASE}\nRUN echo half done && exit 9\n")
    with pytest.raises(BuildError, match=r"could not build the image.*returned a non-zero code: 9") as error:
        build_image(TARGET)
    log = images.log_path(read_recipe(TARGET))
    assert str(log) in str(error.value)
    assert "half done" in log.read_text()
    assert not engine.images.list(images.image_tag(read_recipe(TARGET)))
    assert not engine.containers.list(all=True, filters={"status": "exited", "ancestor": base_tag_of(TARGET)})
    dockerfile.write_text("ARG BASE\nFROM ${BASE}\nRUN echo done\n")
    assert not build_image(TARGET).cached


def base_tag_of(target: Target) -> str:
    recipe = read_recipe(target)
    return base_tag(recipe, recipe.releases[0])


def memory_log() -> tuple[io.StringIO, BuildLog]:
    stream = io.StringIO()
    return stream, BuildLog(stream, "the log", "image test")


def test_a_bootstrap_that_fails_leaves_nothing(engine: docker.DockerClient) -> None:
    impossible = dataclasses.replace(read_recipe(TARGET), packages=("no-such-package-as-this",))
    said, log = memory_log()
    with pytest.raises(BuildError, match=r"mmdebstrap failed with .*: E: Unable to locate .*no-such-package"):
        bootstrap(engine, impossible, impossible.releases[0], log)
    assert "no-such-package-as-this" in said.getvalue()
    assert not engine.images.list(base_tag(impossible, impossible.releases[0]))
    assert not list((cache_directory() / "images").glob("harness-bootstrap-*"))


class Registry(http.server.ThreadingHTTPServer):
    """Serves one image over Docker's registry protocol."""

    def __init__(self, blobs: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.blobs = blobs


class Handler(http.server.BaseHTTPRequestHandler):
    server: Registry

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        data = b"{}" if self.path == "/v2/" else self.server.blobs.get(self.path.rpartition("/")[2])
        self.send_response(404 if data is None else 200)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        data = data or b""
        if "/manifests/" in self.path:
            self.send_header("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")
            self.send_header("Docker-Content-Digest", f"sha256:{hashlib.sha256(data).hexdigest()}")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""


@pytest.fixture
def registry(engine: docker.DockerClient) -> Iterator[tuple[Registry, Recipe]]:
    """A registry on the loopback interface, and a recipe whose base it has."""
    blobs: dict[str, bytes] = {}

    def store(data: bytes) -> tuple[str, int]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        blobs[digest] = data
        return digest, len(data)

    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        member = tarfile.TarInfo("etc/said")
        data = str(time.time_ns()).encode()  # an image that the engine has never seen
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    unpacked = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": "arm64",
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{unpacked}"]},
    }
    kinds = "application/vnd.docker."
    config_digest, config_size = store(json.dumps(config).encode())
    layer_digest, layer_size = store(gzip.compress(layer.getvalue()))
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kinds}distribution.manifest.v2+json",
        "config": {
            "mediaType": f"{kinds}container.image.v1+json",
            "size": config_size,
            "digest": config_digest,
        },
        "layers": [
            {
                "mediaType": f"{kinds}image.rootfs.diff.tar.gzip",
                "size": layer_size,
                "digest": layer_digest,
            }
        ],
    }
    digest, _ = store(json.dumps(manifest).encode())
    server = Registry(blobs)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    base = Base(name=f"127.0.0.1:{server.server_port}/base:1", digest=digest)
    absent = dataclasses.replace(base, digest=f"sha256:{'0' * 64}")
    yield server, dataclasses.replace(read_recipe(TARGET), bases=(absent, base))
    server.shutdown()
    thread.join()
    server.server_close()
    if engine.images.list(filters={"reference": base.reference.partition("@")[0]}):
        engine.images.remove(base.reference)


def test_the_base_comes_from_the_registry_where_one_answers(
    engine: docker.DockerClient, registry: tuple[Registry, Recipe]
) -> None:
    _, recipe = registry
    _, base = recipe.bases  # the registry does not have the first
    _, log = memory_log()
    expected = (base.reference, f"{base.name}@{base.digest}")
    assert images._base(engine, recipe, True, log) == expected
    assert engine.images.get(base.reference).attrs["Architecture"] == "arm64"
    assert images._base(engine, recipe, False, log) == expected


def test_of_a_base_that_has_only_a_tag_the_digest_is_recorded(
    engine: docker.DockerClient, registry: tuple[Registry, Recipe]
) -> None:
    server, recipe = registry
    digest = recipe.bases[1].digest
    server.blobs["1"] = server.blobs[digest]  # what the registry has by the tag
    unpinned = dataclasses.replace(recipe, bases=(dataclasses.replace(recipe.bases[1], digest=""),))
    _, log = memory_log()
    name = unpinned.bases[0].name
    try:
        assert images._base(engine, unpinned, True, log) == (name, f"{name}@{digest}")
    finally:
        engine.images.remove(name)


def test_a_pull_that_breaks_off_falls_back(
    engine: docker.DockerClient, registry: tuple[Registry, Recipe]
) -> None:
    server, recipe = registry
    for digest, data in list(server.blobs.items()):
        if data[:2] == b"\x1f\x8b":
            server.blobs[digest] = data[: len(data) // 2]  # the layer, cut off
    _, log = memory_log()
    assert images._pull(engine, recipe.bases[1], log) is False
    assert images._base(engine, recipe, False, log) == (base_tag_of(TARGET), "bootstrap bookworm")


def test_a_release_that_is_not_served_any_more_falls_back_to_the_next(
    engine: docker.DockerClient, capsys: pytest.CaptureFixture[str]
) -> None:
    served = read_recipe(TARGET)
    gone = Release(suite="buster", glibc="2.28")
    recipe = dataclasses.replace(served, name="fallback", releases=(gone, *served.releases))
    _, log = memory_log()
    assert images._bootstrapped(engine, recipe, False, log) == (base_tag_of(TARGET), "bootstrap bookworm")
    assert "does not serve buster" in capsys.readouterr().err
    assert not engine.images.list(base_tag(recipe, gone))
