"""The project's own engine as a runtime of sweeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config.policy import int8_use
from harness.errors import HarnessError
from harness.file_digest import file_digest
from harness.runtimes.base import BenchResult, Command, Execution, LayerResult, Program, Runtime, Workload
from harness.runtimes.engine import EngineOptions, bench_arguments, failure, forward_arguments
from harness.runtimes.engine_output import Asked, AskedLayer, read_bench, read_digests

if TYPE_CHECKING:
    from harness.boards.base import Board
    from harness.config.darknet_cfg import DarknetCfg
    from harness.config.sweep import Build, Options
    from harness.config.targets import Target


class EngineRuntime(Runtime):
    """`mpe`."""

    options = ("isa", "algorithm", "prefer", "cores", "tune", "quantizer", "bn_epsilon")

    def prepare(self, target: Target, build: Build, algorithms: Collection[str | None] = ()) -> Program:
        from harness.build.ablation import needs_ablation
        from harness.build.engine import build_engine

        ablation = needs_ablation(algorithms)
        built = build_engine(target, toolchain=build.toolchain, flags=build.flags, ablation=ablation)
        return Program(path=built.engine, sha256=file_digest(built.engine))

    def libraries(self, target: Target, options: Options) -> Sequence[Path]:
        """libtensorflow, if it is the quantizer."""
        if options.quantizer != "tensorflow":
            return ()
        from harness.sdk.wheel import LIBRARIES, tensorflow_sdk

        sdk = tensorflow_sdk(target)
        return [sdk.folder / "lib" / name for name in LIBRARIES]

    def libraries_sha256(self, target: Target, options: Options) -> str:
        if options.quantizer != "tensorflow":
            return ""
        from harness.sdk.pin import read_pin

        return read_pin(target).sha256

    def execution(
        self, board: Board, paths: Mapping[str, str], environment: Mapping[str, str], workload: Workload
    ) -> Execution:
        chosen = workload.options
        if chosen.tune and board.emulated:
            raise HarnessError(
                "tune: an emulated core's times say nothing about the board's",
                hint="Leave it out for emulated targets: the engine then chooses algorithms by a cost model.",
            )
        options = EngineOptions(
            threads=workload.threads,
            isa=chosen.isa,
            algorithm=chosen.algorithm,
            prefer=chosen.prefer,
            cores=chosen.cores,
            quantizer=chosen.quantizer,
            bn_epsilon=chosen.bn_epsilon,
            calibration=paths.get("calibration"),
            # Beside the engine: another build has other kernels.
            tune=f"{paths['program']}.tuning.json" if chosen.tune else None,
        )
        return EngineExecution(
            board=board.name, paths=paths, environment=environment, workload=workload, options=options
        )


@dataclass(frozen=True, kw_only=True)
class EngineExecution(Execution):
    """A network that `mpe` executes on a board."""

    board: str
    paths: Mapping[str, str]
    environment: Mapping[str, str]
    workload: Workload
    options: EngineOptions

    @property
    def cores(self) -> Collection[int]:
        return self.options.cores_in_use

    def bench(self, *, warmup: int, runs: int, min_seconds: float) -> Command[BenchResult]:
        asked = Asked(
            runs=runs,
            min_seconds=min_seconds,
            threads=self.workload.threads,
            multiply_adds=self.workload.multiply_adds,
            layers=_layers(self.workload.network),
        )
        argv = bench_arguments(
            self.paths["program"],
            cfg=self.paths["cfg"],
            weights=self.paths["weights"],
            options=self.options,
            warmup=warmup,
            runs=runs,
            min_seconds=min_seconds,
            profile=True,
        )
        return self._bench(argv, asked, f"mpe bench on {self.board}")

    def marked_bench(self, *, profile: bool, threads: int = 1) -> Command[BenchResult]:
        # With --profile, `mpe` lets one thread execute the parts of all, so that none waits.
        return self._marked_bench(profile=profile, threads=threads)

    def planned_bench(self, threads: int) -> Command[BenchResult]:
        return self._marked_bench(profile=True, threads=1, planned_threads=threads)

    def _marked_bench(
        self, *, profile: bool, threads: int, planned_threads: int | None = None
    ) -> Command[BenchResult]:
        argv = bench_arguments(
            self.paths["program"],
            cfg=self.paths["cfg"],
            weights=self.paths["weights"],
            options=replace(self.options, threads=threads),
            warmup=0,
            runs=1,
            profile=profile,
            mark=True,
            planned_threads=planned_threads,
        )
        return self._bench(
            argv, Asked(runs=1, threads=threads), f"mpe bench under an emulator on {self.board}"
        )

    def _bench(self, argv: Sequence[str], asked: Asked, name: str) -> Command[BenchResult]:
        return Command(
            name=name,
            argv=argv,
            read=lambda printed, seconds: read_bench(printed, asked, name, seconds=seconds),
            failure=partial(failure, command=name),
            environment=self.environment,
            most_output=asked.most_output,
        )

    def digests(self, images: int | None) -> Command[Sequence[str]] | None:
        if "samples" not in self.paths:
            return None
        name = f"mpe forward on {self.board}"
        argv = forward_arguments(
            self.paths["program"],
            cfg=self.paths["cfg"],
            weights=self.paths["weights"],
            input=self.paths["samples"],
            options=self.options,
            digest=True,
        )
        return Command(
            name=name,
            argv=argv,
            read=lambda printed, _seconds: read_digests(printed, images, name),
            failure=partial(failure, command=name),
            environment=self.environment,
        )

    def is_bit_exact(self, layers: Sequence[LayerResult]) -> bool:
        """True if every layer with weights works in int8 with recorded ranges. Sums of floats may be rounded
        differently."""
        weighted = [layer for layer in layers if layer.type in ("convolutional", "connected")]
        network = self.workload.network
        in_int8 = all(layer.executed == "int8" for layer in weighted)
        return in_int8 and network is not None and int8_use(network).all_static


def _layers(network: DarknetCfg | None) -> Sequence[AskedLayer] | None:
    if network is None:
        return None
    return [AskedLayer(type=layer.kind, precision=layer.precision) for layer in network.layers]
