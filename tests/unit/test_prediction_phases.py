"""What a layer's predicted time is spent on."""

from __future__ import annotations

from pathlib import Path

import pytest
from profiles import BOARD, NOP, write_profile

from harness.prediction.core_model import load_core_model
from harness.prediction.engine_run import LayerDescription
from harness.prediction.layer_figures import layer_figures
from harness.prediction.model import Costs, predict
from harness.prediction.parts import LayerParts
from harness.prediction.phases import Shares, block_shares, layer_parts
from harness.prediction.profile import INPUT_CONVERTED, LAYER_ENDED, RUN_ENDED, Profile, read_profile

PRODUCT = "fmla v0.4s, v1.4s, v2.s[0]"
PLAIN = "fmla v0.4s, v1.4s, v2.4s"
MAXIMUM = "fmax v0.4s, v0.4s, v3.4s"
COPY = ["ldr q0, [x0], #16", "str q0, [x1], #16", "subs x2, x2, #1", "b.ne #-12"]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([PRODUCT, PRODUCT, "ldr q1, [x0]", "mov v3.16b, v0.16b"], Shares(compute=1.0)),
        (["sdot v0.4s, v1.16b, v2.4b[1]"], Shares(compute=1.0)),
        (
            ["smull v0.8h, v1.8b, v2.8b", "smlal v0.8h, v3.8b, v4.8b", "sadalp v5.4s, v0.8h"],
            Shares(compute=1.0),
        ),
        ([PLAIN, "fmadd s0, s1, s2, s0"], Shares(compute=1.0)),
        (COPY, Shares()),
        (["fcvtl v0.4s, v0.4h", "fcvtl2 v1.4s, v0.8h"], Shares()),
        ([MAXIMUM, PLAIN, "fadd v0.4s, v0.4s, v1.4s"], Shares(activation=1.0)),
        (["fcvtns v0.4s, v0.4s", "sqxtn v0.4h, v0.4s"], Shares(activation=1.0)),
        # The last products of a sum and its activation, in one block; half a vector counts half.
        ([PRODUCT, PRODUCT, PRODUCT, MAXIMUM], Shares(compute=0.75, activation=0.25)),
        ([PRODUCT, "fmul v0.2s, v0.2s, v1.2s"], Shares(compute=2 / 3)),
    ],
)
def test_instructions_tell_what_a_block_does(texts: list[str], expected: Shares) -> None:
    found = block_shares(texts, winograd=False)
    assert found.compute == pytest.approx(expected.compute)
    assert found.activation == pytest.approx(expected.activation)


def test_constants_of_winograds_transforms_are_no_products_of_the_layer() -> None:
    assert block_shares([PLAIN], winograd=True) == Shares()
    assert block_shares([PRODUCT], winograd=True) == Shares(compute=1.0)


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """A layer that converts its input and then multiplies, packs and clamps, and one that only multiplies."""
    write_profile(
        tmp_path / "profile",
        [NOP, 2 * NOP, 3 * NOP],
        [
            (INPUT_CONVERTED + 4, 1, [(0, 100)]),
            (LAYER_ENDED + 4, 0, [(0, 200, (50, 0, 0), (0, 0, 0)), (1, 300), (2, 100)]),
            (LAYER_ENDED + 5, 0, [(0, 10)]),
            (RUN_ENDED, 0, [(0, 7)]),
        ],
    )
    return read_profile(tmp_path / "profile")


COSTS = Costs(blocks={0: 2.0, 1: 3.0, 2: 5.0}, line_fill=4.0)
TEXTS = {0: [PRODUCT], 1: COPY, 2: [MAXIMUM]}


def test_segments_of_conversions_belong_to_their_layer(profile: Profile) -> None:
    assert [(segment.layer, segment.converts) for segment in profile.segments] == [
        (4, True),
        (4, False),
        (5, False),
        (None, False),
    ]


def test_the_parts_of_a_layer_are_its_blocks_and_add_up_to_its_time(profile: Profile) -> None:
    parts = layer_parts(profile, COSTS, TEXTS, BOARD)
    kilocycle = 1e3 * 1e3 / BOARD.clock_hz  # in ms; the coefficient is 1
    assert parts[4].compute == pytest.approx((0.2 * 2 + 0.05 * 4) * kilocycle)
    assert parts[4].activation == pytest.approx(0.1 * 5 * kilocycle)
    assert parts[4].conversion == pytest.approx((0.3 * 3 + 0.1 * 2) * kilocycle)
    assert parts[4].memory == pytest.approx(1e3 * 0.5 * 64 / 2e9)
    assert (parts[5].compute, parts[5].conversion) == pytest.approx((0.01 * 2 * kilocycle, 0.0))
    layers = predict(profile, COSTS, BOARD).layers
    assert parts.keys() == layers.keys() == {4, 5}
    for index, part in parts.items():
        total = part.compute + part.activation + part.conversion + part.memory
        assert total == pytest.approx(layers[index])


def test_threads_share_all_but_memory(profile: Profile) -> None:
    one, two = (layer_parts(profile, COSTS, TEXTS, BOARD, threads=threads)[4] for threads in (1, 2))
    assert two.compute == pytest.approx(1.5 * one.compute / 2)  # of the coefficients for all cores
    assert two.memory == pytest.approx(2 * one.memory)


@pytest.mark.parametrize("part", ["compute", "activation", "conversion", "memory"])
def test_the_bound_is_the_largest_part(part: str) -> None:
    equal = LayerParts(compute=0.2, activation=0.2, conversion=0.2, memory=0.2)
    assert (equal + LayerParts(**{part: 0.1})).bound == part


@pytest.mark.parametrize(
    ("core", "precision", "features", "expected"),
    [
        ("cortex-a53", "fp32", ["neon"], 4),
        ("cortex-a72", "fp16", ["neon"], 4),
        ("cortex-a57", "int8", ["neon"], 8),
        ("carmel", "int8", ["neon", "fp16"], 16),
        ("cortex-a76", "fp32", ["neon", "fp16", "dotprod"], 8),
        ("cortex-a76", "fp16", ["neon", "fp16", "dotprod"], 16),
        ("cortex-a76", "int8", ["neon", "fp16", "dotprod"], 32),
    ],
)
def test_the_peak_follows_from_pipes_lanes_and_features(
    core: str, precision: str, features: list[str], expected: float
) -> None:
    assert load_core_model(core).peak(precision, features) == expected


def described(index: int, multiply_adds: int, executed: str = "int8") -> LayerDescription:
    return LayerDescription(
        index=index, type="t", executed=executed, isa="neon", algorithm="gemm", multiply_adds=multiply_adds
    )


def test_a_layer_is_compared_with_the_peak_of_its_precision() -> None:
    parts = {0: LayerParts(compute=1.0, activation=3.0), 1: LayerParts(conversion=0.5)}
    layers = [described(0, 8_000_000), described(1, 0), described(2, 5)]
    first, copy, absent = layer_figures(layers, parts, {"fp32": 8e9, "int8": 16e9})
    assert (first.predicted_ms, first.compute_ms, first.activation_ms) == (4.0, 1.0, 3.0)
    assert first.multiply_adds_per_second == pytest.approx(2e9)
    assert first.peak_fraction == pytest.approx(0.125)
    assert first.bound == "activation"
    assert (copy.predicted_ms, copy.bound, copy.peak_fraction) == (0.5, None, None)
    assert (absent.predicted_ms, absent.bound) == (None, None)
