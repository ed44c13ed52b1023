"""The Docker Engine, through its API."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.errors import BuildError, HarnessError

if TYPE_CHECKING:
    from docker import DockerClient

ANSWER_SECONDS = 10
_DENIED = "permission denied"
LONG_SECONDS = 900  # loading, pulling and building


class DockerError(HarnessError):
    """The Docker Engine is missing or refused a request."""

    exit_status = 3


class DockerAccessError(DockerError):
    """There is an engine, but this user may not use it."""


def connect(*, timeout: int = LONG_SECONDS) -> DockerClient:
    """A client of the local engine ($DOCKER_HOST is honoured). Raises DockerError if none answers, and
    DockerAccessError if this user may not use it."""
    import docker
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    client = None
    try:
        _try_socket()
        client = docker.from_env(timeout=timeout)
        client.ping()
    except (OSError, DockerException, RequestException) as error:
        if client is not None:
            client.close()
        if short(error) == _DENIED:
            raise DockerAccessError(
                "permission denied for the socket of the Docker Engine",
                hint="Join the group docker (`sudo usermod -aG docker $USER`) and log in again, or use sudo.",
            ) from None
        raise DockerError(
            f"the Docker Engine does not answer: {short(error)}",
            hint="On Debian or Ubuntu: `apt-get install docker.io iptables`, then start it (`systemctl start "
            "docker`, or `dockerd &` without systemd); the user must be root or in the group docker.",
        ) from None
    return client


def _try_socket() -> None:
    """Raises OSError if nothing listens on the engine's Unix socket: the docker package leaves its own socket
    open where it cannot connect."""
    address = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if not address.startswith("unix://"):
        return
    with socket.socket(socket.AF_UNIX) as tried:
        tried.settimeout(ANSWER_SECONDS)
        tried.connect(address.removeprefix("unix://"))


def container_name(*words: str) -> str:
    """A unique name for a container, with only the characters that the engine allows."""
    words = tuple(re.sub(r"[^A-Za-z0-9.-]", "_", word) for word in words)
    return "-".join(["harness", *words, secrets.token_hex(4)])


@contextlib.contextmanager
def answering(doing: str) -> Iterator[None]:
    """Turns all errors of the engine and of the connection to it into DockerError."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException) as error:
        raise DockerError(f"the Docker Engine failed while {doing}: {short(error)}") from None


def refused(what: str, error: BaseException | str) -> BuildError:
    """The error for a request that the engine refused: `what` failed, and the reason."""
    text = error if isinstance(error, str) else short(error)
    hint = ""
    if "no space left on device" in text.lower():
        hint = (
            "Free disk space in the Docker Engine's folder (`docker info` shows it as Docker Root Dir); "
            "`docker system df` shows what uses the space."
        )
    return BuildError(f"{what}: {text.strip()}", hint=hint)


def short(error: BaseException) -> str:
    """The innermost message of the docker package's nested messages."""
    explanation = getattr(error, "explanation", None)
    text = str(explanation or error)
    for known in (_DENIED.capitalize(), "No such file or directory", "Connection refused", "timed out"):
        if known in text:
            return known.lower()
    return text.splitlines()[0][:300] if text else type(error).__name__
