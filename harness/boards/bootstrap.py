"""A base image from Debian's archive, for where no registry answers.

mmdebstrap fetches the packages and unpacks them; nothing of them is run, so a minute of emulated maintainer
scripts is saved and what they would have set up is set up here: the two files of users and groups. Such a
base runs programs and an SSH server. It has no record of its packages, so nothing can be installed on top.

The archive is handed to the Docker Engine with `docker load`: what `docker import` makes is labelled with the
engine's own architecture.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from harness import console
from harness.boards.docker_engine import short
from harness.boards.recipe import Recipe
from harness.errors import BuildError
from harness.resources import cache_directory

if TYPE_CHECKING:
    from typing import TextIO

    from docker import DockerClient

_LEFT_OUT = ("doc", "info", "locale", "man", "perl", "perl5", "zoneinfo")  # folders of /usr/share
_USERS = (
    'cp "$1/usr/share/base-passwd/passwd.master" "$1/etc/passwd"',
    'cp "$1/usr/share/base-passwd/group.master" "$1/etc/group"',
    'mkdir -p "$1/run/sshd"',
)


def base_tag(recipe: Recipe) -> str:
    """The name of the bootstrapped base in the Docker Engine."""
    return f"harness/base-{recipe.bootstrap}:{recipe.bootstrap_key()[:16]}"


def bootstrap(client: DockerClient, recipe: Recipe, log: TextIO) -> str:
    """Makes the base and loads it; returns its tag. Raises BuildError, and then nothing is loaded."""
    program = shutil.which("mmdebstrap")
    if program is None:
        raise BuildError(
            f"no registry answers for {recipe.base_name}, and mmdebstrap, which makes one, is not installed",
            cure="On Debian or Ubuntu: `apt-get install mmdebstrap debian-archive-keyring`.",
        )
    tag = base_tag(recipe)
    parent = cache_directory() / "images"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".bootstrap-", dir=parent) as name:
        folder = Path(name)
        layer = folder / "layer.tar"
        _unpack_debian(program, recipe, layer, log)
        _write_archive(folder / "image.tar", layer, tag)
        layer.unlink()
        console.log("loading the base into the Docker Engine")
        _load(client, folder / "image.tar")
    return tag


def command(program: str, recipe: Recipe, layer: Path) -> list[str]:
    """The call of mmdebstrap that writes the file system to `layer`."""
    return [
        program,
        "--verbose",
        "--variant=extract",
        "--architectures=arm64",
        f"--include={','.join(recipe.bootstrap_packages)}",
        *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in _LEFT_OUT),
        *(f"--customize-hook={line}" for line in _USERS),
        recipe.bootstrap,
        str(layer),
    ]


def _unpack_debian(program: str, recipe: Recipe, layer: Path, log: TextIO) -> None:
    line = command(program, recipe, layer)
    log.write(f"$ {' '.join(line)}\n")
    last = ""
    with subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for text in process.stdout:
                log.write(text)
                log.flush()
                last = text.strip() if text.startswith("E:") or not last.startswith("E:") else last
                if text.startswith("I: "):
                    console.log(f"  {text[3:].strip()}")
        except BaseException:
            process.terminate()  # it then removes its own folders
            raise
    if process.returncode != 0 or not layer.is_file():
        raise BuildError(
            f"mmdebstrap ended with status {process.returncode}: {last}",
            cure=f"The whole log is in {log.name}. It needs Debian's archive (deb.debian.org) and, on other "
            "systems, the package debian-archive-keyring.",
        )


def _write_archive(archive: Path, layer: Path, tag: str) -> None:
    """Wraps a file system into what `docker load` reads (manifest, config, one layer)."""
    with layer.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    config = {
        "architecture": "arm64",
        "variant": "v8",
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Cmd": ["/bin/sh"],
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created_by": "mmdebstrap"}],
    }
    manifest = [{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        for name, content in (("config.json", config), ("manifest.json", manifest)):
            data = json.dumps(content).encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        tar.add(layer, "layer.tar")


def _load(client: DockerClient, archive: Path) -> None:
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        with archive.open("rb") as stream:
            client.images.load(stream)
    except (DockerException, RequestException) as error:
        raise BuildError(f"the Docker Engine refused the base: {short(error)}") from None
