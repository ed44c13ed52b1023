"""The input files of cells in the results folder, and the keys of host results computed from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from harness import console
from harness.accuracy.executor import ClusterExecutor, Executor, FileExecutor
from harness.config.policy import BUILT_IN, applied
from harness.config.random_weights import SEED, write_random_weights
from harness.config.sweep import Calibration, Model, Options, Sweep, Variant
from harness.errors import ConfigurationError, HarnessError
from harness.file_digest import file_digest
from harness.files import write_atomically
from harness.measure import fingerprint
from harness.measure.result import EvaluationOutcome, Outcome
from harness.runtimes.base import ModelFile, Program, find_runtime
from harness.runtimes.engine import HostEngine
from harness.store.store import Store
from harness.sweep import evaluation
from harness.sweep.model_file import exported_file, own_file
from harness.sweep.worker import Job, at_once
from harness.tasks.base import TaskRunner


class SweepInputs:
    """Cfgs, calibration files, sample images and host results of one sweep."""

    def __init__(self, sweep: Sweep, store: Store, engine: Program, runner: TaskRunner | None = None) -> None:
        """`runner` runs the engine for accuracy (default: this process does)."""
        self.sweep = sweep
        self.runner = runner
        self.store = store
        self.folder = store.folder
        self.engine = engine
        self.host = HostEngine(engine.path)
        self.file_hash = cache(file_digest)
        self.dataset_hash = cache(fingerprint.of_dataset)
        self.cfg = cache(self._write_cfg)
        self.model_file = cache(self._find_model_file)
        self._warned: set[str] = set()
        self._info = cache(self.host.info)
        self._multiply_adds = cache(self._count_multiply_adds)
        for model in sweep.models:
            self._write_random_weights(model)

    def check(self, model: Model) -> None:
        """Checks the cfg with the engine, the size of the weights, and the labels.

        Raises ConfigurationError with the file and line of an error.
        """
        info = self._info(model.cfg)
        # The engine counts the larger header: its number of seen images has 64 bits instead of 32.
        expected = int(info["weights_bytes"])
        found = model.weights.stat().st_size
        if found not in (expected, expected - 4):
            raise ConfigurationError(
                f"{model.weights}: has {found} bytes, {model.cfg} takes {expected} "
                f"({expected - 4} with the older header)",
                hint="The file is damaged or belongs to another cfg.",
            )
        if model.dataset is not None:
            from harness.accuracy.dataset import read_dataset
            from harness.accuracy.model import load_model
            from harness.accuracy.reading import Scores

            loaded = load_model(self.host, model.cfg, model.weights)
            if isinstance(loaded.reading, Scores):  # the cfg of a Darknet detector has the number of classes
                read_dataset(
                    model.dataset,
                    classes=loaded.classes,
                    labels=model.labels,
                    sort_ids=loaded.outputs.stated is not None,
                )

    def multiply_adds(self, model: Model) -> int:
        """Multiply-adds of a model for one image."""
        return self._multiply_adds(model.cfg)

    def _count_multiply_adds(self, cfg: Path) -> int:
        return sum(int(layer["macs"]) for layer in self._info(cfg)["layers"])

    def _write_random_weights(self, model: Model) -> None:
        if model.random_weights and not model.weights.is_file():
            layers = self._info(model.cfg)["layers"]
            model.weights.parent.mkdir(parents=True, exist_ok=True)
            write_random_weights(model.weights, layers, SEED)

    def _write_cfg(self, variant: Variant) -> Path:
        """The cfg of a policy, for the engine and for reruns by hand."""
        path = self.folder / "cfgs" / variant.model.name / f"{variant.policy}.cfg"
        data = variant.cfg.text.encode("latin-1")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != data:
            write_atomically(path, data)
        return path

    def _find_model_file(self, runtime: str, variant: Variant) -> ModelFile | None:
        """The file that a runtime executes for a variant; None if it executes cfg and weights. Raises
        HarnessError if there is none."""
        executes = find_runtime(runtime)
        if not executes.formats:
            return None
        found = own_file(executes, runtime, variant)
        if isinstance(found, ConfigurationError):
            if not executes.export:
                raise found
            own = executes.int8_export if variant.int8.static else ""
            return exported_file(
                own or executes.export,
                variant,
                self.cfg(variant),
                self.calibration(variant),
                self.folder / "exports",
                self.file_hash,
                self._pictures(variant.model),
                executes.fingerprint if own else "",
            )
        if found.more and (key := f"{variant.model.name} in {runtime}") not in self._warned:
            self._warned.add(key)
            operators = ", ".join(sorted(set(found.more)))
            console.warn(f"{key}: its times include {operators}, before which the engine's import ends")
        return found

    def _pictures(self, model: Model) -> Callable[[Path], None] | None:
        """Writes the pictures on which a model's ranges are recorded; None if they come from a file."""
        settings = model.calibration
        if not isinstance(settings, Calibration) or model.calibration_dataset is None:
            return None
        return lambda out: evaluation.write_calibration_pictures(self.host, model, settings, out)

    def executed_hash(self, runtime: str, variant: Variant) -> str:
        """The hash of what a runtime executes besides the cfg: the weights, or a model's own file."""
        try:
            found = self.model_file(runtime, variant)
        except HarnessError:
            return ""
        return self.file_hash(found.path if found else variant.model.weights)

    def calibration(self, variant: Variant) -> Path | None:
        """The calibration file of a variant. Raises HarnessError if its ranges could not be recorded."""
        model = variant.model
        if not variant.int8.any:
            return None
        if isinstance(model.calibration, Path):
            return model.calibration
        if not variant.int8.static:
            return None
        key = self._calibration_key(model, model.calibration)
        outcome = self.store.evaluation(key)
        if outcome is not None and outcome.status == "failed":
            raise HarnessError(f"calibration: {outcome.error}")
        path = self._calibration_path(model, key)
        if not path.is_file():
            evaluation.record_ranges(self.host, model, model.calibration, path)
        return path

    def calibration_job(self, model: Model) -> Job | None:
        """The job that records a model's ranges; None if the sweep does not ask for it."""
        settings = model.calibration
        if not isinstance(settings, Calibration):
            return None
        key = self._calibration_key(model, settings)
        path = self._calibration_path(model, key)

        def perform() -> Outcome:
            path.parent.mkdir(parents=True, exist_ok=True)
            evaluation.record_ranges(self.host, model, settings, path)
            return EvaluationOutcome(status="done", values={"file": path.name, "sha256": file_digest(path)})

        return Job(
            name=f"ranges of {model.name}",
            table="evaluations",
            key=key,
            kind="calibration",
            perform=at_once(perform),
        )

    def accuracy_job(self, variant: Variant, options: Options, runtime: str = "engine") -> Job | None:
        """The job that evaluates a variant in a runtime; None if its model has no data set."""
        model = variant.model
        if model.dataset is None:
            return None

        def perform() -> Outcome:
            file = self.model_file(runtime, variant)
            executor: Executor | None = None
            if file is None and self.runner is not None:
                executor = ClusterExecutor(runner=self.runner, engine=self.host)
            elif file is not None:
                executor = FileExecutor(
                    runtime=find_runtime(runtime), file=file, options=options, engine=self.host
                )
            result = evaluation.accuracy(
                self.host, model, self.cfg(variant), self.calibration(variant), options, executor
            )
            self._warn_of_overlap(model, result)
            detections = result.pop("detections")
            return EvaluationOutcome(status="done", values=result, detections=detections)

        key = self.key(
            "accuracy",
            variant,
            options,
            dataset=self.dataset_hash(model.dataset),
            labels=self.file_hash(model.labels) if model.labels else "",
            resize=model.resize,
            limit=model.limit,
            arithmetic=self.host.arithmetic(),
            **self._runtime_key(runtime, variant, options),
        )
        where = f" {runtime}" if runtime != "engine" else ""
        return Job(
            name=f"accuracy of {model.name} {variant.policy}{where}",
            table="evaluations",
            key=key,
            kind="accuracy",
            perform=at_once(perform),
        )

    def _warn_of_overlap(self, model: Model, result: dict[str, Any]) -> None:
        """Warns once per model, not once per policy."""
        from harness.accuracy.overlap import overlap_sentence

        if (common := result.get("calibration_overlap")) and model.name not in self._warned:
            self._warned.add(model.name)
            hint = "give its calibration a dataset of other pictures"
            console.warn(f"{model.name}: {overlap_sentence(common, result['images'])}: {hint}")

    def digests_job(self, variant: Variant, options: Options) -> Job:
        """The job that computes the host's digests, with which boards are compared."""

        def perform() -> Outcome:
            found = evaluation.digests(
                self.host,
                variant.model,
                self.cfg(variant),
                self.calibration(variant),
                options,
                self.samples(variant.model),
            )
            return EvaluationOutcome(status="done", values={"digests": found})

        return Job(
            name=f"digests of {variant.model.name} {variant.policy}",
            table="evaluations",
            key=self.key("digests", variant, options, samples=self.samples_hash(variant.model)),
            kind="digests",
            perform=at_once(perform),
        )

    def digests(self, variant: Variant, options: Options) -> list[str]:
        """The host's digests; empty if they could not be computed."""
        outcome = self.store.evaluation(self.digests_job(variant, options).key)
        return list(outcome.values.get("digests", [])) if outcome else []

    def samples(self, model: Model) -> Path:
        """The sample images of a model, as the engine reads them."""
        path = self.folder / "samples" / f"{model.name}-{self.samples_hash(model)[:12]}.npy"
        if not path.is_file():
            evaluation.write_samples(self.host, model, self.sweep.emulated.images, path)
        return path

    def samples_hash(self, model: Model) -> str:
        """The hash of all that determines the sample images; "" without sample images."""
        if not self.sweep.emulated.images:
            return ""
        return fingerprint.of_values(
            {
                "cfg": self.file_hash(model.cfg),
                "dataset": self.dataset_hash(model.dataset) if model.dataset else evaluation.RANDOM_SEED,
                "images": self.sweep.emulated.images,
                "resize": model.resize,
            }
        )

    def calibration_hash(self, variant: Variant) -> str:
        """The hash of a variant's calibration file; "" if it has none or it could not be written."""
        try:
            path = self.calibration(variant)
        except HarnessError:
            return ""
        return self.file_hash(path) if path else ""

    def key(self, kind: str, variant: Variant, options: Options, **more: object) -> str:
        """The key of a computation on this machine; `more` is what it depends on beside these."""
        return fingerprint.of_values(
            {
                "kind": kind,
                "engine": self.engine.sha256,
                "cfg": fingerprint.of_text(variant.cfg.text),
                "weights": self.file_hash(variant.model.weights),
                "calibration": self.calibration_hash(variant),
                "bn_epsilon": options.bn_epsilon,
                **more,
            }
        )

    def _runtime_key(self, runtime: str, variant: Variant, options: Options) -> dict[str, str]:
        """What the outputs depend on if another runtime than the engine computes them."""
        fingerprint = find_runtime(runtime).fingerprint
        if not fingerprint:
            return {}
        file = self.executed_hash(runtime, variant)
        return {"runtime": fingerprint, "weights": file, "chosen": options.name}

    def _calibration_key(self, model: Model, settings: Calibration) -> str:
        dataset = model.calibration_dataset
        assert dataset is not None
        # Ranges are recorded in fp32: a model's own precision keys do not matter.
        text = applied(BUILT_IN["fp32"], model.network).text
        return fingerprint.of_values(
            {
                "kind": "calibration",
                "engine": self.engine.sha256,
                "cfg": fingerprint.of_text(text),
                "weights": self.file_hash(model.weights),
                "dataset": self.dataset_hash(dataset, "train"),
                "resize": model.resize,
                **{key: value for key, value in asdict(settings).items() if key != "dataset"},
            }
        )

    def _calibration_path(self, model: Model, key: str) -> Path:
        return self.folder / "calibrations" / f"{model.name}-{key[:12]}.json"
