"""The project's own engine, `mpe`: its command lines, and running it on this machine.

The command lines are the same on the host and on a board, except for paths. So the functions take paths as
text. `HostEngine` runs the executable on this machine, and passes tensors as `.npy` files in a temporary
folder.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import console
from harness.config.core_list import parse_cores
from harness.errors import ConfigurationError, HarnessError, TargetMismatchError
from harness.temporary import temporary_folder
from harness.text import LONGEST_ERROR, brief

# Limit for the tensors on disk and in memory at once, for any number of images.
CHUNK_BYTES = 256 << 20

Array = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """A user's choices for an execution; None leaves a choice to the engine."""

    threads: int = 1
    isa: str | None = None
    algorithm: str | None = None
    prefer: str | None = None  # "speed" or "memory"
    cores: str | None = None  # for threads to stay on: "0-3" or "0,2"
    tune: str | PurePath | None = None  # file on the board that stores the fastest algorithms
    quantizer: str | None = None  # "builtin" or "tensorflow"
    calibration: str | PurePath | None = None
    bn_epsilon: float | None = None

    @property
    def cores_in_use(self) -> Sequence[int]:
        """The cores of its threads. Without a choice: as many as threads, from the first on; the system may
        move the threads."""
        return parse_cores(self.cores)[: self.threads] if self.cores else range(self.threads)

    def arguments(self) -> list[str]:
        """The options on `mpe`'s command line."""
        named = {
            "--threads": self.threads,
            "--isa": self.isa,
            "--algorithm": self.algorithm,
            "--prefer": self.prefer,
            "--cores": self.cores,
            "--tune": self.tune,
            "--quantizer": self.quantizer,
            "--calibration": self.calibration,
            "--bn-epsilon": self.bn_epsilon,
        }
        return [word for name, value in named.items() if value is not None for word in (name, str(value))]


def info_arguments(engine: str, *, cfg: str) -> list[str]:
    """`mpe info`."""
    return [engine, "info", "--cfg", cfg]


def bench_arguments(
    engine: str,
    *,
    cfg: str,
    weights: str,
    options: EngineOptions,
    warmup: int = 3,
    runs: int = 30,
    min_seconds: float = 0.0,
    profile: bool = False,
    mark: bool = False,
    planned_threads: int | None = None,
) -> list[str]:
    """`mpe bench`: at least `runs` timed inferences that take at least `min_seconds`. `planned_threads`: by
    the algorithms that it chooses for so many."""
    return [
        *(engine, "bench", "--cfg", cfg, "--weights", weights, *options.arguments()),
        *("--warmup", str(warmup), "--runs", str(runs), "--min-seconds", str(min_seconds)),
        *(["--profile"] if profile else []),
        *(["--mark"] if mark else []),
        *([] if planned_threads is None else ["--planned-threads", str(planned_threads)]),
    ]


def forward_arguments(
    engine: str,
    *,
    cfg: str,
    weights: str,
    input: str,  # noqa: A002 - the name of the option
    options: EngineOptions,
    heads: str | None = None,
    layers: str | None = None,
    digest: bool = False,
) -> list[str]:
    """`mpe forward`: head tensors into the folder `heads`, every layer's output into `layers`."""
    return [
        *(engine, "forward", "--cfg", cfg, "--weights", weights, "--input", input, *options.arguments()),
        *(["--heads", heads] if heads is not None else []),
        *(["--layers", layers] if layers is not None else []),
        *(["--digest"] if digest else []),
    ]


@dataclass(frozen=True, kw_only=True)
class Forward:
    """Tensors of a batch, [images, channels, height, width], by the layer that produced them."""

    heads: dict[int, Floats]
    digests: list[str] = field(default_factory=list)  # one per image, if requested
    layers: dict[int, Floats] = field(default_factory=dict)  # every layer, if requested


class HostEngine:
    """Runs an `mpe` executable on this machine, in a fresh process per call."""

    def __init__(self, executable: Path) -> None:
        self.executable = executable
        self._warned: set[str] = set()

    def info(self, cfg: Path) -> dict[str, Any]:
        """The output of `mpe info`: the input's shape and a row for each layer."""
        return self._run(info_arguments(str(self.executable), cfg=str(cfg)))

    def __reduce__(self) -> tuple[type[HostEngine], tuple[Path]]:
        return HostEngine, (self.executable,)  # what it knows of this machine does not travel

    def arithmetic(self, isa: str | None = None) -> dict[str, Any]:
        """What decides on the bits of fp32 and fp16 on this machine: the instruction set, and the caches, by
        whose sizes layers get their algorithms. int8 has the same bits everywhere."""
        caps = self._caps
        return {"architecture": caps["architecture"], "isa": isa or caps["best"], "caches": caps["caches"]}

    def check_arithmetic(self, expected: Mapping[str, Any], isa: str | None = None) -> None:
        """Raises TargetMismatchError if fp32 and fp16 may have other bits on this machine than on that of
        `expected`."""
        try:
            here = self.arithmetic(isa)
        except HarnessError as error:
            raise TargetMismatchError(
                f"the engine does not run here: {error.message}",
                hint="Workers need a processor of the same architecture, and a C library that is not older.",
            ) from None
        if here != expected:
            raise TargetMismatchError(
                f"the engine computes with {_said(here)} here, but with {_said(expected)} where the command "
                "runs, so results in fp32 and fp16 may differ",
                hint="Use workers with the same kind of processor.",
            )

    @cached_property
    def _caps(self) -> dict[str, Any]:
        return self._run([str(self.executable), "caps"])

    def bench(
        self,
        cfg: Path,
        weights: Path,
        options: EngineOptions,
        *,
        warmup: int = 3,
        runs: int = 30,
        min_seconds: float = 0.0,
        profile: bool = False,
    ) -> dict[str, Any]:
        """The result of `mpe bench`: raw samples in nanoseconds, memory and, with `profile`, layers."""
        return self._run(
            bench_arguments(
                str(self.executable),
                cfg=str(cfg),
                weights=str(weights),
                options=options,
                warmup=warmup,
                runs=runs,
                min_seconds=min_seconds,
                profile=profile,
            )
        )

    def images_per_chunk(self, cfg: Path, *, layers: bool = False) -> int:
        """The number of images per call of `mpe forward`: their tensors fit CHUNK_BYTES; at most 32."""
        info = self.info(cfg)
        elements = int(np.prod(info["input"]))
        if layers:
            elements += sum(int(np.prod(layer["out"])) for layer in info["layers"])
        return max(1, min(32, CHUNK_BYTES // (4 * elements)))

    def forward(
        self,
        cfg: Path,
        weights: Path,
        images: Array,
        options: EngineOptions | None = None,
        *,
        layers: bool = False,
        digest: bool = False,
    ) -> Forward:
        """Runs a batch: uint8 [n, height, width, channels] or float32 [n, channels, height, width].

        The batch is processed in chunks: only the returned tensors grow with its size.
        """
        if len(images) == 0:
            raise ValueError("a batch holds at least one image")
        chunk = self.images_per_chunk(cfg, layers=layers)
        parts = [
            self._forward(
                cfg, weights, images[start : start + chunk], options or EngineOptions(), layers, digest
            )
            for start in range(0, len(images), chunk)
        ]
        return Forward(
            heads=joined([part.heads for part in parts]),
            digests=[digest for part in parts for digest in part.digests],
            layers=joined([part.layers for part in parts]),
        )

    def _forward(
        self, cfg: Path, weights: Path, images: Array, options: EngineOptions, layers: bool, digest: bool
    ) -> Forward:
        with temporary_folder("forward") as folder:
            batch = folder / "input.npy"
            np.save(batch, np.ascontiguousarray(images), allow_pickle=False)
            return self.forward_file(cfg, weights, batch, options, layers=layers, digest=digest)

    def forward_file(
        self,
        cfg: Path,
        weights: Path,
        batch: Path,
        options: EngineOptions,
        *,
        layers: bool = False,
        digest: bool = False,
    ) -> Forward:
        """Runs a batch in a `.npy` file, of at most `images_per_chunk` images."""
        with temporary_folder("heads") as folder:
            (folder / "heads").mkdir()
            (folder / "layers").mkdir()
            result = self._run(
                forward_arguments(
                    str(self.executable),
                    cfg=str(cfg),
                    weights=str(weights),
                    input=str(batch),
                    options=options,
                    heads=str(folder / "heads"),
                    layers=str(folder / "layers") if layers else None,
                    digest=digest,
                )
            )
            return Forward(
                heads=_tensors(folder / "heads", "head_"),
                digests=list(result.get("digests", [])) if digest else [],
                layers=_tensors(folder / "layers", "layer_"),
            )

    def _run(self, arguments: Sequence[str]) -> dict[str, Any]:
        try:
            process = subprocess.run(
                arguments, capture_output=True, text=True, errors="backslashreplace", check=False
            )
        except OSError as error:
            raise HarnessError(f"{arguments[0]}: cannot be started: {error.strerror}") from None
        messages = [line[5:] for line in process.stderr.split("\n") if line.startswith("mpe: ")]
        for message in messages:
            if message.startswith("warning: ") and message not in self._warned:
                self._warned.add(message)
                console.warn(message.removeprefix("warning: "))
        if process.returncode:
            raise failure(process.returncode, process.stderr, command=f"mpe {arguments[1]}")
        data: dict[str, Any] = json.loads(process.stdout)
        return data


def _said(arithmetic: Mapping[str, Any]) -> str:
    caches = " and ".join(f"{size >> 10} KiB" for size in arithmetic["caches"].values())
    return f"{arithmetic['isa']} and caches of {caches}"


def failure(status: int, stderr: str, *, command: str) -> HarnessError:
    """The error for an `mpe` process that ended with `status` (negative: minus the signal's number)."""
    messages = [
        line[5:]
        for line in stderr.split("\n")  # splitlines() would also split at characters that names may contain
        if line.startswith("mpe: ") and not line.startswith("mpe: warning: ")
    ]
    if messages:
        return ConfigurationError(messages[-1][:LONGEST_ERROR])
    if status < 0:
        if -status == signal.SIGILL:
            return TargetMismatchError(f"{command}: this processor lacks an instruction that the engine uses")
        known = {each.value: each.name for each in signal.Signals}
        return HarnessError(f"{command}: ended by {known.get(-status, f'signal {-status}')}")
    rest = stderr.strip().splitlines()
    return HarnessError(
        f"{command}: ended with status {status}: {brief(rest[-1]) if rest else 'nothing was said'}"
    )


def host_engine(algorithm: str | None = None) -> HostEngine:
    """The engine for this machine, able to run `algorithm`; builds it if necessary."""
    from harness.build.ablation import needs_ablation
    from harness.build.engine import build_engine
    from harness.config.targets import load_target

    return HostEngine(build_engine(load_target("host"), ablation=needs_ablation([algorithm])).engine)


def _tensors(folder: Path, prefix: str) -> dict[int, Floats]:
    return {
        int(path.stem.removeprefix(prefix)): np.load(path, allow_pickle=False)
        for path in sorted(folder.glob(f"{prefix}*.npy"))
    }


def joined(parts: Sequence[Mapping[int, Floats]]) -> dict[int, Floats]:
    """The tensors of batches, one behind the other."""
    if len(parts) == 1:
        return dict(parts[0])
    return {index: np.concatenate([part[index] for part in parts]) for index in parts[0]}
