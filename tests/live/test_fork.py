"""Forks in the real client: what it sends for a fork against what it sends for the source, by every way of forking, and /cc-fork typed in the TUI."""
from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Optional

import pytest
from client import Client, Json, ScriptedModel, Tui, binary, sent
from resuming import CLIENTS, Sent, resume, resume_file, resumed
from test_plugin import Person, copy_tracked

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "skills/cc-fork/fork_session.py"
NAMES = [name for name in resumed.sources() if name.startswith("v") or name[:2] in ("29", "36", "38", "40", "53", "54", "55")]
WAYS = ((), ("--compact", "--keep-last", "1"))
SHORTER = (("--last", "1"), ("--up-to", "1"))
SOME = NAMES[::5]  # for these ways
LARGEST = {name.split("/")[0]: name for name in sorted(NAMES, key=lambda name: len(resumed.transcript(name)))}
ONE_EACH = [name for name in NAMES if not name.startswith("v") or LARGEST[name.split("/")[0]] == name]  # of a fixture's sessions the largest; every case
# where the client itself sends what the API would refuse, or drops a call that a fork can keep
MENDED = frozenset(("53-fork-unpaired-tools/head", "53-fork-unpaired-tools/twice"))
PASTED = re.compile(r"\\n\\nText inside <pasted_content> tags was pasted.*?(?=\\n\\n|\")")  # said of pastes whose tag the session's own id has made


class Forked(NamedTuple):
    """A source and a fork of it, both resumed, and the fork's report."""

    source: Sent
    copy: Sent
    report: ET.Element


def fork(path: Path, *way: str, env: Optional[dict[str, str]] = None) -> ET.Element:
    done = subprocess.run([sys.executable, str(SCRIPT), "--file", str(path), *way], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "HOME": str(path.parent), **(env or {})})
    assert done.returncode == 0, done.stderr
    return ET.fromstring(done.stdout)


def fork_and_resume(name: str, way: tuple[str, ...]) -> Forked:
    with tempfile.TemporaryDirectory(prefix="fork-") as root:
        folder = Path(root)
        source = folder / f"{resumed.place(name, folder)}.jsonl"
        report = fork(source, *way)
        return Forked(resume(name), resume_file(folder / f"{report.get('id')}.jsonl"), report)


@pytest.fixture(scope="module")
def forked() -> Iterator[dict[tuple[str, tuple[str, ...]], Future[Forked]]]:
    """Every session forked whole, one of each fixture slim and compact, some in the shorter ways; three clients at a time."""
    pool = ThreadPoolExecutor(CLIENTS)
    try:
        several = [(name, ("--exact",)) for name in NAMES] + [(name, way) for way in WAYS for name in ONE_EACH] + [(name, way) for name in SOME for way in SHORTER]
        yield {(name, way): pool.submit(fork_and_resume, name, way) for name, way in several}
    finally:
        pool.shutdown(cancel_futures=True)


def messages(given: Sent, ids: tuple[str, str]) -> list[str]:
    """The messages of a request as text, without the two sessions' ids, without what differs from one run to the next."""
    texts = [PASTED.sub("", json.dumps(message, sort_keys=True, ensure_ascii=False)) for message in given.body["messages"]]
    return [text.replace(ids[0], "SESSION").replace(ids[1], "SESSION") for text in texts]


@pytest.mark.parametrize("name", NAMES)
def test_exact_sends_what_the_source_sends(name: str, forked: dict[tuple[str, tuple[str, ...]], Future[Forked]]) -> None:
    """Message by message, byte by byte: prompts, answers, thinking, calls, results, reminders."""
    both = forked[name, ("--exact",)].result()
    ids = (str(both.report.get("source")), str(both.report.get("id")))
    source, copy = messages(both.source, ids), messages(both.copy, ids)
    if name not in MENDED:
        assert copy == source
    assert len(both.copy.requests) == len(both.source.requests)


@pytest.mark.parametrize("name", ONE_EACH)
def test_slim_sends_the_same_prompts_answers_and_calls(name: str, forked: dict[tuple[str, tuple[str, ...]], Future[Forked]]) -> None:
    both = forked[name, ()].result()
    if name not in MENDED:
        assert both.copy.items() == both.source.items()
    assert_paired(both.copy)


@pytest.mark.parametrize("name", ONE_EACH)
def test_compact_sends_the_last_exchange_as_it_was(name: str, forked: dict[tuple[str, tuple[str, ...]], Future[Forked]]) -> None:
    both = forked[name, ("--compact", "--keep-last", "1")].result()
    assert_paired(both.copy)
    source = both.source.items()
    last = max((at for at, (role, item) in enumerate(source) if role == "user" and not item.startswith("RES:")), default=0)
    if name not in MENDED:
        assert both.copy.items()[last - len(source):] == source[last:]


@pytest.mark.parametrize("way", SHORTER, ids=" ".join)
@pytest.mark.parametrize("name", SOME)
def test_shorter_ways_are_sent_paired_and_at_once(name: str, way: tuple[str, ...], forked: dict[tuple[str, tuple[str, ...]], Future[Forked]]) -> None:
    assert_paired(forked[name, way].result().copy)


def assert_paired(given: Sent) -> None:
    """One request, each call answered right after, nothing that the client had to invent or drop."""
    assert len(given.requests) == 1
    shown = sent(given.body)
    uses, results = [text.split(":")[2] for _, text in shown if text.startswith("USE:")], [text.split(":")[1] for _, text in shown if text.startswith("RES:")]
    assert sorted(uses) == sorted(results) and len(set(uses)) == len(uses)
    assert not [text for _, text in shown if "Orphaned tool result" in text or text == "[Tool use interrupted]"]


# --- made sessions ------------------------------------------------------------------------------------------------------


def made_session(folder: Path, turns: int, usage: int, cwd: Path) -> Path:
    """A session of so many prompts, each with a fact, a call with a long result, thinking, and an answer with another fact."""
    session, parent, rows = "ab000000-0000-4000-8000-000000000001", None, []
    for n in range(1, turns + 1):
        for at, (kind, content) in enumerate((
            ("user", f"Row {n} is planted with PEAR-{n:03}."),
            ("assistant", [{"type": "text", "text": f"I measure row {n}."}, {"type": "tool_use", "id": f"toolu_{n}", "name": "Bash", "input": {"command": f"measure {n}"}}]),
            ("user", [{"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": f"{n} m\n" + "tall grass " * 900}]),
            ("assistant", [{"type": "text", "text": f"Its gate is GATE-{n:03}."}]))):
            message: Json = {"role": kind, "content": content}
            if kind == "assistant":
                message.update(id=f"msg_{n}_{at}", type="message", model="claude-opus-5-5", stop_reason="end_turn", usage={"input_tokens": usage, "output_tokens": 9})
            second = (n * 4 + at) * 7
            row = {"parentUuid": parent, "isSidechain": False, "type": kind, "message": message, "uuid": f"{n:08x}-000{at}-4000-8000-000000000000",
                   "timestamp": f"2026-05-{1 + second // 86400:02d}T{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000Z", "userType": "external",
                   "entrypoint": "cli", "cwd": str(cwd), "sessionId": session, "version": "2.1.332", "gitBranch": "main"}
            parent = row["uuid"]
            rows.append(json.dumps(row, separators=(",", ":")) + "\n")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session}.jsonl"
    path.write_text("".join(rows))
    return path


def test_an_old_usage_makes_the_source_compact_and_the_slim_fork_not(tmp_path: Path) -> None:
    """The source's last usage is near the window, so the client would compact it first. The saving is what the report says."""
    source = made_session(tmp_path / "p", 12, 990_000, tmp_path)
    report = fork(source)
    copy = resume_file(source.parent / f"{report.get('id')}.jsonl")
    assert len(copy.requests) == 1
    assert len(resume_file(source).requests) > 1
    light = resume_file(made_session(tmp_path / "q", 12, 100, tmp_path))
    assert copy.items() == light.items()
    saved = (len(json.dumps(light.body["messages"])) - len(json.dumps(copy.body["messages"]))) / 4
    context = report.find("context")
    assert context is not None and saved == pytest.approx(int(context.get("tokens-saved", "")), rel=0.05)
    print(f"saved: sent {saved:.0f}, reported {context.get('tokens-saved')}")


def test_compact_of_200_prompts_and_a_fork_of_the_fork(tmp_path: Path) -> None:
    source = made_session(tmp_path / "p", 200, 990_000, tmp_path)
    first = source.parent / f"{fork(source, '--compact').get('id')}.jsonl"
    copy = resume_file(first)
    shown = sent(copy.body)
    assert len(copy.requests) == 1
    skeleton = next(text for role, text in shown if "Skeleton of turns 1 to 195" in text)
    assert "PEAR-007" in skeleton and "PEAR-180" in skeleton and "GATE-190" in skeleton
    assert [text for _, text in shown if text.startswith("Row 19") or text.startswith("Row 200")][-1].startswith("Row 200")
    for n in range(196, 201):
        assert ("user", f"RES:toolu_{n}:{n} m\n" + "tall grass " * 900) in shown
    again = resume_file(first.parent / f"{fork(first, '--compact', '--keep-last', '2').get('id')}.jsonl")
    second = next(text for _, text in sent(again.body) if "Skeleton of turns 1 to 195" in text)
    kept = re.search(r"Skeleton of turns 1 to 195.*?(?=\n\[19[0-5]|\Z)", skeleton, re.S)
    assert kept and kept[0] in second and "PEAR-197" in second


def test_up_to_a_turn_before_a_compaction(tmp_path: Path) -> None:
    name = next(name for name in NAMES if name.startswith("v332_compacted_twice"))
    source = tmp_path / f"{resumed.place(name, tmp_path)}.jsonl"
    prompts = [text for role, text in resume_file(tmp_path / f"{fork(source, '--up-to', '2').get('id')}.jsonl").items() if role == "user" and not text.startswith("RES:")]
    assert len(prompts) == 2 and not any("SUMMARY HEADER" in text for text in prompts)


def test_spilled_outputs_when_the_folder_of_the_source_is_gone(tmp_path: Path) -> None:
    name = next(name for name in NAMES if name.startswith("v332_print_multiturn"))
    source = tmp_path / f"{resumed.place(name, tmp_path)}.jsonl"
    path = tmp_path / f"{fork(source).get('id')}.jsonl"
    expected = resume_file(source).items()
    source.unlink()
    assert resume_file(path).items() == expected


# --- the TUI ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    root = tmp_path_factory.mktemp("forking")
    repository = copy_tracked(root / "a repository" / "cc-carryover")
    with ScriptedModel() as model:
        client = Client(binary(), root, model)
        for command in (["marketplace", "add", str(repository)], ["install", "cc-carryover@cc-carryover"]):
            done = client.run("plugin", *command, cwd=root)
            assert done.returncode == 0, done.stdout + done.stderr
        yield client


REPORT = re.compile(r"<forked-session .*?</forked-session>", re.S)


def test_typed_in_a_session_it_forks_that_session(installed: Client, cwd: Path) -> None:
    with Person(installed, cwd) as ada:
        ada.ask("Plant the apples in row one.", "Planted.", steps=[{"tool": "Bash", "input": {"command": "echo apple", "description": "Say it"}}])
        ada.ask("Never prune in May.", "Noted.")
        own = ada.session()
        turn = ada.ask('/cc-fork --name "row one, again"')
        assert len(turn.requests) == 1
        report = ET.fromstring(REPORT.findall(sent(turn.requests[0])[-1][1])[0])
        other = ET.fromstring(REPORT.findall(sent(ada.ask(f"/cc-fork --last 1 {own}").requests[-1])[-1][1])[0])
    assert report.get("source") == own == other.get("source")
    command = report.findtext("resume") or ""
    assert command == f"claude --resume {report.get('id')}"
    installed.model.steps = [{"text": "Going on."}]
    before = len(installed.model.turns)
    installed.ask("And now?", "--resume", str(report.get("id")), cwd=cwd)
    shown = [text for _, text in sent(installed.model.turns[before])]
    assert "Plant the apples in row one." in shown and "Never prune in May." in shown and any(text.startswith("RES:") and "apple" in text for text in shown)
    assert not [text for text in shown if "cc-fork" in text or "forked-session" in text]


def test_a_title_finds_it_and_the_picker_shows_it(installed: Client, cwd: Path) -> None:
    with Person(installed, cwd) as ada:
        ada.ask("Harvest the pears.", "Harvested.")
        turn = ada.ask('/cc-fork --name "the pears"')
        report = ET.fromstring(REPORT.findall(sent(turn.requests[0])[-1][1])[0])
    before = len(installed.model.turns)
    assert installed.ask("And now?", "--resume", "the pears", cwd=cwd)["session_id"] == report.get("id")
    assert "Harvest the pears." in [text for _, text in sent(installed.model.turns[before])]
    with Tui(installed, cwd, "--resume") as picker:
        picker.wait("the pears")


def test_into_another_directory(installed: Client, cwd: Path, tmp_path: Path) -> None:
    there = tmp_path / "another place"
    there.mkdir()
    with Person(installed, cwd) as ada:
        ada.ask("Water the plums.", "Watered.")
        turn = ada.ask(f'/cc-fork --into "{there}" --name plums')
        report = ET.fromstring(REPORT.findall(sent(turn.requests[0])[-1][1])[0])
    assert report.findtext("resume") == f"cd '{there}' && claude --resume {report.get('id')}"
    before = len(installed.model.turns)
    assert installed.ask("And now?", "--resume", "plums", cwd=there)["session_id"] == report.get("id")
    assert "Water the plums." in [text for _, text in sent(installed.model.turns[before])]
