"""Imported models in the cache, for sweeps: a folder for each content."""

from __future__ import annotations

import hashlib
from pathlib import Path

from harness import console
from harness.config.import_options import ImportOptions
from harness.errors import file_error
from harness.importing.metadata import describe
from harness.importing.model import import_model
from harness.importing.writer import ImportedFiles, write_model
from harness.resources import cache_directory
from harness.temporary import fresh_folder, temporary_folder


def import_to_cache(model: Path, options: ImportOptions) -> ImportedFiles:
    """The files of an imported model below the cache folder.

    The model is imported every time, which takes about a second (of TensorFlow's formats more) and sees data
    in other files, too. The
    folder's name is a digest of what was imported, so that the same model has the same paths. Raises
    ConfigurationError as import_model does, and if the cache cannot be written.
    """
    with console.progress(f"importing {model.name}", total=1) as bar:
        imported = import_model(model, options.input_shape)
        said = describe(imported, options)
        try:
            with temporary_folder("import") as folder:
                files = write_model(imported, folder, said)
                final = cache_directory() / "imports" / _digest(files)
            if not final.exists():
                with fresh_folder(final) as folder:
                    write_model(imported, folder, said)
        except OSError as error:
            raise file_error(cache_directory(), error) from error
        bar.advance()
    for warning in imported.warnings:
        console.warn(f"{model.name}: {warning}")
    return files.moved(final)


def _digest(files: ImportedFiles) -> str:
    found = hashlib.sha256()
    for path in files.all():
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:24]
