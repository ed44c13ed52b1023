"""Decoders: what networks of each family put out for one object, and the choice of a decoder by shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import encoded_outputs as encoded
import numpy as np
import pytest
from encoded_outputs import CLASSES, HEIGHT, WIDTH, Floats, Object
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.accuracy.decoders.base import Network
from harness.accuracy.decoders.registry import KINDS, guessed_decoder, named_decoder
from harness.accuracy.decoders.ssd import tensorflow_priors
from harness.config.decoders import DECODERS
from harness.errors import ConfigurationError

NETWORK = Network(height=HEIGHT, width=WIDTH, names=CLASSES)
FACES = Network(height=HEIGHT, width=WIDTH)

CASES = [
    ("yolov5", encoded.yolov5, NETWORK),
    ("yolov8", encoded.yolov8, NETWORK),
    ("yolov8", encoded.yolov8_in_fractions, NETWORK),
    ("yolox", encoded.yolox, NETWORK),
    ("yolov10", encoded.yolov10, NETWORK),
    ("yolo_nas", encoded.yolo_nas, NETWORK),
    ("yolov5_heads", encoded.yolov5_heads, NETWORK),
    ("yolov5_heads", encoded.yolov5_heads_by_anchor, NETWORK),
    ("yolov8_heads", encoded.yolov8_heads, NETWORK),
    ("yolov8_heads", encoded.yolov8_heads_in_two, NETWORK),
    ("nanodet", encoded.nanodet, NETWORK),
    ("picodet", encoded.picodet, NETWORK),
    ("nanodet_plus", encoded.nanodet_plus, NETWORK),
    ("fastestdet", encoded.fastestdet, NETWORK),
    ("centernet", encoded.centernet, NETWORK),
    ("ssd", encoded.ssd, NETWORK),
    ("ultraface", encoded.ultraface, FACES),
    ("ultraface", encoded.ultraface_encoded, FACES),
    ("yunet", encoded.yunet, FACES),
    ("blazeface", encoded.blazeface, Network(height=WIDTH, width=WIDTH)),
]


def shapes(outputs: list[Floats]) -> list[tuple[int, ...]]:
    return [output.shape for output in outputs]


@pytest.mark.parametrize(
    ("word", "encode", "network"), [pytest.param(*case, id=case[1].__name__) for case in CASES]
)
@pytest.mark.parametrize(
    "seen", [Object(), Object(x=17.0, y=50.5, width=24.0, height=20.0, class_id=0, score=0.6)]
)
def test_an_object_is_read_as_it_was_written(
    word: str, encode: Callable[[Object], list[Floats]], network: Network, seen: Object
) -> None:
    outputs = encode(seen)
    chosen = guessed_decoder(shapes(outputs), network)
    assert chosen is not None
    assert (chosen.kind.word, chosen.guessed) == (word, True)
    found = chosen.decoder.candidates(outputs, 0.3)
    assert len(found.boxes) == 1
    unit = np.array([network.width, network.height] * 2)
    assert found.boxes[0] * unit == pytest.approx([seen.x, seen.y, seen.width, seen.height], abs=0.02)
    class_id = seen.class_id if chosen.decoder.classes > 1 else 0
    assert chosen.decoder.classes == (CLASSES if network is NETWORK else 1)
    assert found.probabilities[0].argmax() == class_id
    assert found.probabilities[0].max() == pytest.approx(seen.score, abs=1e-3)
    assert np.count_nonzero(found.probabilities) == 1
    assert not len(chosen.decoder.candidates(outputs, seen.score + 0.01).boxes)


@pytest.mark.parametrize(
    ("word", "encode", "network"), [pytest.param(*case, id=case[1].__name__) for case in CASES]
)
def test_a_batch_of_one_and_axes_of_one_change_nothing(
    word: str, encode: Callable[[Object], list[Floats]], network: Network
) -> None:
    outputs = encode(Object())
    wrapped = [output[:, None] if output.ndim == 2 else output for output in outputs]
    chosen = named_decoder(word, "x.cfg:1", shapes(wrapped), network)
    expected = named_decoder(word, "x.cfg:1", shapes(outputs), network).decoder.candidates(outputs, 0.3)
    assert np.array_equal(chosen.decoder.candidates(wrapped, 0.3).boxes, expected.boxes)


def test_every_decoder_has_a_case() -> None:
    # YOLOv6 and v7 share the arithmetic of YOLOv5: only the table's rows and the anchors differ.
    assert {kind.word for kind in KINDS} == {word for word, _, _ in CASES} | {"yolov6", "yolov7_heads"}


def test_the_page_lists_all_decoders() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "decoders.md").read_text(encoding="utf-8")
    listed = {}
    for row in re.findall(r"^\| `([a-z0-9_]+)` \|.*\| ([0-9.]*|none) \| ([0-9]*) ?\|$", page, re.MULTILINE):
        listed[row[0]] = row[1:]
    overlaps = {kind.word: "none" if kind.overlap is None else f"{kind.overlap:g}" for kind in KINDS}
    expected = {kind.word: (overlaps[kind.word], str(kind.most)) for kind in KINDS}
    assert listed == expected | {"classifier": ("none", ""), "none": ("none", "")}
    assert set(listed) == set(DECODERS)


def test_yolov7_has_other_anchors_than_yolov5() -> None:
    outputs = encoded.yolov5_heads(Object())
    found = [
        named_decoder(word, "x.cfg:1", shapes(outputs), NETWORK).decoder.candidates(outputs, 0.3).boxes[0]
        for word in ("yolov5_heads", "yolov7_heads")
    ]
    assert found[1][2:] / found[0][2:] == pytest.approx([76 / 62, 55 / 45], rel=1e-5)


def test_anchors_of_the_cfg_replace_the_familys() -> None:
    anchors = tuple(float(size) for size in range(1, 19))
    network = Network(height=HEIGHT, width=WIDTH, anchors=anchors)
    outputs = encoded.yolov5_heads(Object())
    found = named_decoder("yolov5_heads", "x.cfg:1", shapes(outputs), network).decoder.candidates(
        outputs, 0.3
    )
    assert found.boxes[0][2] * WIDTH == pytest.approx(30 / 62 * 9, abs=1e-3)


def test_yolov6_is_a_table_of_cells_with_objectness() -> None:
    seen = Object()
    count = encoded.rows(encoded.STRIDES)
    values = [seen.x, seen.y, seen.width, seen.height, 0.8, *encoded.one_hot(seen, 0.5)]
    outputs = [encoded.table(count, 5 + CLASSES, 3, values)]
    found = named_decoder("yolov6", "x.cfg:1", shapes(outputs), NETWORK).decoder.candidates(outputs, 0.3)
    assert found.boxes[0] * [WIDTH, HEIGHT, WIDTH, HEIGHT] == pytest.approx([70, 37, 30, 22])
    assert found.probabilities.max() == pytest.approx(0.4)


def test_names_tell_tensors_of_equal_channels_apart() -> None:
    heads = [(144, HEIGHT // stride, WIDTH // stride) for stride in (8, 16, 32)]  # 64 + 80, or 3 * (5 + 43)
    words = {}
    for names in (None, 80, 43):
        chosen = guessed_decoder(heads, Network(height=HEIGHT, width=WIDTH, names=names))
        assert chosen is not None
        words[names] = chosen.kind.word
    assert words == {None: "yolov8_heads", 80: "yolov8_heads", 43: "yolov5_heads"}


def test_columns_of_masks_follow_the_named_classes() -> None:
    seen = Object()
    outputs = encoded.yolov8(seen)
    with_masks = [np.concatenate([outputs[0], np.ones((32, outputs[0].shape[1]), np.float32)])]
    chosen = named_decoder("yolov8", "x.cfg:1", shapes(with_masks), NETWORK)
    assert chosen.decoder.classes == CLASSES
    assert len(chosen.decoder.candidates(with_masks, 0.3).boxes) == 1


def test_generated_priors_are_those_of_tensorflows_detector() -> None:
    priors = tensorflow_priors(Network(height=300, width=300))
    assert priors.shape == (1917, 4)
    # 0.1 of the picture, then scale 0.2 with the ratios 2 and 1/2, in the first of 19 x 19 cells.
    first = [[0.1, 0.1], [0.2 * math.sqrt(2), 0.2 / math.sqrt(2)], [0.2 / math.sqrt(2), 0.2 * math.sqrt(2)]]
    assert priors[:3, 2:].tolist() == [pytest.approx(size, abs=1e-6) for size in first]
    assert priors[-1].tolist() == pytest.approx([0.5, 0.5, math.sqrt(0.95), math.sqrt(0.95)], abs=1e-6)


def test_a_decoder_that_does_not_fit_names_those_that_do() -> None:
    outputs = encoded.nanodet(Object())
    with pytest.raises(ConfigurationError) as error:
        named_decoder("yolov8", "net.cfg:7", shapes(outputs), NETWORK)
    assert error.value.message.startswith("net.cfg:7: the decoder yolov8")
    assert "128x5, 32x5, 8x5, 128x32, 32x32, 8x32" in error.value.message
    assert error.value.hint == "These fit: nanodet."
    with pytest.raises(ConfigurationError, match=r'net.cfg:7: unknown decoder "yolo99"'):
        named_decoder("yolo99", "net.cfg:7", shapes(outputs), NETWORK)


sizes = st.one_of(
    st.integers(1, 9),
    st.sampled_from([1, 2, 4, 8, 16, 32, 64, 84, 85, 144, 168, 255, 300, 504, 896, 1000]),
)


@settings(max_examples=300)
@given(
    st.lists(st.lists(sizes, min_size=1, max_size=4).map(tuple), min_size=1, max_size=6),
    st.one_of(st.none(), st.integers(1, 90)),
    st.integers(0, 2**32 - 1),
)
def test_any_outputs_are_read_without_a_crash(
    given_shapes: list[tuple[int, ...]], names: int | None, seed: int
) -> None:
    """A decoder that fits by shape takes any values: a bad network gives infinities and NaN."""
    network = Network(height=HEIGHT, width=WIDTH, names=names)
    given_shapes = [shape if math.prod(shape) < 100_000 else shape[:1] for shape in given_shapes]
    random = np.random.default_rng(seed)
    outputs = [random.normal(size=shape).astype(np.float32) * 50 for shape in given_shapes]
    outputs[0].flat[0] = np.nan
    outputs[0].flat[-1] = np.inf
    for kind in KINDS:
        decoder = kind.read(given_shapes, network)
        if decoder is not None:
            with np.errstate(all="ignore"):
                found = decoder.candidates(outputs, 0.25)
            assert found.boxes.shape == (len(found.probabilities), 4)
            assert found.probabilities.shape[1] == decoder.classes
