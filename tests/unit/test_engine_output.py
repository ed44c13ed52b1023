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
    read_json,
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


def test_what_the_engine_says_is_a_result() -> None:
    found = read_bench(bench(instructions=7, more="than is known"), ASKED, "mpe bench", seconds=1.0)
    assert (found.samples_ns, found.arena_bytes, found.instructions) == ([1000, 2000], 10, 7)
    assert [layer.type for layer in found.layers] == ["convolutional", "maxpool"]
    assert read_bench(bench(peak_rss_bytes=None), ASKED, "mpe bench").peak_rss_bytes is None
    assert read_digests(json.dumps({"digests": [DIGEST]}), 1, "mpe forward") == [DIGEST]


def test_as_many_samples_as_the_time_allows() -> None:
    asked = Asked(runs=2, min_seconds=0.01)
    assert len(read_bench(bench(samples_ns=[10**6] * 11), asked, "mpe bench").samples_ns) == 11
    with pytest.raises(ImplausibleResultError, match=r"14 samples, where 2 runs in 0\.01 s were asked for"):
        read_bench(bench(samples_ns=[10**6] * 14), asked, "mpe bench")
    assert Asked(runs=2, min_seconds=1e9).most_output < 1 << 30


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it printed nothing"),
        ("\n \n", "it printed nothing"),
        ("<html>", "its output is no JSON"),
        ("[1]", "a list of 1, and no JSON object"),
        ('{"a": 1e999}', 'its output holds "1e999"'),
        ('{"a": NaN}', "its output holds NaN"),
        ('{"a": -Infinity}', "its output holds -Infinity"),
        ('{"a": 1, "a": 2}', r'its output has the key \\"a\\" twice|its output has the key "a" twice'),
        ('{"a": ' + "9" * 5000 + "}", "a number of more than 4,300 digits"),
        ('{"a": ' + "[" * 9000 + "]" * 9000 + "}", "nested too deeply"),
        ('{"a": [' + "{}," * 30_000 + "{}]}", "more than 20000 objects"),
        (bench(samples_ns=[]), "samples_ns is empty"),
        (bench(samples_ns=[1000]), "1 samples, and 2 runs were asked for"),
        (bench(samples_ns=[1000] * 3_000_001), "3000001 samples, where 2 runs in 0 s were asked for"),
        (bench(samples_ns=[1000, 0]), r"samples_ns\[1\] is 0, and not a whole number from 100"),
        (bench(samples_ns=[1000, -5]), r"samples_ns\[1\] is -5"),
        (bench(samples_ns=[1000, 1]), r"samples_ns\[1\] is 1,"),
        (bench(samples_ns=[1000, 1.5e3]), r"samples_ns\[1\] is 1500\.0"),
        (bench(samples_ns=[1000, True]), r"samples_ns\[1\] is true"),
        (bench(samples_ns=[1000, "2000"]), r'samples_ns\[1\] is "2000"'),
        (bench(samples_ns=[1000, 1 << 63]), r"samples_ns\[1\] is 9223372036854775808"),
        (bench(samples_ns=[1000, 10**400]), r"samples_ns\[1\] is a number of more than 20 digits"),
        (bench(samples_ns=[1000, [2000]]), r"samples_ns\[1\] is a list of 1"),
        (bench(samples_ns={"0": 1000}), "samples_ns is an object of 1, and not a list"),
        (bench(samples_ns=[10**13, 10**13]), r"samples of 2e\+04 s, and it ran for 1 s"),
        (bench(samples_ns=MISSING), "samples_ns is missing"),
        (bench(arena_bytes=-1), "arena_bytes is -1"),
        (bench(arena_bytes=1 << 60), "arena_bytes is 1152921504606846976"),
        (bench(weight_bytes=None), "weight_bytes is null"),
        (bench(weight_bytes=MISSING), "weight_bytes is missing"),
        (bench(peak_rss_bytes="30"), 'peak_rss_bytes is "30"'),
        (bench(peak_rss_bytes=-30), "peak_rss_bytes is -30"),
        (bench(instructions=-1), "instructions is -1"),
        (bench(threads=64), "threads is 64, and not a whole number from 1 to 1"),
        (bench(isa="\ud800"), r'isa is "\\\\ud800", and not a word|isa is "\\ud800", and not a word'),
        (bench(isa="x" * 10_000), r"isa is \"x{39} …, and not a word"),
        (bench(isa={}), "isa is an object of 0"),
        (bench(layers=MISSING), "layers is missing"),
        (bench(layers={}), "layers is an object of 0, and not a list"),
        (bench(layers=[LAYER]), "1 layers, and the cfg has 2"),
        (bench(layers=[LAYER] * 2), r"layers\[1\]\.index is 0, and not a whole number from 1 to 1"),
        (bench(layers=[LAYER, 7]), r"layers\[1\] is 7, and no object"),
        (
            bench(layers=[LAYER, LAYER | {"index": 1}]),
            r"layers\[1\] is convolutional, and maxpool in the cfg",
        ),
        (layered(precision="int8"), r"layers\[0\] .* int8, and .*fp32"),
        (layered(executed="fp4"), r'layers\[0\]\.executed is "fp4", and not one of fp32, fp16, int8'),
        (layered(ns=10**9), r"layers\[0\]\.ns is 1000000000, and not a whole number from 0 to 2000"),
        (layered(ns=-1), r"layers\[0\]\.ns is -1"),
        (layered(conversion_ns=901), r"layers\[0\]\.conversion_ns is 901"),
        (layered(bytes=1e3), r"layers\[0\]\.bytes is 1000\.0"),
        (layered(type=None), r"layers\[0\]\.type is null"),
        (layered(algorithm="a\x1b[31mb"), r"layers\[0\]\.algorithm is"),
    ],
)
def test_what_cannot_be_is_no_result(text: str, said: str) -> None:
    with pytest.raises(ImplausibleResultError, match=said) as raised:
        read_bench(text, ASKED, "mpe bench on desk", seconds=1.0)
    assert raised.value.message.startswith("implausible result: mpe bench on desk: ")
    assert raised.value.message.isprintable()
    assert len(raised.value.message) < 300


def test_nothing_is_faster_than_its_multiply_adds_allow() -> None:
    asked = Asked(runs=2, threads=2, multiply_adds=10**9)
    slow = bench(samples_ns=[125_000, 130_000])
    assert read_bench(slow, asked, "mpe bench").samples_ns == [125_000, 130_000]
    with pytest.raises(ImplausibleResultError, match="and not a whole number from 125000"):
        read_bench(bench(samples_ns=[125_000, 124_999]), asked, "mpe bench")


@pytest.mark.parametrize(
    ("digests", "said"),
    [
        ([], "0 digests of 2 images"),
        ([DIGEST], "1 digests of 2 images"),
        ([DIGEST, "aa"], r'digests\[1\] is "aa", and no SHA-256'),
        ([DIGEST, DIGEST.upper()], r"digests\[1\] is .* and no SHA-256"),
        ([DIGEST, 5], r"digests\[1\] is 5, and no SHA-256"),
        ("ab", 'digests is "ab", and not a list'),
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


def test_bytes_that_are_no_json_are_no_result() -> None:
    chance, text = random.Random(6), bench()
    for _ in range(300):
        letters = list(text)
        letters[chance.randrange(len(letters))] = chance.choice('{}[]",:0-e\\\0\ud800 ')
        with_error = "".join(letters[: chance.randrange(1, len(letters) + 1)])
        try:
            read_json(with_error, "mpe")
        except ImplausibleResultError:
            continue
