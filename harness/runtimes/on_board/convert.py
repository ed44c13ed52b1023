"""Makes a runtime's own file of a model, by the runtime's converter. It runs on the host alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def convert(runtime: Any, arguments: argparse.Namespace) -> dict[str, object]:
    if arguments.pictures:
        runtime.quantise(arguments.model, arguments.converted, arguments.pictures, arguments.in_float)
    else:
        runtime.convert(arguments.model, arguments.converted)
    if not Path(arguments.converted).is_file():  # converters print what is wrong
        raise ValueError("the converter wrote no file")
    return {"version": runtime.version()}
