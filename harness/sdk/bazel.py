"""Provider `bazel`: libtensorflow built from TensorFlow's sources in a container of the target's system.

That takes hours on an arm64 machine and days under QEMU. So finished steps are recorded, and Bazel's state is
kept outside the containers: after any interruption, the next call continues. Layout below the cache:
sdk/downloads/ with the published files, and for each TensorFlow and image sdk/bazel/<name>/ with
    steps.json logs/    the finished steps, and their output
    bin/ home/          Bazel, and the home folder of its user
    source/ root/       TensorFlow's sources, and Bazel's downloads, results and state
    lib/                the libraries
The folder is mounted at /sdk in the container.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from harness import console
from harness.build.elf import version_key
from harness.build.log import BuildLog
from harness.config.targets import Target
from harness.errors import BuildError
from harness.file_digest import file_digest
from harness.files import write_atomically
from harness.images import docker_engine
from harness.images.container import SILENCE_SECONDS, remove_stale, run_in_container
from harness.images.image import Image, build_image
from harness.images.recipe import Recipe, read_recipe
from harness.models.download import Advice, download
from harness.sdk.layout import FORMAT, Plan, Sdk, provide, sdk_directory, with_includes
from harness.sdk.sources import Archive, Sources, read_sources, sources_file
from harness.sdk.steps import Steps

_AT = "/sdk"
_TARGET = "//tensorflow:libtensorflow.so"
_ROOM = "TensorFlow's build takes tens of GB in the cache folder; set HARNESS_CACHE to use another folder."
_AGAIN = "Run the same command again to continue."

# Patterns for the cause of a failure in a step's output, with hints.
_HINTS = (
    (re.compile(r"No space left on device|Disk quota exceeded"), _ROOM),
    (
        re.compile(r"\(program cc1plus\)|Server terminated abruptly|Cannot allocate memory|OutOfMemory"),
        "Out of memory: lower the limits in the file named below, or add swap.",
    ),
    (
        re.compile(r"Unknown ?[Hh]ost|Connect(ion)? (timed out|refused)|Network is unreachable"),
        "TensorFlow's build downloads its dependencies: check the network, or set https_proxy.",
    ),
)


def tensorflow_sdk(target: Target) -> Sdk:
    """Finds the target's SDK, or builds it, continuing an interrupted build.

    Raises ConfigurationError for a target without sources or image, DockerError if no engine answers,
    BuildError if a download or a step fails or the disk is full, TargetMismatchError if the libraries need
    more than the target has. Finished steps are kept.
    """
    sources = read_sources(target)
    recipe = image_recipe(target, sources)
    work = sdk_directory() / "bazel" / f"{target.tensorflow_bazel}-{target.image}"
    plan = Plan(
        provider="bazel",
        version=sources.version,
        key=_key(sources, recipe),
        libraries=sources.libraries,
        origin="built from its sources",
        record={
            "source": sources.source.url,
            "bazel": sources.bazel.version,
            "answers": sources.answers,
            "options": sources.build_options(),
        },
        room=_ROOM,
    )

    def fill(folder: Path) -> None:
        _build(sources, target, build_image(target, recipe=recipe).image, work)
        shutil.copytree(work / "lib", folder / "lib")
        _copy_headers(work / "source", folder / "include")

    return provide(plan, target, work.with_name(f"{work.name}.lock"), fill)


def image_recipe(target: Target, sources: Sources) -> Recipe:
    """The build image: the target's, with a compiler and the other programs of the build.

    A newer Debian is no substitute: libraries built with a newer C library may not load on the target.
    """
    recipe = read_recipe(target)
    limit = version_key(str(target.glibc))
    return replace(
        recipe,
        name=f"{recipe.name}-tensorflow",
        releases=tuple(release for release in recipe.releases if version_key(release.glibc) <= limit),
        packages=tuple(sorted({*recipe.packages, *sources.packages})),
        configured=True,
    )


def build_command(sources: Sources) -> list[str]:
    """The call of Bazel, made in TensorFlow's sources."""
    return [
        "bazel",
        f"--output_user_root={_AT}/root",  # for all state
        "build",
        *sources.build_options(),
        *sources.limits,
        "--spawn_strategy=local",  # the container is the sandbox
        "--verbose_failures",
        "--curses=no",
        "--color=no",
        "--show_progress_rate_limit=60",
        _TARGET,
    ]


def _key(sources: Sources, recipe: Recipe) -> str:
    parts = [
        FORMAT,
        sources.version,
        sources.source.sha256,
        sources.bazel.version,
        sources.answers,
        sources.build_options(),
        recipe.key(),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def _build(sources: Sources, target: Target, image: Image, work: Path) -> None:
    """Runs all steps, except finished ones."""
    if image.glibc_newer:
        raise BuildError(
            f"a library built on {image.base} may need glibc {image.glibc}, but {target.name} has "
            f"{target.glibc}",
            hint="Give the Docker Engine access to a registry with the target's system, or use "
            "`--sdk wheel`.",
        )
    downloads = sdk_directory() / "downloads"
    archive = downloads / f"tensorflow-{sources.version}.tar.gz"
    program = downloads / f"bazel-{sources.bazel.version}-linux-arm64"
    bazel_hash = fetch(sources.bazel, program)
    source_hash = fetch(sources.source, archive)
    steps = Steps(work)
    with _Inside(image, work, sources_file(target)) as inside:
        steps.run(
            "tools",
            # Not the image's identity: a rebuilt image with the same inputs must not restart the build.
            {"image": image.tag, "base": image.base, "bazel": bazel_hash},
            lambda log: _prepare_tools(sources, program, inside, work, log),
        )
        steps.run("unpack", source_hash, lambda log: _unpack(archive, work / "source", log))
        steps.run(
            "configure",
            sources.answers,
            lambda log: inside.run(["./configure"], log, environment=sources.answers),
        )
        steps.run(
            "build",
            [_TARGET, *sources.build_options()],
            lambda log: inside.run(build_command(sources), log, network=True),
        )
        steps.run("collect", sources.libraries, lambda log: _collect(sources.libraries, inside, work, log))


def fetch(archive: Archive, path: Path) -> str:
    """Downloads a published file, unless it exists; returns its SHA-256.

    It must be the published hash. If none is published, it must be that of the first download, which is
    recorded beside the file.
    """
    record = path.with_name(f"{path.name}.sha256")
    expected = archive.sha256 or (record.read_text(encoding="ascii").strip() if record.exists() else None)
    doing = f"checking {path.name}" if path.exists() else f"fetching {archive.url}"
    with console.progress(doing, None) as bar:
        download(
            archive.url,
            path,
            size=None,
            sha256=expected,
            advance=bar.advance,
            advice=Advice(
                address="set another url in the file in toolchains/tensorflow/",
                folder="set HARNESS_CACHE to another folder",
            ),
        )
    if expected is None:
        expected = file_digest(path)
        write_atomically(record, f"{expected}\n".encode())
        console.warn(
            f"{path.name}: no SHA-256 is published; recorded {expected}, which later downloads must match"
        )
    return expected


class _Inside:
    """The container's view of the work."""

    def __init__(self, image: Image, work: Path, file: Path) -> None:
        self._image, self._work, self._file = image, work.absolute(), file

    def __enter__(self) -> Self:
        self._client = docker_engine.connect(timeout=SILENCE_SECONDS)
        with docker_engine.answering("removing old containers"):
            remove_stale(self._client)  # a container that still runs would build in the same folder
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def run(
        self,
        command: Sequence[str],
        log: BuildLog,
        *,
        environment: Mapping[str, str] | None = None,
        working_directory: str = f"{_AT}/source",
        network: bool = False,
    ) -> list[str]:
        """Runs a program to its end; returns its last output. Raises BuildError if it fails."""
        said: deque[str] = deque(maxlen=400)

        def on_line(line: str) -> None:
            log.line(line)
            said.append(line.rstrip())

        log.keep(f"$ {' '.join(command)}")
        status = run_in_container(
            self._client,
            self._image,
            command,
            folder=self._work,
            at=_AT,
            working_directory=working_directory,
            environment={
                "PATH": f"{_AT}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": f"{_AT}/home",
                "USER": "harness",  # Bazel wants one
                **(environment or {}),
            },
            network=network,
            on_line=on_line,
        )
        if status != 0:
            raise BuildError(
                f"{command[0]} failed with status {status}: {_reason(said)}",
                hint=" ".join(
                    [
                        *_hints(said),
                        f"See {log.name}. The build options are in {self._file}.",
                        _AGAIN,
                    ]
                ),
            )
        return list(said)


def _reason(said: Sequence[str]) -> str:
    """The line with the cause of a failure: Bazel's first error, or a compiler's, or the last line."""
    spoken = [line for line in said if line.strip()]
    of_bazel = [line for line in spoken if line.startswith("ERROR:")]
    of_others = [line for line in spoken if "error: " in line]
    return (of_bazel or of_others or spoken[-1:] or ["it printed nothing"])[0].strip()[:300]


def _hints(said: Sequence[str]) -> list[str]:
    text = "\n".join(said)
    return [hint for pattern, hint in _HINTS if pattern.search(text)]


def _prepare_tools(sources: Sources, program: Path, inside: _Inside, work: Path, log: BuildLog) -> None:
    """Sets up Bazel in this image; results of a different image are removed."""
    for name in ("root", "bin", "home"):
        _remove(work / name)
    for name in ("bin", "home"):
        (work / name).mkdir()
    bazel = work / "bin" / "bazel"
    shutil.copyfile(program, bazel)
    bazel.chmod(0o755)
    (work / "bin" / "python").symlink_to("/usr/bin/python3")  # Bazel's scripts need this name
    inside.run(["g++", "--version"], log, working_directory=_AT)
    said = inside.run(["bazel", "--version"], log, working_directory=_AT)
    if f"bazel {sources.bazel.version}" not in said:
        raise BuildError(
            f"{sources.bazel.url}: its version is {_reason(said)} instead of bazel {sources.bazel.version}"
        )


def _unpack(archive: Path, folder: Path, log: BuildLog) -> None:
    """Unpacks TensorFlow's sources, without their top folder, completely or not at all."""
    partial = folder.with_name(f"{folder.name}.partial")
    for old in (partial, folder):
        _remove(old)
    partial.mkdir(parents=True)
    command = ["tar", "--extract", "--gzip", "--file", str(archive), "--directory", str(partial)]
    command += ["--strip-components=1", "--no-same-owner"]
    log.keep(f"$ {' '.join(command)}")
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    for line in done.stderr.splitlines():
        log.line(line)
    if done.returncode != 0:
        said = done.stderr.splitlines()
        raise BuildError(
            f"{archive}: cannot be unpacked: {_reason(said[:1])}",
            hint=" ".join([*_hints(said), f"The whole log is in {log.name}.", _AGAIN]),
        )
    partial.rename(folder)


def _collect(libraries: Sequence[str], inside: _Inside, work: Path, log: BuildLog) -> None:
    """Copies the libraries from Bazel's folders, with links that are valid only in the container."""
    _remove(work / "lib")
    (work / "lib").mkdir()
    built = [f"bazel-bin/tensorflow/{library}" for library in libraries]
    inside.run(["cp", "--dereference", "--no-preserve=mode", *built, f"{_AT}/lib/"], log)


def _copy_headers(source: Path, folder: Path) -> None:
    """The C API's headers. They include each other only, so the sources have all of them."""

    def present(name: str) -> bool:
        return ".." not in Path(name).parts and (source / name).is_file()

    try:
        headers = with_includes(present, lambda name: (source / name).read_bytes())
    except FileNotFoundError as error:
        raise BuildError(f"{error.filename}: no such header in TensorFlow's sources") from None
    for header in headers:
        path = folder / header
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / header, path)


def _remove(folder: Path) -> None:
    """Removes a folder, even if Bazel has made it read-only."""
    if not folder.exists():
        return
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder)
