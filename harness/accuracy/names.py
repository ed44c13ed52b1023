"""Lists of names in the order of a network's outputs: of classes, and of WordNet ids."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness import console
from harness.accuracy.data_yaml import NAMES, DataYaml
from harness.config.data_set_path import YAML_SUFFIXES
from harness.errors import ConfigurationError
from harness.files import read_text

# First names of lists that count a background.
BACKGROUNDS = ("background", "__background__", "dummy", "???")

_LARGEST_FILE = 16 << 20  # bytes
_UNUSED = ("", "???", "n/a")  # names of numbers that stand for no class

# COCO numbers its 80 classes from 1 to 90. These have no class.
_COCO_IDS = 90
_COCO_GAPS = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)


def read_names(path: Path) -> list[str]:
    """The names in a `data.yaml` or in a text file with a name per line; trailing blank lines are ignored.

    Raises ConfigurationError if the file cannot be read.
    """
    if path.suffix in YAML_SUFFIXES:
        return DataYaml(path).names()
    text = read_text(path, limit=_LARGEST_FILE, what="a list of names")
    return [line.removesuffix("\r") for line in text.rstrip().split("\n")]


def named_columns(names: Sequence[str], classes: int) -> tuple[int, ...]:
    """The columns of a network's scores that stand for a class, by its names.

    Without names, 90 classes are COCO's own numbers, whose gaps data sets leave out.
    """
    if len(names) == classes:
        kept = tuple(column for column, name in enumerate(names) if name.strip().lower() not in _UNUSED)
        return kept or tuple(range(classes))
    if classes == _COCO_IDS:
        return tuple(column for column in range(classes) if column + 1 not in _COCO_GAPS)
    return tuple(range(classes))


def class_names(chosen: Path | None, cfg: Path, classes: int, of_data_set: Sequence[str] = ()) -> list[str]:
    """The names of a network's classes: from the chosen file, else from the file with the cfg's name, else
    those of the data set, or from the only other file beside the cfg (`*.names`, `data.yaml`); else numbers.

    Only as many names as classes are taken. Raises ConfigurationError if the chosen file has more or fewer.
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
    own = bool(fitting) and next(iter(fitting)).stem == cfg.stem
    if len(of_data_set) == classes and not own:
        return list(of_data_set)
    if own or len(set(map(tuple, fitting.values()))) <= 1:
        return next(iter(fitting.values()), numbers)
    shown = ", ".join(str(file) for file in fitting)
    console.warn(f"showing class numbers: several files with names match ({shown}); choose one with --names")
    return numbers
