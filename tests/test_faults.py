"""What goes wrong around a transcript rather than in it: it shrinks or vanishes while it is read, it is huge, there are very many, two forks run at once.

Each script ends in its own words, bounded in memory, and never with a traceback. (What stands wrong in a transcript is the matter of test_promises.py.)
"""
from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import cc_transcript as cc
import pytest
from conftest import ROOT
from planted import planted_session, write_session

COMPACT, QUERY, FORK = (ROOT / f"skills/cc-{name}" for name in ("compact/compact_session.py", "query-chat/query_session.py", "fork/fork_session.py"))
ARGUMENTS = {COMPACT: [], QUERY: ["--keyword", "the a"], FORK: ["--dry-run"]}
SCRIPTS = pytest.mark.parametrize("script", list(ARGUMENTS), ids=lambda path: path.stem)
MOST_MB = 400  # a line of 40 MB is held as bytes, as text and as an object, and by the search without case as well


def load(script: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module that shares the canonical cc_transcript."""
    monkeypatch.setitem(sys.modules, "cc_transcript", cc)
    spec = importlib.util.spec_from_file_location(f"{script.stem}_under_fault", script)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def ended_well(status: int, out: str, err: str) -> bool:
    """Done with a report that parses, or refused in one line."""
    if status == 0:
        ET.fromstring(out)
        return err == ""
    return status == 1 and out == "" and err.count("\n") == 1 and "Traceback" not in err


@pytest.fixture
def session(config: Path) -> Path:
    folder = config / "projects/-home-ada-orchard"
    folder.mkdir(parents=True)
    planted = planted_session(3, 40)
    return write_session(planted, folder / f"{planted.id}.jsonl")


@SCRIPTS
@pytest.mark.parametrize("kept", [0, 0.3, 0.9])
def test_a_transcript_that_shrinks_after_it_was_read(
    script: Path, kept: float, session: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outputs are read when they are asked for; by then the file has been cut off."""
    module, read = load(script, monkeypatch), cc.read_conversation

    def read_and_lose(transcript: cc.Transcript) -> cc.Conversation:
        conversation = read(transcript)
        os.truncate(session, int(session.stat().st_size * kept))
        return conversation

    monkeypatch.setattr(cc, "read_conversation", read_and_lose)
    status = module.main(["--file", str(session), *ARGUMENTS[script]])
    told = capsys.readouterr()
    assert ended_well(status, told.out, told.err), (status, told.err)
    assert list(session.parent.iterdir()) == [session]


@SCRIPTS
def test_a_transcript_that_vanishes_once_it_is_listed(
    script: Path, session: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, listed = load(script, monkeypatch), list(cc.session_files([str(session.parent)]))
    session.unlink()
    monkeypatch.setattr(cc, "session_files", lambda folders: iter(listed))
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", session.stem)
    for words in (["--latest"], ["--title", "anything"], ["--id", session.stem], ["--list"], ["--all-projects", "--history"]):
        if words[0] not in ("--list", "--all-projects") or script is QUERY:
            status = module.main([*words, *(ARGUMENTS[script] if words[0] != "--list" else [])])
            told = capsys.readouterr()
            assert ended_well(status, told.out, told.err), (words, status, told.err)


def peak_of(command: list[str]) -> tuple[subprocess.CompletedProcess[str], float]:
    """The finished command and its peak memory in MB."""
    meter = ("import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]);"
             "sys.stderr.write('peak %d' % resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(done.returncode)")
    done = subprocess.run([sys.executable, "-c", meter, *command], capture_output=True, text=True, timeout=120)
    scale = 1e6 if sys.platform == "darwin" else 1e3
    return done, int(done.stderr.rpartition("peak ")[2]) / scale


@pytest.mark.skipif(os.name == "nt", reason="the peak of a process is told by a Unix system")
@SCRIPTS
def test_a_line_of_40_mb(script: Path, session: Path, config: Path) -> None:
    """One output, in the middle of a conversation."""
    lines = session.read_bytes().splitlines(True)
    at = next(at for at, line in enumerate(lines) if b'"tool_result"' in line)
    row = json.loads(lines[at])
    row["message"]["content"][0]["content"] = "ditch and gate, " * 2_500_000
    lines[at] = json.dumps(row, separators=(",", ":")).encode() + b"\n"
    session.write_bytes(b"".join(lines))
    done, peak = peak_of([sys.executable, str(script), "--file", str(session), *ARGUMENTS[script]])
    assert done.returncode == 0, done.stderr
    ET.fromstring(done.stdout)
    assert peak < MOST_MB


@pytest.mark.deep
def test_ten_thousand_sessions(config: Path, run_script: Callable[..., subprocess.CompletedProcess[bytes]]) -> None:
    folder = config / "projects/-home-ada-orchard"
    folder.mkdir(parents=True)
    for at in range(10_000):
        identity = f"{at:08x}-0000-4000-8000-00000000000a"
        row = {"parentUuid": None, "isSidechain": False, "type": "user", "message": {"role": "user", "content": f"count the pears of row {at}"}, "uuid": identity,
               "timestamp": f"2026-05-{1 + at // 1000:02d}T{at % 1000 // 60:02d}:{at % 60:02d}:00.000Z", "cwd": "/home/ada/orchard", "sessionId": identity}
        (folder / f"{identity}.jsonl").write_text(json.dumps(row, separators=(",", ":")) + "\n")
    began = time.monotonic()
    for script, words, found in (
        (COMPACT, ["--id", "0000270f-0000-4000-8000-00000000000a"], b"row 9999"),
        (COMPACT, ["--latest", "--project", "/home/ada/orchard"], b"row 9999"),
        (COMPACT, ["count the pears of row 77"], b"row 77"),
        (QUERY, ["--project", "/home/ada/orchard", '"row 4242"'], b"row 4242"),
        (QUERY, ["--project", "/home/ada/orchard", "--list"], b"row 9999"),
    ):
        done = run_script(script, *words)
        assert (done.returncode, done.stderr) == (0, b""), words
        assert found in done.stdout
    assert time.monotonic() - began < 120  # a hang, not a speed: bench.py measures that


@pytest.mark.skipif(os.name == "nt", reason="two processes started with the environment of a Unix system")
@pytest.mark.parametrize("options", [[], ["--key", "salt"]], ids=["ids of their own", "the same id"])
def test_two_forks_at_once(options: list[str], session: Path, config: Path) -> None:
    command = [sys.executable, str(FORK), "--file", str(session), *options]
    environment = {"PATH": os.defpath, "CLAUDE_CONFIG_DIR": str(config), "HOME": str(config)}
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) for _ in range(4)]
    ended = [(process.communicate(timeout=60), process.returncode) for process in running]
    assert [(err, status) for (_, err), status in ended] == [("", 0)] * 4
    ids = {ET.fromstring(out).get("id") for (out, _), _ in ended}
    assert {path.stem for path in session.parent.iterdir()} == {session.stem, *ids}
    assert len(ids) == (1 if options else 4)


@pytest.mark.parametrize("name", ["a/../../b", "\x00\x1b[31m\x07", "x" * 10_000, "*", "../../etc/passwd", "\u202e", "🐛" * 500, "-" * 50, "CON", " . "])
@SCRIPTS
def test_hostile_names(script: Path, name: str, session: Path, run_script: Callable[..., subprocess.CompletedProcess[bytes]]) -> None:
    """As a title, and as the title of a session: nothing outside the folder is touched, and what is refused is refused in a line."""
    safe = name.replace("\x00", "\\x00")
    done = run_script(script, f"--title={safe}", *ARGUMENTS[script])
    assert ended_well(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert done.returncode == 1 and len(done.stderr) < 3_000
    with session.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"type": "custom-title", "customTitle": name, "sessionId": session.stem}) + "\n")
    done = run_script(script, "--file", session, *ARGUMENTS[script])
    assert (done.returncode, done.stderr) == (0, b"")
    ET.fromstring(done.stdout)


@pytest.mark.parametrize("piece", [b'{"type":', b'{"type": [', b'{"x":"stub{"parentUuid":'])
@SCRIPTS
def test_a_line_nested_without_end(script: Path, piece: bytes, session: Path, run_script: Callable[..., subprocess.CompletedProcess[bytes]]) -> None:
    """It was tried anew at each of its pieces, which took minutes."""
    with session.open("ab") as file:
        file.write(piece * 100_000 + b"\n")
    done = run_script(script, "--file", session, *ARGUMENTS[script])
    assert (done.returncode, done.stderr) == (0, b"")
    ET.fromstring(done.stdout)
