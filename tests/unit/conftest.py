"""Settings of the property tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes depends on what else the machine does; that is no finding.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
