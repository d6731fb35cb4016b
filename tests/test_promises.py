#!/usr/bin/env python3
"""The promises that hold for every input, tried on damaged transcripts: every fixture and case, spoilt by corrupt.py in seeded ways.

Each skill script ends with status 0 or 1 and without a traceback; with 0 it prints XML that parses and keeps its bound, and nothing
on stderr; with 1 it prints nothing on stdout and one line on stderr; the source's bytes and mtime stay, and nothing is left beside
it, but a fork's new file, which is whole: records only, private, one root, no dangling parent, no circle, every call answered.

    python3 tests/test_promises.py --seeds 2000                     many more of them, in this process
    python3 tests/test_promises.py --seeds 500 --start 2000 --script fork_session.py --keep /tmp/broken
    python3 tests/test_promises.py --seeds 1 --start 1234 --shrink  that one again, and as few lines as still show the fault
"""
from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import random
import stat
import subprocess
import sys
import tempfile
import time
import traceback
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Optional
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import pytest
from corrupt import VALUES, corrupted, field_names, with_field
from planted import planted_session

HERE = Path(__file__).resolve().parent
SCRIPTS = sorted((HERE.parent / "skills").glob("*/*_session.py"))
PER_SOURCE = 3  # corruptions of each transcript in the test run
IN_PROCESSES = 10  # corruptions tried in a process of their own, for each script
HOSTILE_TEXT = "\x01\ud800 ]]>&" * 100 + "<" * 4_000  # grows fourfold when it is escaped
SECONDS = 20.0  # far above any of these inputs
DEFAULT_BOUNDS = {"compact_session.py": 28_000, "query_session.py": 10_000, "fork_session.py": 28_000}
WRITERS = frozenset(("fork_session.py",))  # scripts that leave a new file beside their source

OPTIONS: dict[str, tuple[Sequence[str], ...]] = {  # what each script is called with, beside the file; one is chosen by the seed
    "compact_session.py": (
        (), (), ("--first", "0", "--last", "1", "--middle", "0"), ("--first", "40", "--last", "40", "--maxlen", "100000"), ("--show-secrets",)),
    "query_session.py": (
        ("--keyword", "the a question"), ("--keyword", '"the tarn" é'), ("--regexp", "a.{0,40}b"), ("--regexp", "."),
        ("--glob", "*e*r*"), ("--turn", "1-3"), ("--list",),
        ("--keyword", "the", "--type", "user,agent,output,thinking,summary", "--limit", "50", "--truncate", "5000"),
        ("--keyword", "a", "--only", "abandoned"), ("--keyword", "e", "--since", "2020-01-01", "--until", "3d")),
    "fork_session.py": (
        (), (), ("--exact",), ("--compact",), ("--last", "2"), ("--up-to", "1"), ("--redact",), ("--dry-run",),
        ("--keep-last", "0", "--tool-chars", "10"),
        ("--compact", "--keep-last", "1", "--summary-tokens", "500"), ("--key", "salt", "--name", "A name <&>")),
}


class Source(NamedTuple):
    """A transcript before the damage: the name of its file, where it comes from, its bytes."""

    file: str
    origin: str
    data: bytes


@cache
def sources() -> tuple[Source, ...]:
    """Every fixture and case, and two sessions with what those lack: task lists, plans, commits, answers, refusals with a reason."""
    paths = sorted(path for path in (*HERE.glob("fixtures/*/projects/*/*.jsonl"), *HERE.glob("cases/*/**/*.jsonl")) if "subagents" not in path.parts)
    made = [planted_session(seed, 40) for seed in (1, 2)]
    return (*(Source(path.name, "/".join(path.relative_to(HERE).parts[:2]), path.read_bytes()) for path in paths),
            *(Source(f"{session.id}.jsonl", "planted session", "".join(f"{line}\n" for line in session.lines).encode()) for session in made))


class Run(NamedTuple):
    """How a script ended: its status (None where it raised), what it printed, how long it took."""

    status: Optional[int]
    out: bytes
    err: bytes
    seconds: float


class Trial(NamedTuple):
    """One script on one damaged transcript."""

    script: Path
    source: Source
    seed: int

    def damaged(self) -> bytes:
        return corrupted(self.source.data, self.seed).data

    def options(self) -> list[str]:
        """The arguments beside the file; the bound is often the default."""
        chance = random.Random(f"options {self.seed} {self.script.name}")
        chosen = list(chance.choice(OPTIONS[self.script.name]))
        bound = chance.choice((2_000, chance.randint(2_000, 6_000), chance.randint(2_000, 40_000)))
        return [*chosen, "--max-chars", str(bound)] if chance.random() < 0.5 else chosen

    def bound(self) -> int:
        options = self.options()
        return int(options[options.index("--max-chars") + 1]) if "--max-chars" in options else DEFAULT_BOUNDS[self.script.name]

    def __str__(self) -> str:
        return (f"{self.script.name} {' '.join(self.options())} on {self.source.origin}/{self.source.file} seed {self.seed} "
                f"({', '.join(corrupted(self.source.data, self.seed).damage)})")


def tight_seed(script: str) -> int:
    """A seed whose options are the plain ones with the least bound."""
    wanted = [*OPTIONS[script][0], "--max-chars", "2000"]
    return next(seed for seed in range(100_000) if Trial(Path(script), Source("", "", b""), seed).options() == wanted)


TIGHT = {script: tight_seed(script) for script in OPTIONS}


# ------------------------------------------------------------------------------------------------ running


@cache
def entry_point(script: Path) -> Callable[[list[str]], Optional[int]]:
    """The script's `main`, with the shared module that stands beside it, not another script's."""
    before = sys.modules.pop("cc_transcript", None)
    paths = list(sys.path)
    try:
        spec = importlib.util.spec_from_file_location(f"promised_{script.stem}", script)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = paths
        sys.modules.pop("cc_transcript", None)
        if before is not None:
            sys.modules["cc_transcript"] = before
    main: Callable[[list[str]], Optional[int]] = module.main
    return main


def clean_environment(config: Path) -> dict[str, str]:
    """An environment without the caller's session and locale."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(config), "CLAUDE_CONFIG_DIR": str(config), "LC_ALL": "C"}


def in_this_process(script: Path, arguments: list[str], config: Path) -> Run:
    """Call the script's `main` with both outputs caught, and whatever it raises."""
    main = entry_point(script)
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    start = time.monotonic()
    status: Optional[int]
    with mock.patch.dict(os.environ, clean_environment(config), clear=True), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(arguments) or 0
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        except BaseException as error:  # whatever it is, it is the fault that is looked for
            if isinstance(error, KeyboardInterrupt):
                raise
            status = None
            err.write(traceback.format_exc())
    return Run(status, out.buffer.getvalue(), err.buffer.getvalue(), time.monotonic() - start)


def in_a_process(script: Path, arguments: list[str], config: Path) -> Run:
    """Run the script as people do."""
    start = time.monotonic()
    done = subprocess.run([sys.executable, str(script), *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd=config,
                          timeout=3 * SECONDS, env=clean_environment(config))
    return Run(done.returncode, done.stdout, done.stderr, time.monotonic() - start)


# ------------------------------------------------------------------------------------------------ judging


def utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def output_faults(run: Run, bound: int) -> Iterator[str]:
    """What a run's status and outputs break."""
    err = run.err.decode("utf-8", "replace")
    if run.status not in (0, 1) or "Traceback" in err:
        yield f"status {run.status}: {' / '.join(err.strip().splitlines()[-3:])}"
    elif run.status == 1:
        if run.out:
            yield f"status 1 and {len(run.out)} bytes on stdout"
        if not err.strip() or len(err.strip("\n").splitlines()) != 1:
            yield f"status 1 and not one line on stderr: {err[:300]!r}"
    else:
        yield from report_faults(run.out, bound)
        if err:
            yield f"status 0 and on stderr: {err[:300]!r}"
    if run.seconds > SECONDS:
        yield f"took {run.seconds:.0f} s"


def report_faults(out: bytes, bound: int) -> Iterator[str]:
    """What a report breaks: it is UTF-8, keeps its bound, parses, and has a root that holds it all."""
    try:
        text = out.decode("utf-8")
        root = ET.fromstring(text)
    except (UnicodeDecodeError, ET.ParseError) as error:
        yield f"the report does not parse: {error}"
        return
    if utf16_units(text) > bound:
        yield f"{utf16_units(text)} characters, above {bound}"
    if not len(root):
        yield "the report is empty"


def fork_faults(path: Path) -> Iterator[str]:
    """What a new transcript breaks."""
    if stat.S_IMODE(path.stat().st_mode) != 0o600 and os.name != "nt":
        yield f"the fork's mode is {stat.S_IMODE(path.stat().st_mode):o}"
    try:
        records = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    except (ValueError, RecursionError) as error:
        yield f"the fork does not parse: {error}"
        return
    if not all(isinstance(record, dict) for record in records):
        yield "the fork holds what is no record"
        return
    yield from link_faults([record for record in records if record.get("uuid")])
    yield from call_faults(records)


def link_faults(links: list[dict[str, Any]]) -> Iterator[str]:
    """One root, every parent there and earlier in the file, no uuid twice."""
    seen: set[str] = set()
    if sum(record.get("parentUuid") is None for record in links) != 1:
        yield f"the fork has {sum(record.get('parentUuid') is None for record in links)} roots"
    for record in links:
        if record["uuid"] in seen:
            yield f"the fork has {record['uuid']} twice"
        if record.get("parentUuid") is not None and record["parentUuid"] not in seen:
            yield f"the fork's {record['uuid']} hangs under {record['parentUuid']}, which is not before it"
        seen.add(record["uuid"])


def call_faults(records: list[dict[str, Any]]) -> Iterator[str]:
    """Every call has one result, and the other way round."""
    calls: list[str] = []
    results: list[str] = []
    for record in records:
        message = record.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") in ("tool_use", "tool_result"):
                (calls if block["type"] == "tool_use" else results).append(str(block.get("id" if block["type"] == "tool_use" else "tool_use_id")))
    if sorted(calls) != sorted(results) or len(set(calls)) != len(calls):
        yield f"the fork has {len(calls)} calls ({len(set(calls))} ids) and {len(results)} results"


def listing(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a folder, with its bytes and mtime."""
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(folder.rglob("*")) if path.is_file()}


def faults(trial: Trial, data: bytes, launch: Callable[[Path, list[str], Path], Run] = in_this_process) -> list[str]:
    """Everything that the trial's script breaks on that data, in a folder of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "config"
        folder = config / "projects" / "-home-dev-proj"
        folder.mkdir(parents=True)
        target = folder / trial.source.file
        target.write_bytes(data)
        os.utime(target, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
        before = listing(config)
        run = launch(trial.script, ["--file", str(target), *trial.options()], config)
        found = list(output_faults(run, trial.bound()))
        after = listing(config)
        new = sorted(set(after) - set(before))
        if {name: after.get(name) for name in before} != before:
            found.append("the source has changed")
        if trial.script.name in WRITERS:
            found += written_faults(run, [config / name for name in new], "--dry-run" in trial.options())
        elif new:
            found.append(f"left behind: {new}")
        return found


def written_faults(run: Run, new: list[Path], dry: bool) -> list[str]:
    """What a script that writes one file on success breaks."""
    if len(new) != (1 if run.status == 0 and not dry else 0):
        return [f"status {run.status} and {len(new)} new files: {[path.name for path in new]}"]
    return [fault for path in new for fault in fork_faults(path)]


# ------------------------------------------------------------------------------------------------ the tests


def test_there_is_something_to_try() -> None:
    assert len(sources()) > 20
    assert {script.name for script in SCRIPTS} <= set(OPTIONS), "a new script needs a row in OPTIONS"
    assert set(OPTIONS) == set(DEFAULT_BOUNDS)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_promises_hold_on_what_was_never_damaged(script: Path) -> None:
    assert [f"{trial}: {fault}" for trial in (Trial(script, source, 0) for source in sources()) for fault in faults(trial, trial.source.data)] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_promises_hold_on_damaged_transcripts(script: Path) -> None:
    trials = [Trial(script, source, seed * len(sources()) + at) for at, source in enumerate(sources()) for seed in range(PER_SOURCE)]
    assert [f"{trial}: {fault}" for trial in trials for fault in faults(trial, trial.damaged())] == []


@cache
def fields() -> tuple[tuple[str, Source], ...]:
    """Every field that occurs, with the smallest transcript that has it."""
    smallest: dict[str, Source] = {}
    for source in sorted(sources(), key=lambda source: -len(source.data)):
        smallest.update(dict.fromkeys(field_names(source.data), source))
    return tuple(sorted(smallest.items()))


def field_trials(script: Path, values: Sequence[object]) -> Iterator[str]:
    """What a script breaks where one field, everywhere, holds each of these values, at a bound that leaves no room to waste."""
    for name, source in fields():
        for value in values:
            trial = Trial(script, source, TIGHT[script.name])
            yield from (f"{trial.script.name} {' '.join(trial.options())}: {name} = {value!r:.40} in {source.origin}/{source.file}: {fault}"
                        for fault in faults(trial, with_field(source.data, name, value)))


@pytest.mark.deep
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_promises_hold_whatever_a_field_holds(script: Path) -> None:
    assert list(field_trials(script, [HOSTILE_TEXT, None])) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_promises_hold_in_a_process_of_its_own(script: Path) -> None:
    trials = [Trial(script, sources()[seed % len(sources())], seed) for seed in range(7, 7 + 9 * IN_PROCESSES, 9)]
    assert [f"{trial}: {fault}" for trial in trials for fault in faults(trial, trial.damaged(), in_a_process)] == []


@pytest.mark.skipif(os.name == "nt", reason="pipes close otherwise there")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_closed_pipe_is_silent(script: Path, tmp_path: Path) -> None:
    source = max(sources(), key=lambda source: len(source.data))
    target = tmp_path / source.file
    target.write_bytes(source.data)
    command = [sys.executable, str(script), "--file", str(target), *OPTIONS[script.name][0]]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path,
                          env=clean_environment(tmp_path)) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


@pytest.mark.parametrize("seed", range(5))
def test_the_same_seed_does_the_same_damage(seed: int) -> None:
    data = sources()[seed].data
    made = [corrupted(data, number) for number in range(30)]
    assert made == [corrupted(data, number) for number in range(30)]
    assert sum(damaged.data != data for damaged in made) > 25


# ------------------------------------------------------------------------------------------------ long runs


def shrunk(trial: Trial, data: bytes) -> bytes:
    """As few lines of the data as still show a fault of the same kind (its first two words)."""
    wanted = {" ".join(fault.split()[:2]) for fault in faults(trial, data)}

    def still(lines: list[bytes]) -> bool:
        return bool(wanted & {" ".join(fault.split()[:2]) for fault in faults(trial, b"".join(lines))})

    lines = data.splitlines(keepends=True) if b"\n" not in data else [line + b"\n" for line in data.split(b"\n")[:-1]] + [data.split(b"\n")[-1]]
    size = max(len(lines) // 2, 1)
    while size:
        at = 0
        while at < len(lines):
            fewer = lines[:at] + lines[at + size:]
            if fewer and still(fewer):
                lines = fewer
            else:
                at += size
        size //= 2
    return b"".join(lines)


def report_trial(trial: Trial, found: list[str], keep: Optional[Path], shrink: bool) -> None:
    """Print a broken trial, and keep its input where that is wanted."""
    print(trial, *found, sep="\n    ", flush=True)
    data = trial.damaged()
    if shrink:
        data = shrunk(trial, data)
        print(f"    shrunk to {len(data)} bytes: {data[:2_000]!r}")
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{trial.script.stem}-{trial.seed}.jsonl").write_bytes(data)


def main() -> int:
    parser = argparse.ArgumentParser(description="Try the promises on damaged transcripts; print what breaks one.")
    parser.add_argument("--seeds", type=int, default=2_000, help="how many corruptions (default %(default)s)")
    parser.add_argument("--start", type=int, default=0, help="the first seed (default %(default)s); a seed chooses the transcript, too")
    parser.add_argument("--script", help="only this script, by its file's name")
    parser.add_argument("--keep", type=Path, help="a folder for the inputs that broke a promise")
    parser.add_argument("--shrink", action="store_true", help="find as few lines as still show the fault")
    parser.add_argument("--fields", action="store_true", help="instead, put each odd value into each field, all of them")
    given = parser.parse_args()
    scripts = [script for script in SCRIPTS if given.script in (None, script.name)]
    broken = 0
    if given.fields:
        for line in (line for script in scripts for line in field_trials(script, VALUES)):
            broken += 1
            print(line, flush=True)
        return 1 if broken else 0
    for seed in range(given.start, given.start + given.seeds):
        for script in scripts:
            trial = Trial(script, sources()[seed % len(sources())], seed)
            if found := faults(trial, trial.damaged()):
                broken += 1
                report_trial(trial, found, given.keep, given.shrink)
    print(f"{given.seeds * len(scripts)} runs of {', '.join(script.name for script in scripts) or 'no script'}, {broken} broke a promise")
    return 1 if broken or not scripts else 0


if __name__ == "__main__":
    sys.exit(main())
