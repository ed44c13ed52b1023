"""How much of what int8 loses `harness finetune` recovers, on the detector that ships.

    python tests/benchmarks/finetuning.py [--spread 7] [--scenes 1024] [FINETUNE'S OPTIONS ...]

The detector's channels are scaled apart by factors from 2^-spread to 1, which keeps its outputs in fp32: with
one step for a whole tensor, channels have as few as 8 - spread bits. The training sees drawn scenes with the
digits of some writers, the mAP is of the 200 shipped scenes with those of others. Prints the mAP@0.5 in fp32,
of int8 with ranges of least squared error, after the training without labels and with them, and of `harness
repair`; and the seconds that processors worked for each.
"""

from __future__ import annotations

import contextlib
import resource
import shutil
import sys
from collections.abc import Sequence
from importlib import import_module
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cfg" / "digits"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit"))

import figures
from channels_apart import scale_apart
from PIL import Image

from harness import cli
from harness.accuracy.evaluate import evaluate
from harness.config.darknet_cfg import read_cfg
from harness.config.policy import BUILT_IN, apply
from harness.repair.parameters import Parameters
from harness.resources import resource as shipped
from harness.runtimes.engine import HostEngine, host_engine
from harness.temporary import temporary_folder

DIGITS = shipped("cfg", "digits")
SEED = 4  # of scenes that nothing else draws
MOST_DIGITS = 9  # in a scene
AT_LEAST = {"without labels": 0.6, "with labels": 0.8}  # of the loss, to be recovered


def draw(folder: Path, count: int) -> None:
    """Writes a data set of scenes with labels."""
    for name in ("images", "labels"):
        (folder / name).mkdir(parents=True)
    drawn = import_module("scenes")
    digits = drawn.load_digits("train")
    for index, scene in enumerate(drawn.scenes(digits, SEED, 0, count, MOST_DIGITS)):
        Image.fromarray(scene.pixels).save(folder / "images" / f"{index:04}.png")
        lines = "".join(f"{box.yolo()}\n" for box in scene.boxes)
        (folder / "labels" / f"{index:04}.txt").write_text(lines)


def scale(folder: Path, spread: float) -> Path:
    """Writes the detector with channels scaled apart, and returns its cfg."""
    folder.mkdir()
    for name in ("digits.cfg", "digits.names"):
        shutil.copy(DIGITS / name, folder)
    parameters = Parameters(DIGITS / "digits.cfg", DIGITS / "digits.weights")
    scale_apart(parameters, spread)
    (folder / "digits.weights").write_bytes(parameters.data())
    return folder / "digits.cfg"


def map50(engine: HostEngine, cfg: Path, calibration: Path | None = None) -> float:
    """On the shipped scenes."""
    found = evaluate(
        engine,
        cfg=cfg,
        weights=cfg.with_suffix(".weights"),
        dataset=DIGITS / "data",
        calibration=calibration,
    )
    return float(found["map50"])


def changed(command: str, cfg: Path, out: Path, *options: str) -> tuple[Path, float]:
    """The cfg that a command writes, and the seconds that processors worked for it."""
    model = ["--cfg", str(cfg), "--weights", str(cfg.with_suffix(".weights"))]
    before = _seconds()
    with contextlib.redirect_stdout(StringIO()):
        status = cli.main([command, *model, "--out", str(out), *options])
    if status:
        sys.exit(status)
    return out / cfg.name, _seconds() - before


def _seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measured(spread: float, count: int, options: Sequence[str]) -> dict[str, object]:
    engine = host_engine()
    with temporary_folder("finetuning") as folder:
        data = folder / "scenes"
        draw(data, count)
        cfg = scale(folder / "apart", spread)
        fp32 = map50(engine, cfg)
        ranges = folder / "ranges.json"
        model = ["--cfg", str(cfg), "--weights", str(cfg.with_suffix(".weights"))]
        words = ["--dataset", str(data), "--method", "mse", "--limit", "64", "--out", str(ranges)]
        with contextlib.redirect_stdout(StringIO()):
            cli.main(["calibrate", *model, *words])
        plain = folder / "plain.cfg"
        plain.write_text(apply(BUILT_IN["int8"], read_cfg(cfg).text))
        shutil.copy(cfg.with_suffix(".weights"), plain.with_suffix(".weights"))
        int8 = map50(engine, plain, ranges)
        found: dict[str, object] = {"mAP@0.5 in fp32": fp32, "mAP@0.5 in int8": int8}
        training = ["--policy", "int8", "--dataset", str(data), *options]
        runs = {
            "without labels": ("finetune", training),
            "with labels": ("finetune", [*training, "--labels"]),
            "repaired": ("repair", ["--dataset", str(data)]),
        }
        for name, (command, words) in runs.items():
            trained, seconds = changed(command, cfg, folder / name, *words)
            after = map50(engine, trained, trained.with_suffix(".calibration.json"))
            found[f"mAP@0.5 in int8, {name}"] = after
            found[f"share of the loss that stays, {name}"] = (fp32 - after) / (fp32 - int8)
            found[f"processor seconds, {name}"] = seconds
        return found


def main() -> int:
    parser = figures.parser(__doc__)
    parser.add_argument("--spread", type=float, default=7.0, help="of channels, in powers of two")
    parser.add_argument("--scenes", type=int, default=1024, help="number of scenes to learn from")
    arguments, options = parser.parse_known_args()
    at_most = {f"share of the loss that stays, {name}": 1 - share for name, share in AT_LEAST.items()}
    return figures.conclude(
        measured(arguments.spread, arguments.scenes, options), at_most, as_json=arguments.json
    )


if __name__ == "__main__":
    sys.exit(main())
