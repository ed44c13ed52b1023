"""The runtimes that a sweep may name. A new one is a class in a file of its own, and a line here."""

from __future__ import annotations

RUNTIMES = {  # name: module and class, imported when a sweep uses it
    "engine": "harness.runtimes.engine_runtime:EngineRuntime",
}
