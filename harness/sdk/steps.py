"""Long work in steps, resumed after an interruption.

A step is finished if it is recorded with the same inputs, and so are all earlier steps. Each step has its own
log for the output of all attempts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from harness import console
from harness.build.log import BuildLog, build_log
from harness.files import write_atomically


class Steps:
    """The steps of some work, to be called in order. Only one process may use their folder at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "steps.json"
        self._recorded = self._read()
        self._chain = ""

    def run(self, name: str, inputs: object, action: Callable[[BuildLog], object]) -> None:
        """Runs the step, unless it is finished. Its result depends on `inputs`, which must be valid JSON.

        Exceptions of the action pass; then neither this step nor any later one counts as finished.
        """
        self._chain = hashlib.sha256(json.dumps([self._chain, name, inputs]).encode()).hexdigest()
        if self._recorded.get(name, {}).get("key") == self._chain:
            console.log(f"step {name}: done on {self._recorded[name]['finished']}")
            return
        self._forget_from(name)
        started = time.monotonic()
        with self._log(name) as log:
            action(log)
        self._recorded[name] = {
            "key": self._chain,
            "finished": _now(),
            "seconds": round(time.monotonic() - started),
        }
        self._write()

    def log_path(self, name: str) -> Path:
        return self._folder / "logs" / f"{name}.log"

    def _forget_from(self, name: str) -> None:
        """Forgets a step and all later ones, before the step starts."""
        names = list(self._recorded)
        if name in names:
            for later in names[names.index(name) :]:
                del self._recorded[later]
            self._write()

    @contextlib.contextmanager
    def _log(self, name: str) -> Iterator[BuildLog]:
        with build_log(self.log_path(name), f"step {name}", append=True) as log:
            log.keep(f"--- {name}, begun on {_now()}")
            try:
                yield log
            except BaseException as error:
                with contextlib.suppress(OSError):  # a full disk may be the cause of the failure
                    log.keep(f"--- {name}, stopped on {_now()}: {type(error).__name__}: {error}")
                raise
            log.keep(f"--- {name}, done on {_now()}")

    def _read(self) -> dict[str, dict[str, object]]:
        try:
            recorded = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        whole = isinstance(recorded, dict) and all(isinstance(entry, dict) for entry in recorded.values())
        return recorded if whole else {}

    def _write(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._file, (json.dumps(self._recorded, indent=2) + "\n").encode())


def _now() -> str:
    return datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
