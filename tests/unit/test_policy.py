"""Policies: the layers that they name, and their changes to a cfg's text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks import CLASSIFIER, DETECTOR, WEIGHTED

from harness.config.darknet_cfg import PRECISION_KEYS, key_of, lines_of, parse_cfg
from harness.config.policy import (
    AS_IS,
    BUILT_IN,
    OneLayerAtATime,
    Policy,
    Rule,
    Setting,
    applied,
    apply,
    check_kinds,
    expand,
    in_fp32_where_static,
    int8_use,
    select,
    settings,
)
from harness.config.policy_file import read_policy
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
    ["fp32=1", " fp16 = 1", "int8=0", "quantize=1", "\tin t8=1", "# int8=1", "", "clip=1", "#int8", ";x=1"]
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
    text = _in_weighted_sections("".join(lines))
    return text if draw(st.booleans()) else text.rstrip("\r\n")


def without_precisions(text: str) -> str:
    return "".join(line for line in lines_of(text) if key_of(line) not in PRECISION_KEYS).rstrip("\r\n")


def _in_weighted_sections(text: str) -> str:
    """Without the precision keys that the noise has put into other sections, where they are errors."""
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


@given(cfg_texts(), POLICIES)
def test_a_policy_changes_only_precision_keys(text: str, policy: Policy) -> None:
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


def test_int8_use_depends_on_the_precision_keys() -> None:
    def use(policy: str, quantize: bool) -> tuple[bool, bool, bool]:
        found = int8_use(
            applied(
                Policy(name="p", default=Setting(precision=policy, quantize=quantize)),
                parse_cfg(DETECTOR, "c"),
            )
        )
        return found.any, found.static, found.all_static

    assert use("fp32", False) == (False, False, False)
    assert use("int8", True) == (True, False, False)
    assert use("int8", False) == (True, True, True)
    assert use("int16", False) == (True, True, True)
    assert use(AS_IS, False) == (True, False, False)


INT8, FP16, FP32 = (Setting(precision=name) for name in ("int8", "fp16", "fp32"))


def named(*selectors: str) -> tuple[Rule, ...]:
    return tuple(Rule(selector=selector, setting=INT8, place="s:4") for selector in selectors)


@pytest.mark.parametrize(
    ("selectors", "layers"),
    [(("2-5",), [2, 3, 5]), (("first", "heads"), [0, 5, 11]), (("pointwise", "connected"), [3, 5, 11])],
)
def test_one_at_a_time_of_some_layers(selectors: tuple[str, ...], layers: list[int]) -> None:
    each = OneLayerAtATime(setting=INT8, default=FP32, rules=named(*selectors))
    assert [policy.name for policy in expand([each], CFG)] == [f"int8@{index}" for index in layers]


def test_layers_that_are_not_there_are_named_with_their_place() -> None:
    each = OneLayerAtATime(setting=INT8, default=FP32, rules=named("2-99"))
    with pytest.raises(
        ConfigurationError, match=r"s:4: policy int8@each-of-2-99: there is no layer 99 in net"
    ):
        expand([each], CFG)
    each = OneLayerAtATime(setting=INT8, default=FP32, rules=named("connected"))
    assert expand([each], CFG) == ()
    with pytest.raises(ConfigurationError, match=r"s:4: policy .*: there is no connected layer in net\.cfg"):
        check_kinds([each], [CFG])


def test_names_tell_policies_of_one_layer_apart() -> None:
    around = [OneLayerAtATime(setting=INT8, default=default) for default in (FP32, FP16)]
    dynamic = OneLayerAtATime(setting=Setting(precision="int8", quantize=True), default=FP16)
    own = OneLayerAtATime(setting=INT8, default=FP16, given_name="mine")
    policies = expand([*around, dynamic, own], CFG)
    assert [policy.name for policy in policies if "@2" in policy.name] == [
        "int8@2",
        "int8@2-in-fp16",
        "int8-dynamic@2-in-fp16",
        "mine@2",
    ]
    assert len({policy.name for policy in policies}) == len(policies) == 4 * len(WEIGHTED)


def test_a_layer_in_two_ranges_is_measured_once() -> None:
    ranges = [OneLayerAtATime(setting=INT8, default=FP32, rules=named(text)) for text in ("0-3", "2-5")]
    assert [policy.name for policy in expand(ranges, CFG)] == ["int8@0", "int8@2", "int8@3", "int8@5"]
    differing = [
        OneLayerAtATime(setting=INT8, default=default, rules=named(text), given_name="mine")
        for default, text in ((FP32, "0-3"), (FP16, "2-5"))
    ]
    with pytest.raises(ConfigurationError, match="two policies are called mine@2, and they differ"):
        expand(differing, CFG)


def test_layers_that_need_ranges_run_in_fp32_during_calibration() -> None:
    text = apply(
        read_policy("{default: int8, layers: {first: {precision: int8, quantize: 1}, last: fp16}}"), DETECTOR
    )
    layers = parse_cfg(in_fp32_where_static(text), "c").weighted
    assert [layer.precision for layer in layers] == ["int8", "fp32", "fp32", "fp32", "fp32", "fp16"]


def test_a_policy_of_the_command_line_is_written_as_in_a_sweep_file(tmp_path: Path) -> None:
    assert read_policy("int8") == BUILT_IN["int8"]
    text = "{default: int8, quantize: 1, layers: {first: fp32, 3-5: fp16}}"
    policy = read_policy(text)
    assert policy.default == Setting(precision="int8", quantize=True)
    assert [(rule.selector, rule.setting) for rule in policy.rules] == [("first", FP32), ("3-5", FP16)]
    (tmp_path / "mixed.yaml").write_text(
        "# for the Pi\nname: mixed\n" + text[1:-1].replace(", q", "\nq").replace(", l", "\nl")
    )
    found = read_policy(f"@{tmp_path / 'mixed.yaml'}")
    assert (found.name, found.default, found.rules) == ("mixed", policy.default, policy.rules)


@pytest.mark.parametrize(
    ("tflite", "keys"),
    [
        ("float16", ["fp16"]),
        ("dynamic-range", ["int8", "quantize"]),
        ("integer-with-float-fallback", ["int8"]),
        ("full-integer", ["int8"]),
        ("16x8", ["int16"]),
    ],
)
def test_a_quantisation_of_tensorflow_lite_has_the_nearest_precision(tflite: str, keys: list[str]) -> None:
    policy = read_policy(f"{{tflite: {tflite}}}")
    assert (policy.name, policy.tflite) == (f"tflite-{tflite}", tflite)
    written = [key_of(line) for line in lines_of(apply(policy, DETECTOR)) if key_of(line) in PRECISION_KEYS]
    assert written == keys * len(WEIGHTED)
    assert read_policy(f"{{name: own, tflite: {tflite}}}").name == "own"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{tflite: int8}", r"^--policy:1: unknown quantisation int8"),
        ("{tflite: 16x8, quantize: 1}", r"^--policy:1: unknown key quantize"),
        ("int9", r"^--policy:1: unknown policy int9\n  Did you mean int8\?"),
        ("{defalt: int8}", r"^--policy:1: unknown key defalt in a policy\n  Did you mean default\?"),
        ("{default: int8", r"^--policy:1: "),
        ("{each: int8}", r"^--policy:1: each gives several policies, and this option takes one"),
        ("{search: {}}", r"^--policy:1: search is for sweeps, and this option takes a known policy"),
        ("[int8]", r"^--policy:1: expected a policy: one of"),
        ("", r"^--policy:1: expected a policy: one of"),
        ("@gone.yaml", r"^gone\.yaml: no such file"),
    ],
)
def test_an_invalid_policy_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_policy(text)


def test_a_policy_without_a_name_is_named_by_its_place() -> None:
    with pytest.raises(ConfigurationError, match=r"^--policy:1: there is no layer 99 in net\.cfg"):
        settings(read_policy("{layers: {99: int8}}"), CFG)
