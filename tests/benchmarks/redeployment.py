"""Deploying an unchanged data set again: 60 MB in 500 files over SSH, within a second.

    python tests/benchmarks/redeployment.py

The board is an OpenSSH server on loopback. The files are sent once; then a new connection deploys them again,
which finds them on the board with the sizes and times that say that they were verified, and sends and hashes
nothing; then the same connection does once more. Printed are the seconds of each, the second one's with those
that connecting took. Exit status 1 where deploying again took more than a second.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

import figures
from ssh_server import running_server

from harness import console
from harness.boards.ssh.address import SshAddress
from harness.boards.ssh.board import SshBoard
from harness.config.targets import load_target

AT_MOST = {"again_seconds": 1.0, "same_connection_seconds": 1.0}


def write_files(folder: Path, count: int, size: int) -> dict[str, Path]:
    """So many files of random bytes, together of that size, written long ago."""
    folder.mkdir()
    files = {str(number): folder / f"image {number}.jpg" for number in range(count)}
    for path in files.values():
        path.write_bytes(os.urandom(size // count))
        os.utime(path, (1, 1))
    return files


def measure(address: SshAddress, files: dict[str, Path]) -> dict[str, float]:
    """Seconds of deploying files for the first, the second and the third time."""
    target = load_target("host")
    begun = time.monotonic()
    with SshBoard("shelf", target, address) as board:
        paths = board.deploy(files)
        first = time.monotonic() - begun
    begun = time.monotonic()
    with SshBoard("shelf", target, address) as board:
        connected = time.monotonic() - begun
        again_paths = board.deploy(files)
        again = time.monotonic() - begun
        assert again_paths == paths
        board.deploy(files)
        same = time.monotonic() - begun - again
    return {
        "first_seconds": round(first, 3),
        "connecting_seconds": round(connected, 3),
        "again_seconds": round(again, 3),
        "same_connection_seconds": round(same, 3),
    }


def main() -> int:
    parser = figures.parser(__doc__)
    parser.add_argument("--files", type=int, default=500, help="how many (%(default)s)")
    parser.add_argument("--megabytes", type=int, default=60, help="together (%(default)s)")
    arguments = parser.parse_args()
    console.set_quiet(True)
    with tempfile.TemporaryDirectory(prefix="harness-redeployment-") as name:
        folder = Path(name)
        files = write_files(folder / "data", arguments.files, arguments.megabytes * 10**6)
        with running_server(folder) as server:
            seconds = measure(server.address, files)
    found = {"files": len(files), "megabytes": arguments.megabytes, **seconds}
    return figures.conclude(found, AT_MOST, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
