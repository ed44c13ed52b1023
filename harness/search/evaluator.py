"""Evaluates assignments of precisions on this machine, each one once.

Results are kept by a hash of everything that determines them, so that a run that was ended repeats nothing.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from harness import console
from harness.accuracy.boxes import Floats
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
from harness.temporary import temporary_folder

# Changes with the meaning of a figure, so that kept ones are not used any longer.
_VERSION = 1


class Evaluator:
    """The evaluations of one network on some pictures. A context manager, for one thread.

    Pictures are prepared, and fp32 is run, once, when the first evaluation is missing. Several evaluations
    run at once, each on one thread. Precisions that the cfg itself asks for do not matter.
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
    ) -> None:
        """`calibration` has the ranges of int8, without which no layer can be int8. `labels`, `resize` and
        `limit` are as in `harness eval`, without the first `skip` pictures. `options.threads` is the number
        of evaluations at once. `folder` keeps the evaluations (default: default_folder()). Raises
        ConfigurationError on bad input.
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
        self._jobs = options.threads if options else 1
        self._options = replace(options or EngineOptions(), threads=1)
        self._folder = folder or default_folder()
        self._reference: Reference | None = None
        self._batches: list[Path] = []  # of pictures, as the engine reads them
        self._guard = threading.Lock()
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
        found = self._kept.find(keys)
        missing = {
            key: assignment for key, assignment in zip(keys, assignments, strict=True) if key not in found
        }
        if progress:
            progress.advance(sum(key in found for key in keys))
        if missing:
            reference = self._fp32()
            with ThreadPoolExecutor(self._jobs, thread_name_prefix="evaluation") as pool:
                waiting = {
                    pool.submit(self._run, key, assignment, reference): key
                    for key, assignment in missing.items()
                }
                try:
                    for future in as_completed(waiting):
                        found[waiting[future]] = future.result()
                        if progress:
                            progress.advance(keys.count(waiting[future]))
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
        return [found[key] for key in keys]

    def layer_ms(self, assignment: Assignment) -> dict[int, float]:
        """The milliseconds of each layer on this machine, on one thread. Not kept: they vary."""
        with self._written(assignment) as cfg:
            options = self._options_of(assignment)
            bench = self._engine.bench(cfg, self.model.weights, options, warmup=1, runs=10, profile=True)
        return {row["index"]: row["ns"] / 1e6 for row in bench["layers"]}

    def _run(self, key: str, assignment: Assignment, reference: Reference) -> Evaluation:
        in_fp32 = assignment == self.uniform("fp32")
        evaluation = reference.compare(reference.outputs if in_fp32 else self._outputs(assignment))
        self._kept.add(key, evaluation)
        with self._guard:
            self.executed += 1
        return evaluation

    def _fp32(self) -> Reference:
        """fp32's outputs. Writes the pictures into the temporary folder, as the engine reads them."""
        if self._reference is None:
            with console.progress("fp32", total=len(self.data.pictures)) as bar:
                reference = Reference(judge=self._judge, fitted=self._prepare())
                for outputs in self._outputs(self.uniform("fp32")):
                    reference.add(outputs)
                    bar.advance()
            self._reference = reference
        return self._reference

    def _prepare(self) -> list[Fitted]:
        self._batches.clear()
        fitted = []
        pictures = [picture.path for picture in self.data.pictures]
        chunk = self._engine.images_per_chunk(self.model.cfg)
        for samples in prepare_chunks(pictures, self.model.input, self.rules, chunk):
            batch = self._files / f"{len(self._batches)}.npy"
            np.save(batch, np.stack([sample.tensor for sample in samples]), allow_pickle=False)
            self._batches.append(batch)
            fitted += [
                Fitted(placement=sample.placement, size=(sample.width, sample.height)) for sample in samples
            ]
        return fitted

    def _outputs(self, assignment: Assignment) -> Iterator[list[Floats]]:
        """The outputs of each picture."""
        options = self._options_of(assignment)
        with self._written(assignment) as cfg:
            for batch in self._batches:
                heads = self._engine.forward_file(cfg, self.model.weights, batch, options).heads
                for number in range(len(next(iter(heads.values())))):
                    yield self.model.arrays(heads, number)

    @contextmanager
    def _written(self, assignment: Assignment) -> Iterator[Path]:
        with temporary_folder("cfg", within=self._files) as folder:
            cfg = folder / self.model.cfg.name
            cfg.write_text(assignment.applied(self.network).text, encoding="latin-1", newline="")
            yield cfg

    def _options_of(self, assignment: Assignment) -> EngineOptions:
        """With the ranges only where they are used: the others' evaluations do not depend on them."""
        ranges = self.calibration if "int8" in assignment.values() else None
        return replace(self._options, calibration=ranges)

    def _key(self, assignment: Assignment) -> str:
        if set(assignment) != set(self.layers):
            raise ValueError(f"an assignment for {len(assignment)} of {len(self.layers)} layers")
        options = self._options_of(assignment)
        if "int8" in assignment.values() and options.calibration is None:
            raise ConfigurationError(
                "int8 needs recorded ranges", hint="Record them with `harness calibrate`."
            )
        return fingerprint.of_values(
            self._inputs
            | {
                "cfg": fingerprint.of_text(assignment.applied(self.network).text),
                "calibration": file_digest(Path(options.calibration)) if options.calibration else "",
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
            "isa": self._options.isa,
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
