"""One point of a sweep, as it is planned, stored and reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.config.sweep import Build
from harness.errors import ConfigurationError
from harness.text import printable


@dataclass(frozen=True, kw_only=True)
class CellSpec:
    """model x policy x target x runtime x toolchain x threads x options, by their names."""

    model: str
    policy: str
    target: str
    runtime: str
    toolchain: str  # and its flags
    threads: int
    options: str
    emulated: bool
    step: str = ""  # of a sweep of steps
    note: str = field(default="", compare=False)  # the effect of the step, in the sweep file's words

    @property
    def name(self) -> str:
        """The name for messages. Control characters, which names in a sweep file may have, are escaped."""
        return printable(f"{self.target}{' (emulated)' if self.emulated else ''} {self.name_on_target}")

    @property
    def name_on_target(self) -> str:
        """The name where the target is known, as below its table."""
        parts = [self.model, self.policy]
        parts += [self.runtime] if self.runtime != "engine" else []
        parts.append(f"{self.threads} thread{'s'[: self.threads > 1]}")
        parts += [self.toolchain] if self.toolchain != Build().name else []
        if self.step:
            parts.append(f"({self.step})")
        elif self.options:
            parts.append(self.options)
        return printable(" ".join(parts))


def chosen_cells(names: Sequence[str], words: Sequence[str]) -> list[int]:
    """The positions of the cells whose name is one of `words` or, if no name is, contains it. Without words
    all positions.

    Raises ConfigurationError for words that no name contains.
    """
    found = set[int]() if words else set(range(len(names)))
    for text in words:
        same = {place for place, name in enumerate(names) if name == text}
        meant = same or {place for place, name in enumerate(names) if text in name}
        if not meant:
            raise ConfigurationError(
                f"no cell's name contains {printable(text)!r}", hint=f"The first cell is {names[0]!r}."
            )
        found |= meant
    return sorted(found)
