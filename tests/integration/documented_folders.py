"""What lies in the working folder of each documentation page, under the names that the page uses.

Where the page's own example takes minutes or belongs to its reader, a small real input has that name.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml
from arm64_board import board_entry
from documented_commands import REPOSITORY, blocks
from ssh_server import Server
from tiny_sweep import CFG, write_tiny_sweep

DIGITS = REPOSITORY / "cfg" / "digits"
PICTURES = 8  # of a data set
CLASSIFIER = """\
[net]
width=224
height=224
channels=3
[convolutional]
filters=4
size=3
stride=4
pad=1
activation=relu
[avgpool]
[convolutional]
filters=10
activation=linear
[softmax]
"""
PROTOCOL = {"rounds": 2, "warmup": 1, "runs": 4, "min_seconds": 0}


@dataclass(frozen=True)
class PageFolder:
    """A page's working folder, with what fills it."""

    path: Path
    environment: Mapping[str, str]
    text: str  # of the page
    board: Callable[[], Server]

    def harness(self, *words: str) -> None:
        """Runs a command that the page does not show."""
        subprocess.run(["harness", *words, "--quiet"], cwd=self.path, env=self.environment, check=True)

    def write(self, name: str, content: object) -> None:
        """A file of text or, of anything else, of JSON, which is YAML."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))

    def link(self, name: str) -> None:
        """A part of the checkout."""
        (self.path / name).symlink_to(REPOSITORY / name)

    def yaml_with(self, words: str) -> str:
        """The page's `yaml` block with these words."""
        (found,) = (block for block in blocks(self.text, "yaml") if words in block)
        return dedent(found)

    def detector(self, *names: str) -> None:
        """The detector that ships, as ONNX files."""
        self.harness("export", *digits(), "--format", "onnx", "--out", "exported")
        for name in names:
            shutil.copy(self.path / "exported" / "digits.onnx", self.path / name)

    def pictures(self, name: str, first: int = 0) -> None:
        """A few of its pictures, with labels."""
        for kind in ("images", "labels"):
            (self.path / name / kind).mkdir(parents=True)
            for file in sorted((DIGITS / "data" / kind).iterdir())[first : first + PICTURES]:
                shutil.copy(file, self.path / name / kind)

    def tiny(self, sweep: Mapping[str, Any]) -> None:
        """sweep.yaml of the tiny network; `sweep` replaces keys."""
        files = {"cfg": "tiny.cfg", "weights": "tiny.weights", "dataset": "data"}
        model = {"name": "tiny", "calibration": {"images": 4}, **files}
        whole: dict[str, Any] = {"models": [model], "policies": ["fp32", "int8"], "targets": ["host"]}
        write_tiny_sweep(self.path, json.dumps(whole | {"protocol": PROTOCOL} | dict(sweep)))

    def small_cfg(self, name: str, changes: Mapping[str, Any]) -> None:
        """cfg/ with the tiny network in the place of large ones, and keys of a sweep changed."""
        for network in ("yolov3-tiny", "mobilenet"):
            self.write(f"cfg/{network}/{network}.cfg", CFG)
        whole = yaml.safe_load((REPOSITORY / "cfg" / "sweeps" / name).read_text(encoding="utf-8"))
        self.write(f"cfg/sweeps/{name}", whole | changes)


def digits() -> tuple[str, ...]:
    return ("--cfg", str(DIGITS / "digits.cfg"), "--weights", str(DIGITS / "digits.weights"))


def contributing(folder: PageFolder) -> None:
    folder.write("orangepi5.yaml", folder.yaml_with("# orangepi5.yaml"))


def ablation(folder: PageFolder) -> None:
    protocol = {"rounds": 1, "warmup": 0, "runs": 1, "min_seconds": 0}
    folder.small_cfg("ablation.yaml", {"protocol": protocol})


def advise(folder: PageFolder) -> None:
    folder.detector("yolox_nano.onnx")
    folder.pictures("coco")


def compare(folder: PageFolder) -> None:
    protocol = PROTOCOL | {"rounds": 3}
    # The page compares with AVX2. Every machine can run the plain loops.
    for name, options in (("before", {}), ("avx2", {"isa": "reference"})):
        shutil.rmtree(folder.path / "data", ignore_errors=True)
        folder.tiny({"protocol": protocol} | ({"options": [options]} if options else {}))
        folder.harness("run", "--matrix", "sweep.yaml", "--results", f"results/{name}")


def export(folder: PageFolder) -> None:
    for suffix in ("cfg", "weights"):
        shutil.copy(DIGITS / f"digits.{suffix}", folder.path / f"yolo.{suffix}")
    shutil.copy(DIGITS / "digits.calibration.json", folder.path / "ranges.json")
    folder.pictures("pictures")


def finetune(folder: PageFolder) -> None:
    for suffix in ("cfg", "weights"):
        shutil.copy(DIGITS / f"digits.{suffix}", folder.path)
    folder.pictures("pictures")
    folder.pictures("others", PICTURES)
    folder.harness("repair", *digits(), "--dataset", "pictures", "--only", "ranges", "--out", "repaired")
    for file in ("repaired/digits.cfg", "repaired/digits.weights", "repaired/digits.calibration.json"):
        shutil.copy(folder.path / file, folder.path / file.replace("digits", "net"))
    shutil.copy(DIGITS / "digits.weights", folder.path / "net.weights")


def github_actions(folder: PageFolder) -> None:
    for name in ("before", "after"):
        folder.write(f"{name}/speed.yaml", folder.yaml_with("detector.onnx"))
        folder.detector(f"{name}/detector.onnx")


def history(folder: PageFolder) -> None:
    """Four runs, the fewest in which a step can be found, in a repository with a commit."""
    folder.tiny({"policies": ["fp32"]})
    for run in range(4):
        folder.harness("run", "--matrix", "sweep.yaml", "--results", f"results/{run}")
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
    for words in (("init", "--quiet"), (*identity, "commit", "--quiet", "--allow-empty", "-m", "tests: run")):
        subprocess.run(["git", *words], cwd=folder.path, check=True)


def import_(folder: PageFolder) -> None:
    folder.detector("yolov8n.onnx")
    folder.write("classifier.cfg", CLASSIFIER)
    weights = 3 * 4 * 9 + 4 + 4 * 10 + 10
    header = 16  # bytes of a file of version 0.0.0
    (folder.path / "classifier.weights").write_bytes(bytes(header + 4 * weights))
    words = ("--cfg", "classifier.cfg", "--weights", "classifier.weights")
    folder.harness("export", *words, "--format", "onnx", "--out", ".")


def performance(folder: PageFolder) -> None:
    changes = {"targets": ["host", "pi4"], "protocol": PROTOCOL}
    folder.small_cfg("performance.yaml", changes)
    folder.tiny({})
    (folder.path / "tiny.weights").rename(folder.path / "yolov3-tiny.weights")
    for name in ("engine", "tools"):
        folder.link(name)


def prediction(folder: PageFolder) -> None:
    folder.link("cfg")
    pi4 = (REPOSITORY / "toolchains" / "targets" / "pi4.yaml").read_text(encoding="utf-8")
    without_coefficients = pi4[: pi4.index("  coefficients:")]
    folder.write("my-board.yaml", re.sub(r"^aliases:.*\n", "", without_coefficients, flags=re.MULTILINE))
    folder.write("boards.yaml", {"boards": [board_entry(folder.board(), target="my-board.yaml")]})
    policies = ["fp32", "fp16", {"name": "dynamic", "default": "int8", "quantize": 1}]
    sweep = {"policies": [*policies, "int8"], "targets": ["./my-board.yaml"], "threads": [1, 4]}
    folder.tiny(sweep)


def repair(folder: PageFolder) -> None:
    folder.detector("yolox_nano.onnx")
    folder.pictures("coco")
    folder.pictures("others", PICTURES)


def sensitivity(folder: PageFolder) -> None:
    folder.detector("FastestDet.onnx")
    folder.pictures("coco-val128")


def viewers(folder: PageFolder) -> None:
    """The first sweep's results, of two policies on this machine."""
    folder.link("cfg")
    whole = yaml.safe_load((REPOSITORY / "cfg" / "sweeps" / "quickstart.yaml").read_text(encoding="utf-8"))
    (model,) = whole["models"]
    files = {key: str(DIGITS / Path(model[key]).name) for key in ("cfg", "weights", "calibration", "dataset")}
    changes = {"policies": ["fp32", "int8"], "targets": ["host"], "threads": [1], "protocol": PROTOCOL}
    folder.write("quickstart.yaml", whole | changes | {"models": [model | files | {"limit": PICTURES}]})
    folder.harness("run", "--matrix", "quickstart.yaml", "--results", "results/quickstart")


def measurement(folder: PageFolder) -> None:
    folder.tiny({"policies": ["int8"], "targets": ["pi4"]})
    folder.write("boards.yaml", {"boards": [board_entry(folder.board())]})


FOLDERS: dict[str, Callable[[PageFolder], None]] = {
    "CONTRIBUTING.md": contributing,
    "ablation.md": ablation,
    "advise.md": advise,
    "compare.md": compare,
    "export.md": export,
    "finetune.md": finetune,
    "github-actions.md": github_actions,
    "history.md": history,
    "import.md": import_,
    "measurement.md": measurement,
    "performance.md": performance,
    "prediction.md": prediction,
    "repair.md": repair,
    "search.md": advise,
    "sensitivity.md": sensitivity,
    "viewers.md": viewers,
}
