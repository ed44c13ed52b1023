"""The sweep file:

    models:
      - name: digits
        cfg: ../digits/digits.cfg              # paths are relative to this file
        weights: ../digits/digits.weights      # or, in place of both, model: a.onnx or a.tflite
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

`MATRIX` below is the only definition: it reads a file into the dataclasses and gives the JSON schema.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from harness.config.core_list import parse_cores
from harness.config.document import Node, read_document
from harness.config.policy import Searched
from harness.config.policy_file import PolicyShape
from harness.config.runtimes import RUNTIMES
from harness.config.sweep import (
    Build,
    EmulatedProtocol,
    Options,
    Protocol,
    Step,
    Sweep,
    variants,
)
from harness.config.sweep_models import MODEL, PLAIN_NAME, Importer, imported
from harness.config.targets import Target, TargetShape
from harness.config.validation import (
    Boolean,
    Choice,
    Either,
    Field,
    Integer,
    Line,
    ListOf,
    Number,
    Record,
    Schema,
    Text,
    Then,
    document_schema,
    from_dataclass,
)

P = TypeVar("P", bound=Protocol)

TOOLCHAINS = ("zig", "gcc", "clang", "armclang")
QUANTIZERS = ("builtin", "tensorflow")


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
    policies = tuple(
        _with_target(entry, sweep.targets, item) if isinstance(entry, Searched) else entry
        for entry, item in zip(sweep.policies, node.entries["policies"].items, strict=True)
    )
    sweep = replace(sweep, policies=policies)
    for key in ("threads", "options"):
        if sweep.steps and key in node.entries:
            raise node.error(f"a sweep with steps has no {key}: each step names its own", key=key)
    return sweep


def _with_target(entry: Searched, targets: Sequence[Target], node: Node) -> Searched:
    """The entry with the name of the target for whose board it searches."""
    names = [target.name for target in targets]
    name = entry.search.target
    if name and name not in names:
        raise node.entries["search"].error(
            f"the sweep has no target {name}", hint=f"Name one of {', '.join(names)}.", key="target"
        )
    if not name and len(names) > 1:
        raise node.entries["search"].error(
            "a search is for one target, and the sweep has several",
            hint=f"Name one of them: {{search: {{target: {names[0]}}}}}.",
        )
    return replace(entry, search=replace(entry.search, target=name or names[0]))


_TOOLCHAIN = Choice(what="toolchain", names=lambda: TOOLCHAINS)


def _checked_flags(node: Node, flags: str) -> str:
    try:
        shlex.split(flags)
    except ValueError as error:
        raise node.error(f"the flags {flags}: {error}") from None
    return flags


_BUILD = Either(
    short=Then(shape=_TOOLCHAIN, make=lambda _node, name: Build(toolchain=name)),
    long=Record(
        what="a toolchain",
        fields={
            "toolchain": Field(shape=_TOOLCHAIN, help="compiler", required=True, example="gcc"),
            "flags": Field(
                shape=Then(shape=Line(expected="compiler flags in one line"), make=_checked_flags),
                help="compiler flags beside the project's own, quoted as for a shell",
                example="-O2",
            ),
        },
        make=from_dataclass(Build),
    ),
)


def _checked_cores(node: Node, cores: str) -> str:
    try:
        parse_cores(cores)
    except ValueError as error:
        raise node.error(
            f'expected {_CORES}, found "{cores[:40]}": {error}',
            hint="Give cores and ranges with commas between them, as 0-3 or 0,2.",
        ) from None
    return cores


_CORES = "a list of cores, for example 0-3"
_THREADS = Integer(least=1, most=256)
_OPTION_FIELDS = {
    "isa": Field(
        shape=Line(expected="the name of an instruction set"),
        help="instruction set, as `mpe caps` lists them; the best of the board if absent",
        example="neon",
    ),
    "algorithm": Field(
        shape=Line(expected="the name of an algorithm"),
        help="algorithm of all convolutions; chosen for each layer if absent",
        example="winograd",
    ),
    "prefer": Field(
        shape=Choice(what="preference", names=lambda: ("speed", "memory")),
        help="what the choice of algorithms optimises for",
        default="speed",
        example="memory",
    ),
    "tune": Field(
        shape=Boolean(),
        help="choose the algorithm of each convolution by measuring it once on the board, not by estimating",
        default=False,
        example=True,
    ),
    "cores": Field(
        shape=Then(shape=Line(expected=_CORES), make=_checked_cores),
        help="cores to pin the threads to, one each; not pinned if absent",
        example="0-3",
    ),
    "quantizer": Field(
        shape=Choice(what="quantizer", names=lambda: QUANTIZERS),
        help="what converts the inputs of layers with quantize=1",
        default="builtin",
        example="tensorflow",
    ),
    "bn_epsilon": Field(
        shape=Number(least=0, most=1), help="epsilon of batch normalisation", default=1e-5, example=0.001
    ),
    "xnnpack": Field(
        shape=Boolean(),
        help="of litert: whether XNNPACK computes what it can, or LiteRT's own kernels everything",
        default=True,
        example=False,
    ),
}
_OPTIONS = Record(what="options", fields=_OPTION_FIELDS, make=from_dataclass(Options))


def _make_step(_node: Node, *, name: str, note: str = "", threads: int = 1, **options: Any) -> Step:
    return Step(name=name, note=note, threads=threads, options=Options(**options))


_STEP = Record(
    what="a step",
    defaults=Step,
    fields={
        "name": Field(
            shape=Line(expected="a few words"), help="name in reports", required=True, example="plain loops"
        ),
        "note": Field(
            shape=Text(expected="a sentence"),
            help="what the step adds, printed below the table",
            example="as the engine chooses",
        ),
        "threads": Field(shape=_THREADS, help="number of threads", example=2),
        **_OPTION_FIELDS,
    },
    make=_make_step,
)


def _protocol_of(kind: Callable[..., P]) -> Callable[..., P]:
    """A record's `make` for a protocol. Its timeout must be longer than a round."""

    def make(node: Node, **values: Any) -> P:
        protocol = kind(**values)
        seconds = protocol.min_seconds / protocol.rounds
        if seconds >= protocol.timeout:
            raise node.error(
                f"a round takes at least {seconds:g} s (min_seconds / rounds) but is killed after "
                f"{protocol.timeout:g} s (timeout)",
                hint="Raise timeout, or the number of rounds, or lower min_seconds.",
                key="timeout" if "timeout" in node.entries else "min_seconds",
            )
        return protocol

    return make


_PROTOCOL_FIELDS = {
    "warmup": Field(
        shape=Integer(least=0, most=10_000),
        help="inferences of each process before its first sample",
        example=5,
    ),
    "runs": Field(
        shape=Integer(least=1, most=1_000_000), help="minimum number of samples of a cell", example=30
    ),
    "min_seconds": Field(
        shape=Number(least=0, most=3600),
        help="minimum duration of all samples of a cell, in seconds",
        example=2,
    ),
    "timeout": Field(
        shape=Number(least=1, most=86_400),
        help="maximum duration of one process on the board, in seconds",
        example=1200,
    ),
}
_CONDITIONS = {
    "cool_below": Field(
        shape=Number(least=0, most=150),
        help="temperature that the board has to cool down to before a cell, in degrees Celsius",
        example=55,
    ),
    "cool_seconds": Field(
        shape=Number(least=0, most=86_400), help="maximum wait for that, in seconds", example=600
    ),
    "rounds": Field(
        shape=Integer(least=1, most=1000),
        help="number of processes that share the samples of a cell; cells that differ only in policy and "
        "runtime are interleaved",
        example=5,
    ),
    "reruns": Field(
        shape=Integer(least=0, most=100),
        help="maximum number of rounds to repeat because the board was throttled or times drifted",
        example=4,
    ),
}
_COUNT = Field(
    shape=Boolean(),
    help="on the host, count instructions under an emulator if the processor's own counter is not available",
    example=True,
)
_IMAGES = Field(
    shape=Integer(least=0, most=1000),
    help="number of images to compare with the host by digest",
    example=1,
)

MATRIX = Record(
    what="a sweep",
    fields={
        "name": Field(
            shape=PLAIN_NAME,
            help="name of the results folder; the file's name if absent",
            example="first-look",
        ),
        "models": Field(
            shape=ListOf(what="models", item=MODEL),
            help="networks to run",
            required=True,
            example=[
                {"name": "digits", "cfg": "../digits/digits.cfg", "weights": "../digits/digits.weights"}
            ],
        ),
        "policies": Field(
            shape=ListOf(what="policies", item=PolicyShape()),
            help="precisions per layer: fp32, fp16 or int8 for the whole network, as-is for the cfg's own "
            "keys, or a mapping",
            required=True,
            example=["fp32", "int8", {"name": "mixed", "default": "int8", "layers": {"first": "fp32"}}],
        ),
        "targets": Field(
            shape=ListOf(what="targets", item=TargetShape()),
            help="kinds of board to run on, as `harness targets` lists them, or paths of targets files",
            required=True,
            example=["host", "pi4"],
        ),
        "runtimes": Field(
            shape=ListOf(what="runtimes", item=Choice(what="runtime", names=lambda: tuple(RUNTIMES))),
            help="programs that execute the models",
            default=["engine"],
            example=["engine", "onnxruntime"],
        ),
        "toolchains": Field(
            shape=ListOf(what="toolchains", item=_BUILD),
            help="compilers of the engine, with flags where needed",
            default=["zig"],
            example=["zig", {"toolchain": "gcc", "flags": "-O2"}],
        ),
        "threads": Field(
            shape=ListOf(what="thread counts", item=_THREADS),
            help="numbers of threads",
            default=[1],
            example=[1, 4],
        ),
        "options": Field(
            shape=ListOf(what="sets of options", item=_OPTIONS),
            help="sets of options for the runtime, which chooses by itself where a key is absent; apart from "
            "cores and xnnpack they are the engine's",
            example=[{"isa": "neon"}, {"prefer": "memory"}],
        ),
        "steps": Field(
            shape=ListOf(what="steps", item=_STEP),
            help="instead of threads and options: sets of them, each compared with the one before",
            example=[{"name": "plain loops", "algorithm": "plain"}, {"name": "everything", "threads": 2}],
        ),
        "protocol": Field(
            shape=Record(
                what="the protocol",
                defaults=Protocol,
                fields=_PROTOCOL_FIELDS | _CONDITIONS | {"count_instructions": _COUNT},
                make=_protocol_of(Protocol),
            ),
            help="how a cell is measured",
            example={"runs": 30, "min_seconds": 2},
        ),
        "emulated": Field(
            shape=Record(
                what="the emulated protocol",
                defaults=EmulatedProtocol,
                fields=_PROTOCOL_FIELDS | {"images": _IMAGES},
                make=_protocol_of(EmulatedProtocol),
            ),
            help="how a cell is measured on an emulated board",
            example={"images": 2},
        ),
    },
    make=_make_sweep,
)


def read_sweep(path: Path, importer: Importer | None = None) -> Sweep:
    """Reads and checks a sweep file. Raises ConfigurationError with file and line.

    `importer` imports the models of other formats.
    """
    sweep: Sweep = MATRIX.read(read_document(path))
    sweep = replace(sweep, models=tuple(imported(model, importer) for model in sweep.models))
    variants(sweep)
    return sweep


def json_schema() -> Schema:
    """The JSON schema of the sweep file."""
    return document_schema("harness sweep file", MATRIX)
