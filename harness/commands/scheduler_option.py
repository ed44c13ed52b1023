"""Where evaluations run, as an option."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.tasks.base import TaskRunner


def add_scheduler(parser: argparse._ActionsContainer) -> None:
    """--scheduler."""
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="evaluate on the workers of this Dask scheduler (default: in this process)",
    )


@contextlib.contextmanager
def task_runner(scheduler: str | None, jobs: int | None = None) -> Iterator[TaskRunner | None]:
    """What runs evaluations, at most `jobs` at once; None: this process."""
    if scheduler is None:
        yield None
        return
    from harness.tasks.dask_runner import DaskRunner

    with contextlib.closing(DaskRunner(scheduler, jobs)) as runner:
        yield runner
