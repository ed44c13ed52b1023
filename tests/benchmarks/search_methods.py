"""The fronts that methods of search find with the same number of evaluations.

    python tests/benchmarks/search_methods.py --model yolox_nano.onnx --dataset coco --target pi4

Methods: random precisions; all int8 with the layers of most noise reverted to fp32 one after another, as NNCF
does; greedy, the layer that saves most time for its noise first; the integer programme over budgets of noise;
`harness search`; and Optuna's NSGA-II, alone and begun with a third of the evaluations of the programme's
front and of greedy's. All use the same layer times and the same pictures.

Prints each method's hypervolume of time and disagreement with fp32, as a share of that of all methods'
points together, and the fastest policy that agrees enough. The reference point is the slower of all fp32 and
all int8, and three times the disagreement of all int8. Needs optuna. Medians over seeds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import figures
import numpy as np
import numpy.typing as npt

from harness import console
from harness.commands.model_options import add_dataset, add_model, dataset_of, model_files, with_policy
from harness.config.darknet_cfg import read_cfg
from harness.config.targets import load_target
from harness.exporting.calibration import read_calibration
from harness.exporting.network import read_network
from harness.prediction.predictor import find_predictor
from harness.runtimes.engine import EngineOptions, host_engine
from harness.search.assignment import Assignment
from harness.search.evaluation import Evaluation, default_folder
from harness.search.evaluator import Evaluator
from harness.search.latency import LatencyModel
from harness.search.layer_costs import probed_costs
from harness.search.layer_timer import Model, PredictedTimer
from harness.search.memory import MemoryModel
from harness.search.point import Limits
from harness.search.precision_graph import FP32, INT8, WIDTH, Labels, precision_graph
from harness.search.programme import fastest
from harness.search.ranges import recorded_ranges
from harness.search.search import Search

Points = npt.NDArray[np.float64]  # [points, 2]: milliseconds, disagreement


class Spent(Exception):  # noqa: N818 - not an error
    """All evaluations of a method are spent."""


@dataclass
class Budget:
    """An evaluator with a limited number of different evaluations; `Evaluates` for the search."""

    evaluator: Evaluator
    latency: LatencyModel
    memory: MemoryModel
    most: int
    found: dict[Assignment, Evaluation] = field(default_factory=dict)

    @property
    def layers(self) -> tuple[int, ...]:
        return self.evaluator.layers

    @property
    def at_once(self) -> int:
        return self.evaluator.at_once

    @property
    def left(self) -> int:
        return self.most - len(self.found)

    def uniform(self, precision: str) -> Assignment:
        return self.evaluator.uniform(precision)

    def evaluate(
        self, assignments: Sequence[Assignment], progress: console.Progress | None = None
    ) -> list[Evaluation]:
        """Raises Spent, after those that could still be evaluated."""
        new = [each for each in dict.fromkeys(assignments) if each not in self.found]
        known = new[: self.left]
        self.found.update(zip(known, self.evaluator.evaluate(known), strict=True))
        if progress:
            progress.advance(len(assignments))
        if len(known) < len(new):
            raise Spent
        return [self.found[each] for each in assignments]

    def of_labels(self, labels: Sequence[Labels]) -> list[Evaluation]:
        return self.evaluate([Assignment.of_labels(self.layers, row) for row in labels])

    def points(self) -> Points:
        labels = np.stack([assignment.labels() for assignment in self.found])
        disagreement = [1 - evaluation.agreement for evaluation in self.found.values()]
        return np.stack([self.latency.milliseconds(labels), np.array(disagreement)], axis=1)

    def noise(self) -> npt.NDArray[np.float64]:
        """Each layer's alone, [layers, WIDTH]."""
        found = np.zeros((len(self.layers), len(WIDTH)))
        changes = [(place, label) for place in range(len(found)) for label in range(len(WIDTH))]
        changes = [change for change in changes if change[1] != FP32]
        fp32 = self.uniform("fp32")
        alone = [fp32.changed({self.layers[place]: WIDTH[label]}) for place, label in changes]
        for change, evaluation in zip(changes, self.evaluate(alone), strict=True):
            found[change] = max(evaluation.noise, 1e-12)
        return found


def random_precisions(budget: Budget, seed: int) -> None:
    """Shares of the precisions are random, too: otherwise all points are alike."""
    generator = np.random.default_rng(seed)
    while True:
        shares = generator.dirichlet(np.full(len(WIDTH), 0.5), size=8)
        rows = [generator.choice(len(WIDTH), len(budget.layers), p=row) for row in shares]
        budget.of_labels([row.astype(np.int8) for row in rows])


def revert_worst(budget: Budget, seed: int) -> None:
    labels = np.full(len(budget.layers), INT8)
    int8 = budget.uniform("int8")
    budget.evaluate([int8])
    alone = [budget.uniform("fp32").changed({layer: "int8"}) for layer in budget.layers]
    worst = np.argsort([-evaluation.noise for evaluation in budget.evaluate(alone)])
    path = []
    for place in worst:
        labels[place] = FP32
        path.append(labels.copy())
    budget.of_labels(_spread(path, budget.left))


def greedy(budget: Budget, seed: int) -> None:
    budget.of_labels(_spread(greedy_path(budget.latency, budget.noise()), budget.left))


def greedy_path(latency: LatencyModel, noise: npt.NDArray[np.float64]) -> list[Labels]:
    """From all fp32, the change of one layer that saves most time for its noise, until none saves any."""
    labels = np.full(len(noise), FP32, np.int8)
    path = [labels.copy()]
    while True:
        changes = [
            (place, label)
            for place in range(len(labels))
            for label in range(len(WIDTH))
            if label != labels[place] and noise[place, label] > noise[place, labels[place]]
        ]
        if not changes:
            return path
        changed = np.repeat(labels[None], len(changes), axis=0)
        places, others = np.array(changes).T
        changed[np.arange(len(changes)), places] = others
        saved = latency.milliseconds(labels[None])[0] - latency.milliseconds(changed)
        worth = saved / (noise[places, others] - noise[places, labels[places]])
        best = int(np.argmax(worth))
        if saved[best] <= 0:
            return path
        labels = changed[best]
        path.append(labels.copy())


def integer_programme(budget: Budget, seed: int) -> None:
    noise = budget.noise()
    budget.of_labels(programme_front(budget.latency, noise, budget.left))


def programme_front(latency: LatencyModel, noise: npt.NDArray[np.float64], most: int) -> list[Labels]:
    """The fastest assignments within noise from that of all layers down to a millionth of it."""
    total = float(noise.max(axis=1).sum())
    budgets = np.geomspace(total, total * 1e-6, max(min(most, 60), 1))
    found = [fastest(latency, noise, float(each)) for each in budgets]
    return [each.assignment for each in found if each is not None]


def harness_search(budget: Budget, seed: int) -> None:
    Search(
        evaluator=budget,
        latency=budget.latency,
        memory=budget.memory,
        limits=Limits(min_agreement=AGREEMENT),
        needed=no_inference,
    ).run()


def no_inference(_: Assignment) -> float:
    raise AssertionError("there is no limit of memory")


def optuna_alone(budget: Budget, seed: int) -> None:
    _optuna(budget, seed, [])


def optuna_seeded(budget: Budget, seed: int) -> None:
    noise = budget.noise()
    third = max(budget.left // 3, 1)
    path = greedy_path(budget.latency, noise)
    front = programme_front(budget.latency, noise, third - third // 2)
    _optuna(budget, seed, [*front, *_spread(path, third // 2)])


def _optuna(budget: Budget, seed: int, known: Sequence[Labels]) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.CRITICAL)  # running out of evaluations is no failure
    names = [str(layer) for layer in budget.layers]
    study = optuna.create_study(
        directions=["minimize", "minimize"],
        sampler=optuna.samplers.NSGAIISampler(population_size=24, seed=seed),
    )
    uniform = [np.full(len(names), label, np.int8) for label in range(len(WIDTH))]
    for labels in [*uniform, *known]:
        study.enqueue_trial(dict(zip(names, map(int, labels), strict=True)))

    def objective(trial: optuna.Trial) -> tuple[float, float]:
        labels = np.array([trial.suggest_int(name, 0, len(WIDTH) - 1) for name in names], np.int8)
        evaluation = budget.of_labels([labels])[0]
        return float(budget.latency.milliseconds(labels[None])[0]), 1 - evaluation.agreement

    # A point that comes again costs nothing, so the number of trials has a limit of its own.
    study.optimize(objective, n_trials=20 * budget.most)


def _spread(path: Sequence[Labels], most: int) -> list[Labels]:
    """At most so many of a path, evenly."""
    places = np.unique(np.linspace(0, len(path) - 1, max(min(most, len(path)), 1)).round().astype(int))
    return [path[place] for place in places]


METHODS: dict[str, Callable[[Budget, int], None]] = {
    "random": random_precisions,
    "revert the worst layer": revert_worst,
    "greedy": greedy,
    "integer programme": integer_programme,
    "harness search": harness_search,
    "Optuna": optuna_alone,
    "Optuna, seeded by both": optuna_seeded,
}
IS_RANDOM = frozenset({"random", "Optuna", "Optuna, seeded by both"})
AGREEMENT = 0.98


def hypervolume(points: Points, reference: npt.NDArray[np.float64]) -> float:
    """The area that points dominate up to the reference, both to be minimised."""
    area, edge = 0.0, float(reference[1])
    for milliseconds, loss in sorted(points.tolist()):
        if milliseconds < reference[0] and loss < edge:
            area += (reference[0] - milliseconds) * (edge - loss)
            edge = loss
    return area


def fastest_agreeing(points: Points) -> float:
    """Milliseconds of the fastest point that agrees enough."""
    agreeing = points[points[:, 1] <= 1 - AGREEMENT + 1e-9]
    return float(agreeing[:, 0].min()) if len(agreeing) else float("inf")


@contextlib.contextmanager
def prepared(arguments: argparse.Namespace) -> Iterator[tuple[Evaluator, LatencyModel, MemoryModel]]:
    engine, threads = host_engine(), os.cpu_count() or 1
    with model_files(arguments), with_policy(arguments, None, ranges=False) as cfg:
        dataset = dataset_of(arguments)
        calibration = recorded_ranges(
            engine,
            cfg=cfg,
            weights=arguments.weights,
            dataset=dataset,
            evaluated=0,
            resize=None,
            options=EngineOptions(threads=threads),
            folder=default_folder(),
        )
        network = read_network(cfg, arguments.weights)
        graph = precision_graph(network, read_calibration(calibration, network))
        model = Model(network=read_cfg(cfg), weights=arguments.weights, calibration=calibration)
        target = load_target(arguments.target)
        timer = PredictedTimer(model=model, target=target, predictor=find_predictor(target))
        latency, memory = probed_costs(network, graph, timer)
        with Evaluator(
            engine,
            cfg=cfg,
            weights=arguments.weights,
            dataset=dataset,
            calibration=calibration,
            limit=arguments.limit,
            options=EngineOptions(threads=threads),
        ) as evaluator:
            yield evaluator, latency, memory


def main() -> int:
    parser = figures.parser(__doc__)
    add_model(parser, policy_help=None)
    add_dataset(parser, what="pictures", split="default: val")
    parser.add_argument("--target", default="pi4", help="predict the times of this target (%(default)s)")
    parser.add_argument("--limit", type=int, default=16, help="use the first N pictures (%(default)s)")
    parser.add_argument("--evaluations", type=int, default=300, help="of each method (%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="of methods that are random (%(default)s)")
    arguments = parser.parse_args()
    with prepared(arguments) as (evaluator, latency, memory):
        runs: dict[str, list[Points]] = {}
        for name, method in METHODS.items():
            for seed in range(arguments.seeds if name in IS_RANDOM else 1):
                budget = Budget(evaluator, latency, memory, arguments.evaluations)
                budget.evaluate([budget.uniform(precision) for precision in WIDTH])
                with contextlib.suppress(Spent):
                    method(budget, seed)
                runs.setdefault(name, []).append(budget.points())
                print(f"{name}, seed {seed}: {len(budget.found)} evaluations", file=sys.stderr)
    uniform = runs["random"][0][: len(WIDTH)]
    fp32, int8 = uniform[FP32], uniform[INT8]
    reference = np.array([max(fp32[0], int8[0]), 3 * max(int8[1], 0.01)])
    everything = hypervolume(np.concatenate([points for all_ in runs.values() for points in all_]), reference)
    found: dict[str, object] = {"uniform: ms, disagreement": uniform.round(4).tolist()}
    for name, all_ in runs.items():
        share = statistics.median(hypervolume(points, reference) / everything for points in all_)
        best = statistics.median(fastest_agreeing(points) for points in all_)
        found[name] = f"{100 * share:.1f} % of the hypervolume; {best:.2f} ms with {100 * AGREEMENT:g} %"
    return figures.conclude(found, {}, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
