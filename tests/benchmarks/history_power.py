"""How often `harness history` finds steps that are not there, and misses those that are.

    python tests/benchmarks/history_power.py

simulates series of runs whose times differ by 1 or 2 % (standard deviation): normal, with the heavier tails
of Student's distribution (5 degrees of freedom), or with 2 % of the runs half as long again. It prints the
share of series of one level in which a step is found, and of series with a step of 5 % in the middle or in
the last run the share in which it is missed; "within one": found at most one run beside its place. Exit
status 1 if normal series have false alarms in more than 6 %, or if of 20 runs with 1 % noise a twentieth is
missed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import figures
import numpy as np

from harness.measure.steps import steps

LEVEL = 0.05
LONGER = math.log(1.05)
COUNTS = (4, 6, 10, 20, 50, 100)
AT_MOST = {f"false alarms, {count} runs, normal": 0.06 for count in COUNTS}
AT_MOST |= {"missed in the middle within one, 20 runs, 1 %": 0.05}

Noise = Callable[[np.random.Generator, int], np.ndarray]
NOISES: dict[str, Noise] = {
    "normal": lambda generator, count: generator.normal(0, 0.01, count),
    "heavy tails": lambda generator, count: 0.01 * generator.standard_t(5, count),
    "outliers": lambda generator, count: (
        generator.normal(0, 0.01, count) + np.where(generator.random(count) < 0.02, math.log(1.5), 0)
    ),
}


def found(generator: np.random.Generator, noise: Noise, count: int, place: int, height: float) -> list[int]:
    """The steps in a series with a step at this place."""
    values = noise(generator, count) + np.where(np.arange(count) < place, 0, height)
    return steps(values.tolist(), LEVEL)


def main() -> int:
    parser = figures.parser(__doc__)
    parser.add_argument("--series", type=int, default=1000, help="of each kind (%(default)s)")
    arguments = parser.parse_args()
    result: dict[str, object] = {}
    for count in COUNTS:
        generator = np.random.default_rng(count)
        for name, noise in NOISES.items():
            alarms = [bool(found(generator, noise, count, count, 0)) for _ in range(arguments.series)]
            result[f"false alarms, {count} runs, {name}"] = float(np.mean(alarms))
        for scatter in (1, 2):

            def scattered(generator: np.random.Generator, count: int, scatter: int = scatter) -> np.ndarray:
                return scatter * NOISES["normal"](generator, count)

            for where, place in (("in the middle", count // 2), ("in the last run", count - 1)):
                at = [found(generator, scattered, count, place, LONGER) for _ in range(arguments.series)]
                missed = [all(abs(each - place) > 1 for each in places) for places in at]
                result[f"missed {where} within one, {count} runs, {scatter} %"] = float(np.mean(missed))
        print(count, "runs", file=sys.stderr, flush=True)
    return figures.conclude(result, AT_MOST, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
