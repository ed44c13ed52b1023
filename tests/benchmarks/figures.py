"""The figures of a benchmark: printed, and compared with their limits."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping


def parser(description: str | None) -> argparse.ArgumentParser:
    """A command line that explains itself by its script's docstring, with --json."""
    found = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--json", action="store_true", help="print the figures as JSON")
    return found


def conclude(figures: Mapping[str, object], at_most: Mapping[str, float], *, as_json: bool) -> int:
    """Prints figures and which of them exceed their bounds; the exit status, 1 where one does."""
    if as_json:
        print(json.dumps({**figures, "at_most": at_most}, indent=2))
    else:
        width = max(map(len, figures))
        for name, value in figures.items():
            bound = f"  (at most {at_most[name]:g})" if name in at_most else ""
            for each in value if isinstance(value, list) else [value]:
                print(f"{name:{width}}  {each}{bound}")
    missed = [name for name, bound in at_most.items() if not _number(figures[name]) <= bound]
    for name in missed:
        print(f"{name} is {figures[name]}, and may be {at_most[name]:g} at most", file=sys.stderr)
    return 1 if missed else 0


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return value
