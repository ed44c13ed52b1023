"""How often `harness compare` finds differences that are not there, and misses those that are.

    python tests/benchmarks/compare_power.py

simulates comparisons of cells whose processes differ by 1, 2 and 4 % (standard deviation), with samples that
differ by 0.5 % within a process, 2 % of them half as long again. It prints the share of comparisons without
any difference in which a cell is called slower or faster, and the share in which a cell that takes 5 % longer
is found. Exit status 1 if with 12 cells, 6 rounds and 2 % the first exceeds 5 %, or a fifth is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit"))

import figures
import numpy as np
from series import processes, with_outliers

from harness.measure.ratio_test import holm, time_ratios
from harness.report.compare.difference import SIGNIFICANT

COUNT = 10  # samples of a round
SLOWER = 1.05
AT_MOST = {"false alarms, 12 cells, 6 rounds, 2 %": 0.05, "missed, 12 cells, 6 rounds, 2 %": 0.2}


def called(
    generator: np.random.Generator,
    levels: Sequence[float],
    rounds: int,
    noises: Sequence[tuple[float, float]],
) -> list[bool]:
    """Which cells are called slower or faster. `levels`: what each cell takes in B as a multiple of A;
    `noises`: the standard deviations between its processes in A and in B."""
    pairs = []
    for level, (noise_a, noise_b) in zip(levels, noises, strict=True):
        a, b = (
            with_outliers(generator, processes(generator, rounds, COUNT, noise))
            for noise in (noise_a, noise_b)
        )
        pairs.append((a.tolist(), (level * b).tolist()))
    return [p <= SIGNIFICANT for p in holm([ratio.p_value for ratio in time_ratios(pairs)])]


def main() -> int:
    parser = figures.parser(__doc__)
    parser.add_argument("--comparisons", type=int, default=1000, help="of up to 12 cells (%(default)s)")
    arguments = parser.parse_args()
    found: dict[str, object] = {}
    for cells in (1, 12, 100):
        number = arguments.comparisons if cells <= 12 else arguments.comparisons // 5
        for rounds in (3, 4, 6, 10):
            for noise in (0.01, 0.02, 0.04):
                generator = np.random.default_rng(cells * 1000 + rounds)
                noises = [(noise, noise)] * cells
                name = f"{cells} cell{'s'[: cells > 1]}, {rounds} rounds, {100 * noise:g} %"
                alike, slower = [1.0] * cells, [SLOWER, *[1.0] * (cells - 1)]
                alarms = [any(called(generator, alike, rounds, noises)) for _ in range(number)]
                missed = [not called(generator, slower, rounds, noises)[0] for _ in range(number)]
                found[f"false alarms, {name}"] = float(np.mean(alarms))
                found[f"missed, {name}"] = float(np.mean(missed))
                print(name, np.mean(alarms), np.mean(missed), file=sys.stderr, flush=True)
    for rounds in (3, 6):
        for name, spread, factor in (("cells' noise differs", 0.7, 1), ("B twice as noisy", 0.0, 2)):
            generator = np.random.default_rng(rounds)
            alarms = []
            for _ in range(arguments.comparisons):
                own = 0.02 * np.exp(generator.normal(0, spread, 12))
                noises = [(noise, factor * noise) for noise in own]
                alarms.append(any(called(generator, [1.0] * 12, rounds, noises)))
            found[f"false alarms, 12 cells, {rounds} rounds, {name}"] = float(np.mean(alarms))
    return figures.conclude(found, AT_MOST, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
