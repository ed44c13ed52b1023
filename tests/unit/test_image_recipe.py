"""What images are made of, and when they are made again."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from harness.boards import bootstrap, recipe
from harness.boards.recipe import Recipe, read_recipe
from harness.configuration.targets import all_targets, load_target
from harness.errors import ConfigurationError

RECIPE = Recipe(
    base=f"debian@sha256:{'0' * 64}",
    base_name="debian:bookworm",
    bootstrap="bookworm",
    packages=("openssh-server",),
)


def test_every_image_that_a_target_names_is_there() -> None:
    with_image = [target for target in all_targets() if target.image]
    assert {"pi4", "jetson-nano"} <= {target.name for target in with_image}
    for target in with_image:
        assert "openssh-server" in read_recipe(target).packages


def test_a_target_without_image_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="the target host has no image"):
        read_recipe(load_target("host"))


@pytest.mark.parametrize(
    "changed",
    [
        replace(RECIPE, base=f"debian@sha256:{'1' * 64}"),
        replace(RECIPE, bootstrap="trixie"),
        replace(RECIPE, packages=("openssh-server", "gdb")),
    ],
)
def test_a_changed_input_makes_a_new_image(changed: Recipe) -> None:
    assert changed.key() != RECIPE.key()


def test_a_changed_dockerfile_makes_a_new_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = RECIPE.key()
    file = tmp_path / "Dockerfile.arm64"
    file.write_text(recipe.dockerfile().read_text() + "RUN true\n")
    monkeypatch.setattr(recipe, "dockerfile", lambda: file)
    assert RECIPE.key() != before


def test_a_bootstrapped_base_is_shared_by_targets_with_the_same_packages() -> None:
    other = replace(RECIPE, base=f"ubuntu@sha256:{'2' * 64}")
    assert bootstrap.base_tag(other) == bootstrap.base_tag(RECIPE)
    assert bootstrap.base_tag(replace(RECIPE, packages=("gdb",))) != bootstrap.base_tag(RECIPE)


def test_mmdebstrap_is_told_everything_that_makes_the_base() -> None:
    words = bootstrap.command("mmdebstrap", RECIPE, Path("layer.tar"))
    assert words[-2:] == ["bookworm", "layer.tar"]
    assert "--architectures=arm64" in words
    (included,) = (word for word in words if word.startswith("--include="))
    assert set(RECIPE.bootstrap_packages) == set(included.removeprefix("--include=").split(","))


def test_the_archive_says_that_it_is_arm64(tmp_path: Path) -> None:
    layer = tmp_path / "layer.tar"
    with tarfile.open(layer, "w") as tar:
        tar.add(__file__, "etc/motd")
    bootstrap._write_archive(tmp_path / "image.tar", layer, "harness/base:1")
    with tarfile.open(tmp_path / "image.tar") as tar:
        (manifest,) = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
        config = json.load(tar.extractfile(manifest["Config"]))  # type: ignore[arg-type]
        assert tar.extractfile(manifest["Layers"][0]).read() == layer.read_bytes()  # type: ignore[union-attr]
    assert manifest["RepoTags"] == ["harness/base:1"]
    assert (config["architecture"], config["os"]) == ("arm64", "linux")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("base", "debian:bookworm", "expected NAME@sha256:DIGEST"),
        ("packages", "[openssh-server, --allow-downgrades]", "expected the name of a Debian package"),
        ("bootstrap", "'bookworm; reboot'", "expected a suite of Debian"),
    ],
)
def test_what_could_reach_a_shell_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str, said: str
) -> None:
    values = {
        "base": RECIPE.base,
        "base_name": RECIPE.base_name,
        "bootstrap": "bookworm",
        "packages": "[gdb]",
        key: value,
    }
    (tmp_path / "image.yaml").write_text("".join(f"{name}: {text}\n" for name, text in values.items()))
    monkeypatch.setattr(recipe, "resource", lambda *_: tmp_path / "image.yaml")
    with pytest.raises(ConfigurationError, match=said):
        read_recipe(load_target("pi4"))
