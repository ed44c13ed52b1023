"""The inputs of images, and when images are rebuilt."""

from __future__ import annotations

import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from harness.build.log import BuildLog, build_log
from harness.config.targets import all_targets, load_target
from harness.errors import BuildError, ConfigurationError
from harness.images import bootstrap, docker_engine, recipe
from harness.images import image as images
from harness.images.debian import Release, read_debian
from harness.images.recipe import Base, Recipe, read_recipe

RELEASE = Release(suite="bookworm", glibc="2.36", packages=("usr-is-merged",))
RECIPE = Recipe(
    name="board",
    bases=(Base(name="debian:bookworm", digest=f"sha256:{'0' * 64}"),),
    releases=(RELEASE,),
    packages=("openssh-server",),
)

NO_RELEASE = "E: The repository 'http://deb.debian.org/debian sid Release' does not have a Release file."


def nowhere() -> docker.DockerClient:
    """A client that has nothing to talk to."""
    return docker.DockerClient(base_url="http://127.0.0.1:1", version="1.41")


def test_every_image_that_a_target_names_is_there() -> None:
    with_image = [target for target in all_targets() if target.image]
    assert {"pi4", "jetson-nano"} <= {target.name for target in with_image}
    for target in with_image:
        assert "openssh-server" in read_recipe(target).packages
        assert "g++" in read_recipe(target, building=True).packages


@pytest.mark.parametrize(
    ("target", "first"),
    [
        ("jetson-nano", "bullseye"),  # 2.27
        ("jetson-xavier", "bullseye"),  # 2.31
        ("jetson-orin", "bookworm"),  # 2.35
        ("pi4", "bookworm"),  # 2.36
    ],
)
def test_a_base_is_made_of_the_release_with_the_nearest_c_library(target: str, first: str) -> None:
    recipe = read_recipe(load_target(target))
    assert recipe.releases[0].suite == first
    assert {release.suite for release in recipe.releases} == {"bullseye", "bookworm", "trixie"}


@pytest.mark.parametrize(
    ("glibc", "order"),
    [
        ("2.20", ["bullseye", "bookworm", "trixie"]),
        ("2.37", ["bookworm", "trixie", "bullseye"]),
        ("2.40", ["trixie", "bookworm", "bullseye"]),
        ("2.99", ["trixie", "bookworm", "bullseye"]),
    ],
)
def test_releases_in_the_order_of_their_distance(glibc: str, order: list[str]) -> None:
    assert [release.suite for release in read_debian().nearest(glibc)] == order


def test_of_two_releases_as_near_the_older_is_taken() -> None:
    old, new = Release(suite="old", glibc="2.30"), Release(suite="new", glibc="2.34")
    debian = replace(read_debian(), releases=(new, old))
    assert debian.nearest("2.32") == (old, new)


def test_an_engine_is_not_built_in_a_release_whose_compiler_is_too_old_for_it() -> None:
    nano = load_target("jetson-nano")
    building = read_recipe(nano, building=True)
    assert building.name == "jetson-nano-build"
    assert building.releases[0].suite == "bookworm"
    assert "bullseye" not in {release.suite for release in building.releases}
    assert building.bases == ()  # Ubuntu 18.04 has GCC 7
    assert read_recipe(load_target("pi4"), building=True).bases == read_recipe(load_target("pi4")).bases


def test_a_base_is_pulled_by_its_digest_and_without_one_by_its_tag() -> None:
    digest = f"sha256:{'0' * 64}"
    pinned = Base.parse(f"127.0.0.1:5000/some/base:1.2@{digest}")
    assert (pinned.name, pinned.reference) == (
        "127.0.0.1:5000/some/base:1.2",
        f"127.0.0.1:5000/some/base@{digest}",
    )
    assert Base.parse("nvcr.io/nvidia/l4t-base:r32.7.1").reference == "nvcr.io/nvidia/l4t-base:r32.7.1"


def test_a_target_without_image_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="the target host has no image"):
        read_recipe(load_target("host"))


@pytest.mark.parametrize(
    "changed",
    [
        replace(RECIPE, bases=(Base(name="debian:bookworm", digest=f"sha256:{'1' * 64}"),)),
        replace(RECIPE, releases=(replace(RELEASE, suite="trixie"),)),
        replace(RECIPE, releases=(replace(RELEASE, packages=("libc-bin",)),)),
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
    other = replace(RECIPE, bases=(Base(name="ubuntu:22.04"),))
    assert bootstrap.base_tag(other, RELEASE) == bootstrap.base_tag(RECIPE, RELEASE)
    more = replace(RECIPE, packages=("gdb",))
    assert bootstrap.base_tag(more, RELEASE) != bootstrap.base_tag(RECIPE, RELEASE)


def test_mmdebstrap_is_told_everything_that_makes_the_base() -> None:
    words = bootstrap.command("mmdebstrap", RECIPE, RELEASE, Path("layer.tar"))
    *_, suite, layer, source = words
    assert (suite, layer) == ("bookworm", "layer.tar")
    assert source.endswith("http://deb.debian.org/debian bookworm main")
    assert "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" in source
    assert "--architectures=arm64" in words
    (included,) = (word for word in words if word.startswith("--include="))
    packages = set(RECIPE.bootstrap_packages(RELEASE))
    assert {"openssh-server", "usr-is-merged", "dash"} <= packages
    assert packages == set(included.removeprefix("--include=").split(","))


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
        ("bases", "['debian:bookworm@sha256:0123']", "expected NAME:TAG@sha256:DIGEST or NAME:TAG"),
        ("bases", "['debian:bookworm; reboot']", "expected NAME:TAG@sha256:DIGEST or NAME:TAG"),
        ("bases", "[debian]", "expected NAME:TAG@sha256:DIGEST or NAME:TAG"),
        ("build_packages", "[--allow-downgrades]", "expected the name of a Debian package"),
        ("packages", "[openssh-server, --allow-downgrades]", "expected the name of a Debian package"),
    ],
)
def test_values_that_reach_a_shell_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str, said: str
) -> None:
    values = {"bases": "['debian:bookworm']", "packages": "[gdb]", key: value}
    (tmp_path / "image.yaml").write_text("".join(f"{name}: {text}\n" for name, text in values.items()))
    monkeypatch.setattr(recipe, "resource", lambda *_: tmp_path / "image.yaml")
    with pytest.raises(ConfigurationError, match=said):
        read_recipe(load_target("pi4"))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            "  Temporary failure resolving 'deb.debian.org'\n" + NO_RELEASE + "\nE: mmdebstrap failed to run",
            r"Debian's archive cannot be reached: Temporary failure resolving",
        ),
        (
            "tar: write error: No space left on device\nE: mmdebstrap failed to run",
            r"not enough disk space .*: tar: write error",
        ),
        (
            "E: Unable to locate package gdbb\nE: apt-get failed\nE: mmdebstrap failed to run",
            r"mmdebstrap failed with status 25: E: Unable to locate package gdbb",
        ),
        ("", r"mmdebstrap failed with status 25: it printed nothing"),
    ],
)
def test_the_cause_of_a_failure_of_mmdebstrap_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, message: str
) -> None:
    with pytest.raises(BuildError, match=message) as caught:
        failing_bootstrap(tmp_path, monkeypatch, said)
    assert type(caught.value) is BuildError
    assert str(tmp_path / "log") in caught.value.hint
    assert not list((tmp_path / "images").iterdir())


def test_a_release_that_is_gone_has_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(bootstrap.ReleaseGoneError, match="Debian's archive does not serve bookworm"):
        failing_bootstrap(
            tmp_path, monkeypatch, f"Err:1\n  404  Not Found\n{NO_RELEASE}\nE: mmdebstrap failed to run"
        )


def failing_bootstrap(folder: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """Makes a base with an mmdebstrap that only says this and fails."""
    program = folder / "mmdebstrap"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\nexit 25\n" if said else "#!/bin/sh\nexit 25\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("HARNESS_CACHE", str(folder))
    monkeypatch.setattr(bootstrap, "KEYRING", program)  # it is here
    with build_log(folder / "log", "image test") as log:
        bootstrap.bootstrap(nowhere(), RECIPE, RELEASE, log)


def test_the_next_release_is_taken_where_one_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = []

    def gone(_client: object, _recipe: Recipe, release: Release, _log: BuildLog) -> str:
        tried.append(release.suite)
        if release.suite != "trixie":
            raise bootstrap.ReleaseGoneError(f"Debian's archive does not serve {release.suite}: 404")
        return "base:trixie"

    monkeypatch.setattr(images, "bootstrap", gone)
    recipe = read_recipe(load_target("jetson-nano"))
    with build_log(tmp_path / "log", "image test") as log:
        made = images._bootstrapped(nowhere(), recipe, True, log)
    assert made == ("base:trixie", "bootstrap trixie")
    assert tried == ["bullseye", "bookworm", "trixie"]
    assert "does not serve bullseye: 404; trying bookworm" in capsys.readouterr().err


def test_an_image_says_whether_its_c_library_is_newer_than_the_boards() -> None:
    image = images.Image(
        target=load_target("jetson-nano"), tag="t", id="i", base="bootstrap bullseye", glibc="2.31"
    )
    assert (image.source, image.glibc_newer) == ("bootstrap", True)
    assert image.described() == "bootstrap bullseye, glibc 2.31, newer than the target's 2.27"
    same = replace(image, base="ubuntu:18.04@sha256:0", glibc="2.27")
    assert (same.source, same.glibc_newer) == ("registry", False)
    assert same.described() == "ubuntu:18.04@sha256:0, glibc 2.27"


def test_no_image_is_begun_where_arm64_programs_do_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "arm64_programs_run", lambda: False)
    client = nowhere()
    with pytest.raises(BuildError, match="cannot run arm64 programs") as caught:
        images._build(client, RECIPE, load_target("pi4"), False)
    assert "apt-get install qemu-user-static binfmt-support" in caught.value.hint


def test_a_full_disk_under_the_docker_engine_is_said_to_be_there() -> None:
    error = docker_engine.refused("not built", "write /x: no space left on device")
    assert error.message == "not built: write /x: no space left on device"
    assert "Docker Root Dir" in error.hint
    assert docker_engine.refused("not built", "exit 9").hint == ""


@pytest.mark.parametrize("missing", ["mmdebstrap", "keys", "arch-test"])
def test_missing_requirements_of_a_bootstrap_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    program = tmp_path / "mmdebstrap"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "cache" if missing == "mmdebstrap" else tmp_path))
    monkeypatch.setattr(bootstrap, "KEYRING", tmp_path / "absent" if missing == "keys" else program)
    recipe = replace(RECIPE, configured=missing == "arch-test")
    with build_log(tmp_path / "log", "image test") as log, pytest.raises(BuildError, match=missing) as caught:
        bootstrap.bootstrap(nowhere(), recipe, RELEASE, log)
    assert "apt-get install mmdebstrap debian-archive-keyring arch-test" in caught.value.hint
    assert not (tmp_path / "cache").exists()


def test_a_base_to_build_tensorflow_in_has_its_packages_set_up(tmp_path: Path) -> None:
    """Perl stays then: it runs the scripts of packages."""
    configured = replace(RECIPE, configured=True)
    assert configured.bootstrap_key(RELEASE) != RECIPE.bootstrap_key(RELEASE)
    unpacked, set_up = (
        bootstrap.command("mmdebstrap", recipe, RELEASE, tmp_path / "layer.tar")
        for recipe in (RECIPE, configured)
    )
    assert "--variant=extract" in unpacked
    assert "--dpkgopt=path-exclude=/usr/share/perl5/*" in unpacked
    assert "--variant=minbase" in set_up
    assert not [word for word in set_up if "perl" in word or "passwd.master" in word]


def test_registries_are_named_if_every_debian_is_too_new(tmp_path: Path) -> None:
    with (
        build_log(tmp_path / "log", "image test") as log,
        pytest.raises(BuildError, match="no release of Debian is old enough") as caught,
    ):
        images._bootstrapped(nowhere(), replace(RECIPE, releases=()), False, log)
    assert "can reach debian:bookworm" in str(caught.value)
