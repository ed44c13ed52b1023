"""How a sweep file writes a policy:

fp32 | fp16 | int8                    the whole network
as-is                                 the cfg's own keys
{name: mixed, default: int8, layers: {first: fp32, heads: fp16, "3-5": {precision: int8, quantize: 1}}}
{each: int8, default: fp32}           one policy per layer: this one in int8, the others in fp32
{each: int8, layers: 100-129}         the same for some of the layers
{tflite: 16x8}                        a file of TensorFlow Lite, as its converter quantises it
{search: {max_drop: 0.3}}             what `harness search` finds within these limits

The option --policy of other commands takes the forms that give one policy.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.config.darknet_cfg import PRECISIONS
from harness.config.document import Node, parse_document, read_document
from harness.config.duration import DURATION, seconds_of
from harness.config.policy import (
    AS_IS,
    BUILT_IN,
    KINDS,
    PLACES,
    SELECTOR,
    TFLITE,
    OneLayerAtATime,
    Policy,
    PolicyEntry,
    Rule,
    Searched,
    SearchSettings,
    Setting,
)
from harness.config.validation import (
    Choice,
    Either,
    Entry,
    Field,
    Integer,
    ListOf,
    MappingOf,
    Number,
    Record,
    Schema,
    Text,
    Then,
    from_dataclass,
)

_PRECISION = Choice(what="precision", names=lambda: PRECISIONS)
_PRECISION_OR_AS_IS = Choice(what="precision", names=lambda: (*PRECISIONS, AS_IS))
_BIT = Integer(least=0, most=1)
_QUANTIZE = Field(
    shape=_BIT,
    help="for int8: 1 measures the range of a layer's input at run time, 0 takes the calibrated range",
    default=0,
    example=1,
)


def _make_setting(node: Node, precision: str, quantize: int | None = None) -> tuple[str, bool | None]:
    if quantize is not None and precision != "int8":
        raise node.error(f"quantize belongs to int8, not to {precision}", key="quantize")
    return precision, None if quantize is None else bool(quantize)


_A_LAYER = (
    "a layer: write an index (12), a range (3-7), a name (convolutional_12), a kind "
    f"({', '.join(KINDS)}) or a place ({', '.join(PLACES)})"
)
_LAYERS = MappingOf(
    what="layers to precisions",
    pattern=SELECTOR,
    expected=_A_LAYER,
    item=Either(
        short=Then(
            shape=_PRECISION_OR_AS_IS,
            make=lambda _node, precision: (precision, None),  # the policy decides whether to quantize
        ),
        long=Record(
            what="a layer's precision",
            fields={
                "precision": Field(
                    shape=_PRECISION, help="precision of these layers", required=True, example="int8"
                ),
                "quantize": replace(
                    _QUANTIZE, help=f"{_QUANTIZE.help}; the policy's own if absent", default=None
                ),
            },
            make=_make_setting,
        ),
    ),
)


def _make_policy(
    node: Node,
    name: str = "",
    default: str = "fp32",
    quantize: int | None = None,
    layers: tuple[Entry[tuple[str, bool | None]], ...] = (),
) -> Policy:
    if name in BUILT_IN:
        raise node.entries["name"].error(f"the name {name} is taken by the policy that comes with harness")

    def setting(precision: str, own: bool | None) -> Setting:
        dynamic = bool(quantize) if own is None else own
        return Setting(precision=precision, quantize=dynamic and precision == "int8")

    rules = tuple(
        Rule(
            selector=entry.key,
            setting=setting(*entry.value),
            place=f"{entry.node.file}:{entry.node.line}",
        )
        for entry in layers
    )
    if quantize is not None and "int8" not in (default, *(rule.setting.precision for rule in rules)):
        raise node.error("quantize is set, but no layer of this policy is int8", key="quantize")
    return Policy(name=name, default=setting(default, None), rules=rules)


class _Selectors:
    """One selector of layers, or a list of some."""

    _one = Text(expected=_A_LAYER, pattern=SELECTOR)
    _many = ListOf(what="layers", item=_one)

    def read(self, node: Node) -> tuple[Rule, ...]:
        read = self._many.read(node) if node.kind == "list" else (self._one.read(node),)
        places = node.items if node.kind == "list" else (node,)
        return tuple(
            Rule(selector=selector, setting=Setting(precision=AS_IS), place=f"{place.file}:{place.line}")
            for selector, place in zip(read, places, strict=True)
        )

    def schema(self) -> Schema:
        return {"anyOf": [self._one.schema(), {"type": "integer", "minimum": 0}, self._many.schema()]}


def _make_each(
    node: Node,
    each: str,
    name: str = "",
    default: str = "fp32",
    quantize: int | None = None,
    layers: tuple[Rule, ...] = (),
) -> OneLayerAtATime:
    if quantize is not None and each != "int8":
        raise node.error(f"quantize belongs to int8, not to {each}", key="quantize")
    if each == default:
        raise node.error(f"each layer would be {each} as all others are", key="each")
    setting = Setting(precision=each, quantize=bool(quantize))
    return OneLayerAtATime(
        given_name=name,
        setting=setting,
        default=Setting(precision=default),
        rules=tuple(replace(rule, setting=setting) for rule in layers),
    )


_NAME = Text(expected="a name of letters, digits and . _ - +", pattern=r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_EACH: Record[PolicyEntry] = Record(
    what="a one-layer-at-a-time policy",
    fields={
        "name": Field(
            shape=_NAME,
            help="name in reports, followed by @ and the layer: NAME@5; if absent int8@5 or int8@5-in-fp16",
            example="alone",
        ),
        "each": Field(
            shape=_PRECISION,
            help="precision of one layer at a time, which gives a policy for each layer",
            required=True,
            example="int8",
        ),
        "layers": Field(
            shape=_Selectors(), help="layers to do this for; all if absent", example=["0-9", "heads"]
        ),
        "default": Field(
            shape=_PRECISION_OR_AS_IS,
            help="precision of all other layers; as-is keeps the cfg's own keys",
            default="fp32",
            example="fp16",
        ),
        "quantize": _QUANTIZE,
    },
    make=_make_each,
)


def _make_tflite(_node: Node, tflite: str, name: str = "") -> Policy:
    return Policy(name=name or f"tflite-{tflite}", default=TFLITE[tflite], tflite=tflite)


_TFLITE: Record[PolicyEntry] = Record(
    what="a post-training quantisation of TensorFlow Lite",
    fields={
        "name": Field(
            shape=_NAME, help="name in reports; tflite- and the quantisation if absent", example="wide"
        ),
        "tflite": Field(
            shape=Choice(what="quantisation", names=lambda: tuple(TFLITE)),
            help="post-training quantisation of TensorFlow Lite's converter, for the runtimes that execute "
            "its files",
            required=True,
            example="16x8",
        ),
    },
    make=_make_tflite,
)
_A_TIME = "a time, for example 90s, 20m or 1h"


def _make_seconds(node: Node, text: str) -> float:
    try:
        return seconds_of(text)
    except ValueError as error:
        raise node.error(str(error)) from None


_PERCENT = Number(least=0, most=100)
_SEARCH = Record(
    what="a search",
    defaults=SearchSettings,
    fields={
        "target": Field(
            shape=Text(expected="the name of a target of the sweep"),
            help="target of the sweep for whose board to search; needed if there are several",
            example="pi4",
        ),
        "threads": Field(
            shape=Integer(least=1, most=256), help="threads of an inference of the search", example=4
        ),
        "max_drop": Field(
            shape=_PERCENT, help="points of accuracy to lose at most against fp32", example=0.3
        ),
        "min_agreement": Field(
            shape=_PERCENT, help="percent of fp32's own results that the policy gives as well", example=99
        ),
        "min_fps": Field(
            shape=Number(least=1e-3, most=1e6), help="frames per second to reach at least", example=10
        ),
        "max_memory": Field(
            shape=Number(least=1e-3, most=1e6), help="memory to use at most, in MiB", example=8
        ),
        "budget": Field(
            shape=Then(shape=Text(expected=_A_TIME, pattern=DURATION), make=_make_seconds),
            help="time after which the search ends, as 90s, 20m or 1h",
            example="10m",
        ),
    },
    make=from_dataclass(SearchSettings),
)


def _make_searched(node: Node, search: SearchSettings, name: str = "searched") -> Searched:
    if name in BUILT_IN:
        raise node.entries["name"].error(f"the name {name} is taken by the policy that comes with harness")
    return Searched(name=name, search=search)


_SEARCHED: Record[PolicyEntry] = Record(
    what="a searched policy",
    fields={
        "name": Field(shape=_NAME, help="name in reports", default="searched", example="within-0.3"),
        "search": Field(
            shape=_SEARCH,
            help="limits within which to search the fastest precisions of each model; {} for the defaults",
            required=True,
            example={"max_drop": 0.3, "budget": "10m"},
        ),
    },
    make=_make_searched,
)
# Kinds of entry that are mappings, by the key that tells them apart.
_KINDS: dict[str, Record[PolicyEntry]] = {"each": _EACH, "tflite": _TFLITE, "search": _SEARCHED}

_NAMED = Record(
    what="a policy",
    fields={
        "name": Field(shape=_NAME, help="name in reports", required=True, example="mixed"),
        "default": Field(
            shape=_PRECISION_OR_AS_IS,
            help="precision of the layers that `layers` does not name; as-is keeps the cfg's own keys",
            default="fp32",
            example="int8",
        ),
        "quantize": _QUANTIZE,
        "layers": Field(
            shape=_LAYERS,
            help="precisions by layer: by index (12), range (3-7), name (convolutional_12), kind "
            f"({', '.join(KINDS)}) or place ({', '.join(PLACES)}); the last entry that names a layer counts",
            example={"first": "fp32", "3-5": {"precision": "int8", "quantize": 1}},
        ),
    },
    make=_make_policy,
    also=tuple(_KINDS),
)
_GIVEN = replace(_NAMED, fields={**_NAMED.fields, "name": replace(_NAMED.fields["name"], required=False)})


def _kind_of(node: Node) -> str | None:
    return next((key for key in _KINDS if key in node.entries), None)


class PolicyShape:
    """Reads one entry of a sweep's `policies`."""

    word = Choice(what="policy", names=lambda: tuple(BUILT_IN))

    def read(self, node: Node) -> PolicyEntry:
        if node.kind != "mapping":
            return BUILT_IN[self.word.read(node)]
        kind = _kind_of(node)
        return _KINDS[kind].read(node) if kind else _NAMED.read(node)

    def schema(self) -> Schema:
        return {
            "anyOf": [
                self.word.schema(),
                _NAMED.schema(),
                *(kind.schema() for kind in _KINDS.values()),
            ]
        }


def read_policy(text: str) -> Policy:
    """The policy that an option --policy gives: as a sweep file has it, or @ and the path of a file with it.

    Raises ConfigurationError with the line.
    """
    node = read_document(Path(text[1:])) if text.startswith("@") else parse_document(text, "--policy")
    if node.kind != "mapping":
        return BUILT_IN[PolicyShape.word.read(node)]
    kind = _kind_of(node)
    if kind is None:
        return _GIVEN.read(node)
    entry = _KINDS[kind].read(node)
    if isinstance(entry, Searched):
        raise node.error(
            "search is for sweeps, and this option takes a known policy",
            hint="Run `harness search --out DIR`, and give --policy @DIR/policy-1.yaml.",
            key=kind,
        )
    if not isinstance(entry, Policy):
        raise node.error(
            f"{kind} gives several policies, and this option takes one",
            hint="`harness run` measures all of them; here name the layers: {layers: {5: int8}}.",
            key=kind,
        )
    return entry
