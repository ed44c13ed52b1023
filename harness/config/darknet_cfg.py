"""Parses the parts of a Darknet cfg that policies need: layers, their kinds, and their inputs.

Errors in lines, sections and names of keys have the engine's words. Values are checked only by the engine,
when it loads the cfg. As in Darknet, numbers are read as by C's atoi, and spaces inside a line are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path

from harness.config.cfg_keys import cfg_keys, nearest, quoted
from harness.config.document import nearest_file
from harness.config.file_kind import expect_cfg
from harness.config.layer_shapes import Shape, output_shape, window_terms
from harness.errors import ConfigurationError, file_error
from harness.files import read_regular

NETWORK_INPUT = -1  # the input of a layer that reads the network's own input
PRECISIONS = ("fp32", "fp16", "int8")  # that policies choose from
CFG_PRECISIONS = (*PRECISIONS, "int16")
PRECISION_KEYS = (*CFG_PRECISIONS, "quantize")

_NETWORK_SECTIONS = ("net", "network")
_BYTE_ORDER_MARK = "\xef\xbb\xbf"  # what Windows editors put before UTF-8 text, as Latin-1
_HEADER = re.compile(r"\[([A-Za-z0-9_-]*)\]([#;].*)?")
_WEIGHTED = ("convolutional", "connected")
_TERMINAL = ("yolo", "region", "softmax")
_LARGEST_FILE = 4 << 20  # bytes
_NUMBER = re.compile(r"[-+]?[0-9]{1,18}")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, kw_only=True)
class Section:
    """A `[header]` with its options as written, without spaces. If a key is repeated, the first one counts,
    as in Darknet and in the engine."""

    name: str  # in full: convolutional, also where the cfg has [conv]
    written: str
    file: str
    line: int  # of the header, counted from 1
    options: dict[str, str]
    option_lines: dict[str, int]

    def error(self, message: str, *, line: int | None = None) -> ConfigurationError:
        """The error to raise about this section, or about a line in it."""
        return ConfigurationError(f"{self.file}:{line or self.line}: [{self.written}] {message}")

    def check_keys(self, section: str) -> None:
        """Raises ConfigurationError at the first key that such a section cannot have."""
        if unknown := cfg_keys().unknown_key(section, self.options):
            key, wrong = unknown
            raise self.error(wrong, line=self.option_lines[key])

    def word(self, key: str) -> str:
        """An option without a comment; empty if it is absent."""
        return self.options.get(key, "").partition("#")[0].partition(";")[0]

    def integer(self, key: str, default: int) -> int:
        """An option as atoi reads it: 0 if it does not begin with a number."""
        return _integer(self.options[key]) if key in self.options else default

    def integers(self, key: str) -> list[int]:
        """A comma-separated option."""
        value = self.options.get(key, "")
        return [_integer(word) for word in value.split(",") if word]

    def real(self, key: str, default: float) -> float:
        """An option as atof reads it: 0 if it does not begin with a number."""
        return _real(self.options[key]) if key in self.options else default

    def reals(self, key: str) -> list[float]:
        """A comma-separated option, up to a `#`."""
        return [_real(word) for word in self.options.get(key, "").split("#")[0].split(",") if word]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer: its place, its kind and its inputs' indices (-1 is the network's input)."""

    index: int
    kind: str
    line: int
    inputs: tuple[int, ...]
    out: Shape  # of its output
    given_name: str = ""  # name= of its section
    depthwise: bool = False
    pointwise: bool = False
    precision: str = ""  # as the cfg asks: fp32, fp16, int8 or int16; "" where the kind has none
    quantize: bool = False
    parameters: int | None = 0  # in the weights file; None: depends on the size of the input

    @property
    def weighted(self) -> bool:
        """Whether the layer has weights, and with them a precision of its own."""
        return self.kind in _WEIGHTED

    @property
    def needs_range(self) -> bool:
        """Whether the layer needs the recorded range of its input."""
        return self.precision in ("int8", "int16") and not self.quantize

    @property
    def channels(self) -> int:
        """The channels of its output."""
        return self.out[0]

    @property
    def name(self) -> str:
        return f"{self.kind}_{self.index}"


@dataclass(frozen=True, kw_only=True)
class DarknetCfg:
    """A cfg's text and its layers."""

    file: str
    text: str
    layers: tuple[Layer, ...]
    input_size: Shape
    outputs: tuple[int, ...] = ()  # the layers that outputs= of [net] names

    def output_of(self, layer: int) -> Shape:
        """The size of a layer's output, or of the network's input."""
        return self.input_size if layer == NETWORK_INPUT else self.layers[layer].out

    @cached_property
    def weighted(self) -> tuple[Layer, ...]:
        """The layers with a precision: convolutional and connected ones."""
        return tuple(layer for layer in self.layers if layer.weighted)

    @cached_property
    def heads(self) -> tuple[Layer, ...]:
        """The weighted layers that feed an output of the network, directly or through layers without weights.

        Outputs are those that the cfg names, else the inputs of yolo, region and softmax layers; the last
        weighted layer counts if there are none of either."""
        found: set[int] = set()
        pending = list(self.outputs) or [
            source for layer in self.layers if layer.kind in _TERMINAL for source in layer.inputs
        ]
        seen: set[int] = set()
        while pending:
            index = pending.pop()
            if index == NETWORK_INPUT or index in seen:
                continue
            seen.add(index)
            if self.layers[index].weighted:
                found.add(index)
            else:
                pending.extend(self.layers[index].inputs)
        if not found:
            found = {layer.index for layer in self.weighted[-1:]}
        return tuple(self.layers[index] for index in sorted(found))


def read_cfg(path: Path) -> DarknetCfg:
    """Reads a cfg file. Raises ConfigurationError with file and line, also if it is another kind of file."""
    expect_cfg(path)
    try:
        raw = read_regular(path, limit=_LARGEST_FILE, what="a Darknet cfg")
    except FileNotFoundError:
        near = nearest_file(path)
        raise ConfigurationError(
            f"{path}: no such file", hint=f"Did you mean {near}?" if near else ""
        ) from None
    except OSError as error:
        raise file_error(path, error) from error
    # Latin-1 keeps every byte, so that a policy changes only its own lines.
    return parse_cfg(raw.decode("latin-1"), str(path))


def parse_cfg(text: str, file: str) -> DarknetCfg:
    """Parses a cfg's text; `file` is used in messages. Raises ConfigurationError with file and line."""
    sections = sections_of(text, file)
    if not sections:
        raise ConfigurationError(f"{file}:1: no sections; this is not a Darknet cfg")
    network = sections[0]
    if network.name not in _NETWORK_SECTIONS:
        raise network.error("comes first, but a cfg must start with [net]")
    network.check_keys("net")
    size = (network.integer("channels", 3), network.integer("height", 0), network.integer("width", 0))
    layers: list[Layer] = []
    names = {"input": NETWORK_INPUT}
    _take_name(network, names, NETWORK_INPUT)
    for section in sections[1:]:
        if wrong := cfg_keys().check_section(section.name):
            raise section.error(wrong)
        section.check_keys(section.name)
        layers.append(_layer(section, layers, names, size, file))
        _take_name(section, names, len(layers) - 1)
    if not layers:
        raise network.error("is the only section; there are no layers")
    outputs = _references(network, "outputs", len(layers), names) if "outputs" in network.options else []
    return DarknetCfg(file=file, text=text, layers=tuple(layers), input_size=size, outputs=tuple(outputs))


def _take_name(section: Section, names: dict[str, int], tensor: int) -> None:
    if "name" not in section.options:
        return
    name, line = section.word("name"), section.option_lines["name"]
    if not _is_name(name) or any(character in ",=[]" for character in name):
        raise section.error(
            f"{quoted(name)} is no name: names begin with a letter or _ and have none of , # ; = [ ]",
            line=line,
        )
    if names.setdefault(name, tensor) != tensor:
        raise section.error(f"the name {quoted(name)} is taken already", line=line)


def lines_of(text: str) -> list[str]:
    """The lines of a cfg with their ends. Only a line feed ends a line, as for C's getline."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def header_of(line: str) -> str | None:
    """The section a line opens, or None."""
    stripped = compact(line).removeprefix(_BYTE_ORDER_MARK)
    if not stripped.startswith("["):
        return None
    name = stripped[1:].partition("]")[0]
    return cfg_keys().full_names.get(name, name)


def key_of(line: str) -> str | None:
    """The key a line sets, or None."""
    stripped = compact(line)
    if not stripped or stripped[0] in "#;[\0" or "=" not in stripped:
        return None
    return stripped.partition("=")[0]


def is_weighted(section: str) -> bool:
    """Whether a section's layers have a precision of their own."""
    return section in _WEIGHTED


def compact(line: str) -> str:
    """A line without blanks, as Darknet reads it."""
    return line.translate({ord(blank): None for blank in " \t\r\n"})


def sections_of(text: str, file: str) -> list[Section]:
    """All sections of a cfg's text, [net] first. Raises ConfigurationError with file and line."""
    sections: list[Section] = []
    for number, line in enumerate(lines_of(text.removeprefix(_BYTE_ORDER_MARK)), start=1):
        content = compact(line)
        if not content or content[0] in "#;":
            continue
        place = f"{file}:{number}: {quoted(content)}"
        if content[0] == "[":
            header = _HEADER.fullmatch(content)
            if header is None:
                raise ConfigurationError(f"{place} is not a section header; write [name]")
            name = cfg_keys().full_names.get(header[1], header[1])
            section = Section(
                name=name, written=header[1], file=file, line=number, options={}, option_lines={}
            )
            sections.append(section)
            continue
        key, equals, value = content.partition("=")
        if not key or not equals:
            raise ConfigurationError(f"{place} is neither a [section], a key=value nor a # comment")
        if not sections:
            raise ConfigurationError(f"{place} stands before the first section, which must be [net]")
        sections[-1].options.setdefault(key, value)
        sections[-1].option_lines.setdefault(key, number)
    return sections


def _inputs(section: Section, index: int, resolve: Callable[[str], list[int]]) -> list[int]:
    previous = index - 1
    match section.name:
        case "constant" | "input":
            return []
        case "route":
            return resolve("from" if "from" in section.options else "layers")
        case "shortcut" | "scale_channels":
            return [previous, *resolve("from")]
        case _:
            return resolve("from") if "from" in section.options else [previous]


def _layer(
    section: Section, before: list[Layer], names: dict[str, int], input_shape: Shape, file: str
) -> Layer:
    index = len(before)

    def resolve(key: str) -> list[int]:
        if not section.options.get(key):
            line = section.option_lines.get(key, section.line)
            raise ConfigurationError(f"{file}:{line}: layer {index} ({section.name}) needs the key {key}")
        return _references(section, key, index, names)

    inputs = _inputs(section, index, resolve)
    shapes = [input_shape if source == NETWORK_INPUT else before[source].out for source in inputs]
    out = output_shape(section, shapes)
    depthwise = pointwise = False
    parameters: int | None = 0
    match section.name:
        case "convolutional":
            channels = shapes[0][0]
            groups = max(section.integer("groups", 1), 1)
            depthwise = groups > 1 and groups == channels
            pointwise = groups == 1 and window_terms(section) == 1
            # Each filter has a bias and, with batch normalisation, three more numbers.
            normalised = section.integer("batch_normalize", 0) or section.integer("cbn", 0)
            parameters = out[0] * (channels // groups * window_terms(section) + (4 if normalised else 1))
        case "connected":
            parameters = None
        case "deconvolutional":
            groups = max(section.integer("groups", 1), 1)
            parameters = out[0] + shapes[0][0] * (out[0] // groups) * window_terms(section)
        case "prelu":
            parameters = out[0]
        case "constant":
            parameters = prod(out)
        case _:
            pass
    asked = [key for key in CFG_PRECISIONS if section.integer(key, 0)]
    weighted = is_weighted(section.name)
    return Layer(
        index=index,
        kind=section.name,
        line=section.line,
        inputs=tuple(inputs),
        out=out,
        given_name=section.word("name"),
        depthwise=depthwise,
        pointwise=pointwise,
        precision=(asked[0] if asked else "fp32") if weighted else "",
        quantize=weighted and section.integer("quantize", 0) != 0,
        parameters=parameters,
    )


def _references(section: Section, key: str, index: int, names: dict[str, int]) -> list[int]:
    """The layers that an option names, by index, from the layer back if negative, or by name."""
    line = section.option_lines[key]
    found: list[int] = []
    for word in section.options[key].partition("#")[0].partition(";")[0].removesuffix(",").split(","):
        if _is_name(word):
            if word not in names:
                near = nearest(word, names)
                raise section.error(
                    f"{key}= names {quoted(word)}, but no layer before this one has that name"
                    + (f"; did you mean {quoted(near)}?" if near else ""),
                    line=line,
                )
            found.append(names[word])
            continue
        number = _integer(word)
        source = index + number if number < 0 else number
        if not 0 <= source < index:
            raise ConfigurationError(
                f"{section.file}:{line}: layer {index} ({section.name}) reads layer {number}, "
                "which is not before it"
            )
        found.append(source)
    return found


def _is_name(word: str) -> bool:
    """Whether a word names a layer. All others count as numbers, since Darknet reads "40x" as 40."""
    return bool(word.lstrip("+-")[:1]) and not word.lstrip("+-")[0].isdigit()


def _integer(text: str) -> int:
    found = _NUMBER.match(text)
    return int(found.group()) if found else 0


def _real(text: str) -> float:
    found = _REAL.match(text)
    return float(found[0]) if found else 0.0
