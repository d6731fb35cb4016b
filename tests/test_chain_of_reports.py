"""The chain of ancestors, the files a session edited and the command of the ledger, as they stand where the report is read."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import ROOT
from test_harness_words import SESSION, Session

COMPACT = ROOT / "skills/cc-compact/compact_session.py"
Run = Callable[..., subprocess.CompletedProcess[bytes]]
NAMES = {n: f"{n * 4}0000-0000-4000-8000-000000000001" for n in "abcd"}


def begun_from(session: str, parent: str, prompts: int = 20) -> str:
    """The text of a session that began from a report of `parent`, none where that is empty."""
    made = Session()
    if parent:
        report = f'<compacted-session-chain sessions="1">\n<session depth="0" role="requested" id="{NAMES[parent]}" title="t">\n</session>\n</compacted-session-chain>'
        made.row("user", [{"type": "text", "text": f"Base directory for this skill: /x/cc-compact\n\n{report}"}], isMeta=True)
    for at in range(prompts):
        made.row("user", f"prompt {at} {'word ' * 60}")
        made.row("assistant", [{"type": "text", "text": f"answer {at} {'term ' * 60}"}])
    return "".join(line.replace("77aaaaaa-0000-4000-8000-000000000001", NAMES[session]) + "\n" for line in made.lines)


@pytest.fixture
def chain(config: Path) -> Path:
    """a began from b, b from c, c from d; the folder."""
    folder = config / "projects/-home-ada-orchard"
    folder.mkdir(parents=True)
    for session, parent in ("ab", "bc", "cd", ("d", "")):
        (folder / f"{NAMES[session]}.jsonl").write_text(begun_from(session, parent), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("options", "shown", "left_out"), [
    ((), "abcd", None), (("--max-depth", "0"), "a", None), (("--max-depth", "1"), "ab", None), (("--max-chars", "2000"), "a", "3"),
    (("--max-chars", "4000"), "abc", "1"), (("--decay", "0.000001"), "ab", "2"), (("--max-chars", "6000", "--decay", "1"), "abcd", None),
])
def test_who_of_the_chain_is_shown_without_a_hole(options: tuple[str, ...], shown: str, left_out: str, chain: Path, run_script: Run) -> None:
    root = ElementTree.fromstring(run_script(COMPACT, "--id", NAMES["a"], *options).stdout)
    assert [str(found.get("id"))[0] for found in root.iter("session")] == list(shown)
    assert root.get("older-sessions-left-out") == left_out
    assert root.get("ancestor-not-found") is None


def test_what_an_ancestor_was_about_and_came_to_stays_longest(chain: Path, run_script: Run) -> None:
    """At many bounds, since the report names the script and the session, and how long their paths are is the machine's to say."""
    shown = []
    for bound in range(3600, 6000, 80):
        root = ElementTree.fromstring(run_script(COMPACT, "--id", NAMES["a"], "--max-chars", str(bound)).stdout)
        oldest = list(root.iter("session"))[-1]
        shown.append([(str(found.get("n")), (found.findtext("agent") or "")[:9]) for found in oldest.iter("exchange")])
    first, last = ("1", ""), ("20", "answer 19")
    assert [last] in shown and [first, last] in shown
    assert {*map(tuple, shown)} <= {(), (last,), (first, last)}


def test_an_ancestor_that_is_gone_is_named(chain: Path, run_script: Run) -> None:
    (chain / f"{NAMES['c']}.jsonl").unlink()
    done = run_script(COMPACT, "--id", NAMES["a"])
    root = ElementTree.fromstring(done.stdout)
    assert [str(found.get("id"))[0] for found in root.iter("session")] == ["a", "b"]
    assert root.get("ancestor-not-found") == "cccc0000-0000-4000-8000-000000000001"
    assert root.get("chars") == str(len(done.stdout.decode("utf-8")))


def test_the_roots_length_is_counted_as_the_client_counts(tmp_path: Path, run_script: Run) -> None:
    made = Session()
    made.row("user", "go on")
    made.call("Bash", {"command": "python3 /x/compact_session.py --file /gone/\U0001F350.jsonl"}, "done")
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(made.lines) + "\n", encoding="utf-8")
    report = run_script(COMPACT, "--file", path).stdout.decode("utf-8")
    root = ElementTree.fromstring(report)
    assert root.get("ancestor-not-found") == "/gone/\U0001F350.jsonl"
    assert root.get("chars") == str(len(report.encode("utf-16-le")) // 2)


@pytest.mark.parametrize(("command", "shown"), [
    ('python3 "/my skills/cc-compact/compact_session.py" the plan', ["e", "d"]), ("python3 -I /x/compact_session.py --latest", ["e", "d"]),
    ("cat compact_session.py report.xml", ["e"]),
])
def test_a_call_of_the_script_leads_to_the_ancestor(command: str, shown: list[str], chain: Path, run_script: Run) -> None:
    made = Session()
    made.row("user", "go on with the plan")
    made.call("Bash", {"command": command}, run_script(COMPACT, "--id", NAMES["d"]).stdout.decode("utf-8"))
    session = NAMES["d"].replace("d", "e")
    (chain / f"{session}.jsonl").write_text("\n".join(made.lines).replace(SESSION, session) + "\n", encoding="utf-8")
    root = ElementTree.fromstring(run_script(COMPACT, "--id", session).stdout)
    assert [str(found.get("id"))[0] for found in root.iter("session")] == shown


def test_the_first_prompt_of_a_short_session_stays(tmp_path: Path, run_script: Run) -> None:
    path = tmp_path / f"{NAMES['a']}.jsonl"
    path.write_text(begun_from("a", "", prompts=8), encoding="utf-8")
    root = ElementTree.fromstring(run_script(COMPACT, "--file", path, "--max-chars", "2500").stdout)
    assert [found.get("n") for found in root.iter("exchange")] == ["1", "6", "7", "8"]


def test_files_have_one_spelling_and_are_looked_for_where_they_are(tmp_path: Path, run_script: Run) -> None:
    here = tmp_path / "orchard"
    here.mkdir()
    session = Session()
    session.row("user", "edit")
    for path in ("gate.py", "./gate.py", f"{here}/sub/../gate.py", "~/latch.py", f"{here}/gone.py"):
        session.call("Edit", {"file_path": path, "old_string": "a", "new_string": "b"})
    for path in (here / "gate.py", Path(os.environ["HOME"]) / "latch.py"):
        path.write_text("x", encoding="utf-8")
        os.utime(path, (1_600_000_000, 1_600_000_000))
    transcript = tmp_path / "t.jsonl"
    transcript.write_text("".join(line.replace('"/home/ada/orchard"', json.dumps(str(here))) + "\n" for line in session.lines), encoding="utf-8")
    edited = ElementTree.fromstring(run_script(COMPACT, "--file", transcript).stdout).iter("edited")
    assert [(str(found.text).replace(os.environ["HOME"], "HOME"), found.get("edits"), found.get("since")) for found in edited] == [
        ("gate.py", "3", "unchanged"), ("HOME/latch.py", "1", "unchanged"), ("gone.py", "1", "gone")]


@pytest.mark.skipif(os.name == "nt", reason="a file's name may hold no quote there")
def test_the_ledgers_command_runs_as_printed(tmp_path: Path, run_script: Run) -> None:
    skills, folder = tmp_path / 'my "own" $skills', tmp_path / 'a "b" `c`'
    shutil.copytree(ROOT / "skills", skills)
    folder.mkdir()
    path = folder / f"{NAMES['a']}.jsonl"  # an id, but of no session of this configuration
    path.write_text(begun_from("a", "", prompts=250), encoding="utf-8")
    root = ElementTree.fromstring(run_script(skills / "cc-compact/compact_session.py", "--file", path, "--max-chars", "16000").stdout)
    command = next(found.text for found in root.iter("omitted"))
    assert command is not None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    found = run_as_printed(command, tmp_path / "bin")
    left = sorted(set(range(1, 251)) - {int(found.get("n", "")) for found in root.iter("exchange")})
    assert 1 < left[0] < 10 and 240 < left[-1] < 250  # the first ones and the last ones are shown
    assert (found.get("turns"), found.get("of")) == (f"{left[0]}-{left[-1]}", "250")
    more = [element.text for element in found.iter() if (element.text or "").startswith("python3 ")]
    assert more and all(run_as_printed(str(text), tmp_path / "bin").tag == "chat-query" for text in more)


def test_a_session_that_began_from_a_report_keeps_what_was_asked_first(config: Path, run_script: Run) -> None:
    made = Session()
    for at, said in enumerate(["/cc-carryover:cc-compact last week", *(f"prompt {at}" for at in range(1, 30))]):
        command = f"<command-name>{said.split()[0]}</command-name>\n<command-args>last week</command-args>" if not at else ""
        made.row("user", command or said)
        made.row("assistant", [{"type": "text", "text": f"answer {at} {'term ' * 60}"}])
    root = ElementTree.fromstring(run_script(COMPACT, "--file", made.write(config), "--max-chars", "2000").stdout)
    assert [found.findtext("user") for found in root.iter("exchange")] == ["prompt 1", "prompt 27", "prompt 28", "prompt 29"]


def test_the_last_message_is_whole_where_there_is_room_and_a_cut_has_its_command(tmp_path: Path, run_script: Run) -> None:
    made, review = Session(), " ".join(f"word{at}" for at in range(2_000))
    made.row("user", "review it")
    made.row("assistant", [{"type": "text", "text": review}])
    path = made.write(tmp_path)
    whole = ElementTree.fromstring(run_script(COMPACT, "--file", path).stdout)
    assert (whole.findtext(".//final-agent-message"), whole.find(".//omitted")) == (review, None)
    short = ElementTree.fromstring(run_script(COMPACT, "--file", path, "--max-chars", "6000").stdout)
    assert "characters, cut …]" in (short.findtext(".//final-agent-message") or "")
    (omitted,) = short.iter("omitted")
    assert (omitted.get("shown"), omitted.get("texts-cut"), (omitted.text or "")[-11:]) == (None, "1", " --turn 1-1")


def run_as_printed(command: str, bin_folder: Path) -> ElementTree.Element:
    """The report of a command that a shell runs, `bin_folder` first on its path."""
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"})
    assert (done.returncode, done.stderr) == (0, b"")
    return ElementTree.fromstring(done.stdout)
