"""Builds a base image from Debian's archive, if no registry is reachable.

mmdebstrap fetches and unpacks the packages. It does not run their maintainer scripts, which would take a
minute under QEMU; this module writes the two files that are needed from them, the lists of users and groups.
Such a base runs programs and an SSH server. It has no package database, so nothing can be installed on top.
If a recipe is `configured`, the packages' own scripts are run, under QEMU.

The Docker Engine gets the archive by `docker load`, because `docker import` would label the image with the
engine's own architecture.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from harness.build.log import BuildLog
from harness.errors import BuildError
from harness.file_digest import file_digest
from harness.images.debian import Release
from harness.images.docker_engine import refused
from harness.images.recipe import Recipe
from harness.resources import cache_directory
from harness.temporary import temporary_folder

if TYPE_CHECKING:
    from docker import DockerClient

# Only the main archive: a point release contains earlier security updates, and the archive of later ones
# moves away while the release itself is still served.
MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("mmdebstrap", "debian-archive-keyring", "arch-test")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_LEFT_OUT = ("doc", "info", "locale", "man", "zoneinfo")  # folders of /usr/share
_PERL = ("perl", "perl5")
_USERS = (
    'cp "$1/usr/share/base-passwd/passwd.master" "$1/etc/passwd"',
    'cp "$1/usr/share/base-passwd/group.master" "$1/etc/group"',
)
_SSHD = 'mkdir -p "$1/run/sshd"'
# Lines of mmdebstrap's output with the reason for a failure.
_NO_ROOM = re.compile(r"No space left on device|enough free space|write error")
_NO_NETWORK = re.compile(
    r"Temporary failure resolving|Could not resolve|Could not connect|Unable to connect|"
    r"[Cc]onnection timed out|Network is unreachable"
)
_NOT_SERVED = re.compile(r"does not have a Release file")


class ReleaseGoneError(BuildError):
    """The archive no longer serves the release."""


def base_tag(recipe: Recipe, release: Release) -> str:
    """The name of a bootstrapped base in the Docker Engine."""
    return f"harness/base-{release.suite}:{recipe.bootstrap_key(release)[:16]}"


def bootstrap(client: DockerClient, recipe: Recipe, release: Release, log: BuildLog) -> str:
    """Makes the base and loads it; returns its tag.

    Raises BuildError, ReleaseGoneError if the archive no longer serves the release, and OSError if a file
    cannot be written. Nothing is loaded and no file is left behind then.
    """
    program = shutil.which("mmdebstrap")
    missing = "" if program else "mmdebstrap"
    if not KEYRING.is_file():
        missing = missing or "the keys of Debian's archive"
    if recipe.configured and shutil.which("arch-test") is None:  # mmdebstrap needs it to run arm64 scripts
        missing = missing or "arch-test"
    if program is None or missing:
        raise BuildError(
            f"no registry has a base image, and to build one needs {missing}",
            hint=f"On Debian or Ubuntu: `apt-get install {' '.join(PACKAGES)}`.",
        )
    tag = base_tag(recipe, release)
    parent = cache_directory() / "images"
    parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder("bootstrap", within=parent) as folder:
        layer = folder / "layer.tar"
        _unpack_debian(program, recipe, release, layer, log)
        _write_archive(folder / "image.tar", layer, tag)
        layer.unlink()
        log.at("loading the base into the Docker Engine")
        _load(client, folder / "image.tar")
    return tag


def command(program: str, recipe: Recipe, release: Release, layer: Path) -> list[str]:
    """The call of mmdebstrap that writes the file system to `layer`."""
    return [
        program,
        "--verbose",
        f"--variant={'minbase' if recipe.configured else 'extract'}",
        "--architectures=arm64",
        f"--include={','.join(recipe.bootstrap_packages(release))}",
        *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in _LEFT_OUT),
        # Perl runs maintainer scripts, if they run at all.
        *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in _PERL if not recipe.configured),
        *(f"--customize-hook={line}" for line in _USERS if not recipe.configured),
        f"--customize-hook={_SSHD}",
        release.suite,
        str(layer),
        f"deb [signed-by={KEYRING}] {MIRROR} {release.suite} main",
    ]


def _unpack_debian(program: str, recipe: Recipe, release: Release, layer: Path, log: BuildLog) -> None:
    line = command(program, recipe, release, layer)
    log.keep(f"$ {' '.join(line)}")
    said: list[str] = []
    with subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # on a write error, mmdebstrap sends SIGHUP to its whole process group
    ) as process:
        assert process.stdout is not None
        try:
            for text in process.stdout:
                log.line(text)
                said.append(text.strip())
        except BaseException:
            process.terminate()  # it removes its own folders; its output must be read meanwhile
            for _ in process.stdout:
                pass
            raise
    if process.returncode != 0 or not layer.is_file():
        raise _failure(release, process.returncode, said)


def _failure(release: Release, status: int, said: list[str]) -> BuildError:
    """The cause of a failure in mmdebstrap's output: the first error, which leads to the others."""

    def line_with(pattern: re.Pattern[str]) -> str | None:
        return next((line for line in said if pattern.search(line)), None)

    if line := line_with(_NO_ROOM):
        return BuildError(
            f"not enough disk space to build a base of Debian {release.suite}: {line}",
            hint="mmdebstrap needs 1 GB in $TMPDIR (or /tmp) and 1 GB in the cache folder; set TMPDIR or "
            "HARNESS_CACHE to use other folders.",
        )
    if line := line_with(_NO_NETWORK):
        return BuildError(
            f"Debian's archive cannot be reached: {line}",
            hint=f"The first build of an image needs a container registry or {MIRROR}. Behind a proxy, set "
            "http_proxy.",
        )
    if line := line_with(_NOT_SERVED):
        return ReleaseGoneError(f"Debian's archive does not serve {release.suite}: {line}")
    line = line_with(re.compile(r"^E: ")) or (said[-1] if said else "it printed nothing")
    return BuildError(f"mmdebstrap failed with status {status}: {line}")


def _write_archive(archive: Path, layer: Path, tag: str) -> None:
    """Wraps a file system in the format of `docker load` (manifest, config, one layer)."""
    config = {
        "architecture": "arm64",
        "variant": "v8",
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Cmd": ["/bin/sh"],
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{file_digest(layer)}"]},
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

    failure: DockerException | RequestException | str = ""
    try:
        with archive.open("rb") as stream:
            # Read to its end even after an error: a stream that is left open keeps its socket.
            for event in client.api.load_image(stream):  # type: ignore[no-untyped-call]
                failure = failure or event.get("error", "")
    except (DockerException, RequestException) as error:
        failure = error
    if failure:
        raise refused("the Docker Engine did not load the base", failure)
