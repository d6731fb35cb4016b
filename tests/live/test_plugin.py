"""The plugin in the real client: validated, installed, and /cc-compact typed by a person in the TUI, in manual permission mode.

What counts is what the client sent to the model, and what the person saw. The repository lies in a folder with a blank in its name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Optional

import pytest
from client import Client, Json, ScriptedModel, Tui, binary, sent

ROOT = Path(__file__).resolve().parents[2]
REPORT = re.compile(r"<compacted-session-chain .*?</compacted-session-chain>", re.S)
COMPACT = "/cc-compact"


# --- the installation ---------------------------------------------------------------------------------------------------


def copy_tracked(target: Path) -> Path:
    """The files of the repository, without the tests' inputs: what a marketplace would hand out."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        if name and not name.startswith("tests/") and (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plugin")


@pytest.fixture(scope="module")
def repository(root: Path) -> Path:
    return copy_tracked(root / "a repository" / "cc-carryover")


@pytest.fixture(scope="module")
def shared_model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as scripted:
        yield scripted


@pytest.fixture(scope="module")
def installed(root: Path, repository: Path, shared_model: ScriptedModel) -> Client:
    """A client that has the plugin from the marketplace of that copy; each test works in a project of its own."""
    client = Client(binary(), root, shared_model)
    for command in (["marketplace", "add", str(repository)], ["install", "cc-carryover@cc-carryover"]):
        done = client.run("plugin", *command, cwd=root)
        assert done.returncode == 0, done.stdout + done.stderr
    return client


# --- talking ------------------------------------------------------------------------------------------------------------


class Turn(NamedTuple):
    """What a prompt led to: the requests of the conversation, and the screen afterwards."""

    requests: list[Json]
    screen: str

    def report(self) -> ET.Element:
        """The report in the one request of this turn: no further round trip, no question."""
        assert len(self.requests) == 1, f"{len(self.requests)} requests\n{self.screen}"
        assert not re.search(r"Do you want|requires approval", self.screen), self.screen
        return ET.fromstring(self.text())

    def text(self) -> str:
        """The report as it was sent, in the last message of the person, after everything else."""
        role, text = sent(self.requests[0])[-1]
        found = REPORT.findall(text)
        assert role == "user" and len(found) == 1, text
        return str(found[0])

    def message(self) -> str:
        """The last thing the client said the script said, the screen's line breaks undone: one line, by name."""
        after = self.screen.rpartition("[stderr]")[2]
        said = "\n".join(line.strip() for line in after.partition("───")[0].splitlines() if "/effort" not in line).strip()
        assert said.startswith("compact_session.py: ") and "Traceback" not in said, self.screen
        return said.replace("\n", " ")


class Person:
    """A person at one client."""

    count = 0  # answers are numbered through, so none is taken for another one

    def __init__(self, client: Client, cwd: Path, *args: str) -> None:
        self.client, self.model = client, client.model
        self.tui = Tui(client, cwd, "--permission-mode", "manual", *args)

    def __enter__(self) -> Person:
        try:
            self.tui.wait("❯")
        except AssertionError:
            self.tui.close()
            raise
        shell = self.tui.tmux("display-message", "-p", "-t", "t", "#{pane_pid}").strip()
        self.pid = int(Path(f"/proc/{shell}/task/{shell}/children").read_text())
        return self

    def __exit__(self, *exc: object) -> None:
        """End it at once: its own goodbye takes seconds, and nothing is left to say."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.tui.tmux("kill-server")

    def leave(self) -> None:
        """End the session as a person does, and wait until the client is gone."""
        self.enter("/exit")
        wait_for(lambda: not Path(f"/proc/{self.pid}").exists(), self.tui.screen)

    def state(self) -> Json:
        """What the client notes of itself in sessions/<pid>.json."""
        state: Json = json.loads((self.client.config / "sessions" / f"{self.pid}.json").read_text())
        return state

    def session(self) -> str:
        return str(self.state()["sessionId"])

    def enter(self, text: str) -> None:
        """Type a line and send it, once the client has taken it up."""
        before = self.tui.screen()
        self.tui.tmux("send-keys", "-t", "t", "-l", "--", text)
        wait_for(lambda: self.tui.screen() != before)
        self.tui.tmux("send-keys", "-t", "t", "Enter")

    def say(self, prompt: str, expect: str) -> Turn:
        """Send a prompt; done when the screen shows `expect` and the client is idle again."""
        before = len(self.model.turns)
        self.enter(prompt)
        wait_for(lambda: expect in self.tui.screen(), self.tui.screen)
        wait_for(lambda: self.state()["status"] == "idle", self.tui.screen)
        return Turn(self.model.turns[before:], self.tui.screen())

    def ask(self, prompt: str, answer: str = "", steps: Optional[list[Json]] = None) -> Turn:
        """One turn, in which the model plays `steps` and answers."""
        Person.count += 1
        mark = f"Answer-{Person.count:03}"
        self.model.steps = [*(steps or []), {"text": f"{answer} {mark}".strip()}]
        return self.say(prompt, mark)

    def rename(self, title: str) -> None:
        self.say(f"/rename {title}", "Session renamed")

    def clear(self, command: str = "/clear") -> str:
        """The id of the session that is ended. Done when the new one's file says so: a tenth of a second, before hands type on."""
        ended = self.session()
        self.enter(command)
        wait_for(lambda: self.session() != ended and bool(clears_in(self.client.config, self.session())), self.tui.screen)
        return ended


def clears_in(config: Path, session: str) -> list[Json]:
    """The records of a /clear in the session's file, as far as it is written."""
    files = list((config / "projects").glob(f"*/{session}.jsonl"))
    lines = files[0].read_text().rpartition("\n")[0].splitlines() if files else []
    return [record for record in map(json.loads, lines) if "<command-name>/clear<" in str(record.get("message"))]


def wait_for(holds: Callable[[], bool], show: Callable[[], str] = str, seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"waited in vain\n{show()}"
        time.sleep(0.05)


def levels(report: ET.Element) -> list[tuple[Optional[str], Optional[str]]]:
    """(depth, id) of the report's sessions."""
    return [(session.get("depth"), session.get("id")) for session in report.iter("session")]


def prompts(report: ET.Element) -> list[Optional[str]]:
    """The prompts in the timeline of the session asked for."""
    return [prompt.text for prompt in report.findall("session[@depth='0']/prompt-timeline/prompt")]


# --- validated and installed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", [["--profile", "directory", "."], [".claude-plugin/marketplace.json"], [".claude-plugin/plugin.json"]])
def test_the_client_finds_nothing_to_report(repository: Path, installed: Client, what: list[str]) -> None:
    done = installed.run("plugin", "validate", "--strict", *what[:-1], str(repository / what[-1]), cwd=repository)
    assert done.returncode == 0 and "Validation passed" in done.stdout, done.stdout + done.stderr
    assert "warning" not in done.stdout.lower()


def test_installed_and_enabled(root: Path, installed: Client) -> None:
    listed = installed.run("plugin", "list", cwd=root).stdout
    assert re.search(r"cc-carryover@cc-carryover\n\s+Version: \S+\n(\s+.*\n)*?\s+Status: ✔ enabled", listed), listed


# --- /clear, then /cc-compact -------------------------------------------------------------------------------------------


def test_goes_on_with_the_session_just_cleared(installed: Client, cwd: Path) -> None:
    with Person(installed, cwd) as ada, Person(installed, cwd) as bob:
        ada.ask("Plant the apples in row one.")
        ada.ask("Never prune in May.", "Noted.")
        cleared = ada.clear()
        bob.ask("Harvest the pears.")
        turn = ada.ask(COMPACT)
    report = turn.report()
    assert levels(report) == [("0", cleared)]
    assert prompts(report) == ["Plant the apples in row one.", "Never prune in May."]
    assert "pears" not in turn.text()
    assert not [text for _, text in sent(turn.requests[0]) if text.startswith(("USE:", "RES:"))]


@pytest.mark.parametrize("command", ["/clear", "/new", "/reset", "/clear apples"])
def test_goes_on_with_it_also_when_a_newer_session_has_ended(installed: Client, cwd: Path, command: str) -> None:
    with Person(installed, cwd) as ada:
        ada.ask("Plant the apples in row one.")
        cleared = ada.clear(command)
        with Person(installed, cwd) as bob:
            bob.ask("Harvest the pears.")
            bob.leave()
        assert levels(ada.ask(COMPACT).report()) == [("0", cleared)]


def test_a_client_just_started_gets_the_latest_whatever_was_cleared_before(installed: Client, cwd: Path) -> None:
    with Person(installed, cwd) as ada:
        ada.ask("Plant the apples in row one.")
        ada.clear()
    with Person(installed, cwd) as bob:
        bob.ask("Harvest the pears.")
        latest = bob.session()
        bob.leave()
    with Person(installed, cwd) as cleo:
        assert levels(cleo.ask(COMPACT).report()) == [("0", latest)]


def test_two_clients_that_both_cleared_each_get_their_own_session(installed: Client, cwd: Path) -> None:
    with Person(installed, cwd) as ada, Person(installed, cwd) as bob:
        ada.ask("Plant the apples in row one.")
        bob.ask("Harvest the pears.")
        apples, pears = ada.clear(), bob.clear()
        assert levels(ada.ask(COMPACT).report()) == [("0", apples)]
        assert levels(bob.ask(COMPACT).report()) == [("0", pears)]


def test_cleared_after_the_session_was_moved(installed: Client, cwd: Path, tmp_path: Path) -> None:
    """/cd moves the session's file to the folder of the other directory; the history keeps the directory of before."""
    installed.trust(tmp_path)
    with Person(installed, cwd) as ada:
        ada.ask("Plant the apples in row one.")
        ada.say(f"/cd {tmp_path}", str(tmp_path))
        ada.ask("And the plums.")
        cleared = ada.clear()
        with Person(installed, tmp_path) as bob:
            bob.ask("Harvest the pears.")
            bob.leave()
        assert levels(ada.ask(COMPACT).report()) == [("0", cleared)]


def test_where_a_command_went_does_not_change_the_project(installed: Client, cwd: Path) -> None:
    """The client keeps the directory that a command changed to, and runs the skill's script there."""
    (cwd / "orchard").mkdir()
    there = {"command": "cd orchard && pwd", "description": "Go there"}
    with Person(installed, cwd) as ada:
        ada.ask("Go to the orchard.", steps=[{"tool": "Bash", "input": there}])
        cleared = ada.clear()
        assert sent(ada.ask("Go there again.", steps=[{"tool": "Bash", "input": there}]).requests[-1])[-1][1].endswith("/orchard")
        assert levels(ada.ask(COMPACT).report()) == [("0", cleared)]


def test_a_detail_is_one_call_away_and_asks_nobody(installed: Client, cwd: Path) -> None:
    """The model runs the command that the skill's text gives, spelled so, and the person is not asked."""
    with Person(installed, cwd) as ada:
        ada.ask("Plant the apples in row one.")
        cleared = ada.clear()
        (command,) = re.findall(r"`(python3 [^`]*compact_session\.py[^`]*)`", sent(ada.ask(COMPACT).requests[0])[-1][1])
        call = {"command": command.replace(" ID ", f" {cleared} "), "description": "Look at it"}
        turn = ada.ask(f"{COMPACT} {cleared}", steps=[{"tool": "Bash", "input": call}])
    result = sent(turn.requests[-1])[-1][1]
    assert len(turn.requests) == 2 and result.startswith("RES:")
    assert levels(ET.fromstring(REPORT.findall(result)[0])) == [("0", cleared)]


# --- arguments ----------------------------------------------------------------------------------------------------------

ODD_TITLE = "it's \"odd\" $(touch made) `touch made` ; touch made | <b> & #1 🍏"


def test_options_and_a_title_full_of_shell(installed: Client, cwd: Path) -> None:
    with Person(installed, cwd) as ada:
        for n in range(4):
            ada.ask(f"Row {n}, please.", "Planted. " * 450)
        ada.rename(ODD_TITLE)
        named = ada.clear()
        ada.ask("Something else.")
        ada.rename("another")
        ada.clear()
        ada.ask("Something newer.")
        by_title = ada.ask(f"{COMPACT} --max-chars 6000 --last 3 {ODD_TITLE}")
        qualified = ada.ask(f"/cc-carryover:cc-compact --max-chars=7000 --first 1 {named}")
        large = ada.ask(f"{COMPACT} --max-chars 60000 --maxlen 9000 --id {named}")
    assert not (cwd / "made").exists()

    report = by_title.report()
    (session,) = report.findall("session")
    assert (session.get("id"), session.get("title")) == (named, ODD_TITLE)
    assert [exchange.get("n") for exchange in session.findall("exchanges[@section='last']/exchange")] == ["2", "3", "4"]
    assert units(by_title.text()) <= 6000

    assert levels(qualified.report()) == [("0", named)]
    assert 6000 < units(qualified.text()) <= 7000
    # beyond what the client takes: lowered, said so, and not replaced by a preview
    assert units(large.text()) <= 29_500
    assert "60000" in (large.report().findtext("notice") or "")


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def test_a_title_does_not_name_the_own_session(installed: Client, cwd: Path) -> None:
    """/clear gives the new session the title of the one it ended."""
    with Person(installed, cwd) as ada:
        ada.ask("Plant the apples in row one.")
        ada.rename("the apples")
        cleared = ada.clear()
        ada.ask("Wait a moment.")
        assert levels(ada.ask(f"{COMPACT} the apples").report()) == [("0", cleared)]


@pytest.fixture(scope="module")
def refusing(installed: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A client in a project with one ended session, for everything that is refused."""
    project = tmp_path_factory.mktemp("refusing")
    with Person(installed, project) as ada:
        ada.ask("Plant the apples in row one.")
        ada.clear()
        yield ada


@pytest.mark.parametrize(
    "words",
    [
        "it's not there",
        'an "odd quote',
        "$(touch felled) `touch felled`",
        "a; touch felled & touch felled | cat > felled",
        "EOF --last",
        "$HOME ${HOME} $1 $ARGUMENTS ~ * ? [a]",
        "!felled and !! and so!",
    ],
)
def test_unknown_title_is_one_line_and_no_request(refusing: Person, words: str) -> None:
    turn = refusing.say(f"{COMPACT} {words}", f"no such session: '{words}'")
    assert not turn.requests and "; nearest: " in turn.message()
    assert not list(Path(refusing.state()["cwd"]).iterdir())


@pytest.mark.parametrize(
    "words, message",
    [
        ("--no-such-option", "unrecognized arguments: --no-such-option; see --help"),
        ("--max-chars many", "--max-chars: many is no whole number of 2000 or more"),
        ("00000000-0000-4000-8000-000000000000", "no such session: 00000000-0000-4000-8000-000000000000"),
        ("../x", "no such session: '../x'"),
        ("*", "no such session: '*'"),
    ],
)
def test_what_names_nothing_is_refused(refusing: Person, words: str, message: str) -> None:
    turn = refusing.say(f"{COMPACT} {words}", message)
    assert not turn.requests and message in turn.message()


# --- a chain of sessions ------------------------------------------------------------------------------------------------


def test_each_session_of_a_chain_is_reported_the_older_the_shorter(installed: Client, cwd: Path) -> None:
    ids = []
    with Person(installed, cwd) as ada:
        for n in range(3):
            if n:
                ada.ask(COMPACT)
            for row in range(3):
                ada.ask(f"Session {n}, row {row}, please.", "Planted. " * 250)
            ids.append(ada.clear())
        turn = ada.ask(f"{COMPACT} --max-chars 9000")
    report = turn.report()
    assert levels(report) == [("0", ids[2]), ("1", ids[1]), ("2", ids[0])]
    assert [session.get("role") for session in report.iter("session")] == ["requested", "ancestor", "ancestor"]
    newest, older, oldest = (units(ET.tostring(session, "unicode")) for session in report.iter("session"))
    assert newest > older > oldest and units(turn.text()) <= 9_000


def test_a_report_that_is_only_quoted_makes_no_chain(installed: Client, cwd: Path) -> None:
    with Person(installed, cwd) as ada:
        ada.ask("Plant the apples in row one.")
        ada.clear()
        report = ada.ask(COMPACT).text()
        (cwd / "compact_session.py.xml").write_text(report)
        ada.clear()
        show = {"command": "cat compact_session.py.xml", "description": "Show it"}
        turn = ada.ask("Show what was saved.", steps=[{"tool": "Bash", "input": show}])
        assert "<compacted-session-chain" in sent(turn.requests[-1])[-1][1]
        turn = ada.ask("I got this: " + report.replace("\n", " "))
        assert "<compacted-session-chain" in sent(turn.requests[-1])[-1][1]
        quoting = ada.clear()
        assert levels(ada.ask(COMPACT).report()) == [("0", quoting)]


# --- the skill folder alone ---------------------------------------------------------------------------------------------

SPY = """#!/bin/sh
cp -R "$HOME/.claude/history.jsonl" "$HOME/.claude/sessions" "$HOME/.claude/projects" {seen}
printf %s "$CLAUDE_CODE_SESSION_ID" > {seen}/own
PATH={path} exec python3 "$@"
"""


def test_the_skill_folder_alone_and_what_the_client_has_noted_by_then(tmp_path: Path, model: ScriptedModel, cwd: Path) -> None:
    """The facts that finding the cleared session rests on, as they are at the moment the script runs."""
    seen, spies = tmp_path / "seen", tmp_path / "spies"
    seen.mkdir()
    spies.mkdir()
    (spies / "python3").write_text(SPY.format(seen=seen, path=os.environ["PATH"]))
    (spies / "python3").chmod(0o755)
    client = Client(binary(), tmp_path, model, PATH=f"{spies}:{os.environ['PATH']}")
    shutil.copytree(ROOT / "skills" / "cc-compact", client.config / "skills" / "cc-compact", ignore=shutil.ignore_patterns("__pycache__"))
    with Person(client, cwd) as ada, Person(client, cwd) as bob:
        bob.ask("Harvest the pears.")
        ada.ask("Plant the apples in row one.")
        cleared, new, other = ada.clear(), ada.session(), bob.session()
        assert levels(ada.ask(COMPACT).report()) == [("0", cleared)]

    assert (seen / "own").read_text() == new
    typed = [json.loads(line) for line in (seen / "history.jsonl").read_text().splitlines()]
    (noted,) = [entry for entry in typed if entry["display"] == "/clear"]
    assert (noted["sessionId"], noted["project"]) == (cleared, str(cwd))
    assert {json.loads(path.read_text())["sessionId"] for path in (seen / "sessions").glob("*.json")} == {new, other}
    # the new session has a file, and the time of the /clear in it is the one of the history
    (began,) = clears_in(seen, new)
    assert 0 <= milliseconds(began["timestamp"]) - noted["timestamp"] < 1000


def milliseconds(timestamp: str) -> float:
    """Since the epoch, of a record's UTC time."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp() * 1000
