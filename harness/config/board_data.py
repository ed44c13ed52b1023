"""The data that a board's speed is predicted from: clock, caches, memory, and fitted coefficients.

Part of a target's file, under the key `board`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """Factors from a board's cycles and bytes to its seconds, and their validated errors.

    Errors are fractions of the measured time, of predictions for networks that were left out of the fit.
    """

    compute: float  # times cycles over the clock
    memory: float  # times bytes over the bandwidth
    fitted_on: str = ""  # description of the measurements; "": this board was not measured
    median_error: float | None = None
    error_p90: float | None = None  # 90th percentile of the relative error
    like: str = ""  # the target that lends them; "": they are this board's own

    @property
    def validated(self) -> bool:
        """Whether the error of its predictions is known."""
        return self.error_p90 is not None


@dataclass(frozen=True, kw_only=True)
class BoardData:
    """A board's processor and memory."""

    cores: int
    clock_hz: float
    copy_bytes_per_second: float  # copied bytes of a large memcpy by one core
    caches: tuple[Cache, ...]  # from the core outwards, at most three
    midr: int  # the core's main identification register
    core_model: str  # file in toolchains/cores/ with the costs of instructions
    coefficients: Coefficients | None = None  # of one thread; None: nothing can be predicted
    coefficients_all_cores: Coefficients | None = None  # of as many threads as cores


def core_models() -> tuple[str, ...]:
    """The cores with known instruction costs."""
    return tuple(sorted(path.stem for path in resource("toolchains", "cores").glob("*.yaml")))


_LIKE = r"like +\S+"
_COEFFICIENTS_KEY, _ALL_CORES_KEY = "coefficients", "coefficients_all_cores"


# All names of a target -> its main name and its board, for targets that lend coefficients.
Donors = Callable[[], Mapping[str, tuple[str, BoardData]]]


@dataclass(frozen=True, kw_only=True)
class _Like:
    """`like TARGET`: the coefficients of a target that ships, under the same key."""

    key: str
    donors: Donors

    def read(self, node: Node) -> Coefficients | None:
        shape = Text(expected="coefficients, or those of a target, as in like pi5", pattern=_LIKE)
        return self.borrowed(node, shape.read(node).split()[1])

    def borrowed(self, node: Node, name: str) -> Coefficients | None:
        """The coefficients of a target. Raises ConfigurationError if it has none."""
        boards = {each: found for each, found in self.donors().items() if found[1].coefficients}
        if name not in boards:
            known = ", ".join(sorted({target for target, _ in boards.values()}))
            raise node.error(
                f"there are no coefficients of {name} to borrow", hint=f"Targets with coefficients: {known}."
            )
        target, board = boards[name]
        found: Coefficients | None = getattr(board, self.key)
        return found and Coefficients(compute=found.compute, memory=found.memory, like=target)

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^{_LIKE}$"}


def _cache(node: Node, *, kib: int, ways: int, shared: bool = False) -> Cache:
    sets, rest = divmod(kib * 1024, ways * LINE_BYTES)
    if rest or sets & (sets - 1):
        raise node.error(
            f"a cache of {kib} KiB in {ways} ways has {kib * 1024 / ways / LINE_BYTES:g} sets, "
            "which is not a power of two"
        )
    return Cache(kib=kib, ways=ways, shared=shared)


def _board(
    node: Node, donors: Donors, *, clock_mhz: float, copy_mb_per_second: float, midr: str, **values: object
) -> BoardData:
    own = values.get(_COEFFICIENTS_KEY)
    if isinstance(own, Coefficients) and own.like and _ALL_CORES_KEY not in values:
        values[_ALL_CORES_KEY] = _Like(key=_ALL_CORES_KEY, donors=donors).borrowed(node, own.like)
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


def board_shape(donors: Donors) -> Record[BoardData]:
    """The key `board` of a targets file."""
    return Record(
        what="a board",
        make=lambda node, **values: _board(node, donors, **values),
        fields={
            "cores": Field(
                shape=Integer(least=1, most=256),
                help="number of cores of this kind",
                required=True,
                example=4,
            ),
            "clock_mhz": Field(
                shape=Number(least=1, most=10000),
                help="highest clock of the cores, in MHz",
                required=True,
                example=1800,
            ),
            "copy_mb_per_second": Field(
                shape=Number(least=1, most=1e6),
                help="memory that one core copies (tinymembench's memcpy), in 10^6 bytes per second",
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
                shape=Either(short=_Like(key=_COEFFICIENTS_KEY, donors=donors), long=_COEFFICIENTS),
                help="coefficients of one thread, found by `harness predict --calibrate`; `like pi5` borrows "
                "those of another target, which is not validated; without them nothing is predicted",
                example="like pi5",
            ),
            _ALL_CORES_KEY: Field(
                shape=Either(short=_Like(key=_ALL_CORES_KEY, donors=donors), long=_COEFFICIENTS),
                help="coefficients of as many threads as there are cores",
                example={"compute": 1.2, "memory": 1.9},
            ),
        },
    )
