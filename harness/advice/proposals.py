"""What to try where quantisation after training loses too much: commands to run, the cheapest first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.advice.choice import Advice
from harness.advice.limits import Limits
from harness.advice.words import row_name
from harness.config.import_options import IMPORT_KEYS
from harness.config.policy import AS_IS
from harness.config.sweep import Model
from harness.report.comparison import BASELINE
from harness.report.pareto import MIB
from harness.text import printable

_QUANTISERS = {  # runtimes that quantise by themselves, and how
    "litert": "TensorFlow Lite's, also with 16-bit activations",
    "mnn": "MNN's",
    "ncnn": "ncnn's",
}


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Something to try, and the command for it; "" if no command of harness does it."""

    what: str
    command: str = ""


def proposals(advice: Advice, model: Model | None, target: str) -> list[Proposal]:
    """`model` is that of the sweep, None if its file is gone: commands then have words to replace."""
    lossy = advice.too_lossy
    if not lossy:
        return []
    if any(each.row.policy != AS_IS for each in lossy):
        search = ["harness", "search", *_model(model), *_of_search(model), "--target", target]
        repair = ["harness", "repair", *_model(model), "--out", "repaired"]
        train = ["harness", "finetune", *_model(model), "--policy", "int8", "--out", "trained"]
        return [
            *_other_quantisers(advice, model, target),
            Proposal(
                what="mixed precision: find the layers that can stay in int8 or fp16",
                command=shlex.join([*search, *_limits(advice.limits), "--out", "found"]),
            ),
            Proposal(what="repaired weights: let all layers lose less in int8", command=shlex.join(repair)),
            Proposal(
                what="training: if this is not enough, train the weights further with int8 simulated",
                command=shlex.join(train),
            ),
        ]
    train_elsewhere = "training: train the model further with simulated quantisation in its own framework"
    return [Proposal(what=f"{train_elsewhere}, and measure the quantised file that it exports")]


def _other_quantisers(advice: Advice, model: Model | None, target: str) -> Iterator[Proposal]:
    """The quantisations that no row has yet: they round otherwise, and may lose less."""
    rows = [*(each.row for each in advice.rows), *advice.without_result]
    tried = {row.runtime for row in rows if row.policy != BASELINE}
    names = [name for name in _QUANTISERS if name not in tried]
    if names:
        which = "; ".join(_QUANTISERS[name] for name in names)
        command = ["harness", "advise", *_model(model), *_of_evaluation(model), "--target", target]
        command += [word for name in names for word in ("--runtime", name)]
        if advice.limits.max_memory is not None:
            command += ["--max-memory", f"{advice.limits.max_memory / MIB:g}"]
        yield Proposal(
            what=f"other quantisations than {row_name(advice.too_lossy[0].row)}: {which} may lose less",
            command=shlex.join([*command, *_limits(advice.limits)]),
        )


def _model(model: Model | None) -> Iterator[str]:
    if model is None:
        yield from ("--model", "MODEL", "--dataset", "DATASET")
        return
    if model.source is not None:
        yield from ("--model", _shown(model.source))
        for name in IMPORT_KEYS:
            value = getattr(model.import_options, name)
            if value is not None:
                yield f"--{name.replace('_', '-')}"
                yield ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    else:
        yield from ("--cfg", _shown(model.cfg), "--weights", _shown(model.weights))
    yield from ("--dataset", _shown(model.dataset) if model.dataset else "DATASET")
    if model.resize:
        yield from ("--resize", model.resize)


def _of_search(model: Model | None) -> Iterator[str]:
    """What a search needs to evaluate as the sweep did, and a repair does not take."""
    if model and isinstance(model.calibration, Path):
        yield from ("--calibration", _shown(model.calibration))
    yield from _of_evaluation(model)


def _of_evaluation(model: Model | None) -> Iterator[str]:
    if model and model.labels:
        yield from ("--labels", _shown(model.labels))
    if model and model.limit:
        yield from ("--limit", str(model.limit))


def _limits(limits: Limits) -> Iterator[str]:
    yield from ("--max-drop", f"{100 * limits.max_drop:g}")
    yield from ("--min-agreement", f"{100 * limits.min_agreement:g}")
    if limits.min_fps is not None:
        yield from ("--min-fps", f"{limits.min_fps:g}")


def _shown(path: Path) -> str:
    """Relative to the current folder if the file is below it."""
    whole, here = path.resolve(), Path.cwd()
    return printable(str(whole.relative_to(here) if whole.is_relative_to(here) else whole))
