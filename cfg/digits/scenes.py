"""Cluttered scenes with real handwritten digits in them, for training, calibration and evaluation.

The digits are the 1,797 samples of 8x8 pixels that scikit-learn bundles: the test part of "Optical
Recognition of Handwritten Digits" (Alpaydin and Kaynak, 1998, doi:10.24432/C50P49, CC BY 4.0).

Consecutive samples are one person's: the labels show the same form, some 120 to 130 digits in a fixed order,
filled in 14 times, and the data set's documentation names 13 writers. A random split would put every writer
on both sides and flatter the result. So the split is at a form's first digit: ten forms to train and to
calibrate with, the last four, by other people, to evaluate with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

SIZE = 128  # pixels, both ways
CLASSES = tuple("0123456789")
FIRST_HELD_OUT = 1287  # the sample at which the eleventh form starts

Split = Literal["train", "held-out"]
Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]

_SMALLEST, _LARGEST = 18.0, 64.0  # pixels of a digit's 8x8 square in the scene
_INK = 0.35  # share of full ink from which a pixel counts as part of the digit


@dataclass(frozen=True, kw_only=True)
class Digit:
    """A sample: its 8x8 grey levels (0 paper, 255 ink) and what it shows."""

    ink: Pixels
    label: int


@dataclass(frozen=True, kw_only=True)
class Box:
    """What the detector shall find, in pixels of the scene: the smallest rectangle around the ink."""

    label: int
    left: float
    top: float
    width: float
    height: float

    def yolo(self) -> str:
        """The line of a YOLO label file: class, centre and size as fractions of the scene."""
        x, y = self.left + self.width / 2, self.top + self.height / 2
        return f"{self.label} " + " ".join(f"{v / SIZE:.6f}" for v in (x, y, self.width, self.height))


@dataclass(frozen=True, kw_only=True)
class Scene:
    """RGB pixels [SIZE, SIZE, 3] and the digits in them."""

    pixels: Pixels
    boxes: tuple[Box, ...]


def load_digits(split: Split) -> list[Digit]:
    """The bundled samples of the writers on one side of the split."""
    from sklearn import datasets

    bundle = datasets.load_digits()
    samples = slice(None, FIRST_HELD_OUT) if split == "train" else slice(FIRST_HELD_OUT, None)
    ink = np.round(bundle.images[samples] * (255 / 16)).astype(np.uint8)
    return [Digit(ink=i, label=int(label)) for i, label in zip(ink, bundle.target[samples], strict=True)]


def scenes(
    digits: Sequence[Digit], seed: int, first: int, count: int, most_digits: int = 5
) -> Iterator[Scene]:
    """Scenes `first` to `first + count - 1` of the endless sequence that `seed` names."""
    for index in range(first, first + count):
        yield draw_scene(digits, np.random.default_rng([seed, index]), most_digits)


def draw_scene(digits: Sequence[Digit], rng: np.random.Generator, most_digits: int) -> Scene:
    """One scene: background, shapes, one to `most_digits` digits, pieces of others, the camera's faults."""
    canvas = _background(rng)
    canvas = _shapes(canvas, rng, count=int(rng.integers(2, 10)))
    taken: list[Box] = []
    boxes: list[Box] = []
    for _ in range(rng.integers(1, most_digits + 1)):
        digit = digits[int(rng.integers(len(digits)))]
        if box := _place(canvas, _stamp(digit, rng), digit.label, taken, rng):
            boxes.append(box)
    for _ in range(rng.integers(0, 4)):
        digit = digits[int(rng.integers(len(digits)))]
        piece = _piece(_stamp(digit, rng), rng)
        # Half of the writers write 1 as a bare stroke: a piece of that shape would be one.
        if piece.shape[0] <= 1.5 * piece.shape[1]:
            _place(canvas, piece, digit.label, taken, rng)
    return Scene(pixels=_camera(canvas, rng), boxes=tuple(boxes))


def _background(rng: np.random.Generator) -> Floats:
    """Smooth blotches of colour, often with stripes or checks over them: [SIZE, SIZE, 3], 0 to 255."""
    cells = int(rng.integers(1, 9))
    middle = rng.uniform(20, 235, 3)
    blotches = np.clip(middle + rng.normal(0, rng.uniform(5, 50), (cells, cells, 3)), 0, 255).astype(np.uint8)
    canvas = np.asarray(Image.fromarray(blotches).resize((SIZE, SIZE), Image.Resampling.BICUBIC), np.float32)
    if rng.random() < 0.5:
        y, x = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
        angle, frequency = rng.uniform(0, np.pi), 2 * np.pi / rng.uniform(4, 40)
        cosine, sine = float(np.cos(angle) * frequency), float(np.sin(angle) * frequency)
        along, across = x * cosine + y * sine, y * cosine - x * sine
        wave = np.sin(along) if rng.random() < 0.6 else np.sin(along) * np.sin(across)
        if rng.random() < 0.4:
            wave = np.sign(wave)
        canvas = canvas + wave[..., None] * rng.normal(0, 14, 3).astype(np.float32)
    return np.clip(canvas, 0, 255).astype(np.float32)


def _shapes(canvas: Floats, rng: np.random.Generator, count: int) -> Floats:
    """The canvas with lines, arcs, ellipses and rectangles drawn over it."""
    image = Image.fromarray(canvas.astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(count):
        colour = tuple(int(c) for c in rng.integers(0, 256, 3))
        thickness = int(rng.integers(1, 7))
        x, y = rng.uniform(-20, SIZE, 2)
        width, height = rng.uniform(8, 80, 2)
        frame = (x, y, x + width, y + height)
        match int(rng.integers(5)):
            case 0:
                points = np.cumsum(rng.normal(0, 25, (int(rng.integers(2, 6)), 2)), axis=0) + np.array([x, y])
                draw.line([tuple(p) for p in points], fill=colour, width=thickness, joint="curve")
            case 1:
                start = rng.uniform(0, 360)
                draw.arc(frame, start, start + rng.uniform(40, 250), fill=colour, width=thickness)
            case 2:
                draw.ellipse(frame, fill=colour)
            case 3:
                draw.rectangle(frame, fill=colour)
            case _:
                draw.rectangle(frame, outline=colour, width=thickness)
    return np.asarray(image, np.float32)


def _stamp(digit: Digit, rng: np.random.Generator) -> Floats:
    """The digit enlarged, slightly turned, slanted and stretched: ink from 0 to 1, cut to what has some."""
    scale = np.exp(rng.uniform(np.log(_SMALLEST), np.log(_LARGEST))) / 8
    stretch = np.exp(rng.normal(0, 0.1))
    angle, slant = rng.normal(0, 0.12), rng.normal(0, 0.12)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    forward = turn @ np.array([[1.0, slant], [0.0, 1.0]]) @ np.diag([scale * stretch, scale / stretch])
    backward = np.linalg.inv(forward)
    side = int(np.ceil(14 * scale))
    padded = Image.fromarray(np.pad(digit.ink, 2))  # bicubic interpolation wants paper around the ink
    shift = np.array([6.0, 6.0]) - backward @ np.array([side / 2, side / 2])
    matrix = (*backward[0], shift[0], *backward[1], shift[1])
    drawn = padded.transform((side, side), Image.Transform.AFFINE, matrix, Image.Resampling.BICUBIC)
    strength = np.float32(rng.uniform(1.1, 2.2))  # from soft pencil to felt pen
    ink = np.clip((np.asarray(drawn, np.float32) / 255 - np.float32(0.1)) * strength, 0, 1)
    rows, columns = np.nonzero(ink.max(1) > _INK)[0], np.nonzero(ink.max(0) > _INK)[0]
    return np.asarray(ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1], np.float32)


def _piece(ink: Floats, rng: np.random.Generator) -> Floats:
    """A third of a digit, cut off straight: it looks like one and is none."""
    height, width = ink.shape
    share = rng.uniform(0.25, 0.4)
    match int(rng.integers(4)):
        case 0:
            return ink[: max(1, int(height * share))]
        case 1:
            return ink[height - max(1, int(height * share)) :]
        case 2:
            return ink[:, : max(1, int(width * share))]
        case _:
            return ink[:, width - max(1, int(width * share)) :]


def _place(canvas: Floats, ink: Floats, label: int, taken: list[Box], rng: np.random.Generator) -> Box | None:
    """Draws the stamp where nothing in `taken` is, adds its box there and returns it; None if no room."""
    height, width = ink.shape
    if height >= SIZE - 4 or width >= SIZE - 4:
        return None
    for _ in range(20):
        left, top = int(rng.integers(2, SIZE - width - 2)), int(rng.integers(2, SIZE - height - 2))
        if any(
            left < other.left + other.width + 2
            and other.left < left + width + 2
            and top < other.top + other.height + 2
            and other.top < top + height + 2
            for other in taken
        ):
            continue
        under = canvas[top : top + height, left : left + width]
        opacity = ink[..., None] * np.float32(rng.uniform(0.8, 1.0))
        under += (_contrasting_colour(under, rng) - under) * opacity
        box = Box(label=label, left=left, top=top, width=width, height=height)
        taken.append(box)
        return box
    return None


def _contrasting_colour(under: Floats, rng: np.random.Generator) -> Floats:
    """A colour that differs in brightness by 70 or more of 255 from the mean of what it is drawn on."""
    brightness = float(under.mean())
    darker, brighter = brightness - 70, 185 - brightness
    if rng.random() * (max(darker, 0) + max(brighter, 0)) < max(darker, 0):
        wanted = rng.uniform(0, darker)
    else:
        wanted = rng.uniform(brightness + 70, 255)
    tint = rng.normal(0, 25, 3)
    return np.asarray(np.clip(wanted + tint - tint.mean(), 0, 255), np.float32)


def _camera(canvas: Floats, rng: np.random.Generator) -> Pixels:
    """Blur, contrast, brightness and noise."""
    image = Image.fromarray(np.clip(canvas, 0, 255).astype(np.uint8))
    if rng.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 0.9)))
    values = np.asarray(image, np.float32)
    contrast, brightness = rng.uniform(0.6, 1.1), rng.uniform(-20, 20)
    noise = rng.standard_normal(values.shape, np.float32) * np.float32(rng.uniform(0, 12))
    return np.clip((values - 128) * contrast + 128 + brightness + noise, 0, 255).astype(np.uint8)
