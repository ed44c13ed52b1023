"""Evaluates assignments of precisions, each one once.

Results are kept by a hash of everything that determines them: a run that was ended repeats nothing, nor do
several runs at the same time.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from harness import console
from harness.accuracy.dataset import read_dataset
from harness.accuracy.model import load_model
from harness.accuracy.preprocess import prepare_chunks
from harness.accuracy.truth import Dataset
from harness.config.darknet_cfg import DarknetCfg, read_cfg
from harness.console import Progress
from harness.errors import ConfigurationError
from harness.file_digest import file_digest
from harness.measure import fingerprint
from harness.runtimes.engine import EngineOptions, HostEngine
from harness.search.assignment import Assignment
from harness.search.comparison import Fitted, Reference, judge_of
from harness.search.evaluation import Evaluation, EvaluationFile, default_folder
from harness.search.trial import Network, Trial, as_reference, evaluate
from harness.store.store import Claim
from harness.tasks.base import Shared, Task, TaskRunner
from harness.tasks.local import LocalRunner
from harness.temporary import temporary_folder

# Changes with the meaning of a figure, so that kept ones are not used any longer.
_VERSION = 1

POLL_SECONDS = 0.2  # between two looks at what other processes evaluate
TELL_SECONDS = 2.0  # of waiting for them


class Evaluator:
    """The evaluations of one network on some pictures. A context manager, for one thread.

    Pictures are prepared, and fp32 is run, once, when the first evaluation is missing. Several evaluations
    run at once, each on one thread. What another process evaluates at the moment is not repeated. Precisions
    that the cfg itself asks for do not matter.
    """

    def __init__(
        self,
        engine: HostEngine,
        *,
        cfg: Path,
        weights: Path,
        dataset: Path,
        calibration: Path | None = None,
        labels: Path | None = None,
        resize: str | None = None,
        skip: int = 0,
        limit: int | None = None,
        options: EngineOptions | None = None,
        folder: Path | None = None,
        runner: TaskRunner | None = None,
    ) -> None:
        """`calibration` has the ranges of int8, without which no layer can be int8. `labels`, `resize` and
        `limit` are as in `harness eval`, without the first `skip` pictures. `runner` runs the evaluations; by
        default this process, `options.threads` at once. `folder` keeps the evaluations (default:
        default_folder()). Raises ConfigurationError on bad input.
        """
        self.model = load_model(engine, cfg, weights)
        self.network: DarknetCfg = read_cfg(cfg)
        self.layers: tuple[int, ...] = tuple(layer.index for layer in self.network.weighted)
        if not self.layers:
            raise ConfigurationError(f"{cfg} has no convolutional or connected layer")
        self.rules = self.model.pictures(resize)
        data = read_dataset(
            dataset,
            classes=self.model.classes or None,
            labels=labels,
            sort_ids=self.model.outputs.stated is not None,
        )
        self.data: Dataset = replace(data, pictures=data.pictures[skip:]).first(limit)
        self.calibration = calibration
        self.executed = 0  # evaluations that were not kept already
        self._engine = engine
        self._judge = judge_of(self.model.reading, self.data)
        self._runner = runner or LocalRunner(options.threads if options else 1)
        self._options = replace(options or EngineOptions(), threads=1)
        self._folder = folder or default_folder()
        self._trial: Shared[Trial] | None = None
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._kept = EvaluationFile(self._folder)
            stack.callback(self._kept.close)
            self._files = stack.enter_context(temporary_folder("evaluations"))
            self._resources = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    @property
    def metric(self) -> str | None:
        """What `accuracy` is: `map50` or `top1`; None without labels."""
        return self._judge.metric

    @property
    def at_once(self) -> int:
        """How many evaluations run at once."""
        return self._runner.at_once

    def uniform(self, precision: str) -> Assignment:
        """The assignment with one precision for all layers."""
        return Assignment.uniform(self.layers, precision)

    def evaluate(
        self, assignments: Sequence[Assignment], progress: Progress | None = None
    ) -> list[Evaluation]:
        """The evaluations, in the same order; `progress` advances by one for each assignment.

        An exception, also Ctrl-C's, ends it after the evaluations that run at the moment; all that are
        complete are kept. Raises ConfigurationError for int8 without a calibration.
        """
        keys = [self._key(assignment) for assignment in assignments]
        missing = dict(zip(keys, assignments, strict=True))
        found: dict[str, Evaluation] = {}

        def take(key: str, evaluation: Evaluation) -> None:
            found[key] = evaluation
            del missing[key]
            if progress:
                progress.advance(keys.count(key))

        def keep(key: str, evaluation: Evaluation) -> None:
            self._kept.add(key, evaluation)
            self.executed += 1
            take(key, evaluation)

        with ExitStack() as stack:
            stack.callback(self._kept.release)
            begun, told = time.monotonic(), False
            while True:
                for key, evaluation in self._kept.find(list(missing)).items():
                    take(key, evaluation)
                if not missing:
                    return [found[key] for key in keys]
                before = len(missing)
                self._runner.run(self._claimed(missing), keep)
                if len(missing) < before:
                    begun = time.monotonic()
                elif not told and time.monotonic() - begun >= TELL_SECONDS:
                    told = True
                    console.log(f"waiting for another harness, which does {before} of these evaluations")
                elif missing:
                    time.sleep(POLL_SECONDS)

    def layer_ms(self, assignment: Assignment) -> dict[int, float]:
        """The milliseconds of each layer on this machine, on one thread. Not kept: they vary."""
        with temporary_folder("cfg", within=self._files) as folder:
            cfg = folder / self.model.cfg.name
            cfg.write_text(self._text(assignment), encoding="latin-1", newline="")
            options = self._network.options_for(set(assignment.values()))
            bench = self._engine.bench(cfg, self.model.weights, options, warmup=1, runs=10, profile=True)
        return {row["index"]: row["ns"] / 1e6 for row in bench["layers"]}

    def _claimed(self, missing: Mapping[str, Assignment]) -> Iterator[Task]:
        """The tasks of those that no other process evaluates, each claimed when it is taken."""
        for key, assignment in list(missing.items()):
            if self._kept.claim(key) is not Claim.MINE:
                continue
            trial = self._common()
            if assignment == self.uniform("fp32"):
                yield Task(name=key, function=as_reference, arguments=(trial,))
            else:
                arguments = (trial, self._text(assignment), set(assignment.values()))
                yield Task(name=key, function=evaluate, arguments=arguments)

    def _common(self) -> Shared[Trial]:
        """fp32's outputs. Writes the pictures into the temporary folder, as the engine reads them."""
        if self._trial is None:
            fp32 = self.uniform("fp32")
            with console.progress("fp32", total=len(self.data.pictures)) as bar:
                fitted, batches = self._prepare()
                network = replace(self._network, batches=batches)
                reference = Reference(judge=self._judge, fitted=fitted)
                for outputs in network.outputs(self._text(fp32), {"fp32"}):
                    reference.add(outputs)
                    bar.advance()
            arithmetic = self._engine.arithmetic(self._options.isa)
            self._trial = Shared(Trial(network=network, reference=reference, arithmetic=arithmetic))
        return self._trial

    @cached_property
    def _network(self) -> Network:
        """Without pictures."""
        return Network(
            engine=self._engine,
            model=self.model,
            options=self._options,
            calibration=self.calibration,
            batches=(),
        )

    def _prepare(self) -> tuple[list[Fitted], tuple[Path, ...]]:
        fitted: list[Fitted] = []
        batches: list[Path] = []
        pictures = [picture.path for picture in self.data.pictures]
        chunk = self._engine.images_per_chunk(self.model.cfg)
        for samples in prepare_chunks(pictures, self.model.input, self.rules, chunk):
            batch = self._files / f"{len(batches)}.npy"
            np.save(batch, np.stack([sample.tensor for sample in samples]), allow_pickle=False)
            batches.append(batch)
            fitted += [
                Fitted(placement=sample.placement, size=(sample.width, sample.height)) for sample in samples
            ]
        return fitted, tuple(batches)

    def _text(self, assignment: Assignment) -> str:
        return assignment.applied(self.network).text

    def _key(self, assignment: Assignment) -> str:
        if set(assignment) != set(self.layers):
            raise ValueError(f"an assignment for {len(assignment)} of {len(self.layers)} layers")
        precisions = set(assignment.values())
        ranges = self._network.options_for(precisions).calibration
        if "int8" in precisions and ranges is None:
            raise ConfigurationError(
                "int8 needs recorded ranges", hint="Record them with `harness calibrate`."
            )
        return fingerprint.of_values(
            self._inputs
            | {
                "cfg": fingerprint.of_text(self._text(assignment)),
                "calibration": file_digest(Path(ranges)) if ranges else "",
            }
        )

    @cached_property
    def _inputs(self) -> dict[str, object]:
        """What determines every evaluation, beside the assignment and int8's ranges."""
        stated = self.model.outputs.stated
        beside = [
            self.model.cfg.with_suffix(".import.json"),
            *([stated.labels] if stated and stated.labels else []),
        ]
        return {
            "version": _VERSION,
            "engine": file_digest(self._engine.executable),
            "arithmetic": self._engine.arithmetic(self._options.isa),
            "algorithm": self._options.algorithm,
            "bn_epsilon": self._options.bn_epsilon,
            "weights": file_digest(self.model.weights),
            "beside": [file_digest(file) if file.is_file() else "" for file in beside],
            "rules": asdict(self.rules),
            "metric": self.metric,
            "pictures": _digest(self.data),
        }


def _digest(data: Dataset) -> str:
    """SHA-256 of the pictures and their labels."""
    total = hashlib.sha256(data.kind.encode())
    for picture in data.pictures:
        total.update(f"{file_digest(picture.path)} {picture.label}\n".encode())
        if (truth := picture.truth) is not None:
            areas = [] if truth.areas is None else truth.areas.tolist()
            rows = [truth.boxes.tolist(), truth.classes.tolist(), truth.crowd.tolist(), areas]
            total.update(f"{rows}\n".encode())
    return total.hexdigest()
