"""The parser of cfgs for policies."""

from __future__ import annotations

from pathlib import Path

import pytest
from networks import CLASSIFIER, DETECTOR, WEIGHTED
from wrong_cfgs import WRONG_WORDS

from harness.config.cfg_keys import cfg_keys
from harness.config.darknet_cfg import parse_cfg, read_cfg
from harness.config.policy import BUILT_IN, apply, select
from harness.errors import ConfigurationError


def test_layers_of_a_detector() -> None:
    cfg = parse_cfg(DETECTOR, "net.cfg")
    assert [layer.kind for layer in cfg.layers] == [
        *("convolutional", "maxpool", "convolutional", "convolutional", "shortcut", "convolutional", "yolo"),
        *("route", "convolutional", "upsample", "route", "convolutional", "yolo"),
    ]
    assert cfg.input_size == (3, 32, 32)
    assert [layer.index for layer in cfg.weighted] == WEIGHTED
    assert [layer.index for layer in cfg.layers if layer.depthwise] == [2]
    assert [layer.index for layer in cfg.layers if layer.pointwise] == [3, 5, 11]
    assert [layer.index for layer in cfg.heads] == [5, 11]
    assert cfg.layers[4].inputs == (3, 1)
    assert cfg.layers[7].inputs == (4,)
    assert cfg.layers[10].inputs == (9, 0)
    assert cfg.layers[10].channels == 12
    assert [layer.precision for layer in cfg.weighted] == ["fp32", "fp32", "fp32", "fp32", "int8", "fp16"]
    assert [layer.quantize for layer in cfg.weighted] == [False, False, False, False, True, False]
    assert cfg.layers[0].line == DETECTOR.splitlines().index("[convolutional]") + 1


def test_heads_are_found_through_layers_without_weights() -> None:
    assert [layer.index for layer in parse_cfg(CLASSIFIER, "c").heads] == [2]
    without_softmax = CLASSIFIER.replace("[softmax]\n", "")
    assert [layer.index for layer in parse_cfg(without_softmax, "c").heads] == [2]
    pooled = CLASSIFIER.replace("[connected]\noutput=10\nactivation=linear\n", "")
    assert [layer.index for layer in parse_cfg(pooled, "c").heads] == [0]


def test_numbers_are_read_as_atoi_reads_them() -> None:
    cfg = parse_cfg("[net]\nwidth= 3 2\n[convolutional]\nfilters=40#32\n[conv]\nfilters=x\nint8=1x\n", "c")
    assert cfg.input_size[2] == 32
    assert [layer.channels for layer in cfg.layers] == [40, 0]
    assert cfg.layers[1].precision == "int8"


def test_the_first_of_equal_keys_counts() -> None:
    cfg = parse_cfg("[net]\nwidth=8\n[conv]\nfilters=4\nint8=1\nfilters=5\nint8=0\n", "c")
    assert cfg.layers[0].channels == 4
    assert cfg.layers[0].precision == "int8"


def test_channels_through_route_groups_reorg_and_scale_channels() -> None:
    cfg = parse_cfg(
        "[net]\nchannels=3\n[conv]\nfilters=8\n[route]\nlayers=-1\ngroups=2\ngroup_id=1\n[reorg]\nstride=2\n"
        "[scale_channels]\nfrom=0\n[reorg]\nreverse=1\nstride=2\n",
        "c",
    )
    assert [layer.channels for layer in cfg.layers] == [8, 4, 16, 8, 2]


@pytest.mark.parametrize(("text", "message"), WRONG_WORDS.items())
def test_lines_sections_and_keys_are_checked_in_the_words_of_the_engine(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_cfg(text, "c")
    assert str(caught.value) == f"c:{message}"


def test_every_key_of_every_section_is_known() -> None:
    """Of every name that a section may have; what is asked for more than training is tested one by one."""
    known = cfg_keys()
    assert set(known.layers) == set(known.full_names.values()) > {"convolutional", "avgpool", "yolo"}
    for name, full in known.full_names.items():
        words = {"layers": "", "from": "from=0\n", "name": "name=a\n"}
        keys = "".join(words.get(key, f"{key}=0\n") for key in known.layers[full])
        inputs = "layers=0\n" if full == "route" else ""
        keys = keys.replace("from=0\n", "") if inputs else keys
        net = "".join(
            {"name": "name=b\n", "outputs": "outputs=0\n"}.get(key, f"{key}=8\n") for key in known.net
        )
        cfg = parse_cfg(f"[net]\n{net}[avgpool]\n[{name}]\n{inputs}{keys}", "c")
        assert cfg.layers[1].kind == full


def test_layers_are_read_by_name() -> None:
    cfg = parse_cfg(
        "[net]\nchannels=3\nname=image\noutputs=sum,half\n[conv]\nname=half\nfilters=3\n"
        "[conv]\nname=conv.1\nfrom=image\nfilters=3\n[add]\nname=sum\nfrom=half,conv.1 # both\n",
        "c",
    )
    assert [layer.inputs for layer in cfg.layers] == [(-1,), (-1,), (0, 1)]
    assert cfg.outputs == (2, 0)
    assert [layer.index for layer in cfg.heads] == [0, 1]
    assert select("conv.1", cfg) == {1}
    for keys, message in (
        ("name=1st", "c:4: [conv] '1st' is no name"),
        ("from=haff", "c:4: [conv] from= names 'haff', but no layer before this one has that name"),
        ("name=input", "c:4: [conv] the name 'input' is taken already"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            parse_cfg(f"[net]\nwidth=8\n[conv]\n{keys}\n", "c")
        assert str(caught.value).startswith(message)


def test_a_byte_order_mark_hides_no_section() -> None:
    text = f"\xef\xbb\xbf{CLASSIFIER}"
    assert parse_cfg(text, "c").layers == parse_cfg(CLASSIFIER, "c").layers
    assert apply(BUILT_IN["int8"], text) == "\xef\xbb\xbf" + apply(BUILT_IN["int8"], CLASSIFIER)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "c:1: no sections; this is not a Darknet cfg"),
        ("\n\n[convolutional]\n", "c:3: [convolutional] comes first, but a cfg must start with [net]"),
        ("[net]\n", "c:1: [net] is the only section; there are no layers"),
        ("[net]\n[route]\nlayers=-2\n", "c:3: layer 0 (route) reads layer -2, which is not before it"),
        ("[net]\n[conv]\n[route]\nlayers=1\n", "c:4: layer 1 (route) reads layer 1"),
        ("[net]\n[conv]\n[shortcut]\n", "c:3: layer 1 (shortcut) needs the key from"),
        (
            "[net]\n[route]\nlayers=99999999999999999999999\n",
            "c:3: layer 0 (route) reads layer 9999999",
        ),
    ],
)
def test_an_invalid_network_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_cfg(text, "c")
    assert str(caught.value).startswith(message)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such file"):
        read_cfg(tmp_path / "absent.cfg")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_cfg(tmp_path)
    with (tmp_path / "large.cfg").open("wb") as stream:
        stream.truncate(1 << 30)
    with pytest.raises(ConfigurationError, match="is a binary file; harness reads Darknet cfg files"):
        read_cfg(tmp_path / "large.cfg")
    (tmp_path / "large.cfg").write_text("[net]\n" * (1 << 20))
    with pytest.raises(ConfigurationError, match="larger than"):
        read_cfg(tmp_path / "large.cfg")


def test_parameters_of_a_transposed_convolution() -> None:
    cfg = parse_cfg("[net]\nchannels=6\n[deconvolutional]\nfilters=4\ngroups=2\nsize=3\n", "c")
    assert cfg.layers[0].parameters == 4 + 6 * 2 * 9
