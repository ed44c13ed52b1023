"""`harness build`: compiles the engine for a target and says where it lies."""

from __future__ import annotations

import argparse

from harness import console


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument(
        "--target",
        action="append",
        required=True,
        metavar="T",
        help="a target's name or alias, or a target file of your own (.yaml); may be given several times",
    )
    parser.add_argument("--toolchain", default="zig", metavar="NAME", help="the compiler (default: zig)")


def run(arguments: argparse.Namespace) -> int:
    """Builds, one target after the other."""
    from harness.build.engine import build_engine
    from harness.configuration.targets import load_target

    targets = [load_target(name) for name in arguments.target]
    results = []
    for target in targets:
        build = build_engine(target, toolchain=arguments.toolchain)
        results.append(
            {
                "target": target.name,
                "toolchain": build.toolchain,
                "engine": str(build.engine),
                "manifest": str(build.manifest),
                "glibc_needed": build.glibc_needed,
                "seconds": round(build.seconds, 3),
                "cached": build.cached,
            }
        )
        if not arguments.json:
            how = "unchanged" if build.cached else f"built in {build.seconds:.0f} s"
            print(f"{target.name}: {build.engine} ({how}, needs glibc {build.glibc_needed})")
    if arguments.json:
        console.emit_json(results[0] if len(results) == 1 else results)
    return 0
