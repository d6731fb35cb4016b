#!/usr/bin/env python3
"""The bar of spec section 3: what the compact report holds of sessions with planted facts (planted.py), and that nothing false is in it.

    python3 tests/test_recall.py                 a table, kind by kind, of what was found at each bound
    python3 tests/test_recall.py --seeds 20 --prompts 500 --missed     more sessions, longer ones, and what is missing
"""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))

import planted
import pytest

pytestmark = pytest.mark.deep

SCRIPT = Path(__file__).resolve().parent.parent / "skills/cc-compact/compact_session.py"
DEFAULT, SHORT = 28_000, 6_000  # bounds of the bar; the first is the script's default and is not passed
SEEDS = range(1, 11)  # both kinds of task list, all five endings, with and without a compaction


class Judged(NamedTuple):
    """One report against what was planted: (seed, fact) for all, those missing, and the falsehoods that stand in it."""

    planted: list[tuple[int, planted.Fact]]
    missing: list[tuple[int, planted.Fact]]
    wrong: list[tuple[int, planted.Falsehood]]

    def share(self) -> float:
        return 1 - len(self.missing) / len(self.planted)

    def __str__(self) -> str:
        lines = [f"{len(self.planted) - len(self.missing)} of {len(self.planted)} facts, {self.share():.1%}"]
        lines += [f"  missing, seed {seed}: {fact.kind}: {fact.needle}{f' with {fact.also}' if fact.also else ''}"
                  for seed, fact in sorted(self.missing, key=lambda entry: entry[1].kind)]
        lines += [f"  false, seed {seed}: {falsehood.kind}: {falsehood.needle}" for seed, falsehood in self.wrong]
        return "\n".join(lines)


def compact_report(path: Path, config: Path, bound: Optional[int], script: Path) -> str:
    """What the script prints for that transcript; `bound` None is its default."""
    limit = [] if bound is None else ["--max-chars", str(bound)]
    done = subprocess.run(
        [sys.executable, str(script), "--file", str(path), *limit], capture_output=True, check=False, cwd=config, timeout=60,
        env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(config), "CLAUDE_CONFIG_DIR": str(config)})
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode("utf-8", "replace")
    text = done.stdout.decode("utf-8")
    assert len(text.encode("utf-16-le")) // 2 <= (bound or DEFAULT)
    return text


@cache
def judged_one(seed: int, prompts: int, bound: Optional[int], script: Path) -> Judged:
    """One session's report, judged."""
    session = planted.planted_session(seed, prompts)
    with tempfile.TemporaryDirectory() as folder:
        path = planted.write_session(session, Path(folder) / f"{session.id}.jsonl")
        root = ET.fromstring(compact_report(path, Path(folder), bound, script))
    return Judged([(seed, fact) for fact in session.facts], [(seed, fact) for fact in session.facts if not planted.holds(root, fact)],
                  [(seed, falsehood) for falsehood in session.falsehoods if planted.says(root, falsehood)])


def judged(seeds: Sequence[int], prompts: int, bound: Optional[int], script: Path = SCRIPT) -> Judged:
    """The reports of all these sessions together."""
    each = [judged_one(seed, prompts, bound, script) for seed in seeds]
    return Judged(*([entry for one in each for entry in one[part]] for part in range(3)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("prompts", "bound", "least"), [
    (200, None, 0.95), (200, SHORT, 0.70), (40, None, 0.95), (500, None, 0.90),
], ids=["default", "6000 chars", "40 prompts", "500 prompts"])
def test_the_report_holds_what_was_planted(prompts: int, bound: Optional[int], least: float) -> None:
    found = judged(SEEDS, prompts, bound)
    assert found.share() >= least, found


@pytest.mark.parametrize(("prompts", "bound"), [(200, None), (200, SHORT), (40, None), (500, None), (500, 2_000)])
def test_the_report_says_nothing_false(prompts: int, bound: Optional[int]) -> None:
    found = judged(SEEDS if prompts == 200 else SEEDS[:5], prompts, bound)
    assert not found.wrong, found


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_gives_the_same_session(seed: int) -> None:
    assert planted.planted_session(seed, 60) == planted.planted_session(seed, 60)
    assert planted.planted_session(seed, 60).lines != planted.planted_session(seed + 1, 60).lines


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_planted_stands_in_the_transcript_and_falls_apart_from_what_is_false(seed: int) -> None:
    session = planted.planted_session(seed, 60)
    text = "\n".join(session.lines)
    derived = {"how it ended", "count of prompts", "context tokens"}  # follow from the records, stand in none
    needles = [fact.needle for fact in session.facts if fact.kind not in derived] + [falsehood.needle for falsehood in session.falsehoods]
    assert [needle for needle in needles if needle.split(" ", 1)[-1].split("staging-")[-1] not in text] == []
    everywhere = [falsehood.needle for falsehood in session.falsehoods if not falsehood.within]
    assert not {fact.needle for fact in session.facts} & set(everywhere)


def table(each: Sequence[Judged], names: Sequence[str]) -> str:
    """Kind by kind, found of planted at each bound."""
    kinds = list(dict.fromkeys(fact.kind for _, fact in each[0].planted))
    width = max(map(len, kinds))
    lines = [" " * width + "".join(f"{name:>14}" for name in names)]
    for kind in kinds:
        row = f"{kind:{width}}"
        for one in each:
            count, missing = (sum(fact.kind == kind for _, fact in entries) for entries in (one.planted, one.missing))
            row += f"{f'{count - missing}/{count}':>12}{' !' if missing else '  '}"
        lines.append(row)
    lines.append(f"{'all':{width}}" + "".join(f"{one.share():>12.1%}  " for one in each))
    lines.append(f"{'false':{width}}" + "".join(f"{len(one.wrong):>12}  " for one in each))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Print what the compact report holds of sessions with planted facts.")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="how many sessions (default %(default)s)")
    parser.add_argument("--start", type=int, default=1, help="the first of their seeds (default %(default)s)")
    parser.add_argument("--prompts", type=int, default=200, help="prompts of each (default %(default)s)")
    parser.add_argument("--bounds", type=int, nargs="*", default=[SHORT], help="bounds beside the default (default %(default)s)")
    parser.add_argument("--missed", action="store_true", help="name what is missing, too")
    parser.add_argument("--script", type=Path, default=SCRIPT, help="another copy of compact_session.py to judge")
    given = parser.parse_args()
    bounds: list[Optional[int]] = [None, *given.bounds]
    each = [judged(range(given.start, given.start + given.seeds), given.prompts, bound, given.script.resolve()) for bound in bounds]
    print(table(each, [str(bound or f"default {DEFAULT}") for bound in bounds]))
    for one, bound in zip(each, bounds):
        if one.wrong or given.missed:
            print(f"\nat {bound or DEFAULT}: {one if given.missed else one._replace(missing=[], planted=one.planted)}")
    return 1 if any(one.wrong for one in each) else 0


if __name__ == "__main__":
    sys.exit(main())
