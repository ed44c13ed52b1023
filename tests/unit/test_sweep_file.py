"""Sweep files: valid and invalid content."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from networks import CLASSIFIER, WEIGHTED, write_sweep
from onnx_models import model_of, node

from harness.build.ablation import ALGORITHMS, needs_ablation
from harness.build.toolchain import TOOLCHAINS
from harness.config import sweep_file as schema
from harness.config.darknet_cfg import sections_of
from harness.config.import_options import ImportOptions
from harness.config.policy import SearchSettings
from harness.config.sweep import Build, Calibration, EmulatedProtocol, Options, Protocol, Step, variants
from harness.config.sweep_file import json_schema, read_sweep
from harness.errors import ConfigurationError
from harness.importing.stored import import_to_cache
from harness.importing.writer import ImportedFiles
from harness.resources import resource
from harness.sweep.plan import cells

MODEL = "models: [{name: net, cfg: net.cfg, weights: net.weights, dataset: data}]\n"
REST = "policies: [fp32]\ntargets: [host]\n"


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "ranges.json").write_text("{}")
    (tmp_path / "labels.txt").write_text("")
    path = write_sweep(
        tmp_path,
        """
name: everything
models:
  - name: one
    cfg: net.cfg
    weights: net.weights
    calibration: ranges.json
    dataset: data
    labels: labels.txt
    resize: letterbox
    limit: 5
  - {name: two, cfg: net.cfg, weights: net.weights, calibration: {dataset: data, images: 8, method: kl}}
policies:
  - fp32
  - as-is
  - {name: mixed, default: int8, quantize: 1, layers: {first: fp32, "3-5": {precision: int8, quantize: 0}}}
  - {each: fp16}
targets: [host, pi]
runtimes: [engine]
toolchains: [zig, {toolchain: gcc, flags: -O2 -g}]
threads: [1, 2]
options:
  - {}
  - {isa: avx2, prefer: memory, cores: 0-3, tune: true, bn_epsilon: 1e-6, algorithm: gemm,
     quantizer: tensorflow}
protocol: {warmup: 0, runs: 5, min_seconds: 0.25, timeout: 10}
emulated: {warmup: 2, images: 1}
""",
    )
    sweep = read_sweep(path)
    assert sweep.name == "everything"
    assert [target.name for target in sweep.targets] == ["host", "pi4"]
    one, two = sweep.models
    assert one.calibration == tmp_path / "ranges.json"
    assert (one.resize, one.limit) == ("letterbox", 5)
    assert two.calibration == Calibration(dataset=tmp_path / "data", images=8, method="kl")
    assert sweep.options[1] == Options(
        isa="avx2",
        prefer="memory",
        cores="0-3",
        tune=True,
        bn_epsilon=1e-6,
        algorithm="gemm",
        quantizer="tensorflow",
    )
    assert (
        sweep.options[1].name
        == "isa=avx2 algorithm=gemm prefer=memory cores=0-3 tune quantizer=tensorflow bn_epsilon=1e-06"
    )
    assert sweep.toolchains == (Build(), Build(toolchain="gcc", flags="-O2 -g"))
    assert [build.name for build in sweep.toolchains] == ["zig", "gcc -O2 -g"]
    assert sweep.protocol == Protocol(warmup=0, runs=5, min_seconds=0.25, timeout=10)
    assert sweep.emulated == EmulatedProtocol(warmup=2, images=1)
    names = [variant.policy for variant in variants(sweep) if variant.model is one]
    assert names == ["fp32", "as-is", "mixed", *(f"fp16@{index}" for index in WEIGHTED)]
    planned = cells(sweep, lambda target: not target.is_host)
    assert len(planned) == 2 * 2 * 2 * 2 * 2 * len(names)
    assert {cell.build for cell in planned} == set(sweep.toolchains)
    assert {cell.emulated for cell in planned if cell.target.name == "pi4"} == {True}
    assert {cell.protocol for cell in planned if cell.emulated} == {sweep.emulated}


OWN_TARGET = 'description: a board\narchitecture: aarch64\ncpu: cortex-a55\nglibc: "2.31"\n'


def test_a_target_of_ones_own_is_a_file_beside_the_sweep(tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "khadas.yaml").write_text(OWN_TARGET)
    sweep = read_sweep(
        write_sweep(tmp_path, MODEL + "policies: [fp32]\ntargets: [host, targets/khadas.yaml]\n")
    )
    assert [(target.name, target.cpu) for target in sweep.targets] == [
        ("host", None),
        ("khadas", "cortex-a55"),
    ]
    assert [cell.name for cell in cells(sweep, lambda _: False)] == [
        "host net fp32 1 thread",
        "khadas net fp32 1 thread",
    ]


def test_two_targets_of_the_same_name_are_refused(tmp_path: Path) -> None:
    for name, core in (("one", "cortex-a55"), ("two", "cortex-a53")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "khadas.yaml").write_text(OWN_TARGET.replace("cortex-a55", core))
    text = MODEL + "policies: [fp32]\ntargets:\n- one/khadas.yaml\n- two/khadas.yaml\n"
    with pytest.raises(ConfigurationError, match=r":5: the name khadas is given to two of the targets"):
        read_sweep(write_sweep(tmp_path, text))


def test_steps_stand_for_options_and_threads(tmp_path: Path) -> None:
    steps = "steps: [{name: plain loops, algorithm: plain, note: slow}, {name: all, threads: 2}]\n"
    sweep = read_sweep(write_sweep(tmp_path, MODEL + "policies: [fp32, int8]\ntargets: [host]\n" + steps))
    assert sweep.steps == (
        Step(name="plain loops", note="slow", options=Options(algorithm="plain")),
        Step(name="all", threads=2),
    )
    planned = cells(sweep, lambda _: False)
    assert [(cell.step.name, cell.policy, cell.threads, cell.options.algorithm) for cell in planned] == [
        ("plain loops", "fp32", 1, "plain"),
        ("plain loops", "int8", 1, "plain"),
        ("all", "fp32", 2, None),
        ("all", "int8", 2, None),
    ]
    assert planned[0].name == "host net fp32 1 thread (plain loops)"
    assert sweep.algorithms == {"plain", None}
    assert needs_ablation(sweep.algorithms)
    assert not needs_ablation({"gemm", "reference", None})


def test_random_weights_belong_to_what_is_in_the_cfg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    text = "models: [{name: net, cfg: net.cfg, weights: random}]\n" + REST
    (model,) = read_sweep(write_sweep(tmp_path, text)).models
    assert model.random_weights
    assert model.weights.parent == tmp_path / "cache" / "random_weights"
    assert read_sweep(write_sweep(tmp_path, text)).models[0].weights == model.weights
    (tmp_path / "net.cfg").write_text((tmp_path / "net.cfg").read_text() + "\n")
    assert read_sweep(tmp_path / "sweep.yaml").models[0].weights != model.weights


@pytest.mark.data
def test_a_model_of_another_format_is_imported(
    tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    folder = shared_data / "import" / "mlperf-tiny"
    text = f"models:\n- {{name: float, model: {folder}/vww_96_float.tflite}}\n"
    text += f"- {{name: int8, model: {folder}/vww_96_int8.tflite}}\n"
    text += "policies: [as-is, fp16]\ntargets: [host]\n"
    file = write_sweep(tmp_path, text)
    first, second = read_sweep(file, import_to_cache).models
    assert first.source == folder / "vww_96_float.tflite"
    assert first.weights.parent == first.cfg.parent
    assert first.cfg.parent.parent == tmp_path / "cache" / "imports"
    assert isinstance(first.calibration, Calibration)
    assert isinstance(second.calibration, Path)
    assert second.calibration.exists()
    assert read_sweep(file, import_to_cache).models == (first, second)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("name: net, model: net.cfg", "is a Darknet cfg already"),
        ("name: net, model: net.cfg, cfg: net.cfg", "model takes the place of cfg and weights"),
        ("name: net, cfg: net.cfg", "net needs model, or cfg and weights"),
        ("name: net", "net needs model, or cfg and weights"),
        ("name: net, model: none.onnx", "model to import .*none.onnx does not exist"),
        (f"name: net, model: {'x' * 5000}", "xxx: cannot be read: File name too long"),
    ],
)
def test_a_model_has_one_kind_of_files(model: str, message: str, tmp_path: Path) -> None:
    file = write_sweep(tmp_path, f"models: [{{{model}}}]\n" + REST)
    with pytest.raises(ConfigurationError, match=rf"sweep\.yaml:1: .*{message}"):
        read_sweep(file, import_to_cache)


@pytest.fixture
def importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ONNX model in the sweep's folder, with three channels and an open size."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    constants = {"w": np.ones((5, 3, 1, 1), np.float32), "b": np.zeros(5, np.float32)}
    nodes = [node("Conv", "x w b", "c"), node("GlobalAveragePool", "c")]
    path = tmp_path / "open.onnx"
    path.write_bytes(model_of(nodes, ("n", 3, "h", "w"), constants).SerializeToString())
    return path


def test_what_is_said_of_an_imported_model_is_in_its_cfg(importing: Path, tmp_path: Path) -> None:
    text = """models:
- {name: lists, model: open.onnx, input_shape: [1, 3, 6, 4], mean: [0.5, 0.5, 0.5], std: [58.4, 57.1, 57.4]}
- {name: text, model: open.onnx, input_shape: "1,3,8,8", mean: "104,117,123", std: 58, colors: bgr, fill: 0,
   decoder: classifier, resize: letterbox}
"""
    lists, text_form = read_sweep(write_sweep(tmp_path, text + REST), import_to_cache).models
    net = sections_of(lists.cfg.read_text(), "net.cfg")[0].options
    assert (net["height"], net["width"], net["mean"], net["std"]) == (
        "6",
        "4",
        "0.5,0.5,0.5",
        "58.4,57.1,57.4",
    )
    assert not {"colors", "fill", "decoder", "resize"} & net.keys()
    net = sections_of(text_form.cfg.read_text(), "net.cfg")[0].options
    assert (net["height"], net["mean"], net["std"]) == ("8", "104,117,123", "58")
    assert (net["colors"], net["fill"], net["decoder"]) == ("bgr", "0", "classifier")
    assert "resize" not in net
    assert text_form.resize == "letterbox"
    assert lists.cfg.parent != text_form.cfg.parent


@pytest.mark.parametrize(
    ("keys", "line", "message"),
    [
        ("mean: red", 2, 'expected a number, or one for each channel, as 104,117,123, found "red"'),
        ("mean: []", 2, "expected a number, or one for each channel, as 104,117,123, found a"),
        ("mean: [1, [2], 3]", 2, "expected a number, or one for each channel"),
        ("mean: true", 2, 'expected a number, or one for each channel, as 104,117,123, found "true"'),
        ("std: [1, 0, 1]", 2, 'expected a number above 0, or one for each channel, .* found "1,0,1"'),
        ("fill: -1", 2, 'expected a number from 0 to 255, found "-1"'),
        ("input_shape: [1, 3, x]", 2, 'expected sizes, as 1,3,224,224, found "1,3,x"'),
        ("colors: grb", 2, "unknown colors grb"),
        ("decoder: yolo", 2, "unknown decoder yolo"),
        ("mean: [1, 2], input_shape: [1, 3, 8, 8]", 1, "mean has 2 numbers, but the input has 3 channels"),
        ("limit: 3", 1, "the size of the input 'x' is not fixed"),
    ],
)
def test_wrong_words_about_an_imported_model(
    keys: str, line: int, message: str, importing: Path, tmp_path: Path
) -> None:
    file = write_sweep(tmp_path, f"models: [{{name: n, model: open.onnx,\n  {keys}}}]\n" + REST)
    with pytest.raises(ConfigurationError, match=rf"sweep\.yaml:{line}: .*{message}"):
        read_sweep(file, import_to_cache)


def test_a_model_may_be_the_folder_of_a_saved_model(importing: Path, tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    asked: list[tuple[Path, ImportOptions]] = []

    def importer(model: Path, options: ImportOptions) -> ImportedFiles:
        asked.append((model, options))
        return import_to_cache(importing, replace(options, input_shape=(1, 3, 8, 8)))

    file = write_sweep(tmp_path, "models: [{name: n, model: saved, mean: 127.5}]\n" + REST)
    with pytest.raises(
        ConfigurationError, match=r"sweep\.yaml:1: expected a model to import, but .* is a folder"
    ):
        read_sweep(file, importer)
    (tmp_path / "saved" / "saved_model.pb").touch()
    (model,) = read_sweep(file, importer).models
    assert asked == [(tmp_path / "saved", ImportOptions(mean=(127.5,)))]
    assert model.source == tmp_path / "saved"


@pytest.mark.parametrize("key", ["mean: 0", "std: 1", "colors: rgb", "fill: 0", "decoder: ssd"])
def test_what_is_said_of_an_imported_model_is_refused_for_a_cfg(key: str, tmp_path: Path) -> None:
    name = key.partition(":")[0]
    text = f"models:\n- name: n\n  cfg: net.cfg\n  weights: net.weights\n  {key}\n" + REST
    with pytest.raises(ConfigurationError, match=rf"sweep\.yaml:5: {name} applies to a model") as failure:
        read_sweep(write_sweep(tmp_path, text))
    assert failure.value.hint == f"Write {name}= into [net] of {tmp_path / 'net.cfg'}."


def test_the_sweep_that_ships_names_techniques_in_the_engine_s_order() -> None:
    sweep = read_sweep(resource("cfg", "sweeps", "ablation.yaml"))
    header = resource("engine", "src", "kernels", "classical", "technique.h").read_text()
    names = re.findall(r'"([a-z0-9-]+)"', header.split("kTechniques[] = {")[1].split("}")[0])
    assert [step.options.algorithm for step in sweep.steps] == [*names, None, None]
    assert list(ALGORITHMS) == names
    assert len(sweep.models) == 2


def test_every_toolchain_can_be_swept() -> None:
    assert list(schema.TOOLCHAINS) == list(TOOLCHAINS)


def test_defaults(tmp_path: Path) -> None:
    sweep = read_sweep(write_sweep(tmp_path, MODEL + REST))
    assert sweep.name == "sweep"
    assert (sweep.runtimes, sweep.threads, sweep.options) == (("engine",), (1,), (Options(),))
    assert sweep.toolchains == (Build(),)
    assert (sweep.protocol, sweep.emulated) == (Protocol(), EmulatedProtocol())
    assert sweep.models[0].calibration_dataset == tmp_path / "data"


def test_a_data_set_may_be_a_split_of_a_data_yaml(tmp_path: Path) -> None:
    model = MODEL.replace("dataset: data", "dataset: data.yaml:test, calibration: {dataset: data.yaml}")
    with pytest.raises(ConfigurationError, match=r"sweep\.yaml:1: data set .*data\.yaml does not exist\n"):
        read_sweep(write_sweep(tmp_path, model + REST))
    (tmp_path / "data.yaml").touch()
    [read] = read_sweep(write_sweep(tmp_path, model + REST)).models
    assert (read.dataset, read.calibration_dataset) == (tmp_path / "data.yaml:test", tmp_path / "data.yaml")
    with pytest.raises(ConfigurationError, match=r"expected a data set, but .*net\.cfg is a file") as error:
        read_sweep(write_sweep(tmp_path, MODEL.replace("dataset: data", "dataset: net.cfg") + REST))
    assert "data.yaml:train" in error.value.hint


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "expected a sweep: a mapping with name, models"),
        ("- a\n", 1, "expected a sweep: a mapping with name, models, policies, "),
        (MODEL + "polices: [fp32]\n", 2, "unknown key polices in a sweep\n  Did you mean policies?"),
        (MODEL + "targets: [host]\n", 1, "a sweep needs the key policies (precisions per layer: fp32"),
        (MODEL + REST + "threads: [0]\n", 4, "expected a whole number from 1 to 256, found 0"),
        (MODEL + REST + "threads: 2\n", 4, "expected a list of thread counts, found an integer (2)"),
        (MODEL + REST + "threads: []\n", 4, "expected at least one of thread counts"),
        (MODEL + REST + "threads: [1,\n 1]\n", 5, "duplicate of the entry on line 4"),
        (MODEL + REST + "threads: ['1']\n", 4, 'expected a whole number from 1 to 256, found the text "1"'),
        (MODEL + REST + "threads: [2]\nsteps: [{name: a}]\n", 4, "a sweep with steps has no threads"),
        (MODEL + REST + "options: [{}]\nsteps: [{name: a}]\n", 4, "a sweep with steps has no options"),
        (MODEL + REST + "steps: [{algorithm: plain}]\n", 4, "a step needs the key name"),
        (MODEL + REST + "steps: [{name: a},\n {name: a, threads: 2}]\n", 5, "the name a is given to two"),
        (MODEL.replace("net.weights", "random") + REST, 1, "random weights have no accuracy"),
        (MODEL + REST + "toolchains: [gc]\n", 4, "unknown toolchain gc\n  Did you mean gcc?"),
        (MODEL + REST + "toolchains: [{flags: -O2}]\n", 4, "a toolchain needs the key toolchain"),
        (MODEL + REST + "toolchains: [zig,\n {toolchain: zig}]\n", 5, "duplicate of the entry on line 4"),
        (MODEL + REST + "options: [{quantizer: tf}]\n", 4, "unknown quantizer tf"),
        (MODEL + REST + "runtimes: [tflm]\n", 4, "unknown runtime tflm\n  Known are armnn, engine"),
        (MODEL + "policies: [fp32]\ntargets: [hots]\n", 3, "unknown target hots\n  Did you mean host?"),
        (MODEL + "policies: [fp32]\ntargets: [hosts.yaml]\n", 3, "target's file "),
        (MODEL + "policies: [fp32]\ntargets: [pi,\n  pi4]\n", 4, "duplicate of the entry on line 3"),
        (
            MODEL + "policies: [{eahc: int8}]\ntargets: [host]\n",
            2,
            "unknown key eahc in a policy\n  Did you mean each?",
        ),
        (MODEL + "policies: [fp23]\ntargets: [host]\n", 2, "unknown policy fp23\n  Did you mean fp32?"),
        (MODEL + REST + "protocol: {run: 3}\n", 4, "unknown key run in the protocol\n  Did you mean runs?"),
        (MODEL + REST + "protocol: {runs: many}\n", 4, 'found the text "many"'),
        (MODEL + REST + "protocol: {min_seconds: -1}\n", 4, "expected a number from 0 to 3600, found -1"),
        (MODEL + REST + "protocol: {images: 3}\n", 4, "unknown key images in the protocol"),
        (
            MODEL + REST + "protocol:\n  min_seconds: 3600\n  rounds: 1\n  timeout: 1\n",
            7,
            "a round takes at least 3600 s (min_seconds / rounds) but is killed after 1 s (timeout)",
        ),
        (MODEL + REST + "protocol: {rounds: 2,\n min_seconds: 1200}\n", 5, "killed after 600 s (timeout)"),
        (MODEL + REST + "emulated: {min_seconds: 2, timeout: 2}\n", 4, "is killed after 2 s (timeout)"),
        (MODEL + REST + "options: [{},\n {cores: banana}]\n", 5, 'found "banana": not a list of cores'),
        (MODEL + REST + "steps: [{name: a, cores: 3-1}]\n", 4, 'found "3-1": 3-1 goes backwards'),
        (
            MODEL + REST + 'steps: [{name: "a\\nb"}]\n',
            4,
            "expected a few words, found 'a\\nb', which has unprintable",
        ),
        (MODEL + REST + 'options: [{isa: "\\e[1m"}]\n', 4, "expected the name of an instruction set"),
        (MODEL + REST + 'toolchains: [{toolchain: zig, flags: "it\'s"}]\n', 4, "No closing quotation"),
        (MODEL + REST + "name: a/b\n", 4, "expected a name of letters, digits"),
        (MODEL + REST + "name:\n", 4, "expected a name of letters, digits and . _ - +, found nothing"),
        (MODEL + REST + "options: [{isa: }]\n", 4, "expected the name of an instruction set, found nothing"),
        ("models: [{name: n, cfg: ne.cfg, weights: net.weights}]\n" + REST, 1, "Darknet cfg "),
        ("models: [{name: n, cfg: net.cfg,\n  weights: data}]\n" + REST, 2, "expected a weights file, but "),
        ("models: [{name: n, cfg: net.cfg}]\n" + REST, 1, "n needs model, or cfg and weights"),
        ('models: [{name: n, cfg: "x\\0", weights: net.weights}]\n' + REST, 1, "found a null character"),
        (
            f"models: [{{name: n, cfg: {'x' * 5000}, weights: net.weights}}]\n" + REST,
            1,
            "File name too long",
        ),
        (MODEL + "policies: [{name: p, layers: {13: int8}}]\ntargets: [host]\n", 2, "there is no layer 13"),
        (
            MODEL
            + "policies:\n  - name: p\n    layers:\n      first: int8\n      6: int8\ntargets: [host]\n",
            6,
            "policy p: layer 6 of ",
        ),
        (MODEL + "policies: [{name: p, layers: {3_4: int8}}]\ntargets: [host]\n", 2, '"3_4" is not a layer'),
        (MODEL + "policies: [{name: p, layers: {connected: int8}}]\ntargets: [host]\n", 2, "no connected"),
        (MODEL + "policies: [{name: fp32}]\ntargets: [host]\n", 2, "the name fp32 is taken"),
        (MODEL + "policies: [{name: p},\n {name: p, default: int8}]\ntargets: [host]\n", 3, "given to two"),
        (
            MODEL + "policies: [{name: p, quantize: 1}]\ntargets: [host]\n",
            2,
            "no layer of this policy is int8",
        ),
        (MODEL + "policies: [{tflite: int8}]\ntargets: [host]\n", 2, "unknown quantisation int8"),
        (
            MODEL.replace(", dataset: data", "") + "policies: [{tflite: 16x8}]\ntargets: [host]\n",
            1,
            "policy tflite-16x8 needs recorded ranges, and model net has neither calibration nor dataset",
        ),
        (MODEL + "policies: [{each: fp32}]\ntargets: [host]\n", 2, "each layer would be fp32"),
        (MODEL + "policies: [{each: fp16, quantize: 1}]\ntargets: [host]\n", 2, "quantize belongs to int8"),
        (
            MODEL + "policies: [{name: p, layers: {0: {precision: fp16, quantize: 1}}}]\ntargets: [host]\n",
            2,
            "quantize belongs to int8",
        ),
        (MODEL + "policies: [{search: {max_drop: 101}}]\ntargets: [host]\n", 2, "a number from 0 to 100"),
        (MODEL + "policies: [{search: {max_dorp: 1}}]\ntargets: [host]\n", 2, "Did you mean max_drop?"),
        (MODEL + "policies: [{search: {budget: 10}}]\ntargets: [host]\n", 2, "expected a time, for example"),
        (MODEL + "policies: [{search: {budget: 999h}}]\ntargets: [host]\n", 2, "from 1s to 168h"),
        (MODEL + "policies: [{name: int8, search: {}}]\ntargets: [host]\n", 2, "the name int8 is taken"),
        (MODEL + "policies: [{search: {}},\n {search: {min_fps: 9}}]\ntargets: [host]\n", 3, "given to two"),
        (
            MODEL + "policies: [{search: {}}]\ntargets: [host, pi4]\n",
            2,
            "Name one of them: {search: {target:",
        ),
        (
            MODEL + "policies: [{search: {target: pi5}}]\ntargets: [host, pi4]\n",
            2,
            "the sweep has no target pi5\n  Name one of host, pi4",
        ),
        (
            MODEL.replace("dataset: data", "calibration: net.cfg")
            + "policies: [{search: {}}]\ntargets: [host]\n",
            1,
            "policy searched is searched on pictures, and model net has no dataset",
        ),
        (
            "models: [{name: n, cfg: net.cfg, weights: net.weights}]\npolicies: [int8]\ntargets: [host]\n",
            1,
            "policy int8 needs recorded ranges, and model n has neither calibration nor dataset",
        ),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = write_sweep(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        read_sweep(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert message in str(caught.value)


def test_a_wrong_cfg_is_named_with_its_own_line(tmp_path: Path) -> None:
    path = write_sweep(tmp_path, MODEL + REST, cfg="[net]\n[route]\n")
    with pytest.raises(ConfigurationError, match=r"net\.cfg:2: layer 0 \(route\) needs the key layers"):
        read_sweep(path)


def test_an_absent_file_suggests_the_nearest(tmp_path: Path) -> None:
    path = write_sweep(tmp_path, MODEL.replace("net.cfg", "nett.cfg") + REST)
    with pytest.raises(ConfigurationError, match=r"Did you mean .*net\.cfg\?"):
        read_sweep(path)


def test_dynamic_int8_needs_no_ranges(tmp_path: Path) -> None:
    text = "models: [{name: n, cfg: net.cfg, weights: net.weights}]\ntargets: [host]\n"
    path = write_sweep(tmp_path, text + "policies: [{name: d, default: int8, quantize: 1}]\n", cfg=CLASSIFIER)
    (variant,) = variants(read_sweep(path))
    assert (variant.int8.any, variant.int8.static) == (True, False)


def test_a_quantisation_of_tensorflow_lite_has_cells_where_its_file_runs(tmp_path: Path) -> None:
    text = MODEL + "targets: [host]\npolicies: [fp32, {tflite: 16x8}, {name: own, tflite: full-integer}]\n"
    sweep = read_sweep(write_sweep(tmp_path, text + "runtimes: [engine, litert]\n"))
    found = [(cell.runtime, cell.policy, cell.variant.tflite) for cell in cells(sweep, lambda _: False)]
    assert found == [
        ("engine", "fp32", ""),
        ("litert", "fp32", ""),
        ("litert", "tflite-16x8", "16x8"),
        ("litert", "own", "full-integer"),
    ]
    alone = read_sweep(write_sweep(tmp_path, text + "runtimes: [engine, onnxruntime]\n"))
    with pytest.raises(ConfigurationError, match=r"policy tflite-16x8 .* no runtime .*: engine, onnxruntime"):
        cells(alone, lambda _: False)


def test_a_policy_may_be_left_to_a_search(tmp_path: Path) -> None:
    entries = "[fp32, {search: {}}, {name: small, search: {target: pi4, max_memory: 2, budget: 10m}}]"
    sweep = read_sweep(write_sweep(tmp_path, MODEL + f"policies: {entries}\ntargets: [pi4]\n"))
    _, searched, small = variants(sweep)
    assert (searched.policy, small.policy) == ("searched", "small")
    assert searched.search == SearchSettings(target="pi4", max_drop=0.5, min_agreement=98)
    assert small.search == SearchSettings(target="pi4", max_memory=2, budget=600)


def test_the_schema_comes_from_the_same_definition() -> None:
    properties = json_schema()["properties"]
    assert isinstance(properties, dict)
    assert set(properties) == {
        *("name", "models", "policies", "targets", "runtimes", "toolchains", "threads", "options"),
        *("steps", "protocol", "emulated"),
    }
    assert json_schema()["required"] == ["models", "policies", "targets"]
    known, own = properties["targets"]["items"]["anyOf"]
    assert {"pi4", "pi", "host"} <= set(known["enum"])
    assert re.search(own["pattern"], "./my-board.yaml")
    assert not re.search(own["pattern"], "pi4")
    assert properties["models"]["items"]["additionalProperties"] is False
