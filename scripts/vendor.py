#!/usr/bin/env python3
"""Copy the shared module into every skill folder, and prove that the copies are bytes of the original.

    python3 scripts/vendor.py             copy where a copy is missing or differs, then check
    python3 scripts/vendor.py --check     only check, write nothing

A skill folder must work alone, copied into ~/.claude/skills/, so each one carries scripts/cc_transcript.py as a file of its
own. A skill folder is one that holds a SKILL.md: skills/*/SKILL.md is globbed, so a new skill is served without a word here.
A fault is a copy that differs, one that is missing, and a stray one: any cc_transcript.py elsewhere in the tree, which would be
imported by accident and never be updated. A stray copy is only named: whoever put it there may want it.

Faults go to standard error, one line each. Exit status: 0 all copies are right, 1 a fault or a refusal, 2 usage.
"""
from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

MODULE = "cc_transcript.py"
SOURCE = f"scripts/{MODULE}"  # as the messages name it
REMEDY = "run scripts/vendor.py"
SKIPPED = frozenset({  # folders that are no part of the project: what git, the tests and the linters keep for themselves
    ".git", ".venv", ".client", "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache",
})


class Refusal(Exception):
    """There is nothing to copy, or nowhere to copy it: one line that says what and where. `main` ends with status 1."""


def source_bytes(root: Path) -> bytes:
    """The original module below `root`. Raises Refusal where it is missing or cannot be read."""
    try:
        return (root / SOURCE).read_bytes()
    except OSError as error:
        raise Refusal(f"{SOURCE}: cannot read the original below {root}: {error.strerror}") from error


def copy_paths(root: Path) -> list[Path]:
    """Where a copy belongs: one path for each skill folder, sorted. Raises Refusal where there is no skill at all."""
    found = sorted(manual.with_name(MODULE) for manual in root.glob("skills/*/SKILL.md"))
    if not found:
        raise Refusal(f"no skills/*/SKILL.md below {root}: is this the root of the project?")
    return found


def is_true_copy(path: Path, source: bytes) -> bool:
    """True where `path` is a regular file with the bytes of the original: a link would break when its folder is copied alone."""
    return path.is_file() and not path.is_symlink() and path.read_bytes() == source


def refresh(path: Path, source: bytes) -> None:
    """Make `path` a true copy. A link is replaced, not written through: it may point at the original."""
    if path.is_symlink():
        path.unlink()
    path.write_bytes(source)


def named_modules(root: Path) -> Iterator[Path]:
    """Every entry below `root` that is named like the shared module, links included, outside the skipped folders."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        if MODULE in files:
            yield Path(folder, MODULE)


def faults(root: Path) -> Iterator[str]:
    """What is wrong with the copies below `root`, one line each; nothing where all is well."""
    source, copies = source_bytes(root), copy_paths(root)
    for path in copies:
        name = path.relative_to(root).as_posix()
        if not os.path.lexists(path):
            yield f"{name}: missing; {REMEDY}"
        elif not is_true_copy(path, source):
            yield f"{name}: differs from {SOURCE}; {REMEDY}"
    for path in named_modules(root):
        if path != root / SOURCE and path not in copies:
            yield f"{path.relative_to(root).as_posix()}: stray copy, no SKILL.md beside it; delete it"


def vendor(root: Path) -> list[str]:
    """Bring every copy below `root` up to date; the names of those that had to be written."""
    source, written = source_bytes(root), []
    for path in copy_paths(root):
        if not is_true_copy(path, source):
            refresh(path, source)
            written.append(path.relative_to(root).as_posix())
    return written


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vendor.py", description="Copy scripts/cc_transcript.py into every skill folder, byte for byte, and check the copies.",
        epilog="examples:\n  python3 scripts/vendor.py\n  python3 scripts/vendor.py --check", formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 on a copy that differs, is missing, or is a stray")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, metavar="DIR",
                        help="the project to serve (default: the one that this script belongs to)")
    return parser


def main(argv: Optional[list[str]] = None) -> int:
    options = build_parser().parse_args(argv)
    try:
        for name in [] if options.check else vendor(options.root):
            print(f"wrote {name}")
        found = list(faults(options.root))
    except Refusal as refusal:
        found = [str(refusal)]
    except OSError as error:  # a folder where a copy belongs, a read-only tree
        found = [f"{error.filename}: {error.strerror}"]
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
