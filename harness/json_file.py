"""Reads users' JSON files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.errors import ConfigurationError
from harness.files import read_text


def read_json(path: Path, *, limit: int, what: str) -> Any:
    """Reads a JSON file of at most `limit` bytes; `what` names the expected content in messages.

    Raises ConfigurationError with file and line if it is not JSON, nested too deeply or too large.
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
    except ValueError:  # an integer with more digits than Python accepts
        raise ConfigurationError(
            f"{path}: not {what}: a number has thousands of digits",
            hint="Check that it is the right file.",
        ) from None
