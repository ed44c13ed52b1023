"""JSON files that users bring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.errors import ConfigurationError
from harness.files import read_text


def read_json(path: Path, *, limit: int, what: str) -> Any:
    """The document of a file of at most `limit` bytes; `what` says in messages what the file should be.

    Raises ConfigurationError with file and line where it is not JSON, or nested or long beyond reason.
    """
    text = read_text(path, limit=limit, what=what)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise ConfigurationError(
            f"{path}: not {what}: lists and objects are nested too deeply",
            hint="Check that it is the right file.",
        ) from None
    except ValueError:  # Python reads integers of some thousand digits, and no more
        raise ConfigurationError(
            f"{path}: not {what}: a number has thousands of digits",
            hint="Check that it is the right file.",
        ) from None
