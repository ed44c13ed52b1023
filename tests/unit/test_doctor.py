"""`harness doctor`, on a machine of the tests' making."""

from __future__ import annotations

import errno
import gc
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import main
from harness.doctor import installation, requirements
from harness.doctor.requirements import Requirement, examine
from harness.prediction import llvm
from harness.prediction.core_model import load_core_model
from harness.prediction.llvm import Llvm
from harness.resources import resource


class Machine:
    """The programs of a machine, and the commands that were run on it."""

    def __init__(self) -> None:
        self.present: set[str] = set()
        self.archive = {"docker.io", "iptables", "qemu-user-static", "binfmt-support", "g++"}
        self.commands: list[list[str]] = []
        self.failing: dict[str, str] = {}

    def finder(self, name: str) -> Callable[[], str | None]:
        return lambda: f"/usr/bin/{name}" if name in self.present else None

    def run(self, *command: str) -> None:
        self.commands.append(list(command))
        if reason := self.failing.get(command[1] if len(command) > 1 else command[0]):
            raise installation.InstallationError(reason)
        if command[:2] == ("apt-get", "install"):
            self.present |= set(command)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    made = Machine()
    rows = [
        Requirement(
            name=name,
            purpose="does things",
            find=made.finder(packages[0]),
            hint=f"get {name}",
            packages=packages,
            tests_only=tests_only,
            optional=True,
        )
        for name, packages, tests_only in (
            ("Docker Engine", ("docker.io", "iptables"), False),
            ("binfmt for arm64", ("qemu-user-static", "binfmt-support"), False),
            ("sanitizers", ("g++",), True),
        )
    ]
    monkeypatch.setattr(requirements, "REQUIREMENTS", tuple(rows))
    monkeypatch.setattr(installation, "_run", made.run)
    monkeypatch.setattr(installation, "_is_installed", lambda package: package in made.present)
    monkeypatch.setattr(installation, "_is_known", lambda package: package in made.archive)
    monkeypatch.setattr(installation, "_kernel_wants_apparmor", lambda: False)
    monkeypatch.setattr(installation, "_register_qemu", lambda: made.run("register"))
    monkeypatch.setattr(installation, "start_docker", lambda: made.run("start"))
    monkeypatch.setattr(installation, "cannot_install", lambda: None)
    return made


def test_it_reports_and_changes_nothing(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.present = {"docker.io"}
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "✓ Docker Engine: /usr/bin/docker.io" in out
    assert "- binfmt for arm64: missing" in out
    assert "get binfmt for arm64" in out
    assert "sanitizers" not in out
    assert machine.commands == []


def test_install_gets_what_is_missing_and_only_that(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.present = {"qemu-user-static", "binfmt-support", "iptables"}
    assert main(["doctor", "--install", "--json"]) == 0
    assert machine.commands == [
        ["apt-get", "update"],
        ["apt-get", "install", "--yes", "--no-install-recommends", "docker.io"],
        ["start"],
    ]
    report = json.loads(capsys.readouterr().out)
    assert report["installed"] == ["docker.io"]
    assert [row["ok"] for row in report["findings"]] == [True, True]
    assert report["findings"][0]["hint"] is None


def test_with_nothing_missing_nothing_is_run(machine: Machine) -> None:
    machine.present = {"docker.io", "qemu-user-static", "g++"}
    assert main(["doctor", "--install", "--tests"]) == 0
    assert machine.commands == []


def test_tests_adds_what_the_tests_need(machine: Machine) -> None:
    machine.present = {"docker.io", "qemu-user-static"}
    main(["doctor", "--install", "--tests"])
    assert machine.commands[-1][-1] == "g++"


def test_install_without_root_names_the_missing_packages(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installation, "cannot_install", lambda: "only root can install packages")
    assert main(["doctor", "--install"]) == 0
    assert machine.commands == []
    assert (
        "only root can install packages; left out: Docker Engine, binfmt for arm64" in capsys.readouterr().err
    )


def test_a_failed_step_is_a_warning_and_the_others_are_taken(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.failing = {"update": "an archive does not answer", "register": "no such device"}
    assert main(["doctor", "--install"]) == 0
    err = capsys.readouterr().err
    assert "an archive does not answer" in err
    assert "no such device" in err
    assert machine.commands[-1] == ["start"]


def test_a_package_that_the_archives_lack_does_not_stop_the_others(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.archive.remove("qemu-user-static")
    assert main(["doctor", "--install"]) == 0
    assert "no package qemu-user-static" in capsys.readouterr().err
    assert machine.commands[1][4:] == ["docker.io", "iptables", "binfmt-support"]


def test_packages_are_installed_only_by_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "root" in str(installation.cannot_install())


def test_a_failing_command_is_quoted_by_its_own_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    with pytest.raises(installation.InstallationError) as caught:
        installation._run("sh", "-c", "echo Reading; echo 'E: no such package'; echo done; exit 100")
    assert "E: no such package" in str(caught.value)
    assert "no such package" in (tmp_path / "doctor.log").read_text()


def test_every_requirement_can_be_looked_for_on_this_machine() -> None:
    findings = examine(tests=True)
    gc.collect()  # a socket left open fails the test
    assert {finding.requirement.name for finding in findings} >= {"compiler", "Docker Engine", "sshd"}
    assert all(finding.requirement.hint and finding.requirement.purpose for finding in findings)
    compiler = next(finding for finding in findings if finding.requirement.name == "compiler")
    assert "zig" in str(compiler.found)


@pytest.mark.parametrize("words", [[], ["--json"], ["--install"]])
def test_a_missing_requirement_of_every_command_gives_status_3(
    words: list[str], machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = Requirement(name="compiler", purpose="builds", find=lambda: None, hint="get it")
    monkeypatch.setattr(requirements, "REQUIREMENTS", (needed, *requirements.REQUIREMENTS))
    assert main(["doctor", *words]) == 3
    assert ("✕ compiler: missing" in capsys.readouterr().out) == ("--json" not in words)


def test_without_the_compiler_alone_nothing_works() -> None:
    assert [each.name for each in requirements.REQUIREMENTS if not each.optional] == [requirements.COMPILER]
    assert not requirements.requirement_named(requirements.DOCKER_ENGINE).optional  # of a target


def test_an_engine_that_may_not_be_used_is_not_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where the socket is root's and the user is not in the group docker."""

    class Refusing(socket.socket):
        def connect(self, address: object) -> None:
            self.close()
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(socket, "socket", Refusing)
    engine = next(each for each in requirements.REQUIREMENTS if each.name == requirements.DOCKER_ENGINE)
    monkeypatch.setattr(requirements, "REQUIREMENTS", (engine,))
    assert main(["doctor"]) == 3
    out = capsys.readouterr().out
    assert out.startswith("✕ Docker Engine: permission denied for the socket")
    assert "usermod -aG docker" in out
    assert "missing" not in out


@pytest.mark.parametrize(("version", "enough"), [((14, 0, 6), False), ((16, 0, 0), True), ((19, 1, 7), True)])
def test_an_llvm_that_lacks_some_cores_counts_as_missing(
    version: tuple[int, int, int], enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian 12's clang brings LLVM 14, which has no model of the Cortex-A76."""
    monkeypatch.setattr(llvm, "find_llvm", lambda: Llvm(mc="llvm-mc", mca="llvm-mca", version=version))
    (found,) = (each for each in requirements.REQUIREMENTS if each.name.startswith("llvm-mca"))
    assert (found.find() is not None) == enough
    cores = [load_core_model(path.stem) for path in resource("toolchains", "cores").glob("*.yaml")]
    assert max(core.least_llvm for core in cores) == llvm.VERSION_FOR_ALL_CORES


def test_an_llvm_that_is_installed_meanwhile_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(llvm, "_NEWEST_TRIED", llvm.LEAST_VERSION + 1)

    def install(suffix: str, version: str) -> None:
        for name in ("llvm-mc", "llvm-mca"):
            program = tmp_path / f"{name}{suffix}"
            program.write_text(f"#!/bin/sh\necho LLVM version {version}\n")
            program.chmod(0o755)

    install("", "16.0.1")
    before = llvm.find_llvm()
    assert before is not None
    assert before.version == (16, 0, 1)
    install(f"-{llvm.LEAST_VERSION}", "19.1.7")
    after = llvm.find_llvm()
    assert after is not None
    assert after.version == (19, 1, 7)
