"""The requirements of emulated boards."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.images import availability
from harness.images.docker_engine import connect
from harness.qemu import binfmt

QEMU = """enabled
interpreter /usr/bin/qemu-aarch64-static
flags: {flags}
offset 0
magic 7f454c460201010000000000000000000200b700
mask ffffffffffffff00fffffffffffffffffeffffff
"""


@pytest.fixture(autouse=True)
def _on_x86(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(binfmt, "host_architecture", lambda: "x86_64")
    yield
    gc.collect()  # a socket left open fails the test


@pytest.mark.parametrize(
    ("entry", "runs"),
    [
        (QEMU.format(flags="F"), True),
        (QEMU.format(flags="POCF"), True),
        (QEMU.format(flags="PO"), False),  # the interpreter would be looked for in the container
        (QEMU.format(flags="F").replace("enabled", "disabled"), False),
        (QEMU.format(flags="F").replace("b700", "f300"), False),  # RISC-V
        (QEMU.format(flags="F").replace("offset 0", "offset 4"), False),
        ("enabled\ninterpreter /usr/bin/jexec\nflags: F\nextension .jar\n", False),
        ("enabled\nflags: F\noffset 0\nmagic zz\n", False),
        ("", False),
    ],
)
def test_entries_of_binfmt_misc(tmp_path: Path, entry: str, runs: bool) -> None:
    (tmp_path / "register").write_text("")
    (tmp_path / "status").write_text("enabled\n")
    (tmp_path / "entry").write_text(entry)
    assert binfmt.arm64_programs_run(tmp_path) is runs


def test_arm64_programs_do_not_run_without_binfmt_misc(tmp_path: Path) -> None:
    assert not binfmt.arm64_programs_run(tmp_path / "absent")


def test_an_arm64_machine_needs_no_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binfmt, "host_architecture", lambda: "aarch64")
    assert binfmt.arm64_programs_run(tmp_path / "absent")


def test_a_docker_engine_that_does_not_answer_is_one_line_with_the_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    monkeypatch.setattr(availability, "arm64_programs_run", lambda: True)
    (line,) = availability.emulation_missing()
    assert line.startswith("the Docker Engine does not answer: no such file or directory: ")
    assert "apt-get install docker.io iptables" in line


def test_both_are_named_when_both_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    monkeypatch.setattr(availability, "arm64_programs_run", lambda: False)
    docker, qemu = availability.emulation_missing()
    assert "docker.io" in docker
    assert "qemu-user-static" in qemu


def test_connecting_names_a_wrong_docker_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "gopher://nowhere")
    with pytest.raises(Exception, match="the Docker Engine does not answer"):
        connect()
