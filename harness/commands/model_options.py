"""The options that `eval`, `detect`, `calibrate` and `predict` share: the model, its precisions, its data
set, and how the engine runs it."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.config.darknet_cfg import DarknetCfg
    from harness.runtimes.engine import EngineOptions


_POLICY_HELP = "precisions to use instead of the cfg's own"


def add_model(
    parser: argparse.ArgumentParser, *, required: bool = True, policy_help: str = _POLICY_HELP
) -> None:
    """--cfg, --weights and --policy."""
    parser.add_argument("--cfg", type=Path, required=required, metavar="C", help="network, Darknet cfg")
    parser.add_argument("--weights", type=Path, required=required, metavar="W", help="its weights")
    parser.add_argument(
        "--policy",
        metavar="P",
        help=f"{policy_help}; as in a sweep file: fp32, fp16, int8, "
        "'{default: int8, layers: {first: fp32}}', or @FILE that holds one",
    )


@contextlib.contextmanager
def chosen_cfg(arguments: argparse.Namespace, *, recording: bool = False) -> Iterator[Path]:
    """The cfg to run: the user's own or, with --policy, a copy that has the policy's precisions.

    The model's files are looked at first, as what follows may begin with building the engine. Where ranges
    are `recording`, layers that need them are in fp32 instead. Raises ConfigurationError where a file is
    wrong, and where int8 needs ranges that are not given.
    """
    from harness.config.darknet_cfg import parse_cfg
    from harness.config.model_files import check_model
    from harness.config.policy import apply, in_fp32_where_static
    from harness.config.policy_file import read_policy
    from harness.temporary import temporary_folder

    calibration = getattr(arguments, "calibration", None)
    network = check_model(arguments.cfg, arguments.weights, calibration)
    text = network.text
    if arguments.policy:
        text = apply(read_policy(arguments.policy), text, network.file)
    if recording:
        text = in_fp32_where_static(text)
    elif calibration is None:
        _check_ranges(arguments, parse_cfg(text, network.file))
    if not arguments.policy:
        yield arguments.cfg
        return
    with temporary_folder("policy") as folder:
        cfg = folder / arguments.cfg.name
        cfg.write_text(text, encoding="latin-1", newline="")
        yield cfg


def _check_ranges(arguments: argparse.Namespace, network: DarknetCfg) -> None:
    from harness.errors import ConfigurationError

    static = [layer for layer in network.weighted if layer.precision == "int8" and not layer.quantize]
    if static:
        layer = static[0]
        others = f" and {len(static) - 1} more" if len(static) > 1 else ""
        where = f"--policy {arguments.policy}" if arguments.policy else f"{network.file}:{layer.line}"
        instead = "--policy '{default: int8, quantize: 1}'" if arguments.policy else "quantize=1 in the cfg"
        raise ConfigurationError(
            f"{where}: layer {layer.index} ({layer.kind}){others}: int8 needs recorded ranges",
            hint="Give them with --calibration (a file of `harness calibrate`), or have ranges measured "
            f"at run time: {instead}.",
        )


def add_dataset(parser: argparse.ArgumentParser, *, what: str, split: str) -> None:
    """--dataset and --split."""
    parser.add_argument("--dataset", type=Path, required=True, metavar="D", help=what)
    parser.add_argument(
        "--split", choices=("train", "val", "test"), help=f"of a data.yaml; also as data.yaml:train ({split})"
    )


def dataset_of(arguments: argparse.Namespace) -> Path:
    """The data set that the user gave, with its split where one was given."""
    from harness.accuracy.dataset import with_chosen_split

    dataset: Path = arguments.dataset
    return with_chosen_split(dataset, arguments.split) if arguments.split else dataset


def add_engine(parser: argparse.ArgumentParser, *, calibration: bool = True) -> None:
    """What EngineOptions holds, as a group of its own."""
    group = parser.add_argument_group("engine")
    if calibration:
        group.add_argument(
            "--calibration", type=Path, metavar="F", help="ranges for int8 (harness calibrate)"
        )
    group.add_argument(
        "--threads",
        type=positive_number,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of threads (default: all cores)",
    )
    group.add_argument("--isa", metavar="NAME", help="instruction set (default: the best this machine has)")
    group.add_argument(
        "--algorithm", metavar="NAME", help="algorithm of convolutions (default: chosen for each layer)"
    )
    group.add_argument(
        "--bn-epsilon",
        type=float,
        metavar="E",
        help="epsilon of batch normalisation (default: 1e-5, as in Darknet)",
    )


def engine_options(arguments: argparse.Namespace) -> EngineOptions:
    """The EngineOptions that the user gave."""
    from harness.runtimes.engine import EngineOptions

    return EngineOptions(
        threads=arguments.threads,
        isa=arguments.isa,
        algorithm=arguments.algorithm,
        calibration=getattr(arguments, "calibration", None),
        bn_epsilon=arguments.bn_epsilon,
    )


def positive_number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not above 0")
    return number
