"""What a test needs of the machine: without it the test is skipped, or fails where everything is required."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def absent(reason: str) -> NoReturn:
    """Skips the test with the reason; with HARNESS_REQUIRE_ALL=1, as in CI, it fails."""
    if os.environ.get("HARNESS_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
