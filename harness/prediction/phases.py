"""What a layer's predicted time is spent on, told by the instructions of its blocks.

A kernel multiplies, applies the activation and stores in one nest of loops, but seldom in one block of
instructions. Of a block's vector operations,

- products are the layer's multiply-adds,
- all others are its activation if one of them is of no use but to turn sums into outputs: a maximum, a
  comparison, a division, a change between integers and floats, or a saturation,
- all others are conversion: Winograd's transforms, packing, copies, and the loops around them. A block
  without vector operations is conversion, too, and so are the start and the end of a parallel loop.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.prediction.instruction import VECTOR_OPERATIONS, Kind, parse_instruction
from harness.prediction.model import Costs, fitted_coefficients, times, works_of
from harness.prediction.parts import LayerParts

if TYPE_CHECKING:
    from harness.config.board_data import BoardData
    from harness.prediction.profile import Profile, Segment

# Dot products; products of integers with wider results, and the additions that collect these.
_PRODUCTS = re.compile(r"[su](dot|mlal2?|mlsl2?|mull2?|adalp|addw2?)")
_FLOAT_PRODUCTS = ("fmla", "fmls", "fmadd", "fmsub", "fnmadd", "fnmsub")
_OF_OUTPUTS = re.compile(
    r"f(max|min|cm|div|recp|sqrt|rsqrt|rint).*|[su]cvtf|fcvt[zamp][su]|fcvtn[su]|[su]q(xtu?n2?|add)"
)
_MOVES = ("mov", "movi", "mvni", "fmov", "dup")  # between registers: part of what they serve


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Fractions of a block's cycles; the rest is conversion."""

    compute: float = 0.0
    activation: float = 0.0


def block_shares(texts: Sequence[str], *, winograd: bool) -> Shares:
    """The shares of a block's disassembled instructions, by their vector operations: less than 128 bits count
    half. `winograd`: of a layer whose transforms multiply by constants. These are vectors, while its products
    take one element of a vector of weights."""
    products = others = 0.0
    plain = 0.0  # multiply-adds that only their block can tell apart
    of_outputs = False
    for text in texts:
        mnemonic, _, operands = text.partition(" ")
        instruction = parse_instruction(text)
        if instruction.kind not in (*VECTOR_OPERATIONS, Kind.DIVIDE) or mnemonic in _MOVES:
            continue
        size = 1.0 if instruction.wide else 0.5
        if mnemonic in _FLOAT_PRODUCTS and "[" not in operands:
            plain += size
        elif mnemonic in _FLOAT_PRODUCTS or _PRODUCTS.fullmatch(mnemonic):
            products += size
        else:
            others += size
            of_outputs |= _OF_OUTPUTS.fullmatch(mnemonic) is not None
    if of_outputs or winograd:
        others += plain
    else:
        products += plain
    total = products + others
    if total == 0:
        return Shares()
    return Shares(compute=products / total, activation=others / total if of_outputs else 0.0)


def layer_parts(
    profile: Profile,
    costs: Costs,
    texts: Mapping[int, Sequence[str]],
    board: BoardData,
    *,
    threads: int = 1,
    winograd: Collection[int] = (),
) -> dict[int, LayerParts]:
    """The parts of each layer, by index. `texts`: the instructions of the hot blocks, by number; `winograd`:
    indices of the layers with this algorithm."""
    tables = {transforms: _table(profile, texts, winograd=transforms) for transforms in (False, True)}
    cycles = np.zeros(len(profile.blocks))
    cycles[list(costs.blocks)] = list(costs.blocks.values())
    coefficients = fitted_coefficients(board, threads)
    found: dict[int, LayerParts] = {}
    for segment, work in works_of(profile, costs, len(board.caches)):
        if segment.layer is None:
            continue
        computing, memory = times(work, board, coefficients, threads)
        compute = activation = 0.0
        if not segment.converts:
            shares = tables[segment.layer in winograd]
            compute, activation = _weighted(segment, cycles, costs, shares)
        parts = LayerParts(
            compute=compute * computing,
            activation=activation * computing,
            conversion=(1 - compute - activation) * computing,
            memory=memory,
        )
        found[segment.layer] = found.get(segment.layer, LayerParts()) + parts
    return found


def _table(
    profile: Profile, texts: Mapping[int, Sequence[str]], *, winograd: bool
) -> npt.NDArray[np.float64]:
    """[blocks, 2]: the shares of computing and activation."""
    table = np.zeros((len(profile.blocks), 2))
    for number, text in texts.items():
        shares = block_shares(text, winograd=winograd)
        table[number] = shares.compute, shares.activation
    return table


def _weighted(
    segment: Segment,
    cycles: npt.NDArray[np.float64],
    costs: Costs,
    shares: npt.NDArray[np.float64],
) -> tuple[float, float]:
    """The shares of a segment, each block by its cycles and those to fill lines for it."""
    filled = segment.misses[:, 0] + segment.streamed[:, 0]
    weights = segment.runs * cycles[segment.blocks] + costs.line_fill * filled
    total = float(weights.sum()) + costs.loop * segment.loops
    if total == 0:
        return 0.0, 0.0
    compute, activation = (weights @ shares[segment.blocks] / total).tolist()
    return compute, activation
