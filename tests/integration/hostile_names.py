"""A folder full of names that a shell, a page, a table or a terminal could take for something else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from arm64_board import TARGET, board_entry
from fake_boards import raspberry_pi
from ssh_server import Server
from tiny_sweep import write_tiny_sweep

from harness.build.engine import build_engine
from harness.config.targets import load_target
from harness.resources import cache_directory

# One line, for what is a name; its slash makes it no name of a file.
LINE = """-rf it's $(touch executed) `touch executed` "x" [red]ü; </script><script>alert(1)</script> | & *"""
# For files and folders, with all that a path may hold.
PATH = LINE.replace("/", "\u2215") + "\n\t\\n%s~\x1b[31m\u202e -- >executed"

# Characters that move the cursor, set colours, or change the direction of writing.
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder with a sweep, its boards file and the environment that harness runs in."""

    folder: Path
    sweep: Path
    boards: Path
    results: Path
    environment: dict[str, str]


def hostile_place(server: Server, folder: Path) -> Place:
    """A sweep of the server's board in `folder`, where every file, board and step has such a name."""
    folder = folder / PATH
    folder.mkdir()
    plain = write_tiny_sweep(folder, "")
    for name in ("tiny.cfg", "tiny.weights", "data"):
        (folder / name).rename(folder / f"{PATH}{Path(name).suffix}")
    for file in [*(folder / PATH).glob("*/*")]:
        file.rename(file.with_name(f"{PATH}{file.stem}{file.suffix}"))
    sweep = plain.rename(folder / f"{PATH}.yaml")
    model = {
        "name": "tiny",
        "cfg": f"{PATH}.cfg",
        "weights": f"{PATH}.weights",
        "dataset": PATH,
        "calibration": {"dataset": PATH, "images": 2},
    }
    steps = [{"name": LINE, "note": f"{PATH}{LINE}"}, {"name": "<img src=x onerror=alert(1)>"}]
    protocol = {"warmup": 1, "runs": 3, "min_seconds": 0, "cool_seconds": 0}
    document = {
        "name": "s",
        "models": [model],
        "policies": ["int8"],
        "targets": ["pi4"],
        "steps": [steps[0], {**steps[1], "threads": 2}],
        "protocol": protocol,
        "emulated": {"images": 1},
    }
    sweep.write_text(json.dumps(document))  # JSON is YAML
    key = folder / f"{PATH}.key"
    shutil.copy(server.folder / "user", key)
    sensors = raspberry_pi(folder)
    entry = board_entry(
        server,
        name=LINE,
        key=key.name,
        folder=f"{server.folder}/{PATH}",
        sensors={"sys": sensors.sys, "proc": sensors.proc, "vcgencmd": sensors.vcgencmd},
    )
    known_hosts = folder / f"{PATH}.hosts"
    known_hosts.write_text(f"{server.address.known_as} {entry.pop('host_key')}\n")
    entry["known_hosts"] = known_hosts.name
    boards = folder / f"{PATH}.boards.yaml"
    boards.write_text(json.dumps({"boards": [entry]}))
    return Place(
        folder=folder,
        sweep=sweep,
        boards=boards,
        results=folder / "results",
        environment={"HARNESS_CACHE": str(cache_with_engines(folder / f"cache {PATH}"))},
    )


def cache_with_engines(cache: Path) -> Path:
    """A cache folder with the engines that are built already."""
    for target in ("host", TARGET):
        built = build_engine(load_target(target)).engine.parent
        shutil.copytree(built, cache / built.relative_to(cache_directory()))
    (cache / "zig").symlink_to(cache_directory().absolute() / "zig")  # the C library takes seconds
    return cache


def harness(place: Place, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "harness", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=place.folder,
        env=os.environ | place.environment,
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done


def nothing_was_executed(place: Place, server: Server) -> bool:
    """`touch executed`, wherever it had been run."""
    places = (Path.cwd(), Path.home(), place.folder.parent, server.folder)
    return not any(
        path.name == "executed" for folder in places[2:] for path in folder.rglob("*")
    ) and not any((folder / "executed").exists() for folder in places)
