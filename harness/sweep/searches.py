"""Policies that a search finds: the jobs that search, and the variants with what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness.config.policy import Policy, Rule, Setting, applied
from harness.config.sweep import Options, Variant
from harness.config.targets import Target
from harness.errors import HarnessError
from harness.measure.result import EvaluationOutcome, Outcome
from harness.runtimes.engine import HostEngine
from harness.sweep.environment import processor
from harness.sweep.inputs import SweepInputs
from harness.sweep.worker import Job, at_once

# Changes with what a search finds, so that kept policies are not used any longer.
_VERSION = 1

# Searches a variant's policy with these ranges for this target. The values of its answer are JSON's; `layers`
# has the precision of each layer with weights. Raises HarnessError if no policy meets the limits.
Searcher = Callable[[HostEngine, Variant, Path, Target], Mapping[str, Any]]


class Searches:
    """The searches of one sweep. `prediction` is a fingerprint of a target's predictor."""

    def __init__(
        self, inputs: SweepInputs, searcher: Searcher | None, prediction: Callable[[Target], str]
    ) -> None:
        self._inputs = inputs
        self._searcher = searcher
        self._prediction = prediction
        self._targets = {target.name: target for target in inputs.sweep.targets}

    def job(self, variant: Variant) -> Job:
        """The job that searches the policy of a variant."""
        assert variant.search is not None
        target = self._targets[variant.search.target]

        def perform() -> Outcome:
            assert self._searcher is not None
            calibration = self._inputs.calibration(variant)
            assert calibration is not None  # the variant is all int8
            found = self._searcher(self._inputs.host, variant, calibration, target)
            return EvaluationOutcome(status="done", values=found)

        return Job(
            name=f"search of {variant.model.name} {variant.policy}",
            table="evaluations",
            key=self._key(variant, target),
            kind="search",
            perform=at_once(perform),
            alone=target.is_host,  # it measures layers
        )

    def found(self, variant: Variant) -> Variant:
        """The variant with the policy that was found. Raises HarnessError if there is none."""
        outcome = self._inputs.store.evaluation(self.job(variant).key)
        if outcome is None:
            raise HarnessError(f"policy {variant.policy} was not searched yet")
        if outcome.status != "done":
            raise HarnessError(f"policy {variant.policy}: {outcome.error}")
        policy = Policy(
            name=variant.policy,
            default=Setting(precision="fp32"),
            rules=tuple(
                Rule(selector=layer, setting=Setting(precision=precision))
                for layer, precision in outcome.values["layers"].items()
            ),
        )
        return replace(variant, cfg=applied(policy, variant.model.network))

    def _key(self, variant: Variant, target: Target) -> str:
        model = variant.model
        assert model.dataset is not None  # checked with the sweep file
        assert variant.search is not None
        return self._inputs.key(
            "search",
            variant,
            Options(),
            version=_VERSION,
            dataset=self._inputs.dataset_hash(model.dataset),
            labels=self._inputs.file_hash(model.labels) if model.labels else "",
            resize=model.resize,
            limit=model.limit,
            search=asdict(variant.search),
            board=processor() if target.is_host else self._prediction(target),
        )
