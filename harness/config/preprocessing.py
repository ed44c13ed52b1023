"""How a picture becomes a network's input: the keys of [net] that imported models have."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

RESIZES = ("stretch", "letterbox", "letterbox_top_left", "crop")
COLORS = ("rgb", "bgr")


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """(picture - mean) / std, of pixels from 0 to 255.

    `mean` and `std` have one number, or one for each channel in the network's order. What is not said is
    None, and is no key of the cfg: readers of its outputs know what is usual.
    """

    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    colors: str | None = None  # one of COLORS
    resize: str | None = None  # one of RESIZES
    fill: float | None = None

    def replaced(self, given: Preprocessing) -> Preprocessing:
        """The same, with what `given` says in its place."""
        said = {key.name: getattr(given, key.name) for key in fields(Preprocessing)}
        return replace(self, **{key: value for key, value in said.items() if value is not None})

    def keys(self) -> dict[str, str]:
        """The keys of [net]."""
        found = {
            "mean": self.mean and _numbers(self.mean),
            "std": self.std and _numbers(self.std),
            "colors": self.colors,
            "resize": self.resize,
            "fill": None if self.fill is None else f"{self.fill:g}",
        }
        return {key: value for key, value in found.items() if value}


def _numbers(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:.9g}" for value in values)
