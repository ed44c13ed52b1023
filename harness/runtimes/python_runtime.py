"""Runtimes that are Python packages: they execute a model's own file with the board's Python.

Each has a class with its name and formats, a module in on_board/, and pinned wheels in toolchains/runtimes/.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import console
from harness.config.core_list import parse_cores
from harness.config.targets import load_target
from harness.errors import BoardFaultError
from harness.file_digest import file_digest
from harness.resources import cache_directory
from harness.runtimes.base import (
    BenchResult,
    Command,
    ExecutedFile,
    Execution,
    ModelFile,
    Program,
    Runtime,
    Workload,
)
from harness.runtimes.engine_output import Asked
from harness.runtimes.python_output import check_outputs, failure, read_bench
from harness.runtimes.python_program import ISOLATED, BoardPython, program_file, python_for
from harness.sdk.packages import UNPACKED, Packages, archive_for, packages_sha256, read_packages
from harness.temporary import fresh_folder, temporary_folder
from harness.text import brief, printable

if TYPE_CHECKING:
    import numpy.typing as npt

    from harness.boards.base import Board
    from harness.config.sweep import Build, Options
    from harness.config.targets import Target
    from harness.runtimes.base import Files

_UNPACK_SECONDS = 600.0
_CONVERT_SECONDS = 3600.0  # with ranges of many pictures
_OUTPUTS_SECONDS = 3600.0


class PythonRuntime(Runtime):
    """A runtime whose packages are pinned in toolchains/runtimes/NAME.yaml."""

    name: ClassVar[str]
    session: ClassVar[str]  # the module in the program
    has_profile: ClassVar[bool] = False  # whether it tells the times of operators
    options: Collection[str] = ("cores",)
    # The environment in which its threads do equal parts and wait without executing anything, so that the
    # profile of the first tells its work; empty: there is none.
    passive_threads: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @cached_property
    def packages(self) -> Packages:
        return read_packages(self.name)

    @property
    def version(self) -> str:
        return self.packages.version

    @property
    def fingerprint(self) -> str:
        both = f"{file_digest(program_file())} {packages_sha256(self.name)}"
        return hashlib.sha256(both.encode()).hexdigest()

    def prepare(self, target: Target, build: Build, algorithms: Collection[str | None] = ()) -> Program:
        """The program, with the hash of all pins: a board's packages are fetched once its Python is known."""
        if target.is_host:
            self._host_archive()
        return Program(path=program_file(), sha256=self.fingerprint)

    def deployed_files(self, files: Files, board: Board) -> Mapping[str, Path]:
        assert files.model is not None
        archive = archive_for(self.packages, python_for(board, self.packages).python)
        return {"program": files.program, "packages": archive, "model": self.executed_file(files.model)}

    def described(self, files: Files) -> ExecutedFile:
        assert files.model is not None
        path = self.executed_file(files.model)
        return ExecutedFile(bytes=path.stat().st_size, float_operators=self.float_operators(path))

    def float_operators(self, path: Path) -> Mapping[str, int] | None:
        """Those of an executed file, as an `ExecutedFile` has them."""
        return None

    def execution(
        self, board: Board, paths: Mapping[str, str], environment: Mapping[str, str], workload: Workload
    ) -> Execution:
        python = python_for(board, self.packages)
        _unpack(board, python, paths)
        return PythonExecution(
            runtime=self, python=python.command, board=board, paths=paths, workload=workload
        )

    def outputs(
        self, model: ModelFile, images: npt.NDArray[np.float32], *, threads: int, options: Options
    ) -> Mapping[int, npt.NDArray[np.float32]]:
        from harness.boards.host import HostBoard

        with temporary_folder("outputs") as folder, HostBoard(load_target("host")) as board:
            inputs = folder / "inputs.npy"
            np.save(inputs, np.ascontiguousarray(images, np.float32), allow_pickle=False)
            whole = self.with_outputs(model, folder)
            words = ["outputs", *self.arguments(self._host_paths(whole.path), threads, options)]
            words += [f"--output={name}" for name in whole.outputs.values()]
            words += ["--channels-last"] if model.channels_last else []
            words += ["--inputs", str(inputs), "--folder", str(folder)]
            python = python_for(board, self.packages)
            command = f"{self.name} on {board.name}"
            argv = [*python.command, *ISOLATED, str(program_file()), *words]
            completed = board.run(argv, timeout=_OUTPUTS_SECONDS)
            if completed.status != 0:
                raise failure(completed.status, completed.stderr, command=command)
            check_outputs(completed.stdout, len(images), self.version, command)
            return {
                layer: np.load(folder / f"{place}.npy", allow_pickle=False)
                for place, layer in enumerate(model.outputs)
            }

    def with_outputs(self, model: ModelFile, folder: Path) -> ModelFile:
        """The model with a file that has all its outputs, of which some are within the network, by the names
        that the session knows. A new file is written to `folder`."""
        return model

    def converted_name(self, path: Path) -> str:
        """The name of the file that the runtime's converter makes of a model; "": the program reads the model
        itself. Raises ConfigurationError for a model that the converter cannot read."""
        return ""

    def executed_file(self, path: Path) -> Path:
        """What the program loads: the model, or the converted file in the cache, which is made if missing.

        Raises HarnessError if the converter fails.
        """
        name = self.converted_name(path)
        if not name:
            return path
        key = hashlib.sha256(f"{self.fingerprint} {file_digest(path)} {name}".encode()).hexdigest()
        folder = cache_directory() / "converted" / f"{self.name}-{key[:24]}"
        if not folder.is_dir():
            with (
                console.progress(f"converting {printable(path.name)} for {self.name}", None),
                fresh_folder(folder) as made,
            ):
                self.convert(path, made / name)
        return folder / name

    def convert(self, path: Path, converted: Path, more: Sequence[str] = ()) -> None:
        """Runs the converter in a process of its own; `more` are options for it."""
        from harness.boards.host import HostBoard

        with HostBoard(load_target("host")) as board:
            python = python_for(board, self.packages)
            words = ["convert", "--session", self.session]
            for packages in self.packages, self.packages.of_converter:
                if packages:
                    words += ["--packages", str(archive_for(packages, python.python)) + UNPACKED]
            words += ["--model", str(path.resolve()), "--converted", str(converted), *more]
            argv = [*python.command, *ISOLATED, str(program_file()), *words]
            completed = board.run(argv, timeout=_CONVERT_SECONDS)
        if completed.status != 0:
            raise failure(
                completed.status, completed.stderr, command=f"{self.name}'s converter on {path.name}"
            )

    def arguments(self, paths: Mapping[str, str], threads: int, options: Options) -> list[str]:
        """What `bench` and `outputs` of the program have in common."""
        own = [name for name in self.options if name != "cores" and getattr(options, name) is not None]
        return [
            *("--packages", paths["packages"] + UNPACKED, "--session", self.session),
            *("--model", paths["model"], "--threads", str(threads)),
            *(f"--option={name}={str(getattr(options, name)).lower()}" for name in own),
        ]

    def _host_archive(self) -> Path:
        from harness.boards.host import HostBoard

        with HostBoard(load_target("host")) as board:
            return archive_for(self.packages, python_for(board, self.packages).python)

    def _host_paths(self, model: Path) -> Mapping[str, str]:
        return {"packages": str(self._host_archive()), "model": str(self.executed_file(model).resolve())}


def _unpack(board: Board, python: BoardPython, paths: Mapping[str, str]) -> None:
    """Unpacks the packages beside their archive, unless they are there."""
    folder = paths["packages"] + UNPACKED
    if board.run(["test", "-d", folder], timeout=_UNPACK_SECONDS).status == 0:
        return
    words = ["unpack", paths["packages"], folder, board.scratch("packages")]
    argv = [*python.command, *ISOLATED, paths["program"], *words]
    with console.progress(f"unpacking packages on {printable(board.name)}", None):
        completed = board.run(argv, timeout=_UNPACK_SECONDS)
    if completed.status != 0:
        raise BoardFaultError(
            f"{board.name}: the runtime's packages cannot be unpacked: {brief(completed.stderr)}",
            hint="Check the board's free space (df).",
        )


@dataclass(frozen=True, kw_only=True)
class PythonExecution(Execution):
    """A model's file that a Python runtime executes on a board."""

    runtime: PythonRuntime
    python: tuple[str, ...]
    board: Board
    paths: Mapping[str, str]
    workload: Workload

    @property
    def cores(self) -> Collection[int]:
        chosen = self.workload.options.cores
        return parse_cores(chosen)[: self.workload.threads] if chosen else range(self.workload.threads)

    def bench(self, *, warmup: int, runs: int, min_seconds: float) -> Command[BenchResult]:
        asked = Asked(
            runs=runs,
            min_seconds=min_seconds,
            threads=self.workload.threads,
            multiply_adds=self.workload.multiply_adds,
        )
        words = ["--warmup", str(warmup), "--runs", str(runs), "--min-seconds", str(min_seconds)]
        # An emulator's times of operators say nothing about a board's. Their backends are the same.
        if self.runtime.has_profile and (self.runtime.fallback_backend or not self.board.emulated):
            words += ["--profile", self.board.scratch("operators")]
            words += ["--profiled-runs", "1"] if self.board.emulated else []
        return self._command(words, asked, self.workload.threads)

    def marked_bench(self, *, profile: bool, threads: int = 1) -> Command[BenchResult] | None:
        if threads > 1 and not self.runtime.passive_threads:
            return None
        # The first inference allocates memory, which later ones do not.
        words = ["--warmup", "1", "--runs", "1", "--min-seconds", "0", "--mark"]
        command = self._command(words, Asked(runs=1), threads)
        return replace(command, environment=self.runtime.passive_threads) if threads > 1 else command

    def _command(self, words: Sequence[str], asked: Asked, threads: int) -> Command[BenchResult]:
        name = f"{self.runtime.name} on {self.board.name}"
        network = self.workload.network
        assert network is not None
        picture = ",".join(map(str, network.input_size))
        common = self.runtime.arguments(self.paths, threads, self.workload.options)
        cores = ["--cores", ",".join(map(str, self.cores))] if self.workload.options.cores else []
        return Command(
            name=name,
            argv=[
                *(*self.python, *ISOLATED, self.paths["program"], "bench", *common, *cores),
                *("--picture", picture, *words),
            ],
            read=lambda printed, seconds: read_bench(
                printed, asked, self.runtime.version, name, seconds=seconds
            ),
            failure=partial(failure, command=name),
            most_output=asked.most_output,
        )
