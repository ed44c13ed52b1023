"""`harness repair`: rewrites a model's weights and ranges for the accuracy of int8."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands.model_contents import check_changeable, model_contents
from harness.commands.model_options import (
    add_dataset,
    add_engine,
    add_model,
    dataset_of,
    engine_options,
    model_files,
    positive_number,
)
from harness.config.preprocessing import RESIZES
from harness.config.repairs import REPAIRS
from harness.text import printable

if TYPE_CHECKING:
    from harness.repair.repair import Repaired

_FEW_PICTURES = 32
_OF_RANGES = ("equalise", "ranges")


def _described() -> str:
    return "; ".join(f"{name} ({what})" for name, what in REPAIRS.items())


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser, policy_help=None)
    add_dataset(parser, what="pictures; labels are not needed", split="default: train, else val")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="write cfg, weights and ranges to this folder"
    )
    parser.add_argument(
        "--limit", type=positive_number, default=64, metavar="N", help="use N pictures (default: 64)"
    )
    parser.add_argument(
        "--only", choices=REPAIRS, nargs="+", metavar="R", help=f"make these repairs alone: {_described()}"
    )
    parser.add_argument("--without", choices=REPAIRS, nargs="+", metavar="R", help="leave out these repairs")
    parser.add_argument(
        "--resize", choices=RESIZES, help="resize pictures by this method (default: as in eval)"
    )
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    from harness import console
    from harness.accuracy.dataset import read_pictures, with_split_in_use
    from harness.config.model_files import check_model
    from harness.errors import ConfigurationError
    from harness.files import write_together
    from harness.repair.repair import Request, repair
    from harness.runtimes.engine import host_engine

    chosen = (set(arguments.only or REPAIRS)) - set(arguments.without or ())
    given = arguments.calibration
    if given is not None:
        if asked := [name for name in arguments.only or () if name in _OF_RANGES]:
            raise ConfigurationError(
                f"--only {asked[0]} has no effect with --calibration, whose ranges are kept",
                hint="Leave out one of them.",
            )
        chosen -= {*_OF_RANGES}
    if not chosen:
        raise ConfigurationError("no repair is left", hint=f"The repairs are {', '.join(REPAIRS)}.")
    with model_files(arguments):
        check_model(arguments.cfg, arguments.weights, given)
        check_changeable(arguments, given)
        dataset = with_split_in_use(dataset_of(arguments), "train")
        if len(read_pictures(dataset, split="train")[: arguments.limit]) < _FEW_PICTURES:
            console.warn(
                f"fewer than {_FEW_PICTURES} pictures: the repairs fit these pictures better than others"
            )
        repaired = repair(
            host_engine(arguments.algorithm),
            Request(
                cfg=arguments.cfg,
                weights=arguments.weights,
                dataset=dataset,
                repairs=frozenset(chosen),
                limit=arguments.limit,
                resize=arguments.resize,
                calibration=given,
                options=engine_options(arguments),
            ),
        )
        contents = model_contents(
            arguments.cfg,
            text=repaired.cfg,
            weights=repaired.weights,
            calibration=repaired.calibration,
        )
        files = write_together(arguments.out, contents)
    rows = _rows(repaired, chosen)
    if arguments.json:
        console.emit_json(_document(repaired, rows, files))
    else:
        print(f"{repaired.pictures} pictures of {printable(str(dataset))}")
        for row in rows:
            print(f"{row['name']:<9} {_said(row)}")
        for file in files:
            print(printable(str(file)))
    return 0


def _rows(repaired: Repaired, chosen: set[str]) -> list[dict[str, Any]]:
    """What each repair did."""
    rows: list[dict[str, Any]] = []
    if "equalise" in chosen:
        rows.append({"name": "equalise", "factors": repaired.factors})
    if "ranges" in chosen:
        rows.append({"name": "ranges", "tensors": len(repaired.calibration["tensors"])})
    rows += [
        {"name": name, "layers": len(repaired.layers)}
        for name in ("rounding", "clipping", "bias")
        if name in chosen
    ]
    return rows


def _said(row: dict[str, Any]) -> str:
    if "factors" in row:
        return f"scaled {row['factors']} channels, or groups of channels that are added"
    if "tensors" in row:
        return f"chose {row['tensors']} ranges by their squared error"
    return f"changed {row['layers']} layers"


def _document(repaired: Repaired, rows: list[dict[str, Any]], files: list[Path]) -> dict[str, Any]:
    return {
        "files": [str(file) for file in files],
        "images": repaired.pictures,
        "repairs": rows,
        "layers": [
            {
                "index": index,
                "sqnr_before_db": _decibels(layer.signal, layer.before),
                "sqnr_db": _decibels(layer.signal, layer.after),
            }
            for index, layer in sorted(repaired.layers.items())
        ],
    }


def _decibels(signal: float, noise: float) -> float | None:
    return None if min(signal, noise) <= 0 else 10 * math.log10(signal / noise)
