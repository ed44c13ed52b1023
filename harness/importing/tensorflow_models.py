"""Keras models and SavedModels as TensorFlow Lite, by TensorFlow in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from harness import console
from harness.config.file_kind import HDF5, KERAS, SAVED_MODEL, Kind
from harness.errors import ConfigurationError, file_error
from harness.importing.graph import Shape
from harness.importing.tensorflow_process import run_tensorflow, tensorflow_failure
from harness.json_file import read_json
from harness.temporary import temporary_folder

# The names of formats; Keras itself tells its two by the ends of the files' names.
FORMATS: Mapping[Kind, str] = {KERAS: "keras", HDF5: "hdf5", SAVED_MODEL: "saved_model"}
_SUFFIXES: Mapping[Kind, str] = {KERAS: ".keras", HDF5: ".h5"}

_PROGRAM = Path(__file__).with_name("tensorflow_program.py")
_LARGEST_REASON = 1 << 20  # bytes
_OWN_LAYERS = (
    "The code of your own layers is not in a Keras file. Where the model was made, write a SavedModel, which "
    "does not need it: `model.export('FOLDER')`."
)


def converted(path: Path, kind: Kind, input_shape: Shape | None) -> bytes:
    """The content of a TensorFlow Lite file with the model, a batch of one, and floats as they are.

    Raises ConfigurationError if TensorFlow is not installed, or if the model cannot be converted.
    """
    if find_spec("tensorflow") is None:
        raise ConfigurationError(
            f"{path}: is {kind.name}, and the Python package tensorflow, which converts it, is not installed",
            hint="Install it with `pip install 'harness[import,train]'`.",
        )
    if kind == SAVED_MODEL and not path.is_dir():
        raise ConfigurationError(
            f"{path}: is one file of a TensorFlow SavedModel", hint="Name the folder with saved_model.pb."
        )
    try:
        with temporary_folder("tensorflow") as folder:
            source = path.absolute()
            if suffix := _SUFFIXES.get(kind):
                source = folder / f"model{suffix}"
                source.symlink_to(path.absolute())
            with console.progress(f"converting {path.name} with TensorFlow", None):
                shape = [",".join(map(str, input_shape))] if input_shape else []
                done = run_tensorflow(_PROGRAM, FORMATS[kind], str(source), str(folder), *shape)
            refused = folder / "refused.json"
            if refused.exists():
                reason = read_json(refused, limit=_LARGEST_REASON, what="the reason of a refusal")
                raise ConfigurationError(f"{path}: {reason['message']}", hint=reason["hint"])
            if done.returncode:
                hint = _OWN_LAYERS if "Could not locate" in done.stdout else ""
                raise tensorflow_failure(path, done, hint)
            return (folder / "model.tflite").read_bytes()
    except OSError as error:
        raise file_error(path, error) from None
