"""Installs missing requirements, on Debian and Ubuntu, as root.

Packages come from the distribution through apt-get; then binfmt_misc is mounted, QEMU registered there and
the Docker Engine started, each only where the distribution's own scripts have not done so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness import console
from harness.build.log import build_log
from harness.doctor.requirements import (
    ARM64_PROGRAMS,
    DOCKER_ENGINE,
    SYSTEM_PATH,
    Finding,
    docker_answers,
    system_program,
)
from harness.errors import HarnessError
from harness.qemu.binfmt import BINFMT
from harness.resources import cache_directory

_START_SECONDS = 90.0  # the Docker Engine's first start makes its folders
_LOG = "doctor.log"


class InstallationError(HarnessError):
    """A step of the installation failed; its requirements stay missing."""


def cannot_install() -> str | None:
    """The reason why nothing can be installed; None if it can."""
    if os.geteuid() != 0:
        return "only root can install packages"
    if shutil.which("apt-get") is None:
        return "apt-get not found: harness installs packages only on Debian and Ubuntu"
    return None


def install(findings: Sequence[Finding]) -> list[str]:
    """Installs missing requirements. Returns the installed packages; a failed step is a warning."""
    missing = [finding.requirement for finding in findings if not finding.ok]
    wanted = dict.fromkeys(package for requirement in missing for package in requirement.packages)
    if "docker.io" in wanted and _kernel_wants_apparmor():
        wanted["apparmor"] = None
    installed: list[str] = []
    names = {requirement.name for requirement in missing}

    def install_packages() -> None:
        installed.extend(_install_packages(list(wanted)))

    steps = [install_packages]
    if ARM64_PROGRAMS in names:
        steps.append(_register_qemu)
    if DOCKER_ENGINE in names:
        steps.append(start_docker)
    for step in steps:
        try:
            step()
        except HarnessError as error:
            console.warn(str(error))
    return installed


def _kernel_wants_apparmor() -> bool:
    """Whether the kernel enforces AppArmor but its parser is missing: Docker then starts no containers."""
    try:
        enabled = Path("/sys/module/apparmor/parameters/enabled").read_text(encoding="ascii").strip()
    except OSError:
        return False
    return enabled == "Y" and system_program("apparmor_parser") is None


def _install_packages(packages: Sequence[str]) -> list[str]:
    absent = [package for package in packages if not _is_installed(package)]
    if not absent:
        return []
    try:
        _run("apt-get", "update")
    except InstallationError as error:  # perhaps a third-party archive failed, and Debian's did not
        console.warn(str(error))
    known = [package for package in absent if _is_known(package)]
    for package in sorted(set(absent) - set(known)):
        console.warn(f"apt-get has no package {package}")
    if known:
        _run("apt-get", "install", "--yes", "--no-install-recommends", *known)
    return known


def _is_installed(package: str) -> bool:
    asked = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.returncode == 0 and done.stdout == "installed"


def _is_known(package: str) -> bool:
    asked = ["apt-cache", "show", "--no-all-versions", package]
    return subprocess.run(asked, capture_output=True, check=False, stdin=subprocess.DEVNULL).returncode == 0


def _register_qemu() -> None:
    """Registers QEMU for arm64 programs in the kernel; the packages do this only with an init system."""
    if not (BINFMT / "register").exists():
        _run("mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT))
    if (BINFMT / "qemu-aarch64").exists():
        return
    if system_program("update-binfmts"):
        _run("update-binfmts", "--import", "qemu-aarch64")
        _run("update-binfmts", "--enable", "qemu-aarch64")
    elif Path("/run/systemd/system").is_dir():
        _run("systemctl", "restart", "systemd-binfmt.service")


def start_docker() -> None:
    """Starts the Docker Engine and waits until it answers. Raises InstallationError."""
    if docker_answers():
        return
    if Path("/run/systemd/system").is_dir():
        _run("systemctl", "enable", "--now", "docker")
        daemon = None
    else:
        daemon = _start_daemon()
    deadline = time.monotonic() + _START_SECONDS
    with console.progress("starting the Docker Engine", None):
        while docker_answers() is None:
            if daemon is not None and daemon.poll() is not None:
                raise InstallationError(
                    f"dockerd ended with status {daemon.returncode}", hint=_log_end(_daemon_log())
                )
            if time.monotonic() > deadline:
                raise InstallationError(
                    f"the Docker Engine does not answer after {_START_SECONDS:.0f} s",
                    hint=_log_end(_daemon_log()),
                )
            time.sleep(0.5)


def _start_daemon() -> subprocess.Popen[bytes]:
    """Starts dockerd in its own session, so that it outlives this command."""
    program = system_program("dockerd")
    if program is None:
        raise InstallationError("dockerd is not installed", hint="`apt-get install docker.io iptables`")
    _daemon_log().parent.mkdir(parents=True, exist_ok=True)
    with _daemon_log().open("ab") as log:
        return subprocess.Popen(
            [program],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env=_environment(),
        )


def _daemon_log() -> Path:
    return cache_directory() / "dockerd.log"


def _log_end(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
    except OSError:
        return ""
    return "\n  ".join([f"{log} ends:", *lines])


def _environment() -> dict[str, str]:
    path = f"{os.environ.get('PATH', '/usr/bin:/bin')}:{SYSTEM_PATH}"
    return os.environ | {"PATH": path, "DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1"}


def _run(*command: str) -> None:
    """Runs a step, with its output in the log. Raises InstallationError with the line of the reason."""
    words = list(command)
    if words[0] == "apt-get":  # another apt-get may be at work: wait for it
        words[1:1] = ["-o", "DPkg::Lock::Timeout=300", "--quiet"]
    title = " ".join(word for word in command if not word.startswith("-"))
    with build_log(cache_directory() / _LOG, title, append=True) as log:
        log.keep(f"$ {' '.join(words)}")
        said: list[str] = []
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=_environment(),
            )
        except OSError as error:
            raise InstallationError(f"{words[0]} cannot be started: {error.strerror}") from None
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                log.line(line)
                said.append(line)
        if process.returncode != 0:
            reasons = [line for line in said if line.startswith(("E:", "W:"))]
            reason = _last(reasons) or _last(said) or f"status {process.returncode}"
            raise InstallationError(f"`{' '.join(command)}` failed: {reason}")


def _last(lines: Iterable[str]) -> str:
    return next((line.strip() for line in reversed(list(lines)) if line.strip()), "")
