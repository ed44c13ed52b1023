"""What an engine prints is checked where it arrives: whatever it is, a result or an implausible one."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

from harness.runtimes.engine_output import (
    Asked,
    AskedLayer,
    ImplausibleResultError,
    read_bench,
    read_digests,
)

DIGEST = "0123456789abcdef" * 4
LAYER: dict[str, Any] = {
    "index": 0,
    "type": "convolutional",
    "precision": "fp32",
    "executed": "fp32",
    "isa": "neon",
    "algorithm": "gemm",
    "ns": 900,
    "conversion_ns": 0,
    "bytes": 64,
}
BENCH: dict[str, Any] = {
    "samples_ns": [1000, 2000],
    "median_ns": 1500,
    "min_ns": 1000,
    "arena_bytes": 10,
    "weight_bytes": 20,
    "peak_rss_bytes": 30,
    "instructions": None,
    "threads": 1,
    "isa": "neon",
    "layers": [LAYER, LAYER | {"index": 1, "type": "maxpool"}],
}
ASKED = Asked(runs=2, layers=[AskedLayer(type="convolutional", precision="fp32"), AskedLayer(type="maxpool")])
MISSING = object()


def bench(**more: object) -> str:
    return json.dumps({key: value for key, value in (BENCH | more).items() if value is not MISSING})


def layered(**more: object) -> str:
    return bench(layers=[LAYER | more, BENCH["layers"][1]])


def test_the_engines_output_is_a_result() -> None:
    found = read_bench(bench(instructions=7, more="than is known"), ASKED, "mpe bench", seconds=1.0)
    assert (found.samples_ns, found.arena_bytes, found.instructions) == ([1000, 2000], 10, 7)
    assert [layer.type for layer in found.layers] == ["convolutional", "maxpool"]
    assert read_bench(bench(peak_rss_bytes=None), ASKED, "mpe bench").peak_rss_bytes is None
    assert read_digests(json.dumps({"digests": [DIGEST]}), 1, "mpe forward") == [DIGEST]


def test_as_many_samples_as_the_time_allows() -> None:
    asked = Asked(runs=2, min_seconds=0.01)
    assert len(read_bench(bench(samples_ns=[10**6] * 11), asked, "mpe bench").samples_ns) == 11
    with pytest.raises(ImplausibleResultError, match=r"14 samples, but 2 runs in 0\.01 s were asked for"):
        read_bench(bench(samples_ns=[10**6] * 14), asked, "mpe bench")
    assert Asked(runs=2, min_seconds=1e9).most_output < 1 << 30


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it printed nothing"),
        ("\n \n", "it printed nothing"),
        ("<html>", "its output is not JSON"),
        ("[1]", "its output: Expected `object`, got `array`"),
        ('{"arena_bytes": 1e999}', "arena_bytes: Number out of range"),
        ('{"arena_bytes": NaN}', "its output is not JSON"),
        ('{"a": -Infinity}', "its output is not JSON"),
        ('{"arena_bytes": ' + "9" * 5000 + "}", "arena_bytes: Integer value out of range"),
        ('{"a": ' + "[" * 9000 + "]" * 9000 + "}", "nested too deeply"),
        ('{"layers": [' + "{}," * 30_000 + "{}]}", r"layers\[0\]: Object missing required field `index`"),
        (bench(samples_ns=[]), "samples_ns: Expected `array` of length >= 1"),
        (bench(samples_ns=[1000]), "1 samples, but 2 runs were asked for"),
        (bench(samples_ns=[1000] * 3_000_001), "3000001 samples, but 2 runs in 0 s were asked for"),
        (bench(samples_ns=[1000, 0]), r"samples_ns\[1\] is 0: no inference is faster than 100 ns"),
        (bench(samples_ns=[1000, -5]), r"samples_ns\[1\]: Expected `int` >= 0"),
        (bench(samples_ns=[1000, 1]), r"samples_ns\[1\] is 1:"),
        (bench(samples_ns=[1000, 1.5e3]), r"samples_ns\[1\]: Expected `int`, got `float`"),
        (bench(samples_ns=[1000, True]), r"samples_ns\[1\]: Expected `int`, got `bool`"),
        (bench(samples_ns=[1000, "2000"]), r"samples_ns\[1\]: Expected `int`, got `str`"),
        (bench(samples_ns=[1000, 1 << 63]), r"samples_ns\[1\]: Expected `int` <= 4611686018427387904"),
        (bench(samples_ns=[1000, 10**400]), r"samples_ns\[1\]: Expected `int` <= 4611686018427387904"),
        (bench(samples_ns=[1000, [2000]]), r"samples_ns\[1\]: Expected `int`, got `array`"),
        (bench(samples_ns={"0": 1000}), "samples_ns: Expected `array`, got `object`"),
        (bench(samples_ns=[10**13, 10**13]), r"samples of 2e\+04 s, but it ran for 1 s"),
        (bench(samples_ns=MISSING), "its output: Object missing required field `samples_ns`"),
        (bench(arena_bytes=-1), "arena_bytes: Expected `int` >= 0"),
        (bench(arena_bytes=1 << 60), "arena_bytes: Expected `int` <= 70368744177664"),
        (bench(weight_bytes=None), "weight_bytes: Expected `int`, got `null`"),
        (bench(weight_bytes=MISSING), "its output: Object missing required field `weight_bytes`"),
        (bench(peak_rss_bytes="30"), "peak_rss_bytes: Expected `int | null`, got `str`"),
        (bench(peak_rss_bytes=-30), "peak_rss_bytes: Expected `int` >= 0"),
        (bench(instructions=-1), "instructions: Expected `int` >= 1"),
        (bench(threads=64), "threads is 64, but 1 were asked for"),
        (bench(isa="\ud800"), "its output is not JSON: .*surrogate"),
        (bench(isa="x" * 10_000), "isa: Expected `str` matching regex"),
        (bench(isa={}), "isa: Expected `str`, got `object`"),
        (bench(layers=MISSING), "its output: Object missing required field `layers`"),
        (bench(layers={}), "layers: Expected `array`, got `object`"),
        (bench(layers=[LAYER]), "1 layers, but the cfg has 2"),
        (bench(layers=[LAYER] * 2), r"layers\[1\]\.index is 0"),
        (bench(layers=[LAYER, 7]), r"layers\[1\]: Expected `object`, got `int`"),
        (
            bench(layers=[LAYER, LAYER | {"index": 1}]),
            r"layers\[1\] is convolutional, but maxpool in the cfg",
        ),
        (layered(precision="int8"), r"layers\[0\] .* int8, but .*fp32"),
        (layered(executed="fp4"), r'layers\[0\]\.executed is "fp4": expected one of fp32, fp16, int8'),
        (layered(ns=10**9), r"layers\[0\]\.ns is 1000000000, but an inference took at most 2000"),
        (layered(ns=-1), r"layers\[0\]\.ns: Expected `int` >= 0"),
        (layered(conversion_ns=901), r"layers\[0\]\.conversion_ns is 901"),
        (layered(bytes=1e3), r"layers\[0\]\.bytes: Expected `int`, got `float`"),
        (layered(type=None), r"layers\[0\]\.type: Expected `str`, got `null`"),
        (layered(predicted_ns=5), "a board does not predict"),
        (layered(predicted_memory_ns=5), r"layers\[0\]\.predicted_memory_ns: a board does not predict"),
        (layered(algorithm="a\x1b[31mb"), r'layers\[0\]\.algorithm is "a.x1b\[31mb": expected a word'),
    ],
)
def test_implausible_output_is_refused(text: str, said: str) -> None:
    with pytest.raises(ImplausibleResultError, match=said) as raised:
        read_bench(text, ASKED, "mpe bench on desk", seconds=1.0)
    assert raised.value.message.startswith("implausible result: mpe bench on desk: ")
    assert raised.value.message.isprintable()
    assert len(raised.value.message) < 300


def test_nothing_is_faster_than_its_multiply_adds_allow() -> None:
    asked = Asked(runs=2, threads=2, multiply_adds=10**9)
    slow = bench(samples_ns=[125_000, 130_000])
    assert read_bench(slow, asked, "mpe bench").samples_ns == [125_000, 130_000]
    with pytest.raises(ImplausibleResultError, match="no inference is faster than 125000 ns"):
        read_bench(bench(samples_ns=[125_000, 124_999]), asked, "mpe bench")


@pytest.mark.parametrize(
    ("digests", "said"),
    [
        ([], "0 digests of 2 images"),
        ([DIGEST], "1 digests of 2 images"),
        ([DIGEST, "aa"], r"digests\[1\]: Expected `str` matching regex"),
        ([DIGEST, DIGEST.upper()], r"digests\[1\]: Expected `str` matching regex"),
        ([DIGEST, 5], r"digests\[1\]: Expected `str`, got `int`"),
        ("ab", "digests: Expected `array`, got `str`"),
    ],
)
def test_digests_are_hashes_of_each_image(digests: object, said: str) -> None:
    with pytest.raises(ImplausibleResultError, match=said):
        read_digests(json.dumps({"digests": digests}), 2, "mpe forward")


def test_any_json_is_a_result_or_an_implausible_one() -> None:
    """Values of all kinds in every place; each ends as a result or as ImplausibleResultError."""
    chance = random.Random(5)
    values: list[Any] = [None, True, -1, 0, 1 << 64, 1.5, math.pi, "", "\ud800", [], {}, [[1]], {"a": None}]

    def changed(value: Any) -> Any:
        if chance.random() < 0.1:
            return chance.choice(values)
        if isinstance(value, dict):
            return {key: changed(each) for key, each in value.items() if chance.random() > 0.02}
        return [changed(each) for each in value] if isinstance(value, list) else value

    refused = 0
    for _ in range(500):
        try:
            read_bench(json.dumps(changed(BENCH)), ASKED, "mpe bench", seconds=1.0)
        except ImplausibleResultError:
            refused += 1
    assert 300 < refused < 500


def test_output_that_is_not_json_is_refused() -> None:
    chance, text = random.Random(6), bench()
    for _ in range(300):
        letters = list(text)
        letters[chance.randrange(len(letters))] = chance.choice('{}[]",:0-e\\\0\ud800 ')
        with_error = "".join(letters[: chance.randrange(1, len(letters) + 1)])
        try:
            read_bench(with_error, ASKED, "mpe")
        except ImplausibleResultError:
            continue
