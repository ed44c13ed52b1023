"""The cache folder: programs are run from there, so it is this user's alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import ConfigurationError
from harness.resources import cache_directory

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.mark.parametrize("variable", ["HARNESS_CACHE", "XDG_CACHE_HOME", "HOME"])
def test_it_is_made_for_its_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("HARNESS_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "a" / "b"))
    before = os.umask(0)
    try:
        made = cache_directory()
    finally:
        os.umask(before)
    assert mode(made) == 0o700
    assert made.is_relative_to(tmp_path / "a" / "b")


@pytest.mark.parametrize("content", [[], ["build", "zig", "costs.sqlite-wal", "harness-x.tmp"]])
def test_one_that_others_can_read_is_made_private(cache: Path, content: list[str]) -> None:
    cache.mkdir()
    cache.chmod(0o775)
    for name in content:
        (cache / name).mkdir()
    assert cache_directory() == cache
    assert mode(cache) == 0o700


def test_the_users_cache_folder_is_made_private_whatever_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HARNESS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "harness" / "of an older version").mkdir(parents=True)
    (tmp_path / "harness").chmod(0o777)
    assert mode(cache_directory()) == 0o700


def test_the_permissions_of_a_folder_with_other_things_stay(cache: Path) -> None:
    cache.mkdir()
    (cache / "thesis.tex").write_text("")
    cache.chmod(0o755)
    assert cache_directory() == cache
    assert mode(cache) == 0o755
    cache.chmod(0o1777)
    with pytest.raises(ConfigurationError, match=r"can be written to by other users \(mode 1777\)") as caught:
        cache_directory()
    assert "set HARNESS_CACHE" in caught.value.hint
    assert mode(cache) == 0o1777


def test_a_link_of_ones_own_may_lead_to_it(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    cache.symlink_to(tmp_path / "large disk")
    assert cache_directory() == cache
    assert mode(tmp_path / "large disk") == 0o700


def test_a_link_that_leads_nowhere_is_refused(cache: Path, tmp_path: Path) -> None:
    cache.symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigurationError, match="cache is a dangling symbolic link"):
        cache_directory()
    cache.unlink()
    cache.symlink_to(cache)
    with pytest.raises(ConfigurationError, match=r"dangling symbolic link .*symbolic links"):
        cache_directory()


def test_a_file_in_its_place_is_refused(cache: Path) -> None:
    cache.write_text("")
    with pytest.raises(ConfigurationError, match="is not a folder"):
        cache_directory()


@needs_root
def test_another_users_folder_is_refused(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache.mkdir()
    os.chown(cache, 12345, 12345)
    with pytest.raises(ConfigurationError, match=r"belongs to another user \(number 12345\)"):
        cache_directory()
    assert main(["build", "--target", "host"]) == 2
    said = capsys.readouterr().err
    assert f"harness: error: the cache folder {cache} belongs to another user" in said
    assert "set HARNESS_CACHE to a folder that only you can write to" in said
    assert mode(cache) & 0o777 != 0o700


@needs_root
def test_another_users_link_is_refused(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    cache.symlink_to(tmp_path / "mine")
    os.chown(cache, 12345, 12345, follow_symlinks=False)
    with pytest.raises(ConfigurationError, match="is a symbolic link that belongs to another user"):
        cache_directory()
