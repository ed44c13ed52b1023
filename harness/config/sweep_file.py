"""The sweep file:

    models:
      - name: digits
        cfg: ../digits/digits.cfg              # paths are relative to this file
        weights: ../digits/digits.weights
        dataset: ../digits/data                # accuracy; without it only speed and memory are measured
        resize: stretch
        calibration: {images: 32, method: minmax}   # or the path of a calibration file
    policies: [fp32, fp16, int8, as-is, {name: mixed, default: int8, layers: {first: fp32, heads: fp16}}]
    targets: [host, pi4]                       # or a file of your own, as ./my-board.yaml
    toolchains: [zig, {toolchain: gcc, flags: -O2}]
    threads: [1, 2]
    protocol: {warmup: 3, runs: 10, min_seconds: 0.5}

Instead of threads and options, steps compare sets of them one after the other:

    steps:
      - {name: plain loops, algorithm: plain}
      - {name: everything, threads: 2, note: as the engine chooses}

`MATRIX` below is the one definition: it reads a file into the dataclasses and gives the JSON schema.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from harness.config.core_list import parse_cores
from harness.config.data_set_path import DataSetPath
from harness.config.document import Node, read_document
from harness.config.policy_file import PolicyShape
from harness.config.random_weights import random_weights_file
from harness.config.sweep import (
    Build,
    Calibration,
    EmulatedProtocol,
    Model,
    Options,
    Protocol,
    Step,
    Sweep,
    variants,
)
from harness.config.targets import TargetShape
from harness.config.validation import (
    Boolean,
    Choice,
    Either,
    ExistingPath,
    Field,
    Integer,
    Line,
    ListOf,
    Number,
    Record,
    Schema,
    Text,
    made_of,
)

P = TypeVar("P", bound=Protocol)

RUNTIMES = ("engine",)
TOOLCHAINS = ("zig", "gcc", "clang", "armclang")
QUANTIZERS = ("builtin", "tensorflow")
RESIZES = ("stretch", "letterbox", "crop")
METHODS = ("minmax", "percentile", "kl", "mse")
RANDOM = "random"
NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}"


def _make_sweep(node: Node, **values: Any) -> Sweep:
    file = Path(node.file)
    sweep = Sweep(file=file, **{"name": file.stem, **values})
    for key in ("models", "policies", "targets", "toolchains", "steps"):
        names: set[str] = set()
        items = node.entries[key].items if key in node.entries else ()
        for entry, item in zip(getattr(sweep, key), items, strict=bool(items)):
            if entry.name in names:
                raise item.error(f"the name {entry.name} is given to two of the {key}")
            names.add(entry.name)
    for key in ("threads", "options"):
        if sweep.steps and key in node.entries:
            raise node.error(f"a sweep with steps has no {key}: each step names its own", key=key)
    return sweep


_CALIBRATION = Record(
    what="a calibration",
    fields={
        "dataset": Field(
            shape=DataSetPath(),
            help="a data set, relative to this file (of a data.yaml its split train); else the model's own",
        ),
        "images": Field(
            shape=Integer(least=1, most=100_000), help="how many of its first images; 32 unless told"
        ),
        "method": Field(shape=Choice(what="method", names=lambda: METHODS), help="minmax unless told"),
    },
    make=made_of(Calibration),
)


class _Weights:
    """The path of a weights file, or `random`."""

    _path = ExistingPath(what="weights file")

    def read(self, node: Node) -> Path | None:
        return None if node.source == RANDOM else self._path.read(node)

    def schema(self) -> Schema:
        return self._path.schema()


def _make_model(node: Node, *, cfg: Path, weights: Path | None, **values: Any) -> Model:
    if weights is None and values.get("dataset"):
        raise node.error("random weights have no accuracy: leave out the dataset", key="dataset")
    return Model(
        cfg=cfg,
        weights=weights or random_weights_file(cfg),
        random_weights=weights is None,
        place=f"{node.file}:{node.line}",
        **values,
    )


_MODEL = Record(
    what="a model",
    fields={
        "name": Field(
            shape=Text(expected="a name of letters, digits and . _ - +", pattern=NAME),
            help="how reports call it",
            required=True,
        ),
        "cfg": Field(shape=ExistingPath(what="Darknet cfg"), help="Darknet cfg", required=True),
        "weights": Field(
            shape=_Weights(), help="Darknet weights, or `random` where only speed is measured", required=True
        ),
        "calibration": Field(
            shape=Either(short=ExistingPath(what="calibration file"), long=_CALIBRATION),
            help="a file of harness calibrate, or how to record the ranges",
        ),
        "dataset": Field(
            shape=DataSetPath(),
            help="a folder with images/ and YOLO labels/, a data.yaml (its split val, or data.yaml:test), "
            "COCO JSON, or ImageNet-style file names; relative to this file",
        ),
        "labels": Field(shape=ExistingPath(what="label list"), help="WordNet ids in output order"),
        "resize": Field(
            shape=Choice(what="resize", names=lambda: RESIZES), help="how pictures become inputs"
        ),
        "limit": Field(shape=Integer(least=1, most=10_000_000), help="evaluate the first so many images"),
    },
    make=_make_model,
)

_TOOLCHAIN = Choice(what="toolchain", names=lambda: TOOLCHAINS)


class _ToolchainName:
    """A toolchain without flags of its own."""

    def read(self, node: Node) -> Build:
        return Build(toolchain=_TOOLCHAIN.read(node))

    def schema(self) -> Schema:
        return _TOOLCHAIN.schema()


class _Flags:
    """Compiler flags, quoted as for a shell."""

    _line = Line(expected="compiler flags in one line")

    def read(self, node: Node) -> str:
        flags = self._line.read(node)
        try:
            shlex.split(flags)
        except ValueError as error:
            raise node.error(f"the flags {flags}: {error}") from None
        return flags

    def schema(self) -> Schema:
        return self._line.schema()


_BUILD = Either(
    short=_ToolchainName(),
    long=Record(
        what="a toolchain",
        fields={
            "toolchain": Field(shape=_TOOLCHAIN, help="the compiler", required=True),
            "flags": Field(shape=_Flags(), help="beside the project's own"),
        },
        make=made_of(Build),
    ),
)


class _Cores:
    """A list of cores, as the engine takes it."""

    _line = Line(expected="a list of cores, for example 0-3")

    def read(self, node: Node) -> str:
        text = self._line.read(node)
        try:
            parse_cores(text)
        except ValueError as error:
            raise node.error(
                f'expected {self._line.expected}, found "{text[:40]}": {error}',
                hint="Give cores and ranges with commas between them, as 0-3 or 0,2.",
            ) from None
        return text

    def schema(self) -> Schema:
        return self._line.schema()


_THREADS = Integer(least=1, most=256)
_OPTION_FIELDS = {
    "isa": Field(shape=Line(expected="the name of an instruction set"), help="as mpe caps lists them"),
    "algorithm": Field(shape=Line(expected="the name of an algorithm"), help="of convolutions"),
    "prefer": Field(
        shape=Choice(what="preference", names=lambda: ("speed", "memory")), help="of the planner"
    ),
    "tune": Field(
        shape=Boolean(),
        help="each convolution by the algorithm that is fastest on the board, measured once and kept "
        "there; else by a model of costs",
    ),
    "cores": Field(
        shape=_Cores(),
        help="the first ones for a thread each to stay on; else the system moves threads as it likes",
    ),
    "quantizer": Field(
        shape=Choice(what="quantizer", names=lambda: QUANTIZERS),
        help="who converts the inputs of layers with quantize=1; builtin unless told",
    ),
    "bn_epsilon": Field(shape=Number(least=0, most=1), help="of batch normalisation; 1e-5 unless told"),
}
_OPTIONS = Record(what="options", fields=_OPTION_FIELDS, make=made_of(Options))


def _make_step(_node: Node, *, name: str, note: str = "", threads: int = 1, **options: Any) -> Step:
    return Step(name=name, note=note, threads=threads, options=Options(**options))


_STEP = Record(
    what="a step",
    fields={
        "name": Field(shape=Line(expected="a few words"), help="how reports call it", required=True),
        "note": Field(shape=Text(expected="a sentence"), help="what it adds, printed below the table"),
        "threads": Field(shape=_THREADS, help="1 unless told"),
        **_OPTION_FIELDS,
    },
    make=_make_step,
)


def _protocol_of(kind: Callable[..., P]) -> Callable[..., P]:
    """A record's `make` for a protocol, whose rounds must have the time that they are asked to take."""

    def make(node: Node, **values: Any) -> P:
        protocol = kind(**values)
        seconds = protocol.min_seconds / protocol.rounds
        if seconds >= protocol.timeout:
            raise node.error(
                f"a round is to take {seconds:g} s or more (min_seconds by rounds), and is ended after "
                f"{protocol.timeout:g} s (timeout)",
                hint="Raise timeout, or the number of rounds, or lower min_seconds.",
                key="timeout" if "timeout" in node.entries else "min_seconds",
            )
        return protocol

    return make


_PROTOCOL_FIELDS = {
    "warmup": Field(shape=Integer(least=0, most=10_000), help="inferences before the first sample"),
    "runs": Field(shape=Integer(least=1, most=1_000_000), help="samples at least"),
    "min_seconds": Field(shape=Number(least=0, most=3600), help="seconds of samples at least"),
    "timeout": Field(shape=Number(least=1, most=86_400), help="seconds for one process on the board"),
}
_CONDITIONS = {
    "cool_below": Field(
        shape=Number(least=0, most=150), help="degrees Celsius that a board cools down to before a cell; 65"
    ),
    "cool_seconds": Field(shape=Number(least=0, most=86_400), help="but no longer than this; 300"),
    "rounds": Field(
        shape=Integer(least=1, most=1000),
        help="in which cells that differ in their policy alone take turns, sharing runs and seconds; 3",
    ),
    "reruns": Field(
        shape=Integer(least=0, most=100),
        help="of a cell's rounds whose board was throttled, and in place of others where times drift; 2",
    ),
}
_COUNT = Field(
    shape=Boolean(),
    help="on the host: count instructions under an emulator if the processor's counter is out of reach",
)
_IMAGES = Field(
    shape=Integer(least=0, most=1000), help="how many images are compared with the host by digest"
)

MATRIX = Record(
    what="a sweep",
    fields={
        "name": Field(
            shape=Text(expected="a name of letters, digits and . _ - +", pattern=NAME),
            help="of the results folder; the file's name unless told",
        ),
        "models": Field(shape=ListOf(what="models", item=_MODEL), help="what is run", required=True),
        "policies": Field(
            shape=ListOf(what="policies", item=PolicyShape()), help="precisions per layer", required=True
        ),
        "targets": Field(
            shape=ListOf(what="targets", item=TargetShape()), help="where it is run", required=True
        ),
        "runtimes": Field(
            shape=ListOf(what="runtimes", item=Choice(what="runtime", names=lambda: RUNTIMES)),
            help="what executes the model; engine unless told",
        ),
        "toolchains": Field(
            shape=ListOf(what="toolchains", item=_BUILD), help="what compiles the engine; zig unless told"
        ),
        "threads": Field(shape=ListOf(what="thread counts", item=_THREADS), help="1 unless told"),
        "options": Field(shape=ListOf(what="sets of options", item=_OPTIONS), help="choices of the engine"),
        "steps": Field(
            shape=ListOf(what="steps", item=_STEP),
            help="instead of threads and options: sets of them, each compared with the one before",
        ),
        "protocol": Field(
            shape=Record(
                what="the protocol",
                fields=_PROTOCOL_FIELDS | _CONDITIONS | {"count_instructions": _COUNT},
                make=_protocol_of(Protocol),
            ),
            help="how a cell is measured",
        ),
        "emulated": Field(
            shape=Record(
                what="the emulated protocol",
                fields=_PROTOCOL_FIELDS | {"images": _IMAGES},
                make=_protocol_of(EmulatedProtocol),
            ),
            help="how a cell is measured on an emulated board",
        ),
    },
    make=_make_sweep,
)


def read_sweep(path: Path) -> Sweep:
    """Reads and checks a sweep file. Raises ConfigurationError with file and line."""
    sweep = MATRIX.read(read_document(path))
    variants(sweep)
    return sweep


def json_schema() -> Schema:
    """The JSON schema of the sweep file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "harness sweep",
    } | MATRIX.schema()
