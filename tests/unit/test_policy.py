"""Policies: which layers they name, and what they do to a cfg's text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks import CLASSIFIER, DETECTOR, WEIGHTED

from harness.configuration.darknet_cfg import PRECISION_KEYS, key_of, lines_of, parse_cfg
from harness.configuration.policy import (
    AS_IS,
    BUILT_IN,
    OneLayerAtATime,
    Policy,
    Rule,
    Setting,
    apply,
    check_kinds,
    expand,
    int8_use,
    select,
    settings,
)
from harness.errors import ConfigurationError

CFG = parse_cfg(DETECTOR, "net.cfg")

SELECTORS = {
    "0": [0],
    "2-5": [2, 3, 5],
    "convolutional_11": [11],
    "first": [0],
    "last": [11],
    "heads": [5, 11],
    "convolutional": WEIGHTED,
    "depthwise": [2],
    "pointwise": [3, 5, 11],
}


@pytest.mark.parametrize(("selector", "layers"), SELECTORS.items())
def test_selectors(selector: str, layers: list[int]) -> None:
    assert sorted(select(selector, CFG)) == layers


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("13", "there is no layer 13 in net.cfg: it has layers 0 to 12"),
        ("5-13", "there is no layer 13 in net.cfg: it has layers 0 to 12"),
        ("7-3", "Write 3-7"),
        ("6", "layer 6 of net.cfg is a yolo layer, which has no precision of its own"),
        ("6-7", "no layer from 6 to 7"),
        ("1", "The nearest layer that has one is 0 (convolutional)"),
        ("connected", "net.cfg has no connected layer"),
        ("convolutional_1", "Did you mean convolutional_11?"),
        ("heasd", "Did you mean heads?"),
        ("zzz", "Known are first, last, heads"),
    ],
)
def test_absent_layers_are_named_with_the_nearest(selector: str, message: str) -> None:
    policy = Policy(
        name="p",
        default=Setting(precision="fp32"),
        rules=(Rule(selector=selector, setting=Setting(precision="int8"), place="sweep.yaml:7"),),
    )
    with pytest.raises(ConfigurationError) as caught:
        settings(policy, CFG)
    assert str(caught.value).startswith("sweep.yaml:7: policy p: ")
    assert message in str(caught.value)


def test_the_last_rule_that_fits_counts() -> None:
    policy = Policy(
        name="p",
        default=Setting(precision="int8"),
        rules=(
            Rule(selector="convolutional", setting=Setting(precision="fp16")),
            Rule(selector="heads", setting=Setting(precision="int8", quantize=True)),
            Rule(selector="5", setting=Setting(precision=AS_IS)),
        ),
    )
    layers = parse_cfg(apply(policy, DETECTOR), "c").weighted
    assert [(layer.precision, layer.quantize) for layer in layers] == [
        *[("fp16", False)] * 3,
        ("fp32", False),  # as the cfg has it
        ("fp16", False),
        ("int8", True),
    ]


def test_as_is_leaves_the_text_alone() -> None:
    assert apply(BUILT_IN["as-is"], DETECTOR) == DETECTOR


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_whole_network(precision: str) -> None:
    layers = parse_cfg(apply(BUILT_IN[precision], DETECTOR), "c").weighted
    assert {layer.precision for layer in layers} == {precision}
    assert not any(layer.quantize for layer in layers)


def test_line_ends_and_foreign_bytes_are_kept() -> None:
    text = "[net]\r\n# caf\xe9\r\n[convolutional]\r\nfp16=1\r\nfilters=3\r\n[connected]"
    assert apply(BUILT_IN["int8"], text) == (
        "[net]\r\n# caf\xe9\r\n[convolutional]\r\nint8=1\r\nfilters=3\r\n[connected]\nint8=1\n"
    )


SETTINGS = st.builds(Setting, precision=st.sampled_from(["fp32", "fp16", AS_IS])) | st.builds(
    Setting, precision=st.just("int8"), quantize=st.booleans()
)
POLICIES = st.builds(
    Policy,
    name=st.just("p"),
    default=SETTINGS,
    rules=st.lists(
        st.builds(Rule, selector=st.sampled_from(sorted(SELECTORS)), setting=SETTINGS), max_size=4
    ).map(tuple),
)
REWRITING = POLICIES.filter(
    lambda policy: AS_IS not in {policy.default.precision, *(rule.setting.precision for rule in policy.rules)}
)
# The same network with precision keys, comments, blanks and line ends strewn over it.
NOISE = st.sampled_from(
    ["fp32=1", " fp16 = 1", "int8=0", "quantize=1", "\tin t8=1", "# int8=1", "", "burn_in=1", "int8", ";x=1"]
)
END = st.sampled_from(["\n", "\r\n"])


@st.composite
def cfg_texts(draw: st.DrawFn) -> str:
    lines = []
    for line in DETECTOR.splitlines():
        if re.match("fp|int8|quant", line):
            continue
        lines.append(line + draw(END))
        if line and not line.startswith("#"):
            lines += [noise + draw(END) for noise in draw(st.lists(NOISE, max_size=2))]
    text = "".join(lines)
    return text if draw(st.booleans()) else text.rstrip("\r\n")


def without_precisions(text: str) -> str:
    return "".join(line for line in lines_of(text) if key_of(line) not in PRECISION_KEYS).rstrip("\r\n")


def in_weighted_sections(text: str) -> str:
    """The noise may put precision keys into sections that have none: those are not a policy's business."""
    kept, weighted = [], False
    for line in lines_of(text):
        if line.startswith("["):
            weighted = line.startswith("[conv")
        if weighted or key_of(line) not in PRECISION_KEYS:
            kept.append(line)
    return "".join(kept)


@given(cfg_texts(), POLICIES)
def test_applying_twice_is_applying_once(text: str, policy: Policy) -> None:
    once = apply(policy, text)
    assert apply(policy, once) == once


@given(cfg_texts().map(in_weighted_sections), POLICIES)
def test_nothing_but_precision_keys_changes(text: str, policy: Policy) -> None:
    assert without_precisions(apply(policy, text)) == without_precisions(text)


@given(cfg_texts(), POLICIES, REWRITING)
def test_a_policy_can_be_undone_by_any_other(text: str, first: Policy, second: Policy) -> None:
    assert apply(second, apply(first, text)).rstrip() == apply(second, text).rstrip()


@given(cfg_texts(), REWRITING)
def test_the_cfg_asks_for_what_the_policy_says(text: str, policy: Policy) -> None:
    chosen = settings(policy, CFG)
    for layer in parse_cfg(apply(policy, text), "c").weighted:
        assert (layer.precision, layer.quantize) == (
            chosen[layer.index].precision,
            chosen[layer.index].quantize,
        )


def test_one_layer_at_a_time() -> None:
    each = OneLayerAtATime(setting=Setting(precision="int8"), default=Setting(precision="fp32"))
    policies = expand([each], CFG)
    assert [policy.name for policy in policies] == [f"int8@{index}" for index in WEIGHTED]
    for policy, index in zip(policies, WEIGHTED, strict=True):
        layers = parse_cfg(apply(policy, DETECTOR), "c").weighted
        assert [layer.index for layer in layers if layer.precision == "int8"] == [index]


def test_a_kind_may_be_absent_from_some_models_but_not_from_all() -> None:
    other = parse_cfg(CLASSIFIER, "classifier.cfg")
    rule = Rule(selector="connected", setting=Setting(precision="fp16"), place="s:3")
    policy = Policy(name="p", default=Setting(precision="int8"), rules=(rule,))
    check_kinds([policy], [CFG, other])
    assert expand([policy], CFG)[0].rules == ()
    assert expand([policy], other)[0].rules == (rule,)
    with pytest.raises(ConfigurationError, match=r"s:3: policy p: there is no connected layer in net\.cfg"):
        check_kinds([policy], [CFG])


def test_what_int8_needs() -> None:
    def use(policy: str, quantize: bool) -> tuple[bool, bool, bool]:
        found = int8_use(
            apply(Policy(name="p", default=Setting(precision=policy, quantize=quantize)), DETECTOR)
        )
        return found.any, found.static, found.all_static

    assert use("fp32", False) == (False, False, False)
    assert use("int8", True) == (True, False, False)
    assert use("int8", False) == (True, True, True)
    assert use(AS_IS, False) == (True, False, False)
