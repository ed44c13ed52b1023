"""How TensorFlow is built from sources: the data, the commands, and the downloads."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from file_server import CONTENT, SHA256, Server, server

from harness.config.targets import Target, all_targets, load_target
from harness.errors import BuildError, ConfigurationError
from harness.images import docker_engine
from harness.sdk import bazel, sources
from harness.sdk.sources import Archive, Sources, read_sources

__all__ = ["server"]  # the fixture

MINIMAL = """\
version: "2.6.5"
source: {url: "https://example.org/tensorflow.tar.gz", sha256: "%s"}
bazel: {version: "3.7.2", url: "https://example.org/bazel"}
answers: {TF_NEED_CUDA: "0", CC_OPT_FLAGS: "-O2 -Wno-sign-compare"}
monolithic: false
options: [--config=opt]
limits: [--jobs=2]
packages: [g++]
""" % ("a" * 64)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Sources]:
    """Reads a text as a target's sources."""
    (tmp_path / "toolchains" / "tensorflow").mkdir(parents=True)
    monkeypatch.setattr(sources, "resource", tmp_path.joinpath)

    def read(text: str) -> Sources:
        (tmp_path / "toolchains" / "tensorflow" / "mine.yaml").write_text(text)
        return read_sources(replace(load_target("pi4"), tensorflow_bazel="mine"))

    return read


# --- the data


def arm64_targets() -> list[Target]:
    return [target for target in all_targets() if not target.is_host]


@pytest.mark.parametrize("target", arm64_targets(), ids=lambda target: target.name)
def test_every_board_has_a_tensorflow_to_build(target: Target) -> None:
    read = read_sources(target)
    assert read.version in read.source.url
    assert read.bazel.url.endswith(f"bazel-{read.bazel.version}-linux-arm64")
    assert read.source.sha256
    assert {"TF_NEED_CUDA", "TF_NEED_ROCM", "TF_ENABLE_XLA"} <= {
        name for name, answer in read.answers.items() if answer == "0"
    }
    assert {"g++", "python3-numpy"} <= set(bazel.image_recipe(target, read).packages)


def test_jetpack_4_gets_a_tensorflow_for_its_old_compiler() -> None:
    assert read_sources(load_target("jetson-nano")).version == "2.6.5"
    assert read_sources(load_target("jetson-xavier")).version == "2.12.0"


@pytest.mark.parametrize(
    ("name", "suites"),
    [("jetson-nano", []), ("jetson-xavier", ["bullseye"]), ("jetson-orin", ["bullseye"])],
)
def test_build_images_are_not_newer_than_the_target(name: str, suites: list[str]) -> None:
    target = load_target(name)
    recipe = bazel.image_recipe(target, read_sources(target))
    assert [release.suite for release in recipe.releases] == suites
    assert recipe.bases, "the target's own system comes first"


def test_the_host_has_none() -> None:
    with pytest.raises(ConfigurationError, match="host has no TensorFlow to build from sources"):
        read_sources(load_target("host"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"2.6.5"', "two", r"mine\.yaml:1: expected a version"),
        ("a" * 64, "abc", r"mine\.yaml:2: expected a SHA-256"),
        ("TF_NEED_CUDA", "cuda", r'mine\.yaml:4: "cuda" is not a variable of \./configure'),
        ("false", "perhaps", r"mine\.yaml:5: unknown answer perhaps"),
        ("--config=opt", "opt", r"mine\.yaml:6: expected an option like --config=opt"),
        ("limits: [--jobs=2]\n", "", r"needs the key limits"),
    ],
)
def test_errors_in_sources_name_the_line(
    written: Callable[[str], Sources], old: str, new: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        written(MINIMAL.replace(old, new))


# --- the commands


def test_the_framework_comes_along_unless_it_is_all_one_library(written: Callable[[str], Sources]) -> None:
    parted = written(MINIMAL)
    assert parted.libraries == ("libtensorflow.so.2", "libtensorflow_framework.so.2")
    assert "--config=monolithic" not in bazel.build_command(parted)
    whole = written(MINIMAL.replace("monolithic: false", "monolithic: true"))
    assert whole.libraries == ("libtensorflow.so.2",)
    assert "--config=monolithic" in bazel.build_command(whole)


def test_bazel_is_told_options_and_limits_and_where_to_keep_its_state(
    written: Callable[[str], Sources],
) -> None:
    command = bazel.build_command(written(MINIMAL))
    assert command[:3] == ["bazel", "--output_user_root=/sdk/root", "build"]
    assert {"--config=opt", "--jobs=2"} < set(command)
    assert command[-1] == "//tensorflow:libtensorflow.so"


# --- the steps, without containers


class Builder:
    """The target pi4, its TensorFlow served locally, and the containers' part written down instead of run."""

    def __init__(self, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        archive = Archive(url=server.url, sha256=SHA256)
        shipped = read_sources(load_target("pi4"))
        self.sources = replace(
            shipped,
            source=archive,
            bazel=replace(shipped.bazel, version="1.2.3", url=server.url, sha256=SHA256),
        )
        self.image = SimpleNamespace(
            id="sha256:1", tag="harness/x:1", base="bootstrap bookworm", glibc="2.36", glibc_newer=False
        )
        self.work = tmp_path / "work"
        self.ran: list[tuple[list[str], dict[str, str], bool]] = []
        self.statuses: dict[str, int] = {}
        self.says: dict[str, str] = {"bazel": "bazel 1.2.3"}
        monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(bazel, "run_in_container", self._run)
        monkeypatch.setattr(bazel, "_unpack", lambda *_: None)
        monkeypatch.setattr(bazel, "remove_stale", lambda _: 0)
        monkeypatch.setattr(docker_engine, "connect", lambda **_: SimpleNamespace(close=lambda: None))

    def _run(self, _client: object, _image: object, command: list[str], **options: object) -> int:
        environment = options["environment"]
        assert isinstance(environment, dict)
        self.ran.append((command, environment, bool(options.get("network"))))
        on_line = options["on_line"]
        assert callable(on_line)
        name = command[0]
        for line in self.says.get(name, "").splitlines():
            on_line(f"{line}\n")
        return self.statuses.get(name, 0) if command[1:2] != ["--version"] else 0

    def go(self) -> list[str]:
        """Builds; returns the programs that were run."""
        self.ran.clear()
        bazel._build(self.sources, load_target("pi4"), self.image, self.work)  # type: ignore[arg-type]
        return [" ".join(command[:2]) for command, _, _ in self.ran]


@pytest.fixture
def builder(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    return Builder(server, tmp_path, monkeypatch)


def test_configure_is_given_the_answers_and_only_the_build_a_network(builder: Builder) -> None:
    builder.go()
    by_name = {command[0]: (environment, network) for command, environment, network in builder.ran}
    environment, network = by_name["./configure"]
    assert builder.sources.answers.items() <= environment.items()
    assert environment["PATH"].startswith("/sdk/bin:")
    assert not network
    environment, network = by_name["bazel"]
    assert network
    assert environment["USER"]


def test_a_failed_build_is_told_with_its_log_and_taken_up_again(builder: Builder) -> None:
    everything = builder.go()
    assert everything == [
        "g++ --version",
        "bazel --version",
        "./configure",
        "bazel --output_user_root=/sdk/root",
        "cp --dereference",
    ]
    assert builder.go() == []
    builder.sources = replace(builder.sources, options=("--config=other",))
    builder.statuses = {"bazel": 1}
    builder.says["bazel"] = "bazel 1.2.3\nERROR: a.cc: no\ng++: Killed signal terminated (program cc1plus)"
    with pytest.raises(BuildError, match=r"bazel failed with status 1: ERROR: a\.cc: no") as caught:
        builder.go()
    assert "Out of memory" in str(caught.value)
    assert str(builder.work / "logs" / "build.log") in str(caught.value)
    builder.statuses = {}
    assert builder.go() == everything[3:]


def test_limits_change_nothing_that_is_done(builder: Builder) -> None:
    builder.go()
    builder.sources = replace(builder.sources, limits=("--jobs=1",))
    assert builder.go() == []


def test_another_image_drops_what_was_compiled_with_the_old_one(builder: Builder) -> None:
    everything = builder.go()
    (builder.work / "root").mkdir()
    (builder.work / "root" / "a.o").touch()
    (builder.work / "root").chmod(0o555)  # as Bazel leaves its folders
    builder.image.id = "sha256:2"
    assert builder.go() == [], "the same image, made again"
    builder.image.tag = "harness/x:2"
    assert builder.go() == everything
    assert not (builder.work / "root" / "a.o").exists()


def test_a_bazel_of_another_version_is_refused(builder: Builder) -> None:
    builder.says["bazel"] = "bazel 9.9.9"
    with pytest.raises(BuildError, match=r"its version is bazel 9\.9\.9 instead of bazel 1\.2\.3"):
        builder.go()


def test_a_base_that_is_newer_than_the_target_is_refused_before_anything_is_fetched(
    builder: Builder, server: Server
) -> None:
    builder.image.glibc_newer = True
    with pytest.raises(BuildError, match=r"glibc 2\.36, but pi4 has 2\.36"):
        builder.go()
    assert server.requested == []


def test_full_disk_and_lost_network_have_their_own_advice() -> None:
    assert "HARNESS_CACHE" in bazel._hints(["x: write error: No space left on device"])[0]
    assert "https_proxy" in bazel._hints(["Error downloading: Unknown host: github.com"])[0]
    assert bazel._hints(["ERROR: undeclared inclusion"]) == []


# --- the downloads


def test_a_published_hash_is_insisted_on(server: Server, tmp_path: Path) -> None:
    assert bazel.fetch(Archive(url=server.url, sha256=SHA256), tmp_path / "bazel") == SHA256
    assert [path.name for path in tmp_path.iterdir()] == ["bazel"]
    with pytest.raises(BuildError, match="not the published file"):
        bazel.fetch(Archive(url=server.url, sha256="0" * 64), tmp_path / "other")


def test_an_unpublished_hash_is_recorded_and_then_insisted_on(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, path = Archive(url=server.url), tmp_path / "bazel"
    assert bazel.fetch(archive, path) == SHA256
    assert (
        f"no SHA-256 is published; recorded {SHA256}, which later downloads must match"
        in capsys.readouterr().err
    )
    assert bazel.fetch(archive, path) == SHA256
    assert "is published" not in capsys.readouterr().err
    assert len(server.requested) == 1
    path.unlink()
    server.content = CONTENT[:-1] + b"x"
    with pytest.raises(BuildError, match=f"not {SHA256}"):
        bazel.fetch(archive, path)
    assert hashlib.sha256(server.content).hexdigest() != SHA256
    assert not path.exists()


def test_without_a_network_the_advice_is_this_commands(server: Server, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(BuildError, match="answers 404") as caught:
        bazel.fetch(Archive(url=server.url), tmp_path / "bazel")
    assert "toolchains/tensorflow/" in str(caught.value)
    assert "--url" not in str(caught.value)


def test_unpacking_leaves_the_old_or_the_whole(tmp_path: Path) -> None:
    import tarfile

    from harness.sdk.steps import Steps

    def archive(name: str, *files: str) -> Path:
        path = tmp_path / name
        with tarfile.open(path, "w:gz") as tar:
            for file in files:
                (tmp_path / "file").write_text(file)
                tar.add(tmp_path / "file", f"tensorflow-2.6.5/{file}")
        return path

    folder = tmp_path / "source"
    steps = Steps(tmp_path)
    steps.run("unpack", 1, lambda log: bazel._unpack(archive("one", "configure", "a.h"), folder, log))
    assert sorted(path.name for path in folder.iterdir()) == ["a.h", "configure"]
    steps.run("unpack", 2, lambda log: bazel._unpack(archive("two", "configure"), folder, log))
    assert [path.name for path in folder.iterdir()] == ["configure"]
    cut = archive("three", "configure")
    cut.write_bytes(cut.read_bytes()[:60])
    with pytest.raises(BuildError, match="three: cannot be unpacked"):
        steps.run("unpack", 3, lambda log: bazel._unpack(cut, folder, log))
    assert not folder.exists()
