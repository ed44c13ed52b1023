"""A cfg that is wrong is refused by the engine and by harness in the same words."""

from __future__ import annotations

from pathlib import Path

import pytest
from wrong_cfgs import WRONG_WORDS

from harness.config.cfg_keys import cfg_keys
from harness.config.darknet_cfg import read_cfg
from harness.errors import ConfigurationError
from harness.runtimes.engine import HostEngine

pytestmark = pytest.mark.engine


def _refusals(cfg: Path, engine: HostEngine) -> tuple[str, str]:
    with pytest.raises(ConfigurationError) as by_harness:
        read_cfg(cfg)
    with pytest.raises(ConfigurationError) as by_engine:
        engine.info(cfg)
    return by_harness.value.message, by_engine.value.message


@pytest.mark.parametrize("text", WRONG_WORDS)
def test_the_engine_and_harness_use_the_same_words(
    text: str, tmp_path: Path, host_engine: HostEngine
) -> None:
    cfg = tmp_path / "a.cfg"
    cfg.write_text(text, encoding="latin-1")
    by_harness, by_engine = _refusals(cfg, host_engine)
    assert by_harness == by_engine == f"{cfg}:{WRONG_WORDS[text]}"


@pytest.mark.parametrize("section", sorted(cfg_keys().layers))
def test_the_same_key_is_suggested(section: str, tmp_path: Path, host_engine: HostEngine) -> None:
    """For every key without its third letter: often several known keys are as near."""
    cfg = tmp_path / "a.cfg"
    keys = cfg_keys().layers[section]
    for key in [*keys, *(word.upper() for word in keys)]:
        misspelt = key[:2] + key[3:] if len(key) > 3 else key + "x"
        if misspelt not in keys:
            cfg.write_text(f"[net]\nwidth=8\nheight=8\nchannels=1\n[{section}]\n{misspelt}=1\n")
            by_harness, by_engine = _refusals(cfg, host_engine)
            assert by_harness == by_engine


@pytest.mark.parametrize(
    ("sections", "shape"),
    [
        ("[conv]\nfilters=4\nsize=3\nstride=2\npad_bottom=1\npad_right=1\n", (4, 4, 5)),
        ("[conv]\nfilters=4\nsize_x=3\npad=1\ndilation_x=2\n", (4, 8, 10)),
        ("[pool]\nsize=3\nstride=2\npad=1\n", (6, 4, 5)),
        ("[deconv]\nfilters=4\nsize=3\nstride=2\npad_top=1\noutput_pad_x=1\n", (4, 16, 22)),
        ("[transpose]\naxes=2,0,1\n", (10, 6, 8)),
        ("[transpose]\ndims=2,3,80\naxes=1,0,2\nchannels=6\nheight=8\nwidth=10\n", (6, 8, 10)),
        ("[reshape]\nchannels=480\nheight=1\nwidth=1\n", (480, 1, 1)),
        ("[slice]\nbegin=1\nend=6\nstep=2\n", (3, 8, 10)),
        ("[slice]\naxis=width\nstep=-3\n", (6, 8, 4)),
        ("[reduce]\naxes=height,width\n", (6, 1, 1)),
        ("[layer_norm]\naxes=channels\n", (6, 8, 10)),
        ("[resize]\nheight=3\nwidth=40\n", (6, 3, 40)),
        ("[pad]\npad_back=2\npad_left=1\n", (8, 8, 11)),
        ("[avgpool]\n[mul]\nfrom=input,-1\n", (6, 8, 10)),
        ("[route]\naxis=height\nfrom=input,input\n", (6, 16, 10)),
        ("[transpose]\naxes=0,2,1\n[matmul]\nfrom=input,-1\n", (6, 8, 8)),
        ("[constant]\nchannels=5\nheight=1\nwidth=2\n", (5, 1, 2)),
    ],
)
def test_sizes_are_those_of_the_engine(
    sections: str, shape: tuple[int, int, int], tmp_path: Path, host_engine: HostEngine
) -> None:
    cfg = tmp_path / "a.cfg"
    cfg.write_text(f"[net]\nwidth=10\nheight=8\nchannels=6\n{sections}")
    assert read_cfg(cfg).layers[-1].out == shape
    assert tuple(host_engine.info(cfg)["layers"][-1]["out"]) == shape
