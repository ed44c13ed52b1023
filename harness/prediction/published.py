"""Times that were published for real boards, to hold predictions against: cfg/prediction/ncnn.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.config.document import Node, read_document
from harness.config.targets import Target, load_target
from harness.config.validation import Entry, Field, Integer, ListOf, MappingOf, Number, Record
from harness.resources import resource
from harness.sdk.wheels import WHEEL_SHAPE, WheelPin

_NAME = r"[A-Za-z0-9_.-]+"


@dataclass(frozen=True, kw_only=True)
class PublishedBoard:
    """What was measured on one kind of board."""

    target: Target
    wheel: WheelPin  # of the runtime, as it was about then
    one_thread_ms: Mapping[str, float]  # by network
    four_threads_ms: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Networks, and boards on which they were timed."""

    inputs: Mapping[str, int]  # width and height by network
    boards: tuple[PublishedBoard, ...]


_Times = tuple[WheelPin, dict[str, tuple[float, ...]]]  # both by network


def read_benchmark() -> Benchmark:
    """The one that ships."""
    return _SHAPE.read(read_document(resource("cfg", "prediction", "ncnn.yaml")))


def _board(_node: Node, *, wheel: WheelPin, published_ms: tuple[Entry[tuple[float, ...]], ...]) -> _Times:
    for entry in published_ms:
        if len(entry.value) != 2:
            raise entry.node.error(f"{entry.key} needs two times: of one thread and of four")
    return wheel, {entry.key: entry.value for entry in published_ms}


def _benchmark(node: Node, *, inputs: tuple[Entry[int], ...], boards: tuple[Entry[_Times], ...]) -> Benchmark:
    sizes = {entry.key: entry.value for entry in inputs}
    made = []
    for entry in boards:
        wheel, times = entry.value
        for name in times:
            if name not in sizes:
                raise node.error(f"{entry.key} has times of {name}, whose input is not known")
        made.append(
            PublishedBoard(
                target=load_target(entry.key),
                wheel=wheel,
                one_thread_ms={name: pair[0] for name, pair in times.items()},
                four_threads_ms={name: pair[1] for name, pair in times.items()},
            )
        )
    return Benchmark(inputs=sizes, boards=tuple(made))


_SHAPE: Record[Benchmark] = Record(
    what="a benchmark",
    make=_benchmark,
    fields={
        "inputs": Field(
            shape=MappingOf(
                what="inputs", item=Integer(least=1, most=4096), pattern=_NAME, expected="a network's name"
            ),
            help="width and height of each network's input",
            required=True,
        ),
        "boards": Field(
            shape=MappingOf(
                what="boards",
                pattern=_NAME,
                expected="a target",
                item=Record(
                    what="a board's times",
                    make=_board,
                    fields={
                        "wheel": Field(shape=WHEEL_SHAPE, help="the runtime", required=True),
                        "published_ms": Field(
                            shape=MappingOf(
                                what="times",
                                pattern=_NAME,
                                expected="a network's name",
                                item=ListOf(what="times", item=Number(least=0.001, most=1e6)),
                            ),
                            help="milliseconds of one thread and of four, by network",
                            required=True,
                        ),
                    },
                ),
            ),
            help="by target",
            required=True,
        ),
    },
)
