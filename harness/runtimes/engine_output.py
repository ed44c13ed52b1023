"""The engine's output as typed values, checked where it arrives.

An engine runs on a board, whose storage may be worn and whose programs may have been replaced. So its output
is input like any other: every value has its type and range, and all of them fit what was asked for. Otherwise
the result is implausible.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from harness.config.darknet_cfg import CFG_PRECISIONS
from harness.errors import CellsFailedError
from harness.runtimes.base import BenchResult, Bytes, Count, LayerResult
from harness.text import printable

_SHORTEST_NS = 100  # about the time of reading a clock twice
# Of one thread: several times the peak of any core, also with Winograd's algorithm.
_MULTIPLY_ADDS_PER_NS = 4000
# Clocks differ a little, and the engine starts before its samples.
_CLOCK_RATIO, _SLACK_SECONDS = 1.5, 10.0

# Samples of a microsecond, each four digits and a comma, take the most bytes per second.
_BYTES_PER_SECOND = 5_000_000
_FIXED_BYTES = 1 << 20
_LONGEST_OUTPUT = 256 << 20
_LONGEST_ERROR = 160  # characters
_PREDICTED = [field.name for field in fields(LayerResult) if field.name.startswith("predicted_")]
_WORD = r"\A[!-~]{1,64}\Z"  # printable ASCII without spaces

Printed = TypeVar("Printed")


class ImplausibleResultError(CellsFailedError):
    """A program on a board printed something that cannot be true."""

    def __init__(self, command: str, what: str) -> None:
        super().__init__(
            f"implausible result: {command}: {what}",
            hint="Check the board's storage and memory, and which program runs there.",
        )


@dataclass(frozen=True, kw_only=True)
class AskedLayer:
    """A layer of the cfg."""

    type: str
    precision: str = ""  # empty: any


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The request to `mpe bench` that its output has to fit."""

    runs: int
    min_seconds: float = 0.0
    threads: int = 1
    multiply_adds: int = 0  # of one inference
    layers: Sequence[AskedLayer] | None = None  # None: unknown

    @property
    def shortest_ns(self) -> int:
        """No inference is faster."""
        return max(_SHORTEST_NS, self.multiply_adds // (_MULTIPLY_ADDS_PER_NS * self.threads))

    @property
    def most_output(self) -> int:
        """The limit of the output in bytes."""
        needed = _FIXED_BYTES + 20 * self.runs + int(_BYTES_PER_SECOND * self.min_seconds)
        return min(needed, _LONGEST_OUTPUT)


@dataclass(frozen=True, kw_only=True)
class _Bench:
    samples_ns: Annotated[list[Count], Meta(min_length=1)]
    arena_bytes: Bytes
    weight_bytes: Bytes
    peak_rss_bytes: Bytes | None = None
    instructions: Annotated[int, Meta(ge=1, le=1 << 62)] | None = None
    threads: Annotated[int, Meta(ge=1)]
    isa: Annotated[str, Meta(pattern=_WORD)]
    layers: list[LayerResult]


@dataclass(frozen=True, kw_only=True)
class _Digests:
    digests: list[Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]]  # SHA-256


_BENCH = msgspec.json.Decoder(_Bench)
_DIGESTS = msgspec.json.Decoder(_Digests)


def read_bench(text: str, asked: Asked, command: str, *, seconds: float = math.inf) -> BenchResult:
    """The output of `mpe bench`, which ran for so many `seconds`; `command` is its name in errors.

    Raises ImplausibleResultError.
    """
    bench = decoded(text, _BENCH, command)
    wrong = wrong_samples(bench.samples_ns, asked, seconds) or _wrong_layers(bench, asked.layers)
    if bench.threads > asked.threads:
        wrong = wrong or f"threads is {bench.threads}, but {asked.threads} were asked for"
    if wrong:
        raise ImplausibleResultError(command, wrong)
    return BenchResult(
        samples_ns=bench.samples_ns,
        arena_bytes=bench.arena_bytes,
        weight_bytes=bench.weight_bytes,
        peak_rss_bytes=bench.peak_rss_bytes or None,
        instructions=bench.instructions,
        threads=bench.threads,
        isa=bench.isa,
        layers=bench.layers,
    )


def read_digests(text: str, images: int | None, command: str) -> list[str]:
    """The output of `mpe forward --digest` for this many images (None: unknown), one digest for each.

    Raises ImplausibleResultError.
    """
    digests = decoded(text, _DIGESTS, command).digests
    if not digests or (images is not None and len(digests) != images):
        raise ImplausibleResultError(command, f"{len(digests)} digests of {images or 'some'} images")
    return digests


def decoded(text: str, decoder: msgspec.json.Decoder[Printed], command: str) -> Printed:
    """The values of a program's JSON document. Raises ImplausibleResultError."""
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        where = path.strip(".`")
        what = f"{where}: {what}" if where else f"its output: {what}"
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        what = f"its output is not JSON: {error}" if text.strip() else "it printed nothing"
    except RecursionError:
        what = "its output is nested too deeply"
    shown = printable(what)
    cut = shown if len(shown) <= _LONGEST_ERROR else f"{shown[:_LONGEST_ERROR]} …"
    raise ImplausibleResultError(command, cut)


def wrong_samples(samples: Sequence[int], asked: Asked, seconds: float) -> str:
    """The first error; "" without one."""
    count, measured, shortest = len(samples), sum(samples) / 1e9, min(samples)
    if shortest < asked.shortest_ns:
        place = samples.index(shortest)
        return f"samples_ns[{place}] is {shortest}: no inference is faster than {asked.shortest_ns} ns"
    if count < asked.runs:
        return f"{count} samples, but {asked.runs} runs were asked for"
    # A program stops after the first run that fulfils both, so all but the last two are within the time.
    if count > asked.runs and sum(samples[:-2]) / 1e9 > asked.min_seconds:
        return f"{count} samples, but {asked.runs} runs in {asked.min_seconds:g} s were asked for"
    if measured > _CLOCK_RATIO * seconds + _SLACK_SECONDS:
        return f"samples of {measured:.4g} s, but it ran for {seconds:.4g} s"
    return ""


# Cached: hundreds of thousands of layers have the same few words. Types with patterns would take much longer.
@lru_cache(maxsize=1024)
def _wrong_words(kind: str, precision: str, executed: str, isa: str, algorithm: str) -> str:
    """The first error; "" without one."""
    words = {"type": kind, "precision": precision, "executed": executed, "isa": isa, "algorithm": algorithm}
    for name, word in words.items():
        if not re.search(_WORD, word):
            return f'{name} is "{printable(word)}": expected a word of printable ASCII'
    for name in ("precision", "executed"):
        if words[name] not in CFG_PRECISIONS:
            return f'{name} is "{words[name]}": expected one of {", ".join(CFG_PRECISIONS)}'
    return ""


def _wrong_layers(bench: _Bench, asked: Sequence[AskedLayer] | None) -> str:
    """The first error; "" without one."""
    longest = max(bench.samples_ns)
    for place, layer in enumerate(bench.layers):
        if layer.index != place:  # its time would be another layer's
            return f"layers[{place}].index is {layer.index}"
        if layer.ns > longest:
            return f"layers[{place}].ns is {layer.ns}, but an inference took at most {longest}"
        if layer.conversion_ns > layer.ns:
            return f"layers[{place}].conversion_ns is {layer.conversion_ns}, but ns is {layer.ns}"
        for name in _PREDICTED:
            if getattr(layer, name) is not None:
                return f"layers[{place}].{name}: a board does not predict"
        words = (layer.type, layer.precision, layer.executed, layer.isa, layer.algorithm)
        if wrong := _wrong_words(*words):
            return f"layers[{place}].{wrong}"
    if asked is None:
        return ""
    if len(bench.layers) != len(asked):
        return f"{len(bench.layers)} layers, but the cfg has {len(asked)}"
    for layer, wanted in zip(bench.layers, asked, strict=True):
        if layer.type != wanted.type:
            return f"layers[{layer.index}] is {layer.type}, but {wanted.type} in the cfg"
        if wanted.precision and layer.precision != wanted.precision:
            return f"layers[{layer.index}] has precision {layer.precision}, but {wanted.precision} in the cfg"
    return ""
