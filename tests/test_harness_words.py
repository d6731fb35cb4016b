"""What the harness says in the person's role or in a result's, in the spellings that the fixtures do not hold, and what the report makes of it."""
from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional
from xml.etree import ElementTree

import cc_transcript as cc
import pytest
from conftest import ROOT

COMPACT, FORK = ROOT / "skills/cc-compact/compact_session.py", ROOT / "skills/cc-fork/fork_session.py"
SESSION = "77aaaaaa-0000-4000-8000-000000000001"
REFUSAL = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file)."
Run = Callable[..., subprocess.CompletedProcess[bytes]]


class Session:
    """A session while it is made, each row below the one before."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def row(self, kind: str, content: Any, **fields: Any) -> None:
        uuid, at = f"77000000-0000-4000-8000-{len(self.lines):012d}", len(self.lines)
        parent = f"77000000-0000-4000-8000-{at - 1:012d}" if at else None
        message = {"role": kind, "content": content}
        if kind == "assistant":
            message = {"id": f"msg_{at}", "type": "message", "role": kind, "model": "claude-opus-5", "content": content}
        self.lines.append(json.dumps({
            "parentUuid": parent, "isSidechain": False, "type": kind, "message": message, "uuid": uuid, "timestamp": f"2026-05-01T10:{at:02d}:00.000Z",
            **fields, "cwd": "/home/ada/orchard", "sessionId": SESSION, "version": "2.1.332", "gitBranch": "main"}, separators=(",", ":")))

    def call(self, name: str, given: Any, said: Any = "done", detail: Any = None, failed: Optional[bool] = None, **more: Any) -> None:
        call = f"toolu_{len(self.lines)}"
        self.row("assistant", [{"type": "tool_use", "id": call, "name": name, "input": given}])
        block = {"type": "tool_result", "content": said, **({} if failed is None else {"is_error": failed}), "tool_use_id": call}
        self.row("user", [block], **({} if detail is None else {"toolUseResult": detail}), **more)

    def write(self, folder: Path) -> Path:
        path = folder / f"{SESSION}.jsonl"
        path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")
        return path


@pytest.fixture
def report(tmp_path: Path, run_script: Run) -> Callable[[Session], ElementTree.Element]:
    def made(session: Session, *options: str) -> ElementTree.Element:
        done = run_script(COMPACT, "--file", str(session.write(tmp_path)), *options)
        assert done.returncode == 0, done.stderr
        return ElementTree.fromstring(done.stdout)
    return made


@pytest.mark.parametrize(("content", "fields", "said"), [
    ("<ide_diagnostics>two warnings</ide_diagnostics>", {}, None),
    ("<ide_diagnostics>two warnings</ide_diagnostics>\nmend both", {}, "mend both"),
    ("<bash-exit-code>1</bash-exit-code>", {}, None),
    ("<post-tool-use-hook>formatted</post-tool-use-hook>", {}, None),
    ("SubagentStop hook feedback:\n- [check.sh]: tests missing", {}, None),
    ("water the pears\n<system-reminder>\nfrom the harness\n</system-reminder>\n", {}, "water the pears"),
    ("what does </system-reminder> close?", {}, "what does </system-reminder> close?"),
    ("A background task finished.\n<task-notification>\n<task-id>b1</task-id>\n</task-notification>", {}, None),
    ("Why this?\n<task-notification>x</task-notification>", {"origin": {"kind": "human"}}, "Why this?\n<task-notification>x</task-notification>"),
    ("what is a <task-notification>?", {}, "what is a <task-notification>?"),
    ("count the hives", {"turnOrigin": "task_notification"}, None),
    ("count the hives", {"turnOrigin": "auto_continuation"}, None),
    ("count the hives", {"turnOrigin": "sdk"}, "count the hives"),
    ("<new-gate>is painted</new-gate>", {}, "<new-gate>is painted</new-gate>"),
])
def test_who_speaks(content: str, fields: dict[str, Any], said: Optional[str], tmp_path: Path) -> None:
    session = Session()
    session.row("user", content, **fields)
    prompt = cc.prompt_of(cc.read_transcript(str(session.write(tmp_path))).records[0])
    assert (prompt and prompt.text) == said


@pytest.mark.parametrize(("said", "detail", "flag", "failed", "denied"), [
    ("<tool_use_error>String to replace not found</tool_use_error>", None, None, True, False),
    ("String to replace not found", "Error: String to replace not found", None, True, False),
    ("the word Error: stands in a page", {"stdout": "Error: not mine"}, None, False, False),
    ("<tool_use_error>only quoted</tool_use_error>", None, False, False, False),
    (REFUSAL + " To tell you how to proceed, the user said:\nthe other one", None, True, True, True),
    ([{"type": "text", "text": REFUSAL}], "Error: " + REFUSAL, True, True, True),
    (REFUSAL, None, None, False, False),
    ("fine", None, None, False, False),
])
@pytest.mark.parametrize("whole", [False, True])
def test_a_failure_or_refusal_said_in_words(
    said: Any, detail: Any, flag: Optional[bool], failed: bool, denied: bool, whole: bool, tmp_path: Path
) -> None:
    session = Session()
    session.row("user", "paint the gate")
    session.call("Edit", {"file_path": "/home/ada/orchard/gate.py", "old_string": "a", "new_string": "b"}, said, detail, flag)
    call = cc.read_conversation(cc.read_transcript(str(session.write(tmp_path)), whole)).exchanges[0].calls[0]
    assert (call.failed, call.denied) == (failed, denied)


def test_a_refusal_without_a_detail_gives_its_reason(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "paint the gate")
    session.call("Edit", {"file_path": "/home/ada/orchard/wall.py"}, REFUSAL + " To tell you how to proceed, the user said:\nnot the wall", None, True)
    session.call("AskUserQuestion", {"questions": [{"question": "Which red?"}]}, REFUSAL, "User rejected tool use", True)
    xml = report(session)
    assert [found.text for found in xml.iter("decision")] == ["not the wall -- Edit: /home/ada/orchard/wall.py", "AskUserQuestion: Which red?"]
    assert not list(xml.iter("edited"))


def test_an_answer_with_a_note_of_the_persons_own(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "plan the harvest")
    detail = {"answers": {"Which rows?": "East, West"}, "annotations": {"Which rows?": {"notes": "not before Sunday"}}}
    session.call("AskUserQuestion", {"questions": [{"question": "Which rows?"}]}, "User has answered", detail)
    assert [found.text for found in report(session).iter("decision")] == ["East, West; not before Sunday <- Which rows?"]


def test_what_the_configuration_refused_is_no_decision(report: Callable[[Session], ElementTree.Element]) -> None:
    """In a session without a terminal client 2.1.332 calls it "user-rejected" as well."""
    session = Session()
    session.row("user", "fetch the page")
    session.call("WebFetch", {"url": "https://example.com/"}, "Claude requested permissions to use WebFetch, but you haven't granted it yet.", "Error: x", True,
                 toolDenialKind="user-rejected", permissionDecision={"decision": "reject", "source": "config", "reasonCode": "unknown"})
    parsed = report(session)
    assert not list(parsed.iter("decision"))
    assert [found.get("result") for found in parsed.iter("call")] == ["failed"]


@pytest.mark.parametrize(("printed", "told"), [
    ("FAIL src/a.test.ts\n{}\n    Expected: 3\n    Received: 4\nTests:  1 failed, 12 passed", "FAIL src/a.test.ts Expected: 3 Tests: 1 failed, 12 passed"),
    ("{}\n--- FAIL: TestX (0.00s)\n    x_test.go:12: got 3, want 4\nFAIL", "--- FAIL: TestX (0.00s) x_test.go:12: got 3, want 4 FAIL"),
    ("{}\nthread 'adds' panicked at src/lib.rs:9:9:\nleft: 3", "thread 'adds' panicked at src/lib.rs:9:9:"),
    ("npm ERR! code ERESOLVE\n{}", "npm ERR! code ERESOLVE"),
])
def test_what_tells_of_a_failure_in_a_long_output(printed: str, told: str, report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "run the tests")
    session.call("Bash", {"command": "make check"}, "Exit code 1\n" + printed.format("  rows are drawn (3 ms)\n" * 60), None, True)
    problem = next(report(session).iter("problem"))
    assert problem[0].tail == told


def test_failures_without_a_word_give_way_to_those_that_say_something(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "press the apples")
    session.call("Bash", {"command": "make juice"}, "Exit code 2\nno apples", None, True)
    for row in range(5):
        session.call("Bash", {"command": f"grep pear row{row}"}, "Exit code 1", None, True)
    assert [problem[0].text for problem in report(session).iter("problem")] == [*(f"grep pear row{row}" for row in range(1, 5)), "make juice"]


def test_the_lines_of_a_notebooks_cell(report: Callable[[Session], ElementTree.Element]) -> None:
    """Client 2.1.332 notes no patch for them, but what stood in the cell."""
    session = Session()
    session.row("user", "count the apples")
    for mode, new, old in (("replace", "a\nb\n", "a\n"), ("delete", "", "c\nd\ne"), ("insert", "f", None)):
        detail = {"new_source": new, "cell_type": "code", "edit_mode": mode, "cell_id": "c1", "error": "", **({} if old is None else {"old_source": old})}
        session.call("NotebookEdit", {"notebook_path": "/home/ada/yield.ipynb", "new_source": new, "edit_mode": mode}, "Updated cell c1", detail)
    edited = next(report(session).iter("edited"))
    assert [edited.get(name) for name in ("edits", "added", "removed")] == ["3", "3", "4"]


def test_the_tags_of_the_clients_own_errors_are_not_shown(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "fetch the page")
    session.call("Edit", {"file_path": "/home/ada/orchard/wall.py"}, "<tool_use_error>String to replace not found in file.</tool_use_error>", None, True)
    call = next(report(session).iter("call"))
    assert [call.text, *(output.text for output in call)] == ["Edit: wall.py", "String to replace not found in file."]


ASKED = {"questions": [{"question": "Which wood?", "options": [{"label": "oak"}, {"label": "pine"}]}]}
CLARIFY = "The user wants to clarify these questions.\n    This means they may have more.\n\n    Questions asked:\n- \"Which wood?\"\n  Answer: oak"
APPROVED = "User has approved your plan. You can now start coding.\n\n## Approved Plan (edited by user):\n1. rake"


@pytest.mark.parametrize(("name", "given", "said", "detail", "failed", "decisions"), [
    ("AskUserQuestion", ASKED, "The user responded: ash", {"answers": {}, "response": "ash"}, False, [("answer", "ash")]),
    ("AskUserQuestion", ASKED, "x", {"answers": {"Which wood?": "oak"}, "response": "but dry"}, False, [("answer", "oak <- Which wood?"), ("answer", "but dry")]),
    ("AskUserQuestion", ASKED, "x", {"answers": {"Which wood?": "(notes only)"}, "annotations": {"Which wood?": {"notes": "ask Ada"}}}, False,
     [("answer", "ask Ada <- Which wood?")]),
    ("AskUserQuestion", ASKED, 'User has answered your questions: "Which wood?"="oak, ash", "Which nails?"="none". You can now continue.', None, None,
     [("answer", "oak, ash <- Which wood?"), ("answer", "none <- Which nails?")]),
    ("AskUserQuestion", ASKED, "No response after 60s", {"answers": {"Which wood?": "oak"}, "afkTimeoutMs": 60_000}, False,
     [("question-without-answer", "Which wood?")]),
    ("AskUserQuestion", ASKED, "The user did not answer the questions.", {"answers": {}}, False, [("question-without-answer", "Which wood?")]),
    ("AskUserQuestion", ASKED, f"{REFUSAL} To tell you how to proceed, the user said:\n{CLARIFY}", "User rejected tool use", True,
     [("refused", '- "Which wood?" Answer: oak -- AskUserQuestion: Which wood?')]),
    ("AskUserQuestion", ASKED, "<tool_use_error>fewer than 2 options</tool_use_error>", "Error: fewer", True, []),
    ("ExitPlanMode", {"plan": "1. cut"}, "<tool_use_error>You are not in plan mode.</tool_use_error>", "Error: no", True, []),
    ("ExitPlanMode", {"plan": "1. cut"}, APPROVED, None, None, [("plan-approved", "1. rake")]),
    ("ExitPlanMode", {"plan": "1. cut"}, APPROVED, {"plan": "1. rake leaves"}, None, [("plan-approved", "1. rake leaves")]),
    ("ExitPlanMode", {}, f"{REFUSAL} STOP", "User rejected tool use", True, [("plan-refused", "ExitPlanMode")]),
])
def test_what_the_person_decided(
    name: str, given: Any, said: str, detail: Any, failed: Optional[bool], decisions: list[tuple[str, str]],
    report: Callable[[Session], ElementTree.Element],
) -> None:
    session = Session()
    session.row("user", "build it")
    session.call(name, given, said, detail, failed)
    assert [(found.get("kind"), found.text) for found in report(session).iter("decision")] == decisions


def test_tasks_are_known_by_the_number_that_the_result_names(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "plan the harvest")
    session.call("TodoWrite", {"todos": [{"content": "old list", "status": "completed"}]})
    session.call("TaskCreate", {"subject": "pick"}, "Task #1 created successfully: pick")
    session.call("TaskCreate", {"subject": "press"}, "Task #2 created successfully: press")
    session.call("TaskUpdate", {"taskId": "1", "status": "completed"})
    session.call("TaskUpdate", {"taskId": "2", "status": "in_progress"})
    session.call("TaskUpdate", {"taskId": "2", "status": "deleted"}, "Task not found", {"success": False, "error": "Task not found"})
    assert [(found.get("status"), found.text) for found in report(session).iter("task")] == [("in_progress", "press")]


@pytest.mark.parametrize(("command", "pushes"), [
    ("git push", True), ("cd x && git -C ../y push -u origin main", True), ("git commit -m 'later' && git push", True), ("git --no-pager push -n", False),
    ("echo 'git push later' > notes", False), ("git stash push", False), ("git push --dry-run", False), ("git log --grep=push", False),
    ("git commit -F - <<'EOF'\nsay why git push waits\nEOF", False),
    ("base64 -d <<< " + "aGk0" * 50_000 + "\ngit push", True), ("git " + "--paginate " * 60 + "status", False), ("git " + "-c " * 61 + "status", False),  # none runs away
])
def test_what_is_a_push(command: str, pushes: bool, report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "send it")
    session.call("Bash", {"command": command}, "")
    assert [found.get("kind") for found in report(session).iter("outcome")] == ["push"] * pushes


@pytest.mark.parametrize(("command", "output", "failed", "expected"), [
    ("git add -A && git commit -q -F - <<'EOF'\nfeat(gate): latch\n\nAdmin only.\nEOF", "", False, [("commit", None, "feat(gate): latch")]),
    ("git commit -qm 'Oil the hinge'", "", False, [("commit", None, "Oil the hinge")]),
    ("git commit --quiet -m \"Oil Ada's hinge\"", "", False, [("commit", None, "Oil Ada's hinge")]),
    ("git commit -q --dry-run -m x", "", False, []), ("git commit -qm x || true", "", False, []), ("git commit -qm x", "nothing to commit", True, []),
    ("echo 'git commit -q' > notes; git status", "", False, []), ("git log -q --grep commit", "", False, []),
    ("git commit -m 'Oil it' && git push", "[main abc1234] Oil it\n ! [rejected] main -> main (fetch first)", True, [("commit", "abc1234", "Oil it")]),
    ("git commit -m one && git commit -am two", "[main abc1234] one\n[main abc1235] two", False, [("commit", "abc1234", "one"), ("commit", "abc1235", "two")]),
    ("git commit -m one", "[detached HEAD abc1234] one", False, [("commit", "abc1234", "one")]),
    ("git commit -m \"$(cat <<'EOF'\nOil it\n\nEvery week.\nEOF\n)\" -q && git push -u origin HEAD 2>&1 | tail -3", "", False,
     [("commit", None, "Oil it"), ("push", None, "git push -u origin HEAD")]),
    ("git push origin \"$(git branch --show-current)\"; echo done", "", False, [("push", None, 'git push origin "$(git branch --show-current)"')]),
    ("git push 2>&1 | tail -2", "error: failed to push some refs to 'github.com:ada/orchard'\nhint: fetch first", False, []),
    ("gh pr merge 12 --squash && git pull", "", False, [("pull-request", None, "gh pr merge 12 --squash")]), ("gh pr view 12", "x/pull/12", False, []),
    ("glab mr create --fill", "!7\n https://gitlab.com/ada/orchard/-/merge_requests/7", False, [("pull-request", None, "https://gitlab.com/ada/orchard/-/merge_requests/7")]),
])
def test_what_git_did(command: str, output: str, failed: bool, expected: list[Any], report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "send it")
    session.call("Bash", {"command": command}, output, failed=failed)
    assert [(found.get("kind"), found.get("sha"), found.text) for found in report(session).iter("outcome")] == expected


@pytest.mark.parametrize(("failing", "passing", "left"), [
    ("pytest -q", "pytest -q", []), ("pytest -q", "pytest -q -x", []), ("pytest -x tests 2>&1", "pytest tests -vv", []), ("npx playwright test", "FLAGS=off npx playwright test", []),
    ("pytest -q", "pytest -q tests/billing", ["pytest -q"]), ("make lint", "make test", ["make lint"]), ("cargo test", "cargo test --no-run", ["cargo test"]),
    ("pytest -k gate", "pytest", ["pytest -k gate"]),
    ("make test", "cd /home/ada/orchard && make test", []), ("npm test", "npm test -- --silent", []), ("cd . && make test", "make test", []), ("cd gate && make", "cd latch && make", ["cd gate && make"]),
])
def test_a_command_that_passed_later_is_no_problem(
    failing: str, passing: str, left: list[str], report: Callable[[Session], ElementTree.Element],
) -> None:
    session = Session()
    session.row("user", "test it")
    session.call("Bash", {"command": failing}, "Exit code 1", failed=True)
    session.call("Bash", {"command": passing}, "ok")
    assert [found.findtext("command") for found in report(session).iter("problem")] == left


@pytest.mark.parametrize(("command", "printed", "told"), [
    ("git reset --hard HEAD~1", "HEAD is now at abc1 one", ["one"]), ("git reset HEAD^", "", ["one"]), ("git -C . reset -q HEAD~ --soft", "", ["one"]),
    ("git reset --soft HEAD~2 && git commit -m three", "[main abc1236] three", ["three"]), ("git reset HEAD~1 -- gate.py", "", ["one", "two"]),
    ("git reset --hard", "", ["one", "two"]), ("echo 'git reset HEAD~1'", "", ["one", "two"]),
    ("git reset --hard HEAD~999", "", []), ("git reset --soft HEAD~1 2>&1 | tail -3", "", ["one"]), ("git reset HEAD~1 >/dev/null # redo", "", ["one"]),
])
def test_a_commit_that_was_taken_back_is_none(command: str, printed: str, told: list[str], report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "go on")
    for sha, subject in (("abc1234", "one"), ("abc1235", "two")):
        session.call("Bash", {"command": f"git commit -m {subject}"}, f"[main {sha}] {subject}")
    session.call("Bash", {"command": command}, printed)
    assert [found.text for found in report(session).iter("outcome")] == told


def test_an_amended_commit_is_told_as_it_became_and_a_merge_is_told(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "commit it")
    session.call("Bash", {"command": "git commit -m one"}, "[main abc1234] one")
    session.call("Bash", {"command": "git commit --amend -m two"}, "[main abc1235] two", {"gitOperation": {"commit": {"sha": "abc1235", "kind": "amended"}}})
    session.call("Bash", {"command": "git merge gate"}, "Fast-forward", {"gitOperation": {"branch": {"ref": "gate", "action": "merged"}}})
    session.call("Bash", {"command": "git commit -m three"}, "[main abc1236] three")
    session.call("Bash", {"command": "git commit --amend --no-edit -q"}, "", {"gitOperation": {"commit": {"sha": "abc1237", "kind": "amended"}}})
    told = [(found.get("kind"), found.get("sha"), found.text) for found in report(session).iter("outcome")]
    assert told == [("commit", "abc1235", "two"), ("merged", None, "gate"), ("commit", "abc1237", "three")]


@pytest.mark.parametrize(("status", "again", "left"), [
    (None, "", ["make e2e"]), ("completed", "", []), ("failed", "", ["make e2e"]), ("failed", "make e2e", []), ("killed", "", ["make e2e"]),
])
def test_a_run_in_the_background_ends_as_its_notice_says(
    status: Optional[str], again: str, left: list[str], report: Callable[[Session], ElementTree.Element],
) -> None:
    session = Session()
    session.row("user", "run it")
    session.call("Bash", {"command": "make e2e"}, "Exit code 2", failed=True)
    session.call("Bash", {"command": "make e2e", "run_in_background": True}, "running with ID b1", failed=False)
    if status:
        call = f"toolu_{len(session.lines) - 2}"
        words = f'<summary>Background command "e2e" {status}: port 8080</summary>'
        notice = f"<task-notification>\n<tool-use-id>{call}</tool-use-id>\n<status>{status}</status>\n{words}\n</task-notification>"
        session.row("user", notice, origin={"kind": "task-notification"})
    if again:
        session.call("Bash", {"command": again}, "ok")
    found = list(report(session).iter("problem"))
    assert [one.findtext("command") for one in found] == left
    assert ("port 8080" in "".join(found[0].itertext()) if found else True) is (status != "killed" and bool(status) or not found)


def test_a_run_that_was_refused_or_interrupted_has_not_passed(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "run it")
    session.call("Bash", {"command": "make one"}, "Exit code 2", failed=True)
    session.call("Bash", {"command": "make two"}, "Exit code 2", failed=True)
    session.call("Bash", {"command": "make one"}, REFUSAL, "User rejected tool use", True)
    session.call("Bash", {"command": "make two"}, "", {"stdout": "", "stderr": "", "interrupted": True}, False)
    assert [found.findtext("command") for found in report(session).iter("problem")] == ["make one", "make two"]


def test_a_tool_that_gave_nothing_but_errors_is_a_problem_and_all_are_counted(tmp_path: Path, run_script: Run) -> None:
    session = Session()
    session.row("user", "file it")
    session.call("mcp__desk__create", {"title": "gate"}, "401: token expired", failed=True)
    session.call("mcp__desk__list", {"title": "gate"}, "timed out", failed=True)
    session.call("mcp__desk__list", {"title": "all"}, "none")
    for at in range(15):
        session.call("Bash", {"command": f"make {at}"}, "Exit code 2", failed=True)
    session.call("mcp__desk__create", {"title": "latch"}, "401: token expired", failed=True)
    root = ElementTree.fromstring(run_script(COMPACT, "--file", str(session.write(tmp_path))).stdout)
    commands = ["make 11", "make 12", "make 13", "make 14", "mcp__desk__create: latch"]
    assert [found.findtext("command") for found in root.iter("problem")] == commands
    assert [found.get("shown") for found in root.iter("omitted")] == ["problems 5 of 16"]


def test_the_whole_task_list_tells_of_tasks_made_before(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "where are we?")
    session.call("TaskUpdate", {"taskId": "7", "status": "in_progress"}, "Updated task #7 status", {"success": True})
    tasks = [{"id": "7", "subject": "graft", "status": "in_progress"}, {"id": "8", "subject": "press", "status": "pending"}, {"id": "9", "subject": "pick", "status": "completed"}]
    session.call("TaskList", {}, "#7 [in_progress] graft", {"tasks": tasks})
    session.call("TaskUpdate", {"taskId": "8", "status": "completed"}, "Updated task #8 status", {"success": True})
    parsed = report(session)
    assert [(found.get("status"), found.text) for found in parsed.iter("task")] == [("in_progress", "graft")]
    assert [found.get("done") for found in parsed.iter("open-tasks")] == ["2"]


def test_a_long_paste_leaves_room_for_the_persons_own_words(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", 'here is the spec:\n<pasted_content id="1">\n' + "A row of trees. You must never cut it. " * 200
                + '\n</pasted_content id="1">\nbuild it as it says there')  # as client 2.1.332 writes it
    session.row("assistant", [{"type": "text", "text": "Reading."}])
    session.row("user", '<pasted_content id="2">\n' + "just pasted " * 200 + "</pasted_content>")
    told = "[pasted, 7,799 characters: A row of trees. You must never cut it. A row of trees. You…]"
    parsed = report(session)
    first, second = parsed.iter("prompt")
    assert first.text == "here is the spec: [pasted] build it as it says there"
    assert second.text is not None and second.text.startswith('<pasted_content id="2"> just pasted just pasted')
    assert next(parsed.iter("user")).text == f"here is the spec:\n{told}\nbuild it as it says there"


def test_tags_of_pastes_that_are_never_closed_cost_no_time(report: Callable[[Session], ElementTree.Element]) -> None:
    """Where each of them looked for its end through the whole prompt, this took minutes."""
    session = Session()
    session.row("user", "never cut it " + '<pasted_content id="1">' * 40_000)
    session.row("assistant", [{"type": "text", "text": "Reading."}])
    [prompt] = report(session).iter("prompt")
    assert str(prompt.text).startswith('never cut it <pasted_content id="1">')


def test_what_a_machine_printed_is_no_ones_own_words_without_tags_either(report: Callable[[Session], ElementTree.Element]) -> None:
    printed = "\n".join(f"2026-05-01 10:{at:02d}:00 ERROR pool must not be null\ngave up, always retry" for at in range(20))
    session = Session()
    for said in (f"from last night:\n\n{printed}\n\nnever touch the press", f"{printed}\n\nthe port is 4711"):
        session.row("user", said)
        session.row("assistant", [{"type": "text", "text": "Noted."}])
    told = [prompt.text for prompt in report(session).iter("prompt")]
    assert told[0] == "from last night: [pasted] gave up, always retry never touch the press"
    assert told[1:] == ["[pasted] gave up, always retry the port is 4711"]


@pytest.mark.parametrize("line", [
    "- never cut plum {}", "  always ask before row {}", "\talways ask before row {}", "# never cut row {}", "> never cut row {}", "| row {} | never cut it |",
    "<rule>never cut row {}</rule>", "2026-05-{}: row by row", "{}. never cut the row", "{} never cut the row", "[ ] water row {}", "npm run water-row-{}", "10:{} water the row",
])
def test_lines_as_people_type_them_are_their_own_words(line: str, report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "these hold:\n" + "\n".join(line.format(at) for at in range(10, 30)))
    session.row("assistant", [{"type": "text", "text": "Noted."}])
    [prompt] = report(session).iter("prompt")
    assert f"{line.strip().format(10)} {line.strip().format(11)}" in str(prompt.text)


def test_a_line_of_the_timeline_tells_its_day_though_the_line_before_is_left_out(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    for at in range(90):
        said = "weiter" if at % 3 != 1 else f"look at the {at}th tree of the orchard"
        session.row("user", said, timestamp=f"2026-05-{at // 30 + 1:02d}T10:{at % 30:02d}:00.000Z")
        session.row("assistant", [{"type": "text", "text": "Looked."}])
    whole = [prompt.get("ts") for prompt in report(session).iter("prompt")]
    assert (whole[0], whole[1], whole[30], whole[31]) == ("2026-05-01 10:00", "01 10:01", "2026-05-02 10:00", "02 10:01")
    for bound in range(3400, 4200, 100):  # how much is left at one of them also depends on how long the paths in the report are
        left = {int(prompt.get("n", "")): prompt for prompt in report(session, "--max-chars", str(bound)).iter("prompt")}
        idle = [prompt.text for prompt in left.values()].count("weiter")
        assert 10 < len(left) < 60 and (idle <= 1 or len(left) - idle == 30)  # what says little goes first
        first = min(n for n in left if n > 30)
        assert 31 < first < 61 and left[first].get("ts") == f"02 10:{first - 31:02d}"


@pytest.mark.parametrize("bound", [4000, 6000, 9000])
def test_what_the_ledger_does_not_take_goes_to_the_sections(bound: int, report: Callable[..., ElementTree.Element]) -> None:
    session = Session()
    for row in range(200):
        session.row("user", f"row {row}?")
        session.row("assistant", [{"type": "text", "text": "A pear."}])
    for name, given in (("Write", {"file_path": "/home/ada/map", "content": "pears"}), ("Task", {"prompt": "count"}), ("TaskCreate", {"subject": "rake"})):
        session.call(name, given)
    session.call("Bash", {"command": "git push"})
    session.call("Bash", {"command": "make"}, "Exit code 2\nno rule", None, True)
    session.call("AskUserQuestion", ASKED, "x", {"answers": {"Which wood?": "oak"}})
    assert bound - 150 < int(report(session, "--max-chars", str(bound)).attrib["chars"]) <= bound


def test_an_approved_plan_outlasts_later_answers(report: Callable[..., ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "plan the orchard")
    session.call("ExitPlanMode", {"plan": "1. plant"}, "User has approved your plan.", {"plan": "1. plant"})
    for _ in range(30):
        session.call("AskUserQuestion", ASKED, "x", {"answers": {"Which wood?": "oak"}})
    kinds = [found.get("kind") for found in report(session, "--max-chars", "3000").iter("decision")]
    assert kinds[0] == "plan-approved"
    assert 1 < len(kinds) < 31


def test_an_answer_that_is_not_shown_says_how_long_it_was(report: Callable[..., ElementTree.Element]) -> None:
    session = Session()
    for row in range(30):
        session.row("user", f"what grows in row {row}?")
        session.row("assistant", [{"type": "text", "text": "A pear. " * 100}])
    parsed = report(session, "--max-chars", "3000")
    shown = [(found.get("n"), agent.text, agent.get("cut")) for found in parsed.iter("exchange") for agent in found.iter("agent")]
    assert shown[0] == ("1", None, "800")
    assert {cut for _, text, cut in shown if not text} == {"800"}
    assert {cut for _, text, cut in shown if text} == {None}


@pytest.mark.parametrize(("name", "given", "ended", "decision"), [
    ("AskUserQuestion", {"questions": [{"question": "Which hedge?"}]}, "awaiting the user's answer to a question", [("question-without-answer", "Which hedge?")]),
    ("ExitPlanMode", {"plan": "1. cut\n2. burn"}, "awaiting the user's answer to a plan", [("plan-without-answer", "1. cut 2. burn")]),
    ("Bash", {"command": "make"}, "in the middle of a call without a result (Bash: make)", []),
])
@pytest.mark.parametrize("interrupted", [False, True])
def test_what_waits_for_the_person(
    name: str, given: Any, ended: str, decision: list[tuple[str, str]], interrupted: bool, report: Callable[[Session], ElementTree.Element],
) -> None:
    session = Session()
    session.row("user", "go on")
    session.row("assistant", [{"type": "tool_use", "id": "toolu_1", "name": name, "input": given}])
    if interrupted:
        session.row("user", [{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    parsed = report(session)
    assert parsed.findtext("session/session-summary/ended") == ("interrupted by the user" if interrupted else ended)
    assert [(found.get("kind"), found.text) for found in parsed.iter("decision")] == ([] if interrupted else decision)


def test_an_exchange_in_which_the_person_chose_is_pivotal(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    for at in range(25):
        session.row("user", f"step {at}")
        if at == 9:
            session.call("AskUserQuestion", ASKED, "x", {"answers": {"Which wood?": "oak"}})
        session.row("assistant", [{"type": "text", "text": f"answer {at}"}])
    shown = {str(found.get("section")): [one.findtext("user") for one in found] for found in report(session).iter("exchanges")}
    assert shown["pivotal"] == ["step 9"]
    assert shown["between"] == [f"step {at}" for at in (7, 8, 10, 11, 12, 13, 14)]


def test_a_short_session_is_shown_whole(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    for at in range(23):
        session.row("user", f"step {at}")
        session.row("assistant", [{"type": "text", "text": f"answer {at}"}])
    parsed = report(session)
    assert sorted(int(found.get("n", "0")) for found in parsed.iter("exchange")) == list(range(1, 24))
    assert [found.get("section") for found in parsed.iter("exchanges")] == ["first", "between", "last"]
    assert list(parsed.iter("omitted")) == []


def test_a_short_choice_stands_with_what_it_answers(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    for at in range(24):
        session.row("user", {9: "the second one", 12: "never the third one"}.get(at, f"row {at}"))
        session.row("assistant", [{"type": "text", "text": {8: "long " * 100 + "Queue or <poll>?", 11: "Trim, graft or burn?"}.get(at, f"done {at}")}])
    told = {found.get("n"): found.findtext("agent-before") for found in report(session).iter("exchange") if found.find("agent-before") is not None}
    assert told == {"10": "… g " + "long " * 20 + "Queue or <poll>?", "13": "Trim, graft or burn?"}


def test_lines_of_a_new_file_and_the_words_of_an_agent(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "note the hives")
    session.call("Write", {"file_path": "/home/ada/orchard/hives.txt", "content": "east\nwest\n"})
    session.call("Task", {"description": "count", "prompt": "Count them"}, "There are 7.\nagentId: a1b2 (use SendMessage with it)\n<usage>total_tokens: 9</usage>")
    xml = report(session)
    assert [(found.get("added"), found.text) for found in xml.iter("edited")] == [("2", "hives.txt")]
    assert [found.find("asked").tail for found in xml.iter("subagent")] == ["There are 7."]  # type: ignore[union-attr]


def test_prompts_in_a_row_are_answered_together(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    for at in range(2):
        session.row("user", f"prompt {at}")
    session.row("assistant", [{"type": "text", "text": "both done"}])
    session.row("user", "prompt 2")
    session.row("assistant", [{"type": "text", "text": "API Error: 529"}], isApiErrorMessage=True)
    session.row("user", "prompt 3")
    session.row("assistant", [{"type": "text", "text": "done"}])
    session.row("user", "prompt 4")
    left = [found.findtext("user") for found in report(session).iter("exchange") if found.find("no-answer") is not None]
    assert left == ["prompt 2", "prompt 4"]


def test_an_error_after_the_agents_words_is_how_it_ended(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "paint the gate")
    session.row("assistant", [{"type": "text", "text": "The first coat is on."}])
    session.row("assistant", [{"type": "text", "text": "API Error: 529"}], isApiErrorMessage=True)
    xml = report(session)
    assert (xml.findtext(".//ended"), xml.findtext(".//final-agent-message")) == ("with an API error", "The first coat is on.")
    session.row("assistant", [{"type": "text", "text": "So is the second."}])
    assert report(session).findtext(".//ended") == "awaiting the user"


def test_words_beside_a_result_that_answers_no_call_are_in_the_copy(tmp_path: Path, run_script: Run) -> None:
    session = Session()
    session.row("user", [{"type": "tool_result", "tool_use_id": "toolu_lost", "content": "lost"}, {"type": "text", "text": "go on with the gate"}])
    session.row("assistant", [{"type": "text", "text": "It is red."}])
    done = run_script(FORK, "--file", str(session.write(tmp_path)), "--exact")
    assert (done.returncode, done.stderr) == (0, b"")
    copy = ElementTree.fromstring(done.stdout).findtext(".//file") or ""
    rows = [json.loads(line) for line in Path(copy).read_text(encoding="utf-8").splitlines()]
    assert [block["text"] for row in rows if "message" in row for block in row["message"]["content"]] == ["go on with the gate", "It is red."]


def test_a_copy_masks_what_stands_under_a_telling_name(tmp_path: Path, run_script: Run) -> None:
    session = Session()
    session.row("user", "fetch the prices")
    session.call("mcp__web__get", {"headers": {"Authorization": "Basic " + "Zq7Zq7Zq7", "Accept": "text/html"}, "password": "hunter2" + "hunter2"})
    session.row("assistant", [{"type": "text", "text": "Fetched with Bearer " + "Zq7Zq7Zq7Zq7"}])
    done = run_script(FORK, "--file", str(session.write(tmp_path)), "--exact", "--redact")
    rows = [json.loads(line) for line in Path(ElementTree.fromstring(done.stdout).findtext(".//file") or "").read_text(encoding="utf-8").splitlines()]
    given = next(block["input"] for row in rows if "message" in row for block in row["message"]["content"] if isinstance(block, dict) and block["type"] == "tool_use")
    assert given == {"headers": {"Authorization": "[masked: authorization]", "Accept": "text/html"}, "password": "[masked: secret]"}
    assert "Fetched with Bearer [masked: bearer token]" in json.dumps(rows)


def test_a_list_that_only_the_detail_holds_and_an_agent_still_at_work(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "plan the harvest")
    session.call("TodoWrite", "unreadable", detail={"oldTodos": [], "newTodos": [{"content": "pick", "status": "pending"}]})
    session.call("Agent", {"description": "count"}, "Async agent launched successfully.", {"isAsync": True, "status": "async_launched", "agentId": "a1"})
    xml = report(session)
    assert [found.text for found in xml.iter("task")] == ["pick"]
    assert [found.find("asked").tail for found in xml.iter("subagent")] == ["(still at work when the session ended)"]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["<task-id>x</task-id>\n<tool-use-id>toolu_1</tool-use-id>", "<task-id>a1d</task-id>"])
@pytest.mark.parametrize(("told", "said"), [
    ("<status>completed</status>\n<summary>Agent finished</summary>\n<result>two pumps leak</result>", "two pumps leak"),
    ("<status>failed</status>\n<summary>Agent failed: API error 529</summary>", "Agent failed: API error 529"),
    ("<status>completed</status>\n<summary>Agent finished</summary>\n<result></result>", "Agent finished"), ("", "(still at work when the session ended)"),
])
def test_an_agent_in_the_background_ends_as_its_notice_says(told: str, said: str, name: str, report: Callable[[Session], ElementTree.Element]) -> None:
    """Client 2.1.332 leaves out the call's id where it put the agent into the background itself."""
    session = Session()
    session.row("user", "look at the pumps")
    session.call("Agent", {"prompt": "look", "run_in_background": True}, "launched", {"status": "async_launched", "agentId": "a1d"})
    notice = f"<task-notification>\n{name}\n{told}\n</task-notification>"
    session.row("user", notice if told else "and now?", origin={"kind": "task-notification"} if told else {})
    session.call("Agent", {"prompt": "do it again"}, f"{REFUSAL} The user said:\nonce is enough", "User rejected tool use", True)
    (agent,) = report(session).iter("subagent")  # the one that was refused never ran
    assert (agent.findtext("asked"), agent[0].tail) == ("look", said)


def test_a_refusal_masks_the_titles_that_it_names(config: Path, run_script: Run) -> None:
    folder = config / "projects/-home-ada-orchard"
    folder.mkdir(parents=True)
    session = Session()
    session.row("user", "use sk-" + "ant-api03-" + "Zq7" * 20)
    session.write(folder)
    done = run_script(COMPACT, "no such title")
    assert (done.returncode, b"Zq7Zq7" in done.stderr, b"[masked: api key]" in done.stderr) == (1, False, True)


@pytest.mark.parametrize("options", [(), ("--exact",)])
def test_a_queued_text_that_the_client_marks_as_its_own(options: tuple[str, ...], tmp_path: Path, run_script: Run) -> None:
    session = Session()
    session.row("user", "water the pears")
    for prompt, marks in (("from the harness", {"isMeta": True}), ("and the plums", {})):
        at = len(session.lines)
        row = json.loads(session.lines[0])
        row.update(type="attachment", uuid=f"77000000-0000-4000-8000-{at:012d}", parentUuid=f"77000000-0000-4000-8000-{at - 1:012d}",
                   attachment={"type": "queued_command", "prompt": prompt, "commandMode": "prompt", **marks})
        del row["message"]
        session.lines.append(json.dumps(row, separators=(",", ":")))
    session.row("assistant", [{"type": "text", "text": "Both are watered."}])
    path = session.write(tmp_path)
    conversation = cc.read_conversation(cc.read_transcript(str(path)))
    assert [exchange.prompt.text for exchange in conversation.exchanges] == ["water the pears", "and the plums"]
    assert run_script(FORK, "--file", str(path), *options).returncode == 0


def test_of_an_older_clients_summary_its_analysis_is_left_out(report: Callable[[Session], ElementTree.Element]) -> None:
    session = Session()
    session.row("user", "paint the gate")
    session.row("system", "Conversation compacted", subtype="compact_boundary", parentUuid=None, compactMetadata={"trigger": "manual"})
    session.row("user", "This session is being continued from a previous conversation that ran out of context. The conversation is summarized below:\n"
                "Analysis:\nFirst the gate was looked at.\n\nSummary:\n1. Intent: a green gate", isCompactSummary=True)
    session.row("user", "and the fence")
    assert report(session).findtext(".//compact-summary") == "Summary:\n1. Intent: a green gate"


FRAME = ("This session is being continued from a previous conversation that ran out of context. The summary below covers the earlier portion of the conversation.\n\n"
         "<system-reminder>\n<tools-used-before-summary>Bash</tools-used-before-summary>\n</system-reminder>\nSummary:\n",
         "\n\nIf you need specific details from before compaction (like exact code snippets), read the full transcript at: /x/y.jsonl\n"
         "Continue the conversation from where it left off without asking the user any further questions. Resume directly.\n\n"
         "The messages after this summary are the most recent messages from before compaction, kept verbatim.")


@pytest.mark.parametrize(("written", "said"), [
    (FRAME[0] + "The gate is green.\n\nIf in doubt, ask." + FRAME[1], "The gate is green.\n\nIf in doubt, ask."),
    (FRAME[0] + "It is." + FRAME[1] + "\n\nSkeleton of turns 2 to 9", "It is." + FRAME[1] + "\n\nSkeleton of turns 2 to 9"),
    ("In my own words.\nSummary: short.", "In my own words.\nSummary: short."),
    ("This session is being continued from a previous conversation that ran out of context. The conversation is summarized below:\nAnalysis: none.\n"
     "Please continue the conversation from where we left it off without asking the user any further questions.", "Analysis: none."),
])
def test_a_summary_is_told_without_what_the_client_writes_around_it(written: str, said: str, report: Callable[[Session], ElementTree.Element], tmp_path: Path, run_script: Run) -> None:
    """As client 2.1.332 writes it, older ones in the last: it orders to read the whole transcript and to ask nothing."""
    session = Session()
    session.row("user", "paint the gate")
    session.row("system", "Conversation compacted", subtype="compact_boundary", parentUuid=None, compactMetadata={"trigger": "manual"})
    session.row("user", written, isCompactSummary=True)
    session.row("user", "and the fence")
    session.row("assistant", [{"type": "text", "text": "Done."}])
    session.row("user", "and the shed")
    assert report(session).findtext(".//compact-summary") == said
    copy = run_script(FORK, "--file", str(tmp_path / f"{SESSION}.jsonl"), "--compact", "--keep-last", "1", "--into", str(tmp_path))
    path = Path(ElementTree.fromstring(copy.stdout).findtext("file") or "")
    (told,) = [fields["message"]["content"] for fields in map(json.loads, path.read_text("utf-8").splitlines()) if fields.get("isCompactSummary")]
    assert told.startswith(f"{FRAME[0].splitlines()[0]}\n\n{said}\n\nSkeleton of turns ")


def test_exchanges_that_are_not_shown_are_counted_and_have_their_command(
    report: Callable[[Session], ElementTree.Element], tmp_path: Path, run_script: Run
) -> None:
    session = Session()
    for at in range(25):
        session.row("user", f"step {at}")
        session.row("assistant", [{"type": "text", "text": f"made {at}"}])
    (omitted,) = report(session).iter("omitted")
    assert (omitted.get("shown"), omitted.get("or"), (omitted.text or "")[-11:]) == ("exchanges 23 of 25", "--keyword WORDS", " --turn 6-7")
    shutil.copytree(COMPACT.parent, tmp_path / "alone/cc-compact")  # without the search its options are not advised
    (omitted,) = ElementTree.fromstring(run_script(tmp_path / "alone/cc-compact" / COMPACT.name, "--file", session.write(tmp_path)).stdout).iter("omitted")
    assert (omitted.get("shown"), omitted.get("or"), (omitted.text or "")[-10:]) == ("exchanges 23 of 25", None, " --last 40")
    for at in range(2):
        session.call("TaskCreate", {"subject": f"task {at}", "description": "as it was said in the plan"})
    assert [call.text for call in report(session).iter("call")] == ["TaskCreate: task 0", "TaskCreate: task 1"]


def test_what_the_client_puts_after_a_summary_stays_where_the_model_quotes_it() -> None:
    """So many that a pattern over all of them took half a minute."""
    line = "Recent messages are preserved verbatim."
    record = cc.Record.__new__(cc.Record)
    record.known_blocks = (cc.Text("1. quoted:\n" + f"{line}\n" * 20_000 + "2. the pump\n\n" + line),)
    words = record.summary_words()
    assert words.startswith(f"1. quoted:\n{line}\n") and words.endswith(f"{line}\n2. the pump") and words.count(line) == 20_000
