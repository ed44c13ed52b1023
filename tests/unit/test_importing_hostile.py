"""Damaged and hostile models: one error, no crash, no more memory than the file justifies."""

from __future__ import annotations

import io
import os
import random
import resource
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite
from flat_models import FlatOperator, FlatTensor, flat_model
from onnx import ModelProto, NodeProto, TensorProto, defs, helper
from onnx_models import imported, kinds, model_of, node

from harness.config.import_options import ImportOptions
from harness.errors import ConfigurationError
from harness.importing import tflite_file
from harness.importing.cfg_text import calibration_text, cfg_text, weights_bytes
from harness.importing.folding import moved
from harness.importing.graph import Graph, Node
from harness.importing.metadata import describe, names_of
from harness.importing.model import ImportedModel, import_model
from harness.importing.quantization import Quantization
from harness.importing.tflite_file import parse_flat_model
from harness.importing.tflite_space_to_batch import dilated_convolutions

MODELS = (
    "mlperf-tiny/kws_ref_model.tflite",
    "mlperf-tiny/kws_ref_model_float32.tflite",
    "blazeface-short/face_detection_short_range.tflite",
    "yunet-n/yunet_n_320_320.onnx",
)
_GIBIBYTE = 1 << 30


@contextmanager
def little_memory() -> Iterator[None]:
    """The process may not take more than two GiB beyond what it has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * _GIBIBYTE, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def damaged(content: bytes, chance: random.Random) -> bytes:
    """A truncated file, or one with some bytes changed, mostly where its structure lies."""
    data = bytearray(content)
    if chance.random() < 0.2:
        return bytes(data[: chance.randrange(len(data))])
    for _ in range(chance.choice((1, 2, 8))):
        region = chance.choice((len(data), min(len(data), 6000)))
        place = chance.choice((chance.randrange(region), len(data) - 1 - chance.randrange(region)))
        data[place] = chance.choice((0, 1, 127, 128, 255, data[place] ^ 1 << chance.randrange(8)))
    return bytes(data)


@pytest.mark.data
@pytest.mark.parametrize("name", MODELS)
def test_a_damaged_file_is_imported_or_one_error(name: str, shared_data: Path, tmp_path: Path) -> None:
    content = (shared_data / "import" / name).read_bytes()
    chance = random.Random(name)
    path = tmp_path / f"model{Path(name).suffix}"
    errors = 0
    for _ in range(40):
        path.write_bytes(damaged(content, chance))
        try:
            with little_memory():
                model = import_model(path)
                said = describe(model, ImportOptions())
                cfg_text(model, said.preprocessing, {})
                weights_bytes(model)
                calibration_text(model)
        except ConfigurationError:
            errors += 1
    assert errors


def constant(**fields: object) -> ModelProto:
    """A model that adds a constant, which is declared by hand."""
    model = model_of([node("Add", "x c")])
    tensor = TensorProto(name="c", data_type=TensorProto.FLOAT)
    for key, value in fields.items():
        if key == "dims":
            tensor.dims.extend(value)
        elif key == "raw_data":
            assert isinstance(value, bytes)
            tensor.raw_data = value
        else:
            tensor.data_location = TensorProto.EXTERNAL
            for name, word in (("location", value), ("length", "4")):
                entry = tensor.external_data.add()
                entry.key, entry.value = name, str(word)
    model.graph.initializer.append(tensor)
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (constant(dims=[1 << 29], raw_data=b"1234"), "has the shape"),
        (constant(dims=[1 << 27], raw_data=b"1234"), "has 4 bytes instead of 536870912"),
        (constant(dims=[-1], raw_data=b""), "has the shape (-1,)"),
        (constant(dims=[1 << 40, 1 << 40], raw_data=b""), "has the shape"),
        (constant(dims=[1 << 62, 4, 0]), "has the shape (4611686018427387904, 4, 0)"),
        (constant(dims=[1] * 65, raw_data=b"1234"), "has the shape"),
        (constant(dims=[1]), "has 0 numbers for (1,)"),
        (constant(dims=[1], location="/etc/hostname"), "lies outside of the model's folder: /etc/hostname"),
        (constant(dims=[1], location="../secret"), "lies outside of the model's folder: ../secret"),
        (
            constant(dims=[1], location="sub/../../secret"),
            "lies outside of the model's folder: sub/../../secret",
        ),
        (constant(dims=[1], location="pipe"), "is a named pipe, not a regular file"),
        (constant(dims=[1], location="missing"), "missing: cannot be read"),
        (constant(dims=[1], location="model.onnx\0"), "model.onnx"),
        (constant(dims=[1 << 20], location="model.onnx"), "for 'c', which needs 4194304"),
    ],
    ids=lambda value: "" if isinstance(value, ModelProto) else str(value)[:30],
)
def test_a_constant_has_the_bytes_that_it_declares(model: ModelProto, message: str, tmp_path: Path) -> None:
    (tmp_path.parent / "secret").write_bytes(b"1234")
    os.mkfifo(tmp_path / "pipe")
    with little_memory(), pytest.raises(ConfigurationError) as caught:
        imported(model, tmp_path)
    assert message in str(caught.value)


def test_external_data_beside_the_model_is_read(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(np.float32(3).tobytes())
    found = imported(constant(dims=[1], location="data.bin"), tmp_path)
    assert found.sections.found[0].weights[0].item() == 3


def test_a_link_to_data_elsewhere_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"1234")
    (folder / "data.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigurationError, match="outside of the model's folder"):
        imported(constant(dims=[1], location="data.bin"), folder)


def test_operations_that_form_a_circle(tmp_path: Path) -> None:
    model = model_of([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Neg", "b")])
    with pytest.raises(ConfigurationError, match="it reads 'b', which no operation before it computes"):
        imported(model, tmp_path)


def test_constants_that_grow_one_after_the_other(tmp_path: Path) -> None:
    """Each is small enough; all together are not."""
    nodes = [node("ConstantOfShape", "s", f"c{number}") for number in range(64)]
    sums = [node("Add", f"a{number} c{number}", f"a{number + 1}") for number in range(64)]
    sums[0].input[0], sums[-1].output[0] = "x", "y"
    model = model_of([*nodes, *sums], (1, 1), {"s": np.array([1, 1 << 22])})
    with little_memory(), pytest.raises(ConfigurationError, match="far larger than the file"):
        imported(model, tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x08", b"\x08\x07", b"\x08\x07\x12\x03abc", b"\x1c\0\0\0TFL3"])
def test_a_file_without_content(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"model\.onnx"):
        import_model(path)


def test_random_bytes_are_no_flatbuffer() -> None:
    chance = random.Random(5)
    for length in (0, 7, 8, 100, 5000):
        content = b"\x20\0\0\0TFL3" + chance.randbytes(length)
        with pytest.raises(ConfigurationError, match="damaged"):
            parse_flat_model(content, "model.tflite")


@pytest.mark.parametrize("entry", [("offset", "-1"), ("offset", "one"), ("offset", str(1 << 70))])
def test_external_data_at_an_impossible_place(entry: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"12345678")
    model = constant(dims=[1], location="data.bin")
    added = model.graph.initializer[-1].external_data.add()
    added.key, added.value = entry
    with pytest.raises(ConfigurationError, match=r"model\.onnx: not an ONNX model, or a damaged one"):
        imported(model, tmp_path)


def test_every_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(ConfigurationError) as caught:
        imported(model_of([node("LSTM", "x")]), tmp_path)
    reason = "LSTM 'the_LSTM' cannot be imported: this operator is not supported"
    assert str(caught.value) == f"{path}: {reason}"
    assert caught.value.where == str(path)


def test_infinite_numbers_are_imported_without_a_warning(tmp_path: Path) -> None:
    weights, scale = np.full((2, 4, 1, 1), 127, np.int8), np.array(3e38, np.float32)
    nodes = [node("DequantizeLinear", "w s", "d"), node("Conv", "x d")]
    model = model_of(nodes, constants={"w": weights, "s": scale})
    assert np.isinf(imported(model, tmp_path).sections.found[0].weights[1]).all()


def function(name: str, nodes: list[NodeProto]) -> object:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["x"], ["y"], nodes, opsets)


def calling(bodies: dict[str, list[NodeProto]]) -> ModelProto:
    """A model that calls the first of some functions."""
    model = model_of([node(next(iter(bodies)), "x", domain="own")])
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.extend(function(name, nodes) for name, nodes in bodies.items())
    return model


def test_functions_that_call_one_another_in_a_circle(tmp_path: Path) -> None:
    model = calling({"F": [node("G", "x", domain="own")], "G": [node("F", "x", domain="own")]})
    with pytest.raises(ConfigurationError, match="functions call one another in a circle"):
        imported(model, tmp_path)


def test_functions_that_double_the_model_again_and_again(tmp_path: Path) -> None:
    """40 functions of two calls each are 2 ** 40 operations."""
    bodies = {
        f"F{number}": [
            node(f"F{number + 1}", "x", "a", domain="own"),
            node(f"F{number + 1}", "a", domain="own"),
        ]
        for number in range(40)
    }
    with pytest.raises(ConfigurationError, match="functions make the model far larger than the file"):
        imported(calling({**bodies, "F40": [node("Relu", "x")]}), tmp_path)


def test_functions_within_functions_are_written_out(tmp_path: Path) -> None:
    found = imported(calling({"F": [node("G", "x", domain="own")], "G": [node("Tanh", "x")]}), tmp_path)
    assert [section.operators for section in found.sections.found] == [("Tanh",)]


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(
        model_of([node("Relu", "x")]).SerializeToString().replace(b"the_Relu", b"the_\xff\xfe\xfd\xfc")
    )
    with pytest.raises(ConfigurationError, match=r"model\.onnx: not an ONNX model.*is no text"):
        import_model(path)


def test_an_opset_after_the_newest_one(tmp_path: Path) -> None:
    message = rf"is of opset 30; opsets 7 to {defs.onnx_opset_version()} can be imported"
    with pytest.raises(ConfigurationError, match=message):
        imported(model_of([node("Relu", "x")], opset=30), tmp_path)


def test_an_operation_with_more_inputs_than_any_has(tmp_path: Path) -> None:
    model = model_of([node("Concat", " ".join(["x"] * 5000), axis=1)])
    with pytest.raises(ConfigurationError, match="it has 5000 inputs; 4096 are possible"):
        imported(model, tmp_path)


def test_readers_of_one_tensor_are_not_looked_at_again_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, calls = 400, 0
    users = Graph.users

    def counted(self: Graph, name: str) -> list[Node]:
        nonlocal calls
        calls += 1
        return users(self, name)

    monkeypatch.setattr(Graph, "users", counted)
    turned = [node("Transpose", "x", f"a{place}", perm=[0, 1, 3, 2]) for place in range(number)]
    positive = [node("Relu", f"a{place}", f"b{place}") for place in range(number)]
    joined = node("Concat", " ".join(f"b{place}" for place in range(number)), axis=1)
    assert kinds(imported(model_of([*turned, *positive, joined]), tmp_path))[0] == "activation"
    assert calls < 100 * number


EMPTY, ONE = np.zeros(0, np.float32), np.ones(1, np.float32)
LONG = (1, 1 << 28, 1, 1)


@pytest.mark.parametrize(
    ("nodes", "shape", "constants"),
    [
        ([node("Clip", "x c")], (1, 4), {"c": EMPTY}),
        ([node("Pow", "x c")], (1, 4), {"c": np.array([np.inf], np.float32)}),
        ([node("Pad", "x c")], (1, 4), {"c": np.array([1])}),
        ([node("Resize", "x - c")], (1, 4, 4, 4), {"c": np.array([1, 1, np.nan, np.inf], np.float32)}),
        ([node("GroupNormalization", "x c c", num_groups=0)], (1, 4, 1, 1), {"c": ONE}),
        ([node("GroupNormalization", "x c c", num_groups=2)], (1, 4, 1, 1), {"c": ONE}),
        ([node("GroupNormalization", "x c c", num_groups=1)], LONG, {"c": ONE}),
        ([node("PRelu", "x c")], LONG, {"c": ONE}),
        ([node("If", "c")], (1, 4), {"c": EMPTY}),
        ([node("If", "nothing")], (1, 4), {}),
        ([node("InstanceNormalization", "x c c")], (1, 1, 6, 8), {"c": np.ones(4, np.float32)}),
        ([node("BatchNormalization", "x c c c c")], (1, 1, 6, 8), {"c": np.ones(4, np.float32)}),
    ],
    ids=lambda value: str(value[0].op_type) if isinstance(value, list) else "",
)
def test_constants_that_do_not_fit_are_one_error(
    nodes: list[NodeProto], shape: tuple[int, ...], constants: dict[str, np.ndarray], tmp_path: Path
) -> None:
    with little_memory(), pytest.raises(ConfigurationError, match=r"model\.onnx: "):
        written(imported(model_of(nodes, shape, constants), tmp_path))


def test_a_scale_that_makes_more_channels_is_no_layer(tmp_path: Path) -> None:
    four = np.ones((4, 1, 1), np.float32) * 2
    model = imported(
        model_of([node("Mul", "x c", "m"), node("Add", "m c")], (1, 1, 6, 8), {"c": four}), tmp_path
    )
    assert kinds(model) == ["constant", "mul", "add"]


def written(model: ImportedModel) -> int:
    """The bytes of all that an import writes."""
    said = describe(model, ImportOptions())
    texts = (cfg_text(model, said.preprocessing, {}), calibration_text(model) or "")
    return len(weights_bytes(model)) + sum(map(len, texts))


def test_post_processing_with_more_numbers_than_are_described(tmp_path: Path) -> None:
    nodes = [node("ConstantOfShape", "s", "c"), node("NonMaxSuppression", "x c")]
    model = model_of(nodes, (1, 4, 4), {"s": np.array([1 << 22])})
    with pytest.raises(ConfigurationError, match="its constants have more than 1048576 numbers"):
        imported(model, tmp_path)


def test_operations_whose_names_are_alike_in_a_cfg(tmp_path: Path) -> None:
    """The number behind each is not looked for from the beginning."""
    names = [chr(0x4E00 + place) for place in range(3000)]
    nodes = [node("Relu", before, after) for before, after in zip(["x", *names], names, strict=False)]
    found = imported(model_of(nodes, (1, 4), outputs=names[-1]), tmp_path)
    numbers = [section.name.rpartition("_")[2] for section in found.sections.found]
    assert numbers[1:] == [str(place) for place in range(2, 3001)]
    assert max(found.sections._numbers.values()) == 3000


RELU, ADD, LOGISTIC, UNPACK = 19, 0, 14, 88
X, Y, Z = FlatTensor(name="x"), FlatTensor(name="y"), FlatTensor(name="z")
FIRST = FlatOperator(code=RELU, inputs=[0], outputs=[1])


def unpack(b: object) -> tuple[int, int]:
    tflite.UnpackOptionsStart(b)
    tflite.UnpackOptionsAddAxis(b, 1)
    return tflite.BuiltinOptions.UnpackOptions, tflite.UnpackOptionsEnd(b)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            flat_model([FlatTensor(name="x", shape=(1, 1 << 10, 1 << 10, 512)), Y], [FIRST]),
            "has the shape (1, 1024",
        ),
        (flat_model([FlatTensor(name="x", shape=(1, -4, 4, 4)), Y], [FIRST]), "has the shape (1, -4, 4, 4)"),
        (
            flat_model(
                [X, Y, FlatTensor(name="c", shape=(1 << 29,), data=b"1234")],
                [FlatOperator(code=ADD, inputs=[0, 2], outputs=[1])],
            ),
            "the tensor 'c' has the shape (536870912,)",
        ),
        (
            flat_model([X, Y, FlatTensor(name="c", shape=(2**31 - 1, 2**31 - 1, 0), data=b"")], [FIRST]),
            "the tensor 'c' has the shape (2147483647, 2147483647, 0)",
        ),
        (
            flat_model(
                [X, Y, FlatTensor(name="c", shape=(1 << 27,), data=b"1234")],
                [FlatOperator(code=ADD, inputs=[0, 2], outputs=[1])],
            ),
            "has 4 bytes instead of 536870912",
        ),
        (flat_model([X, Y, FlatTensor(name="c", buffer=77)], [FIRST]), "the tensor 'c' has no buffer"),
        (flat_model([X, Y], [FlatOperator(code=9999, inputs=[0], outputs=[1])]), "operator 9999 'y' cannot"),
        (
            flat_model(
                [X, Y, Z],
                [
                    FlatOperator(code=ADD, inputs=[0, 2], outputs=[1]),
                    FlatOperator(code=RELU, inputs=[1], outputs=[2]),
                ],
            ),
            "it reads a tensor that no operator before it computes",
        ),
        (
            flat_model([X, Y], [FlatOperator(code=ADD, inputs=[0, 1], outputs=[1])]),
            "it reads a tensor that no",
        ),
        (
            flat_model(
                [FlatTensor(name="x", shape=(1, 1 << 28)), Y],
                [FlatOperator(code=UNPACK, inputs=[0], outputs=[1], options=unpack)],
            ),
            "268435456 parts for 1 outputs",
        ),
        (
            flat_model([X, Y, Z], [FlatOperator(code=RELU, inputs=[0], outputs=[1, 2])]),
            "it has too many outputs",
        ),
        # Lists and tables of a flatbuffer may share places: these name a part 20,000 times.
        (
            flat_model(
                [X, Y, FlatTensor(name="c", shape=(1 << 18,), data=bytes(1 << 20))],
                [FIRST],
                copies=(20_000, 1),
            ),
            "its parts are far larger than the file",
        ),
        (
            flat_model(
                [X, Y], [FlatOperator(code=RELU, inputs=[0] * 100_000, outputs=[1])], copies=(1, 20_000)
            ),
            "its parts are far larger than the file",
        ),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else str(value)[:40],
)
def test_a_flatbuffer_that_lies_is_one_error(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    with little_memory(), pytest.raises(ConfigurationError) as caught:
        import_model(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")


def test_the_axis_of_a_single_scale_does_not_matter() -> None:
    grid = Quantization(scales=(0.5,), zero_points=(0,), axis=7)
    assert moved("Transpose", grid, {"perm": (1, 0)}) is grid


@pytest.mark.parametrize(
    ("block", "outputs", "dilations"),
    [
        (np.array([[2, 3]], np.int32), (3,), {1: {"dilations": (2, 3), "pads": (0, 0, 0, 0)}}),
        (np.array([2, np.nan], np.float32), (3,), {}),
        (np.array([2, 3], np.int32), (), {}),
    ],
    ids=["rows", "no_integers", "no_output"],
)
def test_space_to_batch_of_unusual_constants(
    block: np.ndarray, outputs: tuple[int, ...], dilations: object
) -> None:
    shared: dict[str, Any] = {"shape": (2,), "type": "int32", "scales": (), "zero_points": (), "axis": 0}
    data = (None, None, None, None, block, np.zeros((2, 2), np.int32))
    tensors = tuple(tflite_file.FlatTensor(name=str(n), data=one, **shared) for n, one in enumerate(data))
    plain: dict[str, Any] = {
        "options": {"StrideH": 1, "StrideW": 1, "Padding": 1},
        "custom": False,
        "custom_options": b"",
    }
    operators = tuple(
        tflite_file.FlatOperator(name=name, inputs=inputs, outputs=made, **plain)
        for name, inputs, made in (
            ("SPACE_TO_BATCH_ND", (0, 4, 5), (1,)),
            ("CONV_2D", (1,), (2,)),
            ("BATCH_TO_SPACE_ND", (2, 4, 5), outputs),
        )
    )
    model = tflite_file.FlatModel(tensors=tensors, operators=operators, inputs=(0,), outputs=(3,))
    assert dilated_convolutions(model)[0] == dilations


def test_a_long_name_that_many_operators_read(tmp_path: Path) -> None:
    """The file has it once."""
    path = tmp_path / "model.tflite"
    tensors = [FlatTensor(name="n" * 500_000), Y, *[FlatTensor(name=f"t{number}") for number in range(300)]]
    operators = [FlatOperator(code=LOGISTIC, inputs=[0], outputs=[2 + number]) for number in range(300)]
    chain = [FlatOperator(code=ADD, inputs=[2, 3], outputs=[1])]
    chain += [FlatOperator(code=ADD, inputs=[1, 2 + number], outputs=[1]) for number in range(2, 300)]
    path.write_bytes(flat_model(tensors, [*operators, *chain]))
    assert written(import_model(path)) < 5_000_000


def archive(content: str, compression: int, files: int = 1) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as found:
        for number in range(files):
            found.writestr(f"{number}.txt", content)
    return stream.getvalue()


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_files_packed_into_a_model_have_no_names(compression: int, tmp_path: Path) -> None:
    packed = bytearray(archive("a\nb\n" * 1000, compression))
    packed[45:60] = bytes(byte ^ 0x55 for byte in packed[45:60])
    path = tmp_path / "model.tflite"
    path.write_bytes(flat_model([X, Y], [FIRST]) + packed)
    assert describe(import_model(path), ImportOptions()).labels == ()


def test_packed_files_are_not_read_beyond_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(flat_model([X, Y], [FIRST]) + archive("name\n" * 70_000, zipfile.ZIP_DEFLATED, files=4))
    said = describe(import_model(path), ImportOptions())
    assert len(said.labels) == 70_000  # of the third file: the fourth one would be more than 1 MiB
    assert names_of("[" + "1," * 300_000 + "]") == ()
