"""Lists of names in the order of a network's outputs: of classes, and of WordNet ids."""

from __future__ import annotations

from pathlib import Path

from harness import console
from harness.accuracy.data_yaml import NAMES, DataYaml
from harness.config.data_set_path import YAML_SUFFIXES
from harness.errors import ConfigurationError
from harness.files import read_text

_LARGEST_FILE = 16 << 20  # bytes


def read_names(path: Path) -> list[str]:
    """The names in a `data.yaml` or in a text file with a name per line; trailing blank lines are ignored.

    Raises ConfigurationError if the file cannot be read.
    """
    if path.suffix in YAML_SUFFIXES:
        return DataYaml(path).names()
    text = read_text(path, limit=_LARGEST_FILE, what="a list of names")
    return [line.removesuffix("\r") for line in text.rstrip().split("\n")]


def class_names(chosen: Path | None, cfg: Path, classes: int) -> list[str]:
    """The names of a network's classes: from the chosen file, else from the only file beside the cfg with as
    many names (`*.names`, `data.yaml`), else numbers.

    Raises ConfigurationError if the chosen file has another number of names.
    """
    if chosen is not None:
        names = read_names(chosen)
        if len(names) != classes:
            raise ConfigurationError(
                f"{chosen}: has {len(names)} names, but the network has {classes} classes"
            )
        return names
    numbers = [str(number) for number in range(classes)]
    files = sorted(cfg.parent.glob("*.names"), key=lambda file: (file.stem != cfg.stem, file))
    fitting: dict[Path, list[str]] = {}
    for file in (*files, *(cfg.parent / name for name in NAMES)):
        try:
            names = read_names(file)
        except ConfigurationError:  # the user did not choose this file
            continue
        if len(names) == classes:
            fitting[file] = names
    if len(set(map(tuple, fitting.values()))) <= 1 or next(iter(fitting)).stem == cfg.stem:
        return next(iter(fitting.values()), numbers)
    shown = ", ".join(str(file) for file in fitting)
    console.warn(f"showing class numbers: several files with names match ({shown}); choose one with --names")
    return numbers
