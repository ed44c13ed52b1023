"""A sweep: models x policies x targets x runtimes x toolchains x threads x options, and how to measure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from harness.config.darknet_cfg import DarknetCfg, read_cfg
from harness.config.data_set_path import split_of
from harness.config.import_options import ImportOptions
from harness.config.policy import (
    Int8Use,
    Policy,
    PolicyEntry,
    Searched,
    SearchSettings,
    applied,
    check_kinds,
    expand,
    int8_use,
)
from harness.config.targets import Target
from harness.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How to record int8 ranges without a calibration file."""

    dataset: Path | None = None  # None: the model's own
    images: int = 32
    method: str = "minmax"


@dataclass(frozen=True, kw_only=True)
class Model:
    """A network, its weights, and the data set for its accuracy."""

    name: str
    cfg: Path
    weights: Path
    source: Path | None = None  # of an imported model: its own file
    import_options: ImportOptions = field(default_factory=ImportOptions)
    random_weights: bool = False  # they are written to `weights` when needed
    calibration: Path | Calibration = Calibration()
    dataset: Path | None = None
    labels: Path | None = None  # WordNet ids in output order, of classifiers
    resize: str | None = None
    limit: int | None = None  # images of the data set that are evaluated
    place: str = field(default="", compare=False)  # file and line, for messages

    @cached_property
    def network(self) -> DarknetCfg:
        """The parsed cfg. Raises ConfigurationError with the file and line of an error."""
        return read_cfg(self.cfg)

    @property
    def calibration_dataset(self) -> Path | None:
        """The pictures for automatic calibration, if any. The default is the model's own data set; of a
        `data.yaml`, its split `train`, if it exists."""
        if not isinstance(self.calibration, Calibration):
            return None
        if self.calibration.dataset is None and self.dataset is not None:
            return split_of(self.dataset)[0]
        return self.calibration.dataset


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choices that a runtime makes itself by default. Each set of options is a point of the sweep."""

    isa: str | None = None
    algorithm: str | None = None
    prefer: str | None = None
    cores: str | None = None
    tune: bool | None = None
    quantizer: str | None = None
    bn_epsilon: float | None = None
    xnnpack: bool | None = None

    @property
    def name(self) -> str:
        """For example `isa=avx2 prefer=memory tune`; empty without choices."""
        return " ".join(key if value is True else f"{key}={value}" for key, value in self.chosen.items())

    @property
    def chosen(self) -> dict[str, object]:
        """Those that are not left to the runtime."""
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One of several sets of options, each compared with the one before."""

    name: str
    note: str = ""  # a description for the report
    options: Options = Options()
    threads: int = 1


@dataclass(frozen=True, kw_only=True)
class Build:
    """How the engine is compiled."""

    toolchain: str = "zig"
    flags: str = ""  # beside the project's own

    @property
    def name(self) -> str:
        """For example `gcc -O2`."""
        return f"{self.toolchain} {self.flags}".strip()


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a cell is measured: at least `runs` inferences that take at least `min_seconds`, spread over rounds
    in which cells take turns, each round a process of its own."""

    warmup: int = 3
    runs: int = 10
    min_seconds: float = 0.5
    rounds: int = 3
    timeout: float = 600.0  # seconds for one process on the board
    cool_below: float = 65.0  # degrees Celsius; a hotter board cools down before a run
    cool_seconds: float = 300.0  # the longest wait for that
    reruns: int = 2  # repeated rounds of a cell, if the board was throttled or times drift
    # On this machine, if its processor's counter is not available: under an emulator, which takes minutes.
    count_instructions: bool = False
    sustained: bool = False  # one long run with a time series

    def sustained_for(self, seconds: float) -> Protocol:
        """The same protocol, but every cell is one run of `seconds`. Throttled and drifting runs are not
        repeated, because throttling and drift are the result."""
        return replace(
            self,
            runs=1,
            min_seconds=seconds,
            rounds=1,
            reruns=0,
            timeout=self.timeout + seconds,
            sustained=True,
        )


@dataclass(frozen=True, kw_only=True)
class EmulatedProtocol(Protocol):
    """The protocol of emulated boards: they are slow, and their times say little."""

    warmup: int = 1
    runs: int = 1
    min_seconds: float = 0.0
    rounds: int = 1
    timeout: float = 1800.0
    images: int = 4  # sample images per model; digests of their outputs are compared with the host's


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep file, checked: every file exists and every policy fits every model."""

    name: str
    file: Path
    models: tuple[Model, ...]
    policies: tuple[PolicyEntry, ...]
    targets: tuple[Target, ...]
    runtimes: tuple[str, ...] = ("engine",)
    threads: tuple[int, ...] = (1,)
    toolchains: tuple[Build, ...] = (Build(),)
    options: tuple[Options, ...] = (Options(),)
    steps: tuple[Step, ...] = ()  # instead of threads and options
    protocol: Protocol = Protocol()
    emulated: EmulatedProtocol = EmulatedProtocol()

    @property
    def algorithms(self) -> set[str | None]:
        """The algorithms that the cells ask for."""
        return {options.algorithm for options in (*self.options, *(step.options for step in self.steps))}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A policy applied to a model: a cfg of its own."""

    model: Model
    policy: str
    cfg: DarknetCfg
    tflite: str = ""  # as in a Policy
    search: SearchSettings | None = None  # finds the policy; until then the cfg is all int8

    @cached_property
    def int8(self) -> Int8Use:
        return int8_use(self.cfg)


def variants(sweep: Sweep) -> tuple[Variant, ...]:
    """Every policy of a sweep applied to every model, ordered by model.

    Raises ConfigurationError if a policy names a layer that a model does not have, or if int8 layers need
    recorded ranges but the model has neither a calibration file nor a data set to record them on.
    """
    check_kinds(sweep.policies, [model.network for model in sweep.models])
    searches = {entry.name: entry.search for entry in sweep.policies if isinstance(entry, Searched)}
    return tuple(
        replace(_variant(model, policy), search=_checked(searches.get(policy.name), model, policy.name))
        for model in sweep.models
        for policy in expand(sweep.policies, model.network)
    )


def _checked(search: SearchSettings | None, model: Model, policy: str) -> SearchSettings | None:
    if search is not None and model.dataset is None:
        raise ConfigurationError(
            f"{model.place}: policy {policy} is searched on pictures, and model {model.name} has no dataset",
            hint="Give it a dataset, or leave the policy out.",
        )
    return search


def _variant(model: Model, policy: Policy) -> Variant:
    variant = Variant(
        model=model, policy=policy.name, cfg=applied(policy, model.network), tflite=policy.tflite
    )
    if (
        variant.int8.static
        and isinstance(model.calibration, Calibration)
        and model.calibration_dataset is None
    ):
        raise ConfigurationError(
            f"{model.place}: policy {policy.name} needs recorded ranges, and model {model.name} has "
            "neither calibration nor dataset",
            hint="Give a dataset, or the calibration file that harness calibrate writes.",
        )
    return variant
