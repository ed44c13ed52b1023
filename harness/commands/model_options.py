"""The options that commands share: the model, its precisions, its data set, and how the engine runs it."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config.import_options import IMPORT_KEYS, ImportKey, ImportOptions

if TYPE_CHECKING:
    from harness.config.darknet_cfg import DarknetCfg
    from harness.importing.writer import ImportedFiles
    from harness.runtimes.engine import EngineOptions


MODEL_FORMATS = "ONNX, TensorFlow Lite or Keras file or SavedModel folder"

_POLICY_HELP = "use these precisions instead of the cfg's"


def add_model(
    parser: argparse.ArgumentParser,
    *,
    required: bool = True,
    policy_help: str | None = _POLICY_HELP,
    import_keys: Iterable[str] = IMPORT_KEYS,
) -> None:
    """--model, with the options `import_keys` of its import, or --cfg and --weights; --policy.

    `required` is checked by chosen_cfg and model_files. Without `policy_help` there is no --policy.
    """
    parser.set_defaults(model_required=required)
    parser.add_argument(
        "--model", type=Path, metavar="M", help=f"{MODEL_FORMATS}, imported as by harness import"
    )
    parser.add_argument("--cfg", type=Path, metavar="C", help="cfg of the network, in place of --model")
    parser.add_argument("--weights", type=Path, metavar="W", help="weights of the cfg")
    if policy_help:
        parser.add_argument(
            "--policy",
            metavar="P",
            help=f"{policy_help}: fp32, fp16, int8, '{{default: int8, layers: {{first: fp32}}}}' or @FILE",
        )
    add_import_options(parser.add_argument_group("import of --model"), import_keys)


def add_import_options(parser: argparse._ActionsContainer, keys: Iterable[str] = IMPORT_KEYS) -> None:
    """What the user may say about a model to import."""
    for name in keys:
        key = IMPORT_KEYS[name]
        parser.add_argument(
            _option(name),
            type=str if key.words else _reader(key),
            choices=key.words or None,
            metavar=key.metavar,
            help=f"{key.help} (default: {key.absent})",
        )


def _reader(key: ImportKey) -> Callable[[str], object]:
    """The type of an option, for argparse."""

    def read(written: str) -> object:
        try:
            return key.read(written)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected {key.expected}, found {written[:40]}") from None

    return read


def import_options(arguments: argparse.Namespace) -> ImportOptions:
    """The options of an import that the command has."""
    given = {name: getattr(arguments, name, None) for name in IMPORT_KEYS}
    return ImportOptions(**given)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@contextlib.contextmanager
def chosen_cfg(arguments: argparse.Namespace, *, recording: bool = False) -> Iterator[Path]:
    """The cfg to run: the user's own or, with --policy, a copy with the policy's precisions.

    Checks the model's files first, because the next step may be to build the engine. With `recording`, layers
    that need ranges run in fp32. Within it, `arguments` has the cfg, weights and calibration
    of an imported model. Raises ConfigurationError for a wrong file, and for int8 without ranges.
    """
    with model_files(arguments), with_policy(arguments, arguments.policy, recording=recording) as cfg:
        yield cfg


def import_to_cache(model: Path, options: ImportOptions) -> ImportedFiles:
    """For read_sweep: the packages are loaded for a sweep that has a model to import."""
    from harness.importing import stored

    return stored.import_to_cache(model, options)


@contextlib.contextmanager
def model_files(arguments: argparse.Namespace) -> Iterator[None]:
    """Imports the file of --model: within, `arguments` has its cfg, weights and calibration."""
    from harness.errors import ConfigurationError

    if arguments.model is None:
        if arguments.model_required and not (arguments.cfg and arguments.weights):
            raise ConfigurationError(
                "a model is required",
                hint=f"Give --model with an {MODEL_FORMATS}, or --cfg and --weights.",
            )
        _refuse_import_options(arguments)
        yield
        return
    if arguments.cfg or arguments.weights:
        raise ConfigurationError("--model takes the place of --cfg and --weights: give one or the other")
    from harness import console
    from harness.importing.metadata import describe
    from harness.importing.model import import_model
    from harness.importing.writer import write_model
    from harness.temporary import temporary_folder

    with temporary_folder("import") as folder:
        with console.progress(f"importing {arguments.model.name}", total=1) as bar:
            options = import_options(arguments)
            model = import_model(arguments.model, options.input_shape)
            files = write_model(model, folder, describe(model, options))
            bar.advance()
        for warning in model.warnings:
            console.warn(warning)
        arguments.cfg, arguments.weights = files.cfg, files.weights
        if getattr(arguments, "calibration", "") is None:
            arguments.calibration = files.calibration
        yield


def _refuse_import_options(arguments: argparse.Namespace) -> None:
    from harness.errors import ConfigurationError

    for name, key in IMPORT_KEYS.items():
        if getattr(arguments, name, None) is not None:
            raise ConfigurationError(
                f"{_option(name)} applies to --model, not to --cfg",
                hint=f"Write {key.in_cfg} into [net] of {arguments.cfg}." if arguments.cfg else "",
            )


@contextlib.contextmanager
def with_policy(
    arguments: argparse.Namespace,
    policy: str | None,
    *,
    recording: bool = False,
    ranges: bool = True,
    tflite: bool = False,
) -> Iterator[Path]:
    """The cfg of `arguments`, or a copy with the policy's precisions. Without `ranges`, int8 needs none; with
    `tflite`, the policy may be a quantisation of TensorFlow Lite."""
    from harness.config.darknet_cfg import parse_cfg
    from harness.config.model_files import check_model
    from harness.config.policy import apply, in_fp32_where_static
    from harness.config.policy_file import read_policy
    from harness.errors import ConfigurationError
    from harness.temporary import temporary_folder

    calibration = getattr(arguments, "calibration", None)
    network = check_model(arguments.cfg, arguments.weights, calibration)
    text = network.text
    if policy:
        read = read_policy(policy)
        if read.tflite and not tflite:
            raise ConfigurationError(
                f"--policy {policy}: it makes a TensorFlow Lite file, and this command uses none",
                hint="`harness run` measures this policy in the runtime litert, and `harness export --format "
                "tflite` writes the file.",
            )
        text = apply(read, text, network.file)
    if recording:
        text = in_fp32_where_static(text)
    elif calibration is None and ranges:
        _check_ranges(arguments, parse_cfg(text, network.file))
    if not policy:
        yield arguments.cfg
        return
    with temporary_folder("policy") as folder:
        cfg = folder / arguments.cfg.name
        cfg.write_text(text, encoding="latin-1", newline="")
        yield cfg


def _check_ranges(arguments: argparse.Namespace, network: DarknetCfg) -> None:
    from harness.errors import ConfigurationError

    static = [layer for layer in network.weighted if layer.needs_range]
    if static:
        layer = static[0]
        others = f" and {len(static) - 1} more" if len(static) > 1 else ""
        where = f"--policy {arguments.policy}" if arguments.policy else f"{network.file}:{layer.line}"
        instead = "--policy '{default: int8, quantize: 1}'" if arguments.policy else "quantize=1 in the cfg"
        raise ConfigurationError(
            f"{where}: layer {layer.index} ({layer.kind}){others}: {layer.precision} needs recorded ranges",
            hint="Add --calibration with a file from `harness calibrate`, or measure ranges at run time: "
            f"{instead}.",
        )


def add_dataset(parser: argparse._ActionsContainer, *, what: str, split: str, required: bool = True) -> None:
    """--dataset and --split."""
    parser.add_argument("--dataset", type=Path, required=required, metavar="D", help=what)
    parser.add_argument(
        "--split", choices=("train", "val", "test"), help=f"use this split of a data.yaml ({split})"
    )


def dataset_of(arguments: argparse.Namespace) -> Path:
    """The data set of the command line, with its split if given."""
    from harness.accuracy.dataset import with_chosen_split

    dataset: Path = arguments.dataset
    return with_chosen_split(dataset, arguments.split) if arguments.split else dataset


def add_calibration(parser: argparse._ActionsContainer) -> None:
    """--calibration."""
    parser.add_argument(
        "--calibration", type=Path, metavar="F", help="read int8 ranges from this file (harness calibrate)"
    )


def add_engine(parser: argparse.ArgumentParser, *, calibration: bool = True) -> None:
    """The fields of EngineOptions, as a group."""
    group = parser.add_argument_group("engine")
    if calibration:
        add_calibration(group)
    group.add_argument(
        "--threads",
        type=positive_number,
        default=os.cpu_count() or 1,
        metavar="N",
        help="use N threads (default: all cores)",
    )
    group.add_argument(
        "--isa", metavar="NAME", help="use this instruction set (default: the best of this machine)"
    )
    group.add_argument(
        "--algorithm",
        metavar="NAME",
        help="use this algorithm for convolutions (default: automatic, per layer)",
    )
    group.add_argument(
        "--bn-epsilon",
        type=float,
        metavar="E",
        help="use this epsilon for batch normalisation (default: 1e-5, as in Darknet)",
    )


def engine_options(arguments: argparse.Namespace) -> EngineOptions:
    """The EngineOptions of the command line."""
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
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number
