"""Policies: a precision per layer. A policy applied to a cfg gives another cfg, which `mpe` can run by hand.

Layers are named by index (`12`), range (`3-7`), name (`convolutional_12`), kind (`convolutional`,
`connected`, `depthwise`, `pointwise`) or place (`first`, `last`, `heads`); indices count from 0 as `mpe info`
prints them. If several rules name the same layer, the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from harness.config.darknet_cfg import (
    PRECISION_KEYS,
    PRECISIONS,
    DarknetCfg,
    Layer,
    header_of,
    is_weighted,
    key_of,
    lines_of,
    parse_cfg,
)
from harness.config.document import suggestion
from harness.errors import ConfigurationError

AS_IS = "as-is"
KINDS = ("convolutional", "connected", "depthwise", "pointwise")
PLACES = ("first", "last", "heads")
SELECTOR = r"[0-9]{1,9}(-[0-9]{1,9})?|[a-z][a-z0-9_]*"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The keys to write into a layer's section; precision `as-is` writes none."""

    precision: str
    quantize: bool = False  # int8 only: the input's range is measured at run time


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A setting for the layers a selector names. `place` is the file and line for messages."""

    selector: str
    setting: Setting
    place: str = field(default="", compare=False)


class PolicyEntry(Protocol):
    """One entry of a sweep's `policies`, of any kind: it gives the policies of a network."""

    @property
    def name(self) -> str: ...
    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules with selectors that must name layers."""
        ...

    def policies(self, cfg: DarknetCfg) -> tuple[Policy, ...]:
        """Raises ConfigurationError if a selector names an absent layer."""
        ...


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A precision per layer: `default`, then the rules in order.

    `tflite`: the quantisation of TFLITE that makes a file of TensorFlow Lite, which the precisions describe.
    """

    name: str
    default: Setting
    rules: tuple[Rule, ...] = ()
    tflite: str = ""

    def policies(self, cfg: DarknetCfg) -> tuple[Policy, ...]:
        """This policy, without rules about kinds of layer that the network does not have."""
        return (replace(self, rules=tuple(rule for rule in self.rules if not _absent_kind(rule, cfg))),)


@dataclass(frozen=True, kw_only=True)
class OneLayerAtATime:
    """A policy for each of some weighted layers of a network: each has that one layer changed."""

    setting: Setting
    default: Setting
    rules: tuple[Rule, ...] = ()  # select the layers; empty: all weighted layers
    given_name: str = ""

    @property
    def name(self) -> str:
        """For example `int8@each`, `int8@each-in-fp16` or `int8-dynamic@each-of-3-7`."""
        which = "-".join(rule.selector for rule in self.rules)
        return self._name("each" + (f"-of-{which}" if which else ""))

    def _name(self, layer: str) -> str:
        if self.given_name:
            return f"{self.given_name}@{layer}"
        around = "" if self.default.precision == "fp32" else f"-in-{self.default.precision}"
        return f"{self.setting.precision}{'-dynamic' if self.setting.quantize else ''}@{layer}{around}"

    def policies(self, cfg: DarknetCfg) -> tuple[Policy, ...]:
        """Raises ConfigurationError where a selector names an absent layer, other than a kind of them."""
        chosen = {layer.index for layer in cfg.weighted}
        if self.rules:
            known = tuple(rule for rule in self.rules if not _absent_kind(rule, cfg))
            nothing = Setting(precision=AS_IS)
            probe = Policy(name=self.name, default=nothing, rules=known)
            chosen = {index for index, found in settings(probe, cfg).items() if found is not nothing}
        return tuple(
            Policy(
                name=self._name(str(index)),
                default=self.default,
                rules=(Rule(selector=str(index), setting=self.setting),),
            )
            for index in sorted(chosen)
        )


# Post-training quantisations by the names in TensorFlow's guide to them, and the nearest precision of layers.
TFLITE = {
    "float16": Setting(precision="fp16"),
    "dynamic-range": Setting(precision="int8", quantize=True),
    "integer-with-float-fallback": Setting(precision="int8"),
    "full-integer": Setting(precision="int8"),
    "16x8": Setting(precision="int16"),
}


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """The limits of a search, as `harness search` has them. None: no limit."""

    target: str = ""  # its board; "": the sweep's only one
    threads: int = 1
    max_drop: float = 0.5  # points of accuracy
    min_agreement: float = 98.0  # percent
    min_fps: float | None = None
    max_memory: float | None = None  # MiB
    budget: float | None = None  # seconds


@dataclass(frozen=True, kw_only=True)
class Searched:
    """A policy that a search finds for each network."""

    name: str
    search: SearchSettings
    rules: tuple[Rule, ...] = ()

    def policies(self, cfg: DarknetCfg) -> tuple[Policy, ...]:  # noqa: ARG002
        """All int8 until it is known: the search needs recorded ranges, as int8 does."""
        return (Policy(name=self.name, default=Setting(precision="int8")),)


BUILT_IN = {name: Policy(name=name, default=Setting(precision=name)) for name in (*PRECISIONS, AS_IS)}


def select(selector: str, cfg: DarknetCfg) -> frozenset[int]:
    """The indices of the weighted layers a selector names. Raises ConfigurationError where it names none."""
    weighted = cfg.weighted
    if not weighted:
        raise ConfigurationError(f"{cfg.file} has no convolutional or connected layer")
    match selector:
        case "first":
            return frozenset({weighted[0].index})
        case "last":
            return frozenset({weighted[-1].index})
        case "heads":
            return frozenset(layer.index for layer in cfg.heads)
        case "depthwise":
            found: Iterable[Layer] = (layer for layer in weighted if layer.depthwise)
        case "pointwise":
            found = (layer for layer in weighted if layer.pointwise)
        case "convolutional" | "connected":
            found = (layer for layer in weighted if layer.kind == selector)
        case _:
            return _numbered(selector, cfg) if selector[:1].isdigit() else _named(selector, cfg)
    indices = frozenset(layer.index for layer in found)
    if not indices:
        raise ConfigurationError(f"{cfg.file} has no {selector} layer")
    return indices


def _numbered(selector: str, cfg: DarknetCfg) -> frozenset[int]:
    begin, _, end = selector.partition("-")
    first, last = int(begin), int(end or begin)
    if first > last:
        raise ConfigurationError(
            f"the range {selector} runs backwards", hint=f"Write {last}-{first} to name these layers."
        )
    count = len(cfg.layers)
    if last >= count:
        nearest = cfg.weighted[-1]
        raise ConfigurationError(
            f"there is no layer {last} in {cfg.file}: it has layers 0 to {count - 1}",
            hint=f"The nearest layer with a precision is {nearest.index} ({nearest.kind}).",
        )
    indices = frozenset(layer.index for layer in cfg.weighted if first <= layer.index <= last)
    if not indices:
        nearest = min(cfg.weighted, key=lambda layer: abs(layer.index - first))
        kind = cfg.layers[first].kind
        what = f"layer {first} of {cfg.file} is a {kind} layer, which has no precision of its own"
        if first != last:
            what = f"no layer from {first} to {last} of {cfg.file} has a precision of its own"
        raise ConfigurationError(
            what, hint=f"The nearest layer that has one is {nearest.index} ({nearest.kind})."
        )
    return indices


def _named(selector: str, cfg: DarknetCfg) -> frozenset[int]:
    names = {layer.name: layer.index for layer in cfg.weighted}
    names |= {layer.given_name: layer.index for layer in cfg.weighted if layer.given_name}
    if selector in names:
        return frozenset({names[selector]})
    known = (*PLACES, *KINDS, *names)
    near = suggestion(selector, known)
    if not near.startswith("did"):
        near = f"known are {', '.join(known[: len(PLACES) + len(KINDS)])}, and names like {next(iter(names))}"
    raise ConfigurationError(f"there is no layer {selector} in {cfg.file}", hint=near[0].upper() + near[1:])


def settings(policy: Policy, cfg: DarknetCfg) -> Mapping[int, Setting]:
    """The setting of every weighted layer. Raises ConfigurationError where a rule names an absent layer."""
    chosen = {layer.index: policy.default for layer in cfg.weighted}
    for rule in policy.rules:
        try:
            indices = select(rule.selector, cfg)
        except ConfigurationError as error:
            where = f"{rule.place}: " if rule.place else ""
            where += f"policy {policy.name}: " if policy.name else ""
            raise ConfigurationError(where + error.message, hint=error.hint) from None
        chosen.update(dict.fromkeys(indices, rule.setting))
    return chosen


def apply(policy: Policy, cfg_text: str, file: str = "cfg") -> str:
    """As `applied`, for a text; `file` is for messages."""
    return applied(policy, parse_cfg(cfg_text, file)).text


def applied(policy: Policy, cfg: DarknetCfg) -> DarknetCfg:
    """The cfg with the policy's precision keys; nothing else is changed.

    Applying it again gives the same text, and any other policy gives the same as on the original.
    """
    chosen = settings(policy, cfg)
    lines: list[str] = []
    index = -2  # the first header is [net], the second one layer 0
    rewriting = False
    for line in lines_of(cfg.text):
        section = header_of(line)
        if section is None:
            if not (rewriting and key_of(line) in PRECISION_KEYS):
                lines.append(line)
            continue
        index += 1
        rewriting = index >= 0 and is_weighted(section) and chosen[index].precision != AS_IS
        if not rewriting:
            lines.append(line)
            continue
        end = "\r\n" if line.endswith("\r\n") else "\n"
        lines.append(line if line.endswith("\n") else line + end)
        lines.append(f"{chosen[index].precision}=1{end}")
        if chosen[index].quantize:
            lines.append(f"quantize=1{end}")
    return parse_cfg("".join(lines), cfg.file)


@dataclass(frozen=True, kw_only=True)
class Int8Use:
    """Whether a cfg has int8 or int16 layers, whether a layer uses recorded ranges, and whether all layers
    with weights do."""

    any: bool
    static: bool
    all_static: bool


def int8_use(cfg: DarknetCfg) -> Int8Use:
    """The use of int8 in a cfg, which decides whether it needs a calibration file."""
    static = [layer.needs_range for layer in cfg.weighted]
    return Int8Use(
        any=any(layer.precision in ("int8", "int16") for layer in cfg.weighted),
        static=any(static),
        all_static=all(static),
    )


def in_fp32_where_static(cfg_text: str) -> str:
    """The same cfg with fp32 in every layer that needs recorded ranges."""
    fp32 = Setting(precision="fp32")
    rules = tuple(
        Rule(selector=str(layer.index), setting=fp32)
        for layer in parse_cfg(cfg_text, "cfg").weighted
        if layer.needs_range
    )
    return apply(Policy(name="recording", default=Setting(precision=AS_IS), rules=rules), cfg_text)


def expand(entries: Iterable[PolicyEntry], cfg: DarknetCfg) -> tuple[Policy, ...]:
    """All policies of a sweep for one network, each checked against its layers.

    A rule for a kind of layer that this network lacks is left out: another model of the sweep may have it.
    Equal policies from several entries, for example for a layer in two ranges, are one policy.
    """
    policies: dict[str, Policy] = {}
    for entry in entries:
        for policy in entry.policies(cfg):
            settings(policy, cfg)
            if policies.setdefault(policy.name, policy) != policy:
                raise ConfigurationError(
                    f"two policies are called {policy.name}, and they differ", hint="Give one another name."
                )
    return tuple(policies.values())


def _absent_kind(rule: Rule, cfg: DarknetCfg) -> bool:
    if rule.selector not in KINDS:
        return False
    try:
        select(rule.selector, cfg)
    except ConfigurationError:
        return True
    return False


def check_kinds(entries: Iterable[PolicyEntry], cfgs: Iterable[DarknetCfg]) -> None:
    """Raises ConfigurationError where a rule names a kind of layer that no network of the sweep has."""
    networks = list(cfgs)
    for entry in entries:
        for rule in entry.rules:
            if networks and all(_absent_kind(rule, cfg) for cfg in networks):
                files = ", ".join(cfg.file for cfg in networks)
                raise ConfigurationError(
                    f"{rule.place}: policy {entry.name}: there is no {rule.selector} layer in {files}"
                )
