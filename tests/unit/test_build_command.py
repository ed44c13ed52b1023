"""`harness build` with several targets: a failure for one of them does not stop the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import cli
from harness.build import engine
from harness.build.engine import EngineBuild
from harness.config.targets import Target, all_targets
from harness.errors import BuildError, ConfigurationError
from harness.sdk import bazel
from harness.sdk.layout import Sdk


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets whose SDK was built from its sources, which takes hours; compiling takes minutes."""

    def build_engine(target: Target, *, toolchain: str, flags: str, ablation: bool) -> EngineBuild:
        assert not ablation
        program = tmp_path / target.name
        program.write_bytes(b"program")
        return EngineBuild(
            target=target,
            toolchain=toolchain,
            place="host",
            compiler="zig",
            flags=flags,
            engine=program,
            manifest=program,
            glibc_needed="2.17",
            seconds=1.0,
            cached=False,
            compiled=True,
        )

    made: list[str] = []

    def tensorflow_sdk(target: Target) -> Sdk:
        if not target.tensorflow_bazel:
            raise ConfigurationError(f"the target {target.name} has no TensorFlow to build from sources")
        if target.name == "pi3":
            raise BuildError("there is no room")
        made.append(target.name)
        return Sdk(
            provider="bazel",
            folder=tmp_path,
            version="2.12.0",
            glibc_needed="2.27",
            seconds=1.0,
            cached=False,
            files={},
        )

    monkeypatch.setattr(engine, "build_engine", build_engine)
    monkeypatch.setattr(bazel, "tensorflow_sdk", tensorflow_sdk)
    return made


FROM_SOURCES = ("build", "--with", "tensorflow", "--sdk", "bazel")


def test_all_omits_the_sdk_of_targets_without_one(
    builds: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*FROM_SOURCES, "--target", "all", "--json"]) == 3
    out, said = capsys.readouterr()
    rows = {row["target"]: row for row in json.loads(out) if "error" not in row}
    assert set(rows) == {target.name for target in all_targets()}
    assert {name for name, row in rows.items() if "sdk" in row} == set(builds) == set(rows) - {"host", "pi3"}
    assert [row for row in json.loads(out) if "error" in row] == [
        {"target": "pi3", "error": {"status": 3, "message": "there is no room", "hint": None}}
    ]
    assert "host: built without libtensorflow, which its file does not name" in said
    assert "warning: pi3: there is no room" in said


def test_a_failing_target_is_reported_and_the_others_are_built(
    builds: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*FROM_SOURCES, "--target", "host", "--target", "pi4"]) == 3
    assert builds == ["pi4"]
    assert "warning: host: the target host has no TensorFlow" in capsys.readouterr().err
    assert cli.main([*FROM_SOURCES, "--target", "host"]) == 2


@pytest.mark.parametrize("words", [["--toolchain", "zag"], ["--flags=-O2 '"]])
def test_an_error_about_all_targets_is_reported_once(
    builds: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["build", "--target", "all", *words]) == 2
    out, said = capsys.readouterr()
    assert (out, said.count("\n") <= 2) == ("", True)
    assert not builds
