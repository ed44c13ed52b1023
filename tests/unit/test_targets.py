"""Targets: the data that ships, and files of a user's own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from harness.config import targets
from harness.config.targets import all_targets, host_architecture, load_target
from harness.errors import ConfigurationError
from harness.resources import resource

TARGET = 'description: a board\narchitecture: aarch64\ncpu: cortex-a55\nglibc: "2.31"\n'


def test_the_shipped_targets_are_those_of_the_design() -> None:
    cores = {target.name: (target.cpu, target.glibc) for target in all_targets()}
    assert cores == {
        "host": (None, "2.28"),
        "jetson-nano": ("cortex-a57", "2.27"),
        "jetson-orin": ("cortex-a78ae", "2.35"),
        "jetson-tx2": ("cortex-a57", "2.27"),
        "jetson-xavier": ("carmel", "2.31"),
        "pi3": ("cortex-a53", "2.36"),
        "pi4": ("cortex-a72", "2.36"),
        "pi5": ("cortex-a76", "2.36"),
    }


def test_the_host_comes_first_and_is_of_this_machines_architecture() -> None:
    first = all_targets()[0]
    assert first.is_host
    assert first.architecture == host_architecture()


@pytest.mark.parametrize(("alias", "name"), [("jetson", "jetson-nano"), ("pi", "pi4"), ("pi5", "pi5")])
def test_a_target_is_found_by_name_and_alias(alias: str, name: str) -> None:
    assert load_target(alias).name == name


def test_names_and_aliases_are_each_used_once() -> None:
    names = [name for target in all_targets() for name in (target.name, *target.aliases)]
    assert len(names) == len(set(names))


def test_qemu_emulates_the_core_itself_unless_told_otherwise() -> None:
    assert load_target("pi4").qemu_cpu == "cortex-a72"
    assert load_target("jetson-orin").qemu_cpu == "cortex-a76"


def test_a_file_of_ones_own_is_a_target(tmp_path: Path) -> None:
    file = tmp_path / "khadas.yaml"
    file.write_text(TARGET + "features: [neon, fp16, dotprod]\n")
    target = load_target(str(file))
    assert (target.name, target.cpu, target.qemu_cpu) == ("khadas", "cortex-a55", "cortex-a55")
    assert target.features == ("neon", "fp16", "dotprod")
    assert not target.is_host


def test_an_unknown_target_names_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown target jetsn: did you mean jetson\?"):
        load_target("jetsn")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (TARGET + "glibcc: 2\n", 5, "unknown key glibcc"),
        (TARGET.replace("aarch64", "armv7"), 2, "unknown architecture armv7"),
        (TARGET.replace('"2.31"', "two"), 4, 'expected a version like "2.31"'),
        (TARGET + "features: [neon, sme]\n", 5, "unknown feature sme"),
        (TARGET.replace("cortex-a55", "a55 $(touch executed)"), 3, "expected a core"),
        ("description: a board\n", 1, "needs the key glibc"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    file = tmp_path / "board.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_target(str(file))
    assert f"{file}:{line}: " in str(caught.value)
    assert message in str(caught.value)


def test_a_machine_without_a_port_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(ConfigurationError, match="riscv64"):
        host_architecture()


def test_a_target_that_ships_may_borrow_coefficients_but_lends_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "targets"
    shutil.copytree(resource("toolchains", "targets"), shipped)
    own = (shipped / "pi5.yaml").read_text().partition("  coefficients:")[0]
    (shipped / "borrower.yaml").write_text(own + "  coefficients: like pi5\n")
    monkeypatch.setattr(targets, "_shipped", lambda: list(shipped.glob("*.yaml")))
    board = load_target("borrower").board
    assert board is not None
    assert board.coefficients is not None
    assert board.coefficients.like == "pi5"
    (tmp_path / "other.yaml").write_text(own + "  coefficients: like borrower\n")
    with pytest.raises(ConfigurationError, match="no coefficients of borrower to borrow"):
        load_target(str(tmp_path / "other.yaml"))


@pytest.mark.parametrize("image", ["pi6", "../pi4", "/"])
def test_an_unknown_image_is_an_error(tmp_path: Path, image: str) -> None:
    own = resource("toolchains", "targets", "pi5.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(re.sub("(?m)^image: .*$", f"image: {image}", own))
    with pytest.raises(ConfigurationError, match=f"mine.yaml:[0-9]+: unknown image {image}"):
        load_target(str(tmp_path / "mine.yaml"))
