"""`harness eval`: accuracy on the host."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from harness.commands.model_options import (
    add_dataset,
    add_engine,
    add_model,
    chosen_cfg,
    dataset_of,
    engine_options,
)
from harness.config.preprocessing import RESIZES


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_dataset(
        parser,
        what="folder with images/ and labels/, data.yaml, COCO JSON, or pictures named by WordNet id",
        split="default: val",
    )
    parser.add_argument(
        "--resize",
        choices=RESIZES,
        help="resize pictures by this method (default: as the cfg says; else stretch for detectors, crop for "
        "classifiers)",
    )
    parser.add_argument(
        "--labels",
        "--names",
        type=Path,
        metavar="F",
        dest="labels",
        help="read WordNet ids in output order from this file",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="use only the first N pictures")
    parser.add_argument(
        "--agreement",
        action="store_true",
        help="also measure the agreement with fp32 (needs no labels)",
    )
    parser.add_argument(
        "--fp32-weights",
        type=Path,
        metavar="W",
        help="compare with fp32 of these weights, as after harness repair (default: --weights)",
    )
    parser.add_argument(
        "--per-class",
        action="store_true",
        help="also show the accuracy of each class and of small, medium and large objects, and their changes "
        "from fp32",
    )
    parser.add_argument("--layers", action="store_true", help="also measure each layer's SQNR against fp32")
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    from harness import console

    dataset = dataset_of(arguments)
    with chosen_cfg(arguments) as cfg:
        result = _evaluate(arguments, cfg, dataset)
    _warn(dataset, result)
    if arguments.policy:
        result["policy"] = arguments.policy
    if arguments.json:
        console.emit_json(result)
    else:
        _print(result)
    return 0


def _evaluate(arguments: argparse.Namespace, cfg: Path, dataset: Path) -> dict[str, Any]:
    from harness.accuracy.evaluate import check_dataset, evaluate, layer_report
    from harness.runtimes.engine import host_engine

    check_dataset(cfg, dataset, arguments.labels, agreement=arguments.agreement, origin=arguments.cfg)
    engine = host_engine(arguments.algorithm)
    options = engine_options(arguments)
    result = evaluate(
        engine,
        cfg=cfg,
        weights=arguments.weights,
        dataset=dataset,
        resize=arguments.resize,
        options=options,
        limit=arguments.limit,
        names=arguments.labels,
        agreement=arguments.agreement,
        per_class=arguments.per_class,
        fp32_weights=arguments.fp32_weights,
        origin=arguments.cfg,
    )
    if arguments.layers:
        result["layers"] = layer_report(
            engine,
            cfg=cfg,
            weights=arguments.weights,
            dataset=dataset,
            resize=result["resize"],
            options=options,
            limit=arguments.limit,
            origin=arguments.cfg,
        )
    return result


_TITLES = {
    "map50": "mAP@0.5, COCO",
    "map": "mAP@0.5:0.95, COCO",
    "darknet_map50": "mAP@0.5, Darknet",
    "top1": "top-1",
    "top5": "top-5",
    "agreement": "agreement with fp32",
}


def _warn(dataset: Path, result: dict[str, Any]) -> None:
    """Warns about pictures that distort the figures."""
    from harness import console
    from harness.accuracy.evaluate import warning_of_guesses
    from harness.accuracy.overlap import overlap_sentence
    from harness.accuracy.truth import warning_of_unlabelled

    if warning := warning_of_unlabelled(dataset, result.get("unlabelled", 0), result["images"]):
        console.warn(warning)
    if common := result.get("calibration_overlap"):
        console.warn(overlap_sentence(common, result["images"]))
    if warning := warning_of_guesses(result):
        console.warn(warning)


def _print(result: dict[str, Any]) -> None:
    boxes = f", {result['boxes']} boxes" if "boxes" in result else ""
    background = f", {result['unlabelled']} without a label file" if "unlabelled" in result else ""
    read = f", read as {result['decoder']}" if "decoder" in result else ""
    print(f"{result['images']} images{boxes}{background}, {result['resize']}{read}")
    if assumed := result.get("assumed"):
        print(f"as usual for such networks, since the model does not say: {', '.join(assumed)}")
    for key, title in _TITLES.items():
        if key in result:
            print(f"{title:<20} {100 * result[key]:6.2f} %")
    for key in ("sizes", "classes"):
        if key in result:
            print("\n".join(["", *_columns(result[key])]))
    for output in result.get("outputs", []):
        noise = "exact" if output["sqnr_db"] is None else f"{output['sqnr_db']:.1f} dB"
        shape = "x".join(map(str, output["shape"]))
        print(f"{output['name']:<20} {100 * output['agreement']:6.2f} %  {noise:>8}  {shape}")
    for layer in result.get("layers", []):
        noise = "    exact" if layer["sqnr_db"] is None else f"{layer['sqnr_db']:6.1f} dB"
        print(f"{layer['index']:4} {layer['type']:<14} {layer['precision'] or '':<5} {noise}")


_COLUMNS = {
    "boxes": "boxes",
    "images": "images",
    "map50": "mAP@0.5",
    "map": "mAP",
    "recall": "recall",
    "top1": "top-1",
    "map50_change": "Δ mAP@0.5",
    "recall_change": "Δ recall",
    "top1_change": "Δ top-1",
}


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    """A table of the rows `sizes` or `classes`: a name, a count, percentages; Δ is the change from fp32."""
    from harness.text import printable

    title = "size" if "size" in rows[0] else "class"
    keys = [key for key in _COLUMNS if key in rows[0]]
    width = max(len(title), *(len(printable(str(row[title]))) for row in rows))
    lines = [f"{title:<{width}}" + "".join(f"  {_COLUMNS[key]:>9}" for key in keys)]
    for row in rows:
        cells = "".join(f"  {_cell(key, row[key]):>9}" for key in keys)
        lines.append(f"{printable(str(row[title])):<{width}}{cells}")
    return lines


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    if key in ("boxes", "images"):
        return str(value)
    return f"{100 * value:+.2f}" if key.endswith("_change") else f"{100 * value:.2f}"
