"""What the engine printed, as typed values: checked once, where it arrives.

An engine runs on a board, and what comes from there is input like any other: the storage may be worn, the
program replaced. So each value is of its type and within what can be, and all of them fit what was asked for;
else the result is implausible, and whoever asked has no result.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from harness.errors import CellsFailedError
from harness.runtimes.base import BenchResult, LayerResult
from harness.text import printable

_PRECISIONS = ("fp32", "fp16", "int8")
_MOST_BYTES = 1 << 46  # 64 TiB: more than any machine has
_MOST_COUNT = 1 << 62
_SHORTEST_NS = 100  # about what it takes to read a clock twice
_MULTIPLY_ADDS_A_NS = (
    4000  # of one thread: several times what any core reaches, also with Winograd's algorithm
)
_MOST_OBJECTS = 20_000  # an object a layer, and few lists
_WORD = re.compile(r"[!-~]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
# Clocks differ a little, and the engine starts before its samples: a lie is larger than this.
_CLOCKS_DIFFER, _SLACK_SECONDS = 1.5, 10.0

# An array of samples takes most bytes where these are short; one of a microsecond has four digits.
_BYTES_A_SECOND = 5_000_000
_FIXED_BYTES = 1 << 20
_LONGEST_OUTPUT = 256 << 20


class ImplausibleResultError(CellsFailedError):
    """A program on a board said what cannot be."""

    def __init__(self, command: str, what: str) -> None:
        super().__init__(
            f"implausible result: {command}: {what}",
            hint="Check the board's storage and memory, and what runs there in the engine's place.",
        )


@dataclass(frozen=True, kw_only=True)
class AskedLayer:
    """A layer as the cfg has it."""

    type: str
    precision: str = ""  # empty: any


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What `mpe bench` was asked for, and so what its answer has to fit."""

    runs: int
    min_seconds: float = 0.0
    threads: int = 1
    multiply_adds: int = 0  # of one inference
    layers: Sequence[AskedLayer] | None = None  # None: not known here

    @property
    def shortest_ns(self) -> int:
        """What no inference can be faster than."""
        return max(_SHORTEST_NS, self.multiply_adds // (_MULTIPLY_ADDS_A_NS * self.threads))

    @property
    def most_output(self) -> int:
        """Bytes that an answer may have."""
        needed = _FIXED_BYTES + 20 * self.runs + int(_BYTES_A_SECOND * self.min_seconds)
        return min(needed, _LONGEST_OUTPUT)


def read_bench(text: str, asked: Asked, command: str, *, seconds: float = math.inf) -> BenchResult:
    """What `mpe bench` printed, which ran for so many `seconds`; `command` is what it is called in errors.

    Raises ImplausibleResultError.
    """
    said = _Fields(read_json(text, command), None, command)
    samples = said.numbers("samples_ns", least=asked.shortest_ns)
    _check_samples(samples, asked, seconds, said)
    longest = max(samples)
    layers = [_layer(fields, place, longest) for place, fields in enumerate(said.objects("layers"))]
    if asked.layers is not None:
        _check_layers(layers, asked.layers, said)
    return BenchResult(
        samples_ns=samples,
        arena_bytes=said.whole("arena_bytes", most=_MOST_BYTES),
        weight_bytes=said.whole("weight_bytes", most=_MOST_BYTES),
        peak_rss_bytes=said.whole("peak_rss_bytes", most=_MOST_BYTES, optional=True) or None,
        instructions=said.whole("instructions", least=1, optional=True),
        threads=said.whole("threads", least=1, most=asked.threads),
        isa=said.word("isa"),
        layers=layers,
    )


def read_digests(text: str, images: int | None, command: str) -> list[str]:
    """What `mpe forward --digest` printed of so many images (None: not known), a digest each.

    Raises ImplausibleResultError.
    """
    said = _Fields(read_json(text, command), None, command)
    digests = said.items("digests")
    if not digests or (images is not None and len(digests) != images):
        said.fail(f"{len(digests)} digests of {images or 'some'} images")
    for place, digest in enumerate(digests):
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            said.fail(f"digests[{place}] is {_shown(digest)}, and no SHA-256")
    return digests


def read_json(text: str, command: str) -> dict[str, Any]:
    """The object that a program printed. Raises ImplausibleResultError for everything that is none, and for
    what JSON has no values for: NaN, infinite numbers, keys that stand twice."""

    def fail(what: str) -> NoReturn:
        raise ImplausibleResultError(command, what)

    def constant(word: str) -> NoReturn:
        fail(f"its output holds {word}, which is no number")

    def real(digits: str) -> float:
        value = float(digits)
        return (
            value if math.isfinite(value) else fail(f"its output holds {_shown(digits)}, which is too large")
        )

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
            fail(f"its output has the key {_shown(twice)} twice")
        return found

    if text.count("{") + text.count("[") > _MOST_OBJECTS:  # before any of them takes memory
        fail(f"its output holds more than {_MOST_OBJECTS} objects and lists")
    try:
        data = json.loads(text, parse_constant=constant, parse_float=real, object_pairs_hook=unique)
    except RecursionError:
        fail("its output is nested too deeply")
    except json.JSONDecodeError as error:
        fail(f"its output is no JSON: {error}" if text.strip() else "it printed nothing")
    except ValueError:  # of Python's limit for digits
        fail("its output holds a number of more than 4,300 digits")
    if not isinstance(data, dict):
        fail(f"its output is {_shown(data)}, and no JSON object")
    return data


class _Fields:
    """The fields of an object, each read with its type and range. Sentences are made for errors alone: a
    sweep reads hundreds of thousands of fields."""

    __slots__ = ("_command", "_fields", "_place")

    def __init__(self, fields: Mapping[str, Any], place: tuple[str, int] | None, command: str) -> None:
        self._fields = fields
        self._place = place  # key and index of a list; None for the whole
        self._command = command

    def fail(self, what: str) -> NoReturn:
        raise ImplausibleResultError(self._command, what)

    def _refused(self, key: str, wanted: str) -> ImplausibleResultError:
        name = f"{self._place[0]}[{self._place[1]}].{key}" if self._place else key
        if key not in self._fields:
            return ImplausibleResultError(self._command, f"{name} is missing: {wanted} was expected")
        shown = _shown(self._fields[key])
        return ImplausibleResultError(self._command, f"{name} is {shown}, and not {wanted}")

    def whole(self, key: str, *, least: int = 0, most: int = _MOST_COUNT, optional: bool = False) -> Any:
        """An integer; with `optional` also None, for null or a key that is not there."""
        value = self._fields.get(key)
        if type(value) is int and least <= value <= most:
            return value
        if optional and value is None:
            return None
        raise self._refused(key, f"a whole number from {least} to {most}")

    def word(self, key: str, words: Sequence[str] | None = None) -> str:
        """A word of printable ASCII, one of `words` if these are given."""
        value = self._fields.get(key)
        if isinstance(value, str) and (value in words if words else _is_word(value)):
            return value
        raise self._refused(key, f"one of {', '.join(words)}" if words else "a word")

    def items(self, key: str) -> list[Any]:
        value = self._fields.get(key)
        if isinstance(value, list):
            return value
        raise self._refused(key, "a list")

    def numbers(self, key: str, *, least: int) -> list[int]:
        """Integers, at least one."""
        values = self.items(key)
        if not values:
            self.fail(f"{key} is empty")
        for place, value in enumerate(values):
            if type(value) is not int or not least <= value <= _MOST_COUNT:
                self.fail(f"{key}[{place}] is {_shown(value)}, and not a whole number from {least}")
        return values

    def objects(self, key: str) -> list[_Fields]:
        found = []
        for place, value in enumerate(self.items(key)):
            if not isinstance(value, dict):
                self.fail(f"{key}[{place}] is {_shown(value)}, and no object")
            found.append(_Fields(value, (key, place), self._command))
        return found


@lru_cache(maxsize=1024)  # kinds, instruction sets and algorithms are few
def _is_word(text: str) -> bool:
    return _WORD.fullmatch(text) is not None


def _check_samples(samples: Sequence[int], asked: Asked, seconds: float, said: _Fields) -> None:
    count, measured = len(samples), sum(samples) / 1e9
    if count < asked.runs:
        said.fail(f"{count} samples, and {asked.runs} runs were asked for")
    # The engine ends with the first run after both: so all but the last two were within the time.
    if count > asked.runs and sum(samples[:-2]) / 1e9 > asked.min_seconds:
        said.fail(f"{count} samples, where {asked.runs} runs in {asked.min_seconds:g} s were asked for")
    if measured > _CLOCKS_DIFFER * seconds + _SLACK_SECONDS:
        said.fail(f"samples of {measured:.4g} s, and it ran for {seconds:.4g} s")


def _layer(fields: _Fields, place: int, longest_ns: int) -> LayerResult:
    # Of equal indices, or in another order, times would be another layer's.
    index = fields.whole("index", least=place, most=place)
    nanoseconds = fields.whole("ns", most=longest_ns)
    return LayerResult(
        index=index,
        type=fields.word("type"),
        precision=fields.word("precision", _PRECISIONS),
        executed=fields.word("executed", _PRECISIONS),
        isa=fields.word("isa"),
        algorithm=fields.word("algorithm"),
        ns=nanoseconds,
        conversion_ns=fields.whole("conversion_ns", most=nanoseconds),
        bytes=fields.whole("bytes", most=_MOST_BYTES),
    )


def _check_layers(layers: Sequence[LayerResult], asked: Sequence[AskedLayer], said: _Fields) -> None:
    if len(layers) != len(asked):
        said.fail(f"{len(layers)} layers, and the cfg has {len(asked)}")
    for layer, wanted in zip(layers, asked, strict=True):
        if layer.type != wanted.type:
            said.fail(f"layers[{layer.index}] is {layer.type}, and {wanted.type} in the cfg")
        if wanted.precision and layer.precision != wanted.precision:
            said.fail(
                f"layers[{layer.index}] has precision {layer.precision}, and {wanted.precision} in the cfg"
            )


def _shown(value: object) -> str:
    """A value as an error may show it: short, on one line."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a number of more than 20 digits"
    text = json.dumps(value)  # with what is no letter as an escape
    return printable(text if len(text) <= 40 else f"{text[:40]} …")
