"""Times that ncnn publishes for real boards: ncnn.yaml in this folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from harness.config.targets import Target, load_target
from harness.errors import ConfigurationError
from harness.sdk.packages import Packages
from harness.sdk.wheels import WheelPin

_FILE = Path(__file__).with_name("ncnn.yaml")


@dataclass(frozen=True, kw_only=True)
class PublishedBoard:
    """Times measured on one kind of board."""

    target: Target
    packages: Packages  # the version of ncnn nearest to the date of the measurement
    one_thread_ms: Mapping[str, float]  # by network
    four_threads_ms: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Networks, and the boards on which they were timed."""

    inputs: Mapping[str, int]  # width and height of the input in pixels, by network
    boards: tuple[PublishedBoard, ...]

    def only(self, networks: Collection[str]) -> Benchmark:
        """The benchmark of some of its networks. Raises ConfigurationError for others."""
        if unknown := [name for name in networks if name not in self.inputs]:
            raise ConfigurationError(
                f"no times are published for the network {unknown[0]}",
                hint=f"Networks with published times: {', '.join(self.inputs)}.",
            )
        return Benchmark(
            inputs={name: size for name, size in self.inputs.items() if name in networks},
            boards=tuple(
                replace(
                    board,
                    one_thread_ms=_of(board.one_thread_ms, networks),
                    four_threads_ms=_of(board.four_threads_ms, networks),
                )
                for board in self.boards
            ),
        )


def _of(times: Mapping[str, float], networks: Collection[str]) -> dict[str, float]:
    return {name: time for name, time in times.items() if name in networks}


def read_benchmark() -> Benchmark:
    """The benchmark in this folder."""
    document = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return Benchmark(
        inputs=document["inputs"],
        boards=tuple(_board(name, board) for name, board in document["boards"].items()),
    )


def _board(target: str, board: Mapping[str, Any]) -> PublishedBoard:
    times = {network: (float(one), float(four)) for network, (one, four) in board["published_ms"].items()}
    wheel = WheelPin(**board["wheel"])
    return PublishedBoard(
        target=load_target(target),
        packages=Packages(version=wheel.version, wheels=(wheel,)),
        one_thread_ms={network: one for network, (one, _) in times.items()},
        four_threads_ms={network: four for network, (_, four) in times.items()},
    )
