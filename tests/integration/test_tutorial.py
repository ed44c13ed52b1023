"""The README's first command and docs/tutorial.md, to the letter, in a clean Debian.

The tutorial's board is an arm64 container that answers at the address of its example.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import docker
import pytest
import ziglang
from clean_debian import HOME, CleanDebian, Finished, bind, checkout, clean_debian, put
from docker.types import Mount
from documented_commands import REPOSITORY, blocks, scripts
from ssh_server import make_key

from harness.build.manifest import read_sources
from harness.build.program import placed_sources
from harness.build.request import BuildRequest
from harness.build.toolchain import load_toolchain
from harness.config.targets import load_target
from harness.images.availability import emulation_missing
from harness.images.container import OWNER_LABEL
from harness.images.docker_engine import container_name
from harness.images.image import PLATFORM, build_image
from harness.images.process_identity import own_identity
from harness.resources import cache_directory

pytestmark = pytest.mark.emulation

CHECKOUT = f"{HOME}/harness"
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BEFORE, _, BOARD = (REPOSITORY / "docs" / "tutorial.md").read_text("utf-8").partition("\n## On a board\n")
SKIPPED = 9  # README: no Docker Engine answers in the container, so the emulated board is left out
OTHER_BOARD = 4  # the container has this machine's processor, not a Raspberry Pi's
ADDRESS = "192.0.2.7"  # of the tutorial's board; and its user:
USER, USER_ID = "pi", 1001
SSHD = f"""\
Port 22
ListenAddress {ADDRESS}
HostKey /etc/ssh/host
UsePAM no
PidFile none
Subsystem sftp internal-sftp
SetEnv QEMU_CPU={load_target("pi4").qemu_cpu}
"""
START = (
    "grep -q ^sshd: /etc/passwd || echo 'sshd:*:100:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd; "
    f"echo '{USER}:*:{USER_ID}:{USER_ID}::/home/{USER}:/bin/sh' >>/etc/passwd; "
    f"mkdir -p /run/sshd; chown {USER_ID}:{USER_ID} /home/{USER}; exec /usr/sbin/sshd -D -e -f /etc/ssh/pi"
)

ZIG_LIBRARY = Path(ziglang.__file__).parent / "lib"
ZIG_VERSION = "/zig-version.txt"

COMPINIT = "autoload -Uz compinit && compinit -u"  # what every .zshrc with completion has
# How each shell is asked to complete `harness pred`.
ASKED = {
    "bash": """
source /usr/share/bash-completion/bash_completion
_completion_loader harness
COMP_WORDS=(harness pred) COMP_CWORD=1
$(complete -p harness | sed 's/.* -F \\([^ ]*\\) .*/\\1/') harness pred harness
echo "${COMPREPLY[@]}"
""",
    "zsh": """
zmodload zsh/zpty
zpty shell zsh -i
zpty -w -n shell $'harness pred\\t'
zpty -r -m shell said '*harness pred*ict*'
echo ${said//[^a-z ]/}
""",
    "fish": "complete --do-complete 'harness pred'",
}

# Asks a server for what it says first, or for its page, and prints the answer.
ANSWER = """
import sys, socket, time
host, port, question = sys.argv[1:]
for attempt in range(60):
    try:
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(question.encode())
            print(connection.recv(1 << 16).decode())
            break
    except OSError:
        time.sleep(1)
else:
    raise SystemExit("no answer")
"""


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    if missing := emulation_missing(load_target("pi4")):
        pytest.skip("; ".join(missing))
    with contextlib.closing(docker.from_env(timeout=900)) as client:
        yield client


@pytest.fixture(scope="module")
def compiled_before() -> list[Mount]:
    """This machine's sources of kernels, Zig's library and Zig's cache. There the newcomer's Zig finds the
    kernels and libc++, compiled by the same compiler from the same sources: most of the work of a build. It
    compiles everything else. Zig reuses an object only if its source has the same path and inode; it compares
    headers by content.
    """
    if os.geteuid() != 0:
        return []  # the container's root would write to a user's cache
    zig = load_toolchain("zig")
    sources = read_sources(zig)
    kernels = []
    for target in (load_target("host"), load_target("pi4")):
        with placed_sources(BuildRequest(target=target, toolchain=zig, sources=sources)) as source:
            kernels.append(bind(source / "engine" / "src" / "kernels", read_only=True))
    objects = Path(zig.environment()["ZIG_GLOBAL_CACHE_DIR"])
    objects.mkdir(exist_ok=True)
    return [*kernels, bind(ZIG_LIBRARY, read_only=True), bind(objects, read_only=False)]


@pytest.fixture(scope="module")
def newcomer(client: docker.DockerClient, compiled_before: list[Mount]) -> Iterator[CleanDebian]:
    """A clean Debian with a checkout."""
    environment = {}
    if compiled_before:
        environment = {
            "HARNESS_CACHE": str(cache_directory()),
            "ZIG_LIB_DIR": str(ZIG_LIBRARY),
            "PIP_CONSTRAINT": ZIG_VERSION,  # the library is that of this version
        }
    with clean_debian(client, *compiled_before, environment=environment) as debian:
        ready(debian.run(f"echo ziglang=={version('ziglang')} >{ZIG_VERSION}"))
        ready(debian.run(f"mkdir {CHECKOUT}"))
        debian.container.put_archive(CHECKOUT, checkout(REPOSITORY))
        yield debian


@pytest.fixture(scope="module")
def installed(newcomer: CleanDebian) -> CleanDebian:
    """After the tutorial's first block."""
    ready(newcomer.run(blocks(BEFORE, "sh")[0], folder=CHECKOUT))
    return newcomer


@pytest.fixture(scope="module")
def followed(installed: CleanDebian) -> str:
    """What the tutorial's commands print before the board."""
    (file_name,) = re.findall(r"Save this as `(\S+)`", BEFORE)
    (sweep,) = blocks(BEFORE, "yaml")
    installed.write(CHECKOUT, {file_name: sweep.encode()})
    _, *scripts = blocks(BEFORE, "sh")
    return ready(installed.run(in_the_environment("".join(scripts)), folder=CHECKOUT))


@pytest.fixture(scope="module")
def quickstart(newcomer: CleanDebian) -> str:
    """What the README's first command prints."""
    command, *_ = blocks(README, "sh")
    return ready(newcomer.run(command, folder=CHECKOUT), SKIPPED)


def ready(done: Finished, *statuses: int) -> str:
    assert done.status in (statuses or (0,)), f"status {done.status}: {done.said[-5000:]}"
    assert "Traceback" not in done.said, done.said[-5000:]
    return done.said


def answer(debian: CleanDebian, host: str, port: int, question: str = "") -> str:
    words = shlex.join(["python3", "-c", ANSWER, host, str(port), question])
    return debian.run(words).said


def in_the_environment(script: str) -> str:
    """The tutorial activates it once; here, each script has a shell of its own."""
    return f"source .venv/bin/activate\n{script}"


@contextlib.contextmanager
def board(client: docker.DockerClient, newcomer: CleanDebian, folder: Path) -> Iterator[None]:
    """The tutorial's board, in the newcomer's network: an arm64 Debian whose SSH server knows the newcomer's
    key, as the newcomer knows its own."""
    for name in ("host", "user"):
        make_key(folder / name)
    network = f"container:{newcomer.container.id}"
    # The container itself may not do this.
    image = newcomer.container.image.id
    words = ["ip", "address", "replace", f"{ADDRESS}/32", "dev", "lo"]
    client.containers.run(image, words, network_mode=network, cap_add=["NET_ADMIN"], remove=True)
    keys = {"id_ed25519": (folder / "user").read_bytes()}
    keys["known_hosts"] = f"{ADDRESS} {(folder / 'host.pub').read_text()}".encode()
    newcomer.write(HOME, {f".ssh/{name}": data for name, data in keys.items()})
    container = client.containers.create(
        build_image(load_target("pi4")).image.id,
        ["sh", "-c", START],
        name=container_name("pi"),
        labels={OWNER_LABEL: own_identity()},
        platform=PLATFORM,
        user="0",
        network_mode=network,
        init=True,
    )
    try:
        put(container, "/etc/ssh", {"host": (folder / "host").read_bytes(), "pi": SSHD.encode()})
        authorized = (folder / "user.pub").read_bytes()
        put(container, "/home", {f"{USER}/.ssh/authorized_keys": authorized}, owner=USER_ID)
        container.start()
        assert "SSH" in answer(newcomer, ADDRESS, 22), container.logs().decode()
        yield
    finally:
        container.remove(force=True, v=True)


def test_the_tutorial_works_as_it_is_written(followed: str, installed: CleanDebian) -> None:
    assert "int8-fp32-ends" in followed
    assert "Predicted from an emulated run" in followed
    ready(installed.run("test -f results/first/results.sqlite", folder=CHECKOUT))


@pytest.mark.usefixtures("followed")
def test_its_board_is_measured_too(
    client: docker.DockerClient, installed: CleanDebian, tmp_path: Path
) -> None:
    (file_name,) = re.findall(r"Save this as `(\S+)`", BOARD)
    (boards,), (script,) = blocks(BOARD, "yaml"), blocks(BOARD, "sh")
    installed.write(CHECKOUT, {file_name: boards.encode()})
    # As the text says.
    ready(installed.run("sed -i 's/^targets: .*/targets: [host, pi4]/' first.yaml", folder=CHECKOUT))
    probe = next(line for line in script.splitlines() if "probe" in line)
    script = script.replace(probe, f"{probe} || [ $? = {OTHER_BOARD} ]")
    with board(client, installed, tmp_path):
        said = ready(installed.run(in_the_environment(script), folder=CHECKOUT))
    assert "6 cells: 6 done" in said


def test_the_first_command_of_the_readme_runs_without_a_docker_engine(quickstart: str) -> None:
    assert "24 cells: 12 done, 12 skipped" in quickstart


@pytest.mark.usefixtures("quickstart")
def test_model_explorer_opens_as_the_page_of_viewers_says(newcomer: CleanDebian) -> None:
    page = REPOSITORY / "docs" / "viewers.md"
    places = [n for n, script in enumerate(scripts(page)) if "ai-edge-model-explorer" in script]
    write, install, serve = scripts(page)[places[0] - 1], *scripts(page)[places[0]].splitlines()
    # Its ONNX extension brings what writes the file.
    ready(newcomer.run(in_the_environment(f"{install}\n{write}"), folder=CHECKOUT))
    ready(newcomer.run(in_the_environment(f"{serve} >explorer.log 2>&1 &"), folder=CHECKOUT))
    served = answer(newcomer, "localhost", 8080, "GET / HTTP/1.0\r\n\r\n")
    assert "200 OK" in served, newcomer.run("cat explorer.log", folder=CHECKOUT).said


def test_completion_works_as_the_readme_installs_it(installed: CleanDebian) -> None:
    (block,) = (block for block in blocks(README, "sh") if "--completion" in block)
    ready(installed.run("apt-get install --yes --no-install-recommends bash-completion fish zsh"))
    by_shell = {line.split("#")[1].split(":")[0].strip(): line for line in block.splitlines() if "#" in line}
    assert by_shell.keys() == ASKED.keys()
    shared = "\n".join(line for line in block.splitlines() if "#" not in line)
    for shell, (ask, line) in {shell: (ASKED[shell], by_shell[shell]) for shell in ASKED}.items():
        where = f"export PATH={CHECKOUT}/.venv/bin:$PATH LANG=C.UTF-8; {shared}\n"
        if shell == "zsh":
            ready(installed.run(f"{where}echo {shlex.quote(f'{COMPINIT}; {line}')} > ~/.zshrc"))
        else:
            ready(installed.run(where + line))
        said = ready(installed.run(f"{where}timeout 60 {shell} -c {shlex.quote(ask)}"))
        assert "predict" in said, f"{shell}: {said}"
