"""What of a board decides how fast it is: clock, caches, memory, and how well its prediction was found to be.

Part of a target's file, under the key `board`.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.config.document import Node
from harness.config.validation import (
    Boolean,
    Choice,
    Either,
    Field,
    Integer,
    ListOf,
    Number,
    Record,
    Schema,
    Text,
    from_dataclass,
)
from harness.resources import resource

LINE_BYTES = 64


@dataclass(frozen=True, kw_only=True)
class Cache:
    """One level of data cache; lines have 64 bytes."""

    kib: int
    ways: int
    shared: bool = False  # by all cores; else each has its own


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """What turns a board's cycles and bytes into its seconds, and how well that was found to work.

    Errors are fractions of the measured time: of predictions for a network that was left out of the fit.
    """

    compute: float  # times cycles over the clock
    memory: float  # times bytes over the bandwidth
    fitted_on: str = ""  # which measurements; "": on none of this board
    median_error: float | None = None
    error_p90: float | None = None  # that nine of ten predictions stay within
    like: str = ""  # the target that they are borrowed from; "": they are this board's own

    @property
    def validated(self) -> bool:
        """Whether its error is known."""
        return self.error_p90 is not None


@dataclass(frozen=True, kw_only=True)
class BoardData:
    """A board's processor and memory."""

    cores: int
    clock_hz: float
    copy_bytes_per_second: float  # a large memcpy by one core, in bytes copied
    caches: tuple[Cache, ...]  # from the core outwards, at most three
    midr: int  # the core's main identification register
    core_model: str  # file in toolchains/cores/ that says what instructions cost
    coefficients: Coefficients | None = None  # of one thread; None: nothing can be predicted
    coefficients_all_cores: Coefficients | None = None  # of as many threads as cores


def core_models() -> tuple[str, ...]:
    """The cores whose costs are known."""
    return tuple(sorted(path.stem for path in resource("toolchains", "cores").glob("*.yaml")))


_LIKE = r"like +\S+"
_COEFFICIENTS_KEY, _ALL_CORES_KEY = "coefficients", "coefficients_all_cores"


def _borrowed(node: Node, name: str, key: str) -> Coefficients | None:
    """What a target that ships has under a key, for a board that nothing was measured on."""
    from harness.config.targets import all_targets  # which read boards, as of this module

    boards = {
        each: (target.name, target.board)
        for target in all_targets()
        if target.board is not None and target.board.coefficients is not None
        for each in (target.name, *target.aliases)
    }
    if name not in boards:
        raise node.error(
            f"there are no coefficients of {name} to borrow",
            hint=f"Targets that have some: {', '.join(sorted({target for target, _ in boards.values()}))}.",
        )
    target, board = boards[name]
    found: Coefficients | None = getattr(board, key)
    return found and Coefficients(compute=found.compute, memory=found.memory, like=target)


@dataclass(frozen=True, kw_only=True)
class _Like:
    """`like TARGET`: the coefficients of a target that ships, under the same key."""

    key: str

    def read(self, node: Node) -> Coefficients | None:
        shape = Text(expected="coefficients, or those of a target, as in like pi5", pattern=_LIKE)
        return _borrowed(node, shape.read(node).split()[1], self.key)

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^{_LIKE}$"}


def _cache(node: Node, *, kib: int, ways: int, shared: bool = False) -> Cache:
    sets, rest = divmod(kib * 1024, ways * LINE_BYTES)
    if rest or sets & (sets - 1):
        raise node.error(f"a cache of {kib} KiB in {ways} ways has {kib * 1024 / ways / LINE_BYTES:g} sets")
    return Cache(kib=kib, ways=ways, shared=shared)


def _board(
    node: Node, *, clock_mhz: float, copy_mb_per_second: float, midr: str, **values: object
) -> BoardData:
    own = values.get(_COEFFICIENTS_KEY)
    if isinstance(own, Coefficients) and own.like and _ALL_CORES_KEY not in values:
        values[_ALL_CORES_KEY] = _borrowed(node, own.like, _ALL_CORES_KEY)
    return BoardData(
        clock_hz=clock_mhz * 1e6,
        copy_bytes_per_second=copy_mb_per_second * 1e6,
        midr=int(midr, 16),
        **values,  # type: ignore[arg-type]
    )


_ERROR = Number(least=0.0, most=10.0)
_COEFFICIENTS = Record(
    what="coefficients",
    make=from_dataclass(Coefficients),
    fields={
        "compute": Field(
            shape=Number(least=0, most=100),
            help="factor of the predicted cycles",
            required=True,
            example=1.07,
        ),
        "memory": Field(
            shape=Number(least=0, most=100),
            help="factor of the time that moving bytes takes",
            required=True,
            example=1.62,
        ),
        "fitted_on": Field(
            shape=Text(expected="a line of text"),
            help="measurements that the factors were fitted on",
            example="ncnn 20240820, 8 networks",
        ),
        "median_error": Field(
            shape=_ERROR, help="median error of the predictions, as a fraction", example=0.08
        ),
        "error_p90": Field(shape=_ERROR, help="90th percentile of the errors, as a fraction", example=0.21),
    },
)

BOARD_SHAPE: Record[BoardData] = Record(
    what="a board",
    make=_board,
    fields={
        "cores": Field(
            shape=Integer(least=1, most=256), help="number of cores of this kind", required=True, example=4
        ),
        "clock_mhz": Field(
            shape=Number(least=1, most=10000),
            help="highest clock of the cores, in MHz",
            required=True,
            example=1800,
        ),
        "copy_mb_per_second": Field(
            shape=Number(least=1, most=1e6),
            help="bandwidth of one core that copies memory, in 10^6 bytes per second (tinymembench's memcpy)",
            required=True,
            example=2500,
        ),
        "caches": Field(
            shape=ListOf(
                what="caches",
                item=Record(
                    what="a cache",
                    make=_cache,
                    defaults=Cache,
                    fields={
                        "kib": Field(
                            shape=Integer(least=1, most=1 << 20),
                            help="size in KiB",
                            required=True,
                            example=1024,
                        ),
                        "ways": Field(
                            shape=Integer(least=1, most=64),
                            help="associativity",
                            required=True,
                            example=16,
                        ),
                        "shared": Field(
                            shape=Boolean(), help="whether all cores share the cache", example=True
                        ),
                    },
                ),
            ),
            help="levels of data cache, from the core outwards, at most three",
            required=True,
            example=[{"kib": 32, "ways": 2}, {"kib": 1024, "ways": 16, "shared": True}],
        ),
        "midr": Field(
            shape=Text(expected="a hexadecimal number", pattern="0x[0-9a-f]{8}"),
            help="MIDR_EL1 of the core, by which runtimes recognise it",
            required=True,
            example="0x410fd083",
        ),
        "core_model": Field(
            shape=Choice(what="core", names=core_models),
            help="file below toolchains/cores/ with the costs of the core's instructions",
            required=True,
            example="cortex-a72",
        ),
        _COEFFICIENTS_KEY: Field(
            shape=Either(short=_Like(key=_COEFFICIENTS_KEY), long=_COEFFICIENTS),
            help="coefficients of one thread, found by `harness predict --calibrate`; `like pi5` borrows "
            "those of another target, which is not validated; without them nothing is predicted",
            example="like pi5",
        ),
        _ALL_CORES_KEY: Field(
            shape=Either(short=_Like(key=_ALL_CORES_KEY), long=_COEFFICIENTS),
            help="coefficients of as many threads as there are cores",
            example={"compute": 1.2, "memory": 1.9},
        ),
    },
)
