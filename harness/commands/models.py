"""`harness models`: lists the known models and downloads their weights."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from harness import console
from harness.text import printable


def configure(parser: argparse.ArgumentParser) -> None:
    # The global options may also follow the action; SUPPRESS keeps the values of those before it.
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    for name in ("--json", "--debug", "--quiet"):
        common.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", parents=[common], help="list the models (the default)")
    fetch = actions.add_parser(
        "fetch", parents=[common], help="download published weights and check their size and hash"
    )
    fetch.add_argument("name", help="name of a model, as `harness models` lists it")
    fetch.add_argument("--to", type=Path, metavar="DIR", help="folder for the weights (default: the cfg's)")
    fetch.add_argument("--url", help="download from this address instead of the authors' site")
    random = actions.add_parser("random", parents=[common], help="write random weights for a cfg, for timing")
    random.add_argument("cfg", type=Path, metavar="CFG", help="Darknet cfg of the network")
    random.add_argument("out", type=Path, metavar="OUT", help="weights file to write")
    random.add_argument(
        "--seed", type=int, default=1, help="seed of the random numbers (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "fetch":
        return _fetch(arguments)
    if arguments.action == "random":
        return _random(arguments)
    return _list(arguments)


def _list(arguments: argparse.Namespace) -> int:
    from harness.models.registry import all_models

    models = all_models()
    if arguments.json:
        console.emit_json(
            {
                "models": [
                    {
                        "name": model.name,
                        "description": model.description,
                        "cfg": str(model.cfg),
                        "weights": str(model.weights),
                        "present": model.weights.exists(),
                        "url": model.published.url if model.published else None,
                    }
                    for model in models
                ]
            }
        )
        return 0
    width = max(len(model.name) for model in models)
    for model in models:
        print(f"{model.name:{width}}  {model.description}")
        print(printable(f"{'':{width}}  cfg      {model.cfg}"))
        absent = "" if model.weights.exists() else f"  (absent: harness models fetch {model.name})"
        print(printable(f"{'':{width}}  weights  {model.weights}{absent}"))
    return 0


def _fetch(arguments: argparse.Namespace) -> int:
    from harness.errors import ConfigurationError
    from harness.models.download import download
    from harness.models.registry import find_model

    model = find_model(arguments.name)
    published = model.published
    if published is None:
        raise ConfigurationError(f"{model.name} ships with harness: {model.weights}")
    destination = arguments.to / model.weights.name if arguments.to else model.weights
    url = arguments.url or published.url
    started = time.monotonic()
    with console.progress(f"fetching {url}", published.bytes) as bar:
        fetched = download(
            url, destination, size=published.bytes, sha256=published.sha256, advance=bar.advance
        )
    result = {
        "model": model.name,
        "cfg": str(model.cfg),
        "weights": str(destination),
        "bytes": published.bytes,
        "sha256": published.sha256,
        "fetched": fetched,
        "seconds": round(time.monotonic() - started, 3),
    }
    if arguments.json:
        console.emit_json(result)
    else:
        how = "fetched and verified" if fetched else "is here already, verified"
        print(printable(f"{destination}: {how}"))
    return 0


def _random(arguments: argparse.Namespace) -> int:
    from harness.config.random_weights import write_random_weights
    from harness.runtimes.engine import host_engine

    layers = host_engine().info(arguments.cfg)["layers"]
    size = write_random_weights(arguments.out, layers, arguments.seed)
    if arguments.json:
        console.emit_json({"weights": str(arguments.out), "bytes": size, "seed": arguments.seed})
    else:
        print(printable(f"{arguments.out}: {size:,} bytes of random weights, for timing only"))
    return 0
