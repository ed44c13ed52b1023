"""What the program for Python runtimes prints, as typed values, checked where it arrives."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from harness.errors import HarnessError
from harness.runtimes.base import BenchResult, Bytes, Count, LayerResult
from harness.runtimes.engine_output import Asked, ImplausibleResultError, decoded, wrong_samples
from harness.text import brief

_WORD = Annotated[str, Meta(pattern=r"\A[!-~]{1,64}\Z")]
_PRECISIONS = {"float": "fp32", "float16": "fp16", "uint8": "int8", "int8": "int8"}
UNKNOWN = "unknown"
_FAILED = re.compile(r"^failed: (.*)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class _Operator:
    type: _WORD
    computed: Annotated[str, Meta(pattern=r"\A[a-z0-9]{0,32}\Z")]  # the type of its first input
    provider: Annotated[str, Meta(pattern=r"\A[!-~]{0,64}\Z")]
    ns: Count


@dataclass(frozen=True, kw_only=True)
class _Bench:
    version: _WORD
    samples_ns: Annotated[list[Count], Meta(min_length=1)]
    threads: Annotated[int, Meta(ge=1)] | None  # that worked at a time, at least; None: too short to tell
    interpreter_rss_bytes: Bytes
    peak_rss_bytes: Bytes
    layers: Annotated[list[_Operator], Meta(max_length=100_000)]


@dataclass(frozen=True, kw_only=True)
class _Outputs:
    version: _WORD
    outputs: Annotated[int, Meta(ge=1)]
    images: Annotated[int, Meta(ge=1)]


_BENCH = msgspec.json.Decoder(_Bench)
_OUTPUTS = msgspec.json.Decoder(_Outputs)


def read_bench(text: str, asked: Asked, version: str, command: str, *, seconds: float) -> BenchResult:
    """The output of `bench`, which ran for so many `seconds`; `version` is that of the deployed runtime.

    Raises ImplausibleResultError.
    """
    bench = decoded(text, _BENCH, command)
    wrong = wrong_samples(bench.samples_ns, asked, seconds)
    if bench.version != version:
        wrong = wrong or f"the runtime's version is {bench.version}, and {version} was deployed"
    if (bench.threads or 0) > asked.threads:
        wrong = wrong or f"{bench.threads} threads worked at a time, but {asked.threads} were asked for"
    if bench.interpreter_rss_bytes > bench.peak_rss_bytes:
        wrong = wrong or "the interpreter alone has more memory than the whole process"
    if wrong:
        raise ImplausibleResultError(command, wrong)
    return BenchResult(
        samples_ns=bench.samples_ns,
        peak_rss_bytes=bench.peak_rss_bytes or None,
        interpreter_rss_bytes=bench.interpreter_rss_bytes or None,
        threads=bench.threads,
        layers=[_layer(index, operator) for index, operator in enumerate(bench.layers)],
    )


def check_outputs(text: str, images: int, version: str, command: str) -> int:
    """The number of outputs that `outputs` wrote. Raises ImplausibleResultError."""
    found = decoded(text, _OUTPUTS, command)
    if found.images != images or found.version != version:
        raise ImplausibleResultError(command, f"{found.images} images by version {found.version}")
    return found.outputs


def failure(status: int, stderr: str, *, command: str) -> HarnessError:
    """The error for a program that ended with `status` (negative: minus the signal's number)."""
    if status < 0:
        known = {each.value: each.name for each in signal.Signals}
        last = brief(stderr.strip().rpartition("\n")[2])  # what aborts says why
        by = known.get(-status, f"signal {-status}")
        return HarnessError(f"{command}: ended by {by}{': ' * bool(last)}{last}")
    found = _FAILED.search(stderr)
    said = brief(found[1] if found else stderr) or "nothing was said"
    return HarnessError(f"{command}: ended with status {status}: {said}")


def _layer(index: int, operator: _Operator) -> LayerResult:
    precision = _PRECISIONS.get(operator.computed, operator.computed or UNKNOWN)
    return LayerResult(
        index=index,
        type=operator.type,
        precision=precision,
        executed=precision,
        isa=UNKNOWN,
        algorithm=operator.provider or UNKNOWN,
        ns=operator.ns,
        conversion_ns=0,
        bytes=0,
    )
