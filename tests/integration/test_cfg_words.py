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
