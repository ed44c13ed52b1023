"""The interface of a runtime: it prepares files for a target, runs them on a board, and reports the result.

A new runtime implements `Runtime` and `Execution`, and needs a line in harness/config/runtimes.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Generic, TypeVar

from msgspec import Meta

from harness.boards.base import MOST_OUTPUT
from harness.config.runtimes import RUNTIMES
from harness.config.sweep import Options

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from harness.boards.base import Board
    from harness.config.darknet_cfg import DarknetCfg
    from harness.config.file_kind import Kind
    from harness.config.sweep import Build
    from harness.config.targets import Target
    from harness.errors import HarnessError

Answer = TypeVar("Answer")

# Types of values from boards; msgspec checks their ranges.
Count = Annotated[int, Meta(ge=0, le=1 << 62)]
Bytes = Annotated[int, Meta(ge=0, le=1 << 46)]  # at most 64 TiB
Word = Annotated[str, Meta(min_length=1, max_length=64)]


@dataclass(frozen=True, kw_only=True)
class Program:
    """A runtime's program for a target."""

    path: Path
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files of a cell on this machine."""

    program: Path
    cfg: Path
    weights: Path
    calibration: Path | None = None
    samples: Path | None = None  # images as .npy, for the digests
    libraries: Sequence[Path] = ()  # loaded by the program
    model: Path | None = None  # executed in place of cfg and weights


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """A file that a runtime executes in place of a cfg and its weights."""

    path: Path
    outputs: Mapping[int, str]  # the names of its outputs, by the layers of the cfg that compute the same
    more: Sequence[str] = ()  # the operators that it has behind these
    channels_last: bool = False  # in tensors of four axes; the cfg's layers have them first


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Parameters of an execution, besides files."""

    network: DarknetCfg | None = None  # None: unknown, and the output is not compared with it
    threads: int = 1
    options: Options = field(default_factory=Options)
    multiply_adds: int = 0  # of one inference; 0: unknown


@dataclass(frozen=True, kw_only=True)
class LayerResult:
    """A layer of a profile: its precision, algorithm and time."""

    index: Count
    type: Word
    precision: Word  # in the cfg
    executed: Word  # the executed precision
    isa: Word
    algorithm: Word
    ns: Count
    conversion_ns: Count  # of these, for converting the input between precisions
    bytes: Bytes  # moved
    predicted_ns: int | None = None  # of a real board, where the cell was emulated
    predicted_compute_ns: int | None = None  # of these, like the next ones; None: without multiply-adds
    predicted_activation_ns: int | None = None
    predicted_conversion_ns: int | None = None
    predicted_memory_ns: int | None = None


@dataclass(frozen=True, kw_only=True)
class ExecutedFile:
    """The file of a model that a runtime executes, as it is sent to boards.

    `float_operators`: of a file with integers, how many operators of each name compute in float; None: it
    computes everything in float, or its format does not tell.
    """

    bytes: int
    float_operators: Mapping[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """The measurements of one process. None: the runtime does not report it."""

    samples_ns: Sequence[int]
    arena_bytes: int | None = None
    weight_bytes: int | None = None
    peak_rss_bytes: int | None = None
    interpreter_rss_bytes: int | None = None  # of these: the interpreter's before it loads the runtime
    instructions: int | None = None  # of one inference
    threads: int | None = None
    isa: str | None = None
    layers: Sequence[LayerResult] = ()


@dataclass(frozen=True, kw_only=True)
class Command(Generic[Answer]):
    """A program to run on a board, and how to read its output."""

    name: str  # for messages
    argv: Sequence[str]
    read: Callable[[str, float], Answer]  # from the output, and the seconds that the program ran
    failure: Callable[[int, str], HarnessError]  # from an exit status other than 0, and standard error
    environment: Mapping[str, str] = field(default_factory=dict)
    most_output: int = MOST_OUTPUT  # bytes


class Execution(ABC):
    """A workload on a board. Methods return None if the runtime does not support them."""

    @property
    def cores(self) -> Collection[int]:
        """The cores that its threads use."""
        return (0,)

    @abstractmethod
    def bench(self, *, warmup: int, runs: int, min_seconds: float) -> Command[BenchResult]:
        """Measures at least `runs` inferences that take at least `min_seconds`, in one process."""

    def marked_bench(self, *, profile: bool, threads: int = 1) -> Command[BenchResult] | None:
        """Runs one inference between the marks that a board's profiler and instruction counter look for.
        Those before it are needed only if the first inference does more than later ones: the profiler fills
        the caches itself.

        A `profile` of several threads has the parts of all, or the first thread's alone. None if the profile
        would tell nothing about their work.
        """
        return None

    def planned_bench(self, threads: int) -> Command[BenchResult] | None:
        """A marked bench with a profile, on one thread, with the algorithms that the runtime chooses for so
        many. None if its algorithms do not depend on the number of threads."""
        return None

    def digests(self, images: int | None) -> Command[Sequence[str]] | None:
        """Computes the digest of the outputs for each of the `images` sample images."""
        return None

    def is_bit_exact(self, layers: Sequence[LayerResult]) -> bool:
        """Whether the outputs must have the same bits on every processor."""
        return False


class Runtime(ABC):
    """Executes models on boards."""

    formats: Sequence[Kind] = ()  # of model files that it executes; none: it executes cfg and weights
    export: str = ""  # the format in which it gets other models and precisions; "": it cannot run them
    int8_export: str = ""  # the same for int8 with recorded ranges, if it is another one
    options: Collection[str] = ()  # of a sweep's options, those that it takes
    # The backend that executes what the preferred one lacks, as a layer's algorithm; "": it does not tell.
    fallback_backend: str = ""

    @property
    def version(self) -> str:
        """Its version; "" if it has that of harness."""
        return ""

    @property
    def fingerprint(self) -> str:
        """A hash of all that its `outputs` depend on besides the model."""
        return ""

    @abstractmethod
    def prepare(self, target: Target, build: Build, algorithms: Collection[str | None] = ()) -> Program:
        """Builds or finds the program for a target, able to run `algorithms`. Raises HarnessError."""

    def libraries(self, target: Target, options: Options) -> Sequence[Path]:
        """Libraries that the program loads on the board; they are made if missing."""
        return ()

    def libraries_sha256(self, target: Target, options: Options) -> str:
        """The hash of these libraries, without making them; "" without libraries."""
        return ""

    def deployed_files(self, files: Files, board: Board) -> Mapping[str, Path]:
        """The files to deploy, by the names with which `execution` gets their paths on the board. Raises
        HarnessError if the board cannot execute them."""
        named = {key: path for key, path in vars(files).items() if isinstance(path, Path)}
        return named | {library.name: library for library in files.libraries}

    def described(self, files: Files) -> ExecutedFile | None:
        """The file that is executed in place of cfg and weights; None if there is none."""
        return None

    @abstractmethod
    def execution(
        self, board: Board, paths: Mapping[str, str], environment: Mapping[str, str], workload: Workload
    ) -> Execution:
        """A workload with these deployed files. Raises HarnessError if the board cannot execute it."""

    def outputs(
        self, model: ModelFile, images: npt.NDArray[np.float32], *, threads: int, options: Options
    ) -> Mapping[int, npt.NDArray[np.float32]]:
        """The outputs of images [n, channels, height, width], computed on this machine: [n, ...] by layer,
        with the file's axes. Where `model.channels_last`, the channels of four axes are moved to the front.
        Only for runtimes with `formats`."""
        raise NotImplementedError


@cache
def find_runtime(name: str) -> Runtime:
    """The runtime with a name from RUNTIMES."""
    module, _, kind = RUNTIMES[name].partition(":")
    runtime: Runtime = getattr(import_module(module), kind)()
    return runtime
