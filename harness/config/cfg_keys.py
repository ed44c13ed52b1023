"""The sections of a Darknet cfg and the keys of each, as the engine knows them.

Both read engine/src/layers/registry.def and use the same words, so that a misspelt key is reported before an
engine is built.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Iterable
from dataclasses import dataclass

from harness.resources import resource

_ENTRY = re.compile(r"^([A-Z_]+)\(([^)]*)\)", re.MULTILINE)
_WORD = re.compile(r'"([^"]*)"')
_COMMENT = re.compile(r"//[^\n]*")
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # other letters stay, as in the engine
_LONGEST_QUOTE = 60  # characters
_LONGEST_WORD = 40  # characters; longer words get no suggestion


@dataclass(frozen=True, kw_only=True)
class CfgKeys:
    """The table of the engine."""

    full_names: dict[str, str]  # of sections other than [net], by each name that they may have
    net: tuple[str, ...]
    layers: dict[str, tuple[str, ...]]  # by the section's full name

    def check_section(self, name: str) -> str:
        """The error in the name of a section after [net]; "" if there is none."""
        if name in self.full_names:
            return ""
        near = nearest(name, self.full_names)
        known = f"did you mean [{near}]?" if near else f"known are: {' '.join(self.full_names)}"
        return f"is not a section this engine knows; {known}"

    def unknown_key(self, section: str, keys: Iterable[str]) -> tuple[str, str] | None:
        """The first of the keys that such a section cannot have, with an error message. `section`: a full
        name, or "net"."""
        known = self.net if section == "net" else self.layers[section]
        for key in keys:
            if key not in known:
                near = nearest(key, known)
                advice = f"did you mean {quoted(near)}?" if near else "remove it"
                return key, f"there is no key {quoted(key)}; {advice}"
        return None


@functools.cache
def cfg_keys() -> CfgKeys:
    """Reads the engine's table."""
    text = _COMMENT.sub("", resource("engine", "src", "layers", "registry.def").read_text(encoding="utf-8"))
    short_names: dict[str, str] = {}  # -> the section's full name
    layers: dict[str, tuple[str, ...]] = {}
    common: dict[str, tuple[str, ...]] = {}  # by macro
    for macro, content in _ENTRY.findall(text):
        words = tuple(_WORD.findall(content))
        if macro == "LAYER":
            name, short_name, *keys = words
            layers[name] = tuple(keys)
            if short_name:
                short_names[short_name] = name
        else:
            common[macro] = words
    return CfgKeys(
        full_names={name: name for name in layers} | short_names,
        net=common["NET_KEYS"],
        layers={name: (*keys, *common["ANY_LAYER_KEYS"]) for name, keys in layers.items()},
    )


def quoted(text: str) -> str:
    """A cfg's text in single quotes, as the engine prints it: bytes beyond ASCII as \\xNN, long texts cut."""
    shown = "".join(
        letter if " " <= letter <= "~" else f"\\x{ord(letter):02x}" for letter in text[:_LONGEST_QUOTE]
    )
    return f"'{shown}{'...' if len(text) > _LONGEST_QUOTE else ''}'"


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word with the fewest single-letter edits, ignoring case; "" if all are too different.

    The engine's rule (engine/src/io/text.cpp).
    """
    if len(word) > _LONGEST_WORD:
        return ""
    best, best_distance = "", max(len(word) // 2, 1) + 1
    for name in known:
        if abs(len(name) - len(word)) < best_distance:
            distance = _edit_distance(word.translate(_LOWER), name.translate(_LOWER))
            if distance < best_distance:
                best, best_distance = name, distance
    return best


def _edit_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a):
        diagonal, row[0] = row[0], i + 1
        for j, other in enumerate(b):
            replaced = diagonal + (letter != other)
            diagonal = row[j + 1]
            row[j + 1] = min(replaced, row[j + 1] + 1, row[j] + 1)
    return row[-1]
