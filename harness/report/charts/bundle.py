"""Vega, Vega-Lite and Vega-Embed as one script, for pages that load nothing."""

from __future__ import annotations

import contextlib
from importlib.metadata import version
from importlib.resources import files

from harness.errors import ConfigurationError
from harness.files import write_atomically
from harness.resources import cache_directory


def script() -> str:
    """The libraries, and the code that draws the charts of a page."""
    drawing = files("harness.report.charts").joinpath("draw.js").read_text("utf-8")
    return f"{_libraries()}\n{drawing}".replace("</script", "<\\/script")


def _libraries() -> str:
    """From the cache: vl-convert needs a second to bundle them."""
    folder = cache_directory() / "vega"
    path = folder / f"vega-{version('vl-convert-python')}.js"
    with contextlib.suppress(OSError):
        return path.read_text("utf-8")
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;")
    with contextlib.suppress(OSError, ConfigurationError):  # without a cache it only takes longer
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, bundle.encode())
    return bundle
