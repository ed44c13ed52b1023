"""Steps that are taken up again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.build.log import BuildLog
from harness.errors import BuildError
from harness.sdk.steps import Steps


class Work:
    """Three steps; `fails` are those that stop, `done` those that were begun."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inputs: dict[str, object] = {"unpack": "archive", "configure": {"CUDA": "0"}, "build": ["opt"]}
        self.fails: dict[str, BaseException] = {}
        self.done: list[str] = []

    def go(self) -> list[str]:
        """Runs all steps; returns those that were begun."""
        self.done = []
        steps = Steps(self.folder)
        for name, inputs in self.inputs.items():
            steps.run(name, inputs, lambda log, name=name: self._do(name, log))  # type: ignore[misc]
        return self.done

    def _do(self, name: str, log: BuildLog) -> None:
        self.done.append(name)
        log.line(f"{name} at work")
        if name in self.fails:
            raise self.fails[name]

    def log(self, name: str) -> str:
        return Steps(self.folder).log_path(name).read_text(encoding="utf-8")


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path / "work")


def test_finished_steps_are_not_repeated(work: Work) -> None:
    assert work.go() == ["unpack", "configure", "build"]
    assert work.go() == []


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), BuildError("no room"), OSError(28, "No space left")])
def test_a_step_that_stopped_is_begun_again_and_those_before_are_not(work: Work, stop: BaseException) -> None:
    work.fails = {"build": stop}
    for expected in (["unpack", "configure", "build"], ["build"]):
        with pytest.raises(type(stop)):
            work.go()
        assert work.done == expected
    work.fails = {}
    assert work.go() == ["build"]
    assert work.go() == []


def test_a_changed_input_repeats_its_step_and_all_after_it(work: Work) -> None:
    work.go()
    work.inputs["configure"] = {"CUDA": "1"}
    assert work.go() == ["configure", "build"]


def test_going_back_to_an_input_after_an_interruption_repeats_too(work: Work) -> None:
    """Remains of an interrupted step are not mistaken for earlier files."""
    work.go()
    before = dict(work.inputs)
    work.inputs["configure"] = {"CUDA": "1"}
    work.fails = {"configure": KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        work.go()
    work.inputs, work.fails = before, {}
    assert work.go() == ["configure", "build"]


def test_every_attempt_is_in_the_log(work: Work) -> None:
    work.fails = {"build": BuildError("status 1")}
    with pytest.raises(BuildError):
        work.go()
    work.fails = {}
    work.go()
    lines = work.log("build").splitlines()
    assert [line.split(" on ")[0] for line in lines] == [
        "--- build, begun",
        "build at work",
        "--- build, stopped",
        "--- build, begun",
        "build at work",
        "--- build, done",
    ]
    assert lines[2].endswith("BuildError: status 1")
    assert work.log("unpack").count("at work") == 1


@pytest.mark.parametrize("record", ["", "{", "[]", '{"unpack": 1}'])
def test_a_damaged_record_does_the_work_again(work: Work, record: str) -> None:
    work.go()
    (work.folder / "steps.json").write_text(record)
    assert work.go() == ["unpack", "configure", "build"]


def test_the_record_says_when_and_how_long(work: Work) -> None:
    work.go()
    record = json.loads((work.folder / "steps.json").read_text())
    assert list(record) == ["unpack", "configure", "build"]
    assert all(entry["finished"] and entry["seconds"] >= 0 for entry in record.values())
