"""The provider `bazel` with real containers, on a stand-in for TensorFlow and for Bazel.

The stand-in's ./configure and `bazel` are small shell scripts, and its library has one function. What is real
is the rest: downloads, the arm64 image and its compiler, containers, interruptions, and what becomes of them.
"""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import docker
import pytest
from sdk_user import compile_against
from started_processes import running

from harness.build.elf import read_needs
from harness.config.targets import Target, load_target
from harness.errors import BuildError
from harness.images.availability import emulation_missing
from harness.images.container import OWNER_LABEL
from harness.images.docker_engine import DockerError
from harness.images.image import build_image
from harness.images.recipe import read_recipe
from harness.resources import cache_directory
from harness.sdk import bazel
from harness.sdk.layout import sdk_directory
from harness.sdk.sources import Archive, Bazel, Sources, read_sources

pytestmark = pytest.mark.emulation

STAND_IN_BAZEL = """\
#!/bin/sh
# Stands in for Bazel: compiles two parts, and remembers in the output root which of them are done.
set -e
if [ "$1" = --version ]; then echo "bazel 0.0.1"; exit; fi
root=${1#--output_user_root=}
mkdir -p "$root/out/tensorflow"
ln -sfn "$root/out" bazel-bin
# $1: the library, then how it is compiled
part() {
  library=$1; shift
  if [ -e "$root/$library.done" ]; then echo "$library is here already"; return; fi
  echo "compiling $library on $(uname -m)"
  g++ -I. -shared -fPIC -Wl,-soname,"$library.so.2" -o "$root/out/tensorflow/$library.so.2" "$@"
  touch "$root/$library.done"
  if [ -e /sdk/wait ]; then
    trap 'touch "$root/asked_to_stop"; exit 143' TERM
    echo waiting
    sleep 600 & wait
  fi
  if [ -e /sdk/fail ]; then echo "ERROR: $library.cc: the stand-in fails"; exit 1; fi
}
case " $* " in
  *" --config=monolithic "*) part libtensorflow framework.cc library.cc ;;
  *)
    part libtensorflow_framework framework.cc
    part libtensorflow library.cc -L"$root/out/tensorflow" -l:libtensorflow_framework.so.2
    ;;
esac
"""
STAND_IN_SOURCES = {
    "configure": '#!/bin/sh\necho "configured on $(uname -m)"\n'
    'env | while read -r line; do case $line in TF_*) echo "$line";; esac; done | sort '
    ">.tf_configure.bazelrc\n",
    "framework.cc": 'extern "C" const char* framework() { return "0.0.1"; }\n',
    "library.cc": '#include "tensorflow/c/c_api.h"\nextern "C" const char* framework();\n'
    "const char* TF_Version() { return framework(); }\n",
    "tensorflow/c/c_api.h": '#include "tensorflow/c/macros.h"\nTF_CAPI const char* TF_Version();\n',
    "tensorflow/c/macros.h": "#ifdef __cplusplus\n"
    '#define TF_CAPI extern "C"\n#else\n#define TF_CAPI\n#endif\n',
    "tensorflow/c/eager/c_api.h": '#include "tensorflow/c/c_api.h"\n',
    "tensorflow/c/unused.h": "",
}


def stand_in_archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in STAND_IN_SOURCES.items():
            member = tarfile.TarInfo(f"tensorflow-stand-in/{name}")
            member.size, member.mode = len(text.encode()), 0o755
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
        """Tests are silent."""


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[Sources]:
    """The stand-in, published by a local server, with all else as it is for the pi4."""
    folder = tmp_path / "published"
    folder.mkdir()
    archive, program = stand_in_archive(), STAND_IN_BAZEL.encode()
    (folder / "tensorflow.tar.gz").write_bytes(archive)
    (folder / "bazel").write_bytes(program)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        yield replace(
            read_sources(load_target("pi4")),
            version="2.0.0",
            source=Archive(url=f"{url}/tensorflow.tar.gz", sha256=hashlib.sha256(archive).hexdigest()),
            bazel=Bazel(version="0.0.1", url=f"{url}/bazel", sha256=hashlib.sha256(program).hexdigest()),
        )
        server.shutdown()
        thread.join()


@pytest.fixture
def pi4(tmp_path: Path, stand_in: Sources, monkeypatch: pytest.MonkeyPatch) -> Target:
    """The target pi4 with the stand-in for its TensorFlow, and an empty cache for SDKs."""
    target = load_target("pi4")
    if missing := emulation_missing(target):
        pytest.skip("; ".join(missing))
    # The image in which the engine is built has all that the stand-in calls; TensorFlow's own takes ten
    # minutes to set up under QEMU.
    recipe = read_recipe(target, building=True)
    build_image(target, recipe=recipe)
    zig = cache_directory() / "zig"
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    if zig.is_dir():
        (tmp_path / "cache" / "zig").symlink_to(zig)
    monkeypatch.setattr(bazel, "read_sources", lambda _: stand_in)
    monkeypatch.setattr(bazel, "image_recipe", lambda *_: recipe)
    return target


def work() -> Path:
    folder = sdk_directory() / "bazel" / "bazel-2.12.0-pi4"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def log(step: str) -> str:
    path = work() / "logs" / f"{step}.log"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def containers() -> int:
    """How many containers work in this test's folder."""
    client = docker.from_env()
    try:
        found = client.containers.list(all=True, filters={"label": OWNER_LABEL}, ignore_removed=True)
        mounts = [mount["Source"] for container in found for mount in container.attrs["Mounts"]]
        return mounts.count(str(work()))
    finally:
        client.close()


def wait_for(said: str) -> None:
    """Until the build has said so."""
    deadline = time.monotonic() + 60
    while said not in log("build").splitlines():
        assert time.monotonic() < deadline, f"the build does not say {said}"
        time.sleep(0.1)


def interrupt_when_it_waits() -> threading.Thread:
    """Presses Ctrl-C as soon as the stand-in has compiled its first part."""

    def watch() -> None:
        wait_for("waiting")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_an_interrupted_build_goes_on_where_it_was(
    pi4: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work() / "wait").touch()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = interrupt_when_it_waits()
    try:
        with pytest.raises(KeyboardInterrupt):
            bazel.tensorflow_sdk(pi4)
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert (work() / "root" / "asked_to_stop").exists()
    assert containers() == 0
    assert not list(sdk_directory().glob("tensorflow-*")), "nothing half-made has an SDK's name"

    (work() / "wait").unlink()
    (work() / "fail").touch()
    with pytest.raises(BuildError, match=r"ERROR: libtensorflow\.cc: the stand-in fails") as caught:
        bazel.tensorflow_sdk(pi4)
    assert str(work() / "logs" / "build.log") in str(caught.value)
    assert containers() == 0

    (work() / "fail").unlink()
    sdk = bazel.tensorflow_sdk(pi4)
    assert log("build").count("compiling libtensorflow_framework on aarch64") == 1
    assert log("build").count("libtensorflow_framework is here already") == 2
    assert log("configure").count("begun") == log("unpack").count("begun") == 1
    answered = (work() / "source" / ".tf_configure.bazelrc").read_text()
    assert {"TF_NEED_CUDA=0", "TF_NEED_ROCM=0", "TF_ENABLE_XLA=0"} <= set(answered.splitlines())

    assert {name for name in sdk.files if name.startswith(("lib/libtensorflow", "include"))} == {
        "lib/libtensorflow.so.2",
        "lib/libtensorflow_framework.so.2",
        "include/tensorflow/c/c_api.h",
        "include/tensorflow/c/macros.h",
        "include/tensorflow/c/eager/c_api.h",
    }
    assert read_needs(sdk.folder / "lib" / "libtensorflow.so.2").architecture == "aarch64"
    source = "#include <tensorflow/c/c_api.h>\nint main(void) { return TF_Version()[0] == 0; }\n"
    program = compile_against(sdk, pi4, source, tmp_path)
    assert "libtensorflow.so.2" in read_needs(program).libraries

    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    assert bazel.tensorflow_sdk(pi4).cached, "a finished SDK needs no Docker"


def test_a_killed_harness_leaves_a_container_that_the_next_one_ends(pi4: Target, stand_in: Sources) -> None:
    (work() / "wait").touch()
    script = (
        "from harness.config.targets import load_target\n"
        "from harness.sdk import bazel\nfrom harness.sdk.sources import Archive, Bazel, Sources\n"
        "from harness.images.recipe import read_recipe\n"
        "bazel.image_recipe = lambda target, _: read_recipe(target, building=True)\n"
        f"bazel.read_sources = lambda _: {stand_in!r}\nbazel.tensorflow_sdk(load_target('pi4'))\n"
    )
    with running([sys.executable, "-c", script], stderr=subprocess.DEVNULL) as process:
        wait_for("waiting")
        process.kill()
    assert containers() == 1
    (work() / "wait").unlink()
    bazel.tensorflow_sdk(pi4)
    assert containers() == 0
    assert log("build").count("compiling libtensorflow_framework on aarch64") == 1
    assert log("build").count("libtensorflow_framework is here already") == 1


def test_a_monolithic_library_stands_alone(
    pi4: Target, stand_in: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bazel, "read_sources", lambda _: replace(stand_in, monolithic=True))
    sdk = bazel.tensorflow_sdk(pi4)
    assert [name for name in sdk.files if ".so" in name] == ["lib/libtensorflow.so.2"]
    assert "framework" not in (sdk.folder / "lib" / "pkgconfig" / "tensorflow.pc").read_text()
    source = "#include <tensorflow/c/c_api.h>\nint main(void) { return TF_Version()[0] == 0; }\n"
    libraries = read_needs(compile_against(sdk, pi4, source, tmp_path)).libraries
    assert [name for name in libraries if "tensorflow" in name] == ["libtensorflow.so.2"]


def test_without_docker_nothing_is_begun(pi4: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(DockerError, match="does not answer"):
        bazel.tensorflow_sdk(pi4)
    assert not (sdk_directory() / "downloads").exists()
