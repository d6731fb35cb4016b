"""Which session a reference names: ids as people paste them, titles, the latest, `this`, and the one-line refusals."""
from __future__ import annotations

import builtins
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import cc_transcript as cc
import pytest

CASES = Path(__file__).parent / "cases"
COMPACT = Path(__file__).parent.parent / "skills/cc-compact/compact_session.py"
ORCHARD = "/home/ada/orchard"
FOLDER = "-home-ada-orchard"
LONG = "/home/ada/" + "/".join(f"segment_{at:02}_abcdefgh" for at in range(13))


def lay_out_case(config: Path, case: str) -> Path:
    """Copy a case's projects into the configuration, with the times that its mtimes.json gives."""
    shutil.copytree(CASES / case / "projects", config / "projects")
    times = CASES / case / "mtimes.json"
    for name, stamp in (json.loads(times.read_text()) if times.exists() else {}).items():
        when = datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
        os.utime(config / name, (when, when))
    return config / "projects"


def find(*words: str, project: str = ORCHARD, default: str = "latest") -> cc.Found:
    """What a command line names, as a skill's script would resolve it."""
    parser = cc.build_base_parser("find.py", "", "", 28_000)
    return cc.find_session(cc.parse_arguments(parser, ["--project", project, *words]), default)


def number_of(found: cc.Found) -> str:
    """The last digit of a found session's id: the cases number their sessions."""
    return os.path.basename(found.path)[-len("1.jsonl")]


def refusal(*words: str, project: str = ORCHARD) -> str:
    """The line with which a reference is refused."""
    with pytest.raises(cc.Refusal) as refused:
        find(*words, project=project)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def row(kind: str, text: str, minute: int, session: str, cwd: str = ORCHARD, **more: object) -> str:
    """One record of the conversation, as a line."""
    content: object = text if kind == "user" else [{"type": "text", "text": text}]
    return json.dumps({
        "parentUuid": more.pop("parent", None), "isSidechain": False, "type": kind, "message": {"role": kind, "content": content},
        "uuid": f"{session[:8]}-{minute:04}", "timestamp": f"2026-05-01T10:{minute:02}:00.000Z", "cwd": cwd, "sessionId": session, **more},
        separators=(",", ":")) + "\n"


def talk(config: Path, session: str, minute: int = 0, cwd: str = ORCHARD, folder: str = FOLDER, prompt: str = "hello", extra: str = "", **more: object) -> Path:
    """A session of one prompt and its answer."""
    path = config / "projects" / folder / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    first = row("user", prompt, minute, session, cwd, **more)
    path.write_text(first + row("assistant", "ok", minute + 1, session, cwd, parent=f"{session[:8]}-{minute:04}", **more) + extra, encoding="utf-8")
    return path


A, B, C = ("aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002", "cccccccc-0000-4000-8000-000000000003")


# ------------------------------------------------------------------------------------------------------ which project


def test_long_path_takes_the_session_whose_records_say_so_not_the_sibling(config: Path) -> None:
    lay_out_case(config, "02-encode-long-path")
    assert number_of(find(project=LONG)) == "3"
    assert number_of(find(project=LONG + "/sibling")) == "2"


def test_long_path_without_a_session_of_its_own_has_none(config: Path) -> None:
    projects = lay_out_case(config, "02-encode-long-path")
    (gone,) = projects.glob("*-zz9zz9")
    shutil.rmtree(gone)
    assert refusal(project=LONG).startswith(f"no session with a conversation in {LONG} (looked in ")


def test_a_session_without_a_directory_in_the_folder_of_a_longer_path_is_named_and_not_taken(config: Path) -> None:
    folder = cc.folder_name(LONG)[:200] + "-zzzzzz"
    talk(config, A, cwd="", folder=folder)
    assert refusal(project=LONG).endswith(f'; nearest: {A} "hello" 2026-05-01 10:01 in another directory')


@pytest.mark.parametrize(("directory", "number"), [("/home/ada/app_x", "1"), ("/home/ada/app-x", "2"), ("/home/ada/app.x", "3")])
def test_directories_that_share_a_folder_keep_apart(config: Path, directory: str, number: str) -> None:
    lay_out_case(config, "03-encoding-collision")
    assert number_of(find(project=directory)) == number


def test_neighbours_in_the_folder_are_offered_and_never_taken(config: Path) -> None:
    projects = lay_out_case(config, "03-encoding-collision")
    assert refusal(project="/home/ada/app+x") == (
        f"no session with a conversation in /home/ada/app+x (looked in {projects}/-home-ada-app-x; elsewhere with --project DIR or --all-projects); nearest: "
        '03aaaaaa-0000-4000-8000-000000000003 "gamma task" 2026-05-01 10:00 in /home/ada/app.x, '
        '03aaaaaa-0000-4000-8000-000000000002 "beta task" 2026-05-01 10:00 in /home/ada/app-x, '
        '03aaaaaa-0000-4000-8000-000000000001 "alpha task" 2026-05-01 10:00 in /home/ada/app_x')


def test_on_linux_the_drive_letter_keeps_projects_apart(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out_case(config, "06-windows-drive")
    for spelling, number in (("C:\\Users\\Ada\\proj", "1"), ("c:\\Users\\Ada\\proj", "2")):
        assert number_of(cc.latest_session(spelling, False, set())) == number


def test_on_windows_both_drive_letters_are_one_project(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    projects = str(lay_out_case(config, "06-windows-drive"))
    with monkeypatch.context() as windows:
        windows.setattr(os, "name", "nt")
        windows.setattr(os.path, "normcase", lambda path: path.replace("/", "\\").lower())
        folders = cc.project_folders("C:\\Users\\Ada\\proj")
        found = cc.latest_session("C:\\Users\\Ada\\proj", False, set())
    assert folders == [f"{projects}/C--Users-Ada-proj", f"{projects}/c--Users-Ada-proj"]
    assert number_of(found) == "2"


@pytest.mark.parametrize("number", ["1", "2"])
def test_an_id_is_found_whatever_the_drive_letter(config: Path, number: str) -> None:
    lay_out_case(config, "06-windows-drive")
    assert number_of(find(f"06aaaaaa-0000-4000-8000-00000000000{number}")) == number


def test_the_session_of_a_subdirectory_counts_in_its_own_folder(config: Path) -> None:
    talk(config, A, cwd=ORCHARD + "/src")
    assert find().path.endswith(f"{A}.jsonl")


def test_all_projects_takes_the_newest_of_any(config: Path) -> None:
    talk(config, A, 0)
    talk(config, B, 5, cwd="/home/ada/barn", folder="-home-ada-barn")
    assert find("--all-projects").path.endswith(f"{B}.jsonl")
    assert find().path.endswith(f"{A}.jsonl")


# ---------------------------------------------------------------------------------------------------------------- ids


@pytest.mark.parametrize(("reference", "number"), [
    ("09AAAAAA-0000-4000-8000-000000000001", "1"),
    ("09aaaaaa-0000-4000-8000-000000000001.jsonl", "1"),
    (" 09aaaaaa-0000-4000-8000-000000000001 ", "1"),
    ("claude --resume 09aaaaaa-0000-4000-8000-000000000001", "1"),
    ("the one called 09AAAAAA-1111-4111-8111-000000000002, please", "2"),
    ("~/.claude/projects/-somewhere/09aaaaaa-1111-4111-8111-000000000002", "2"),
    ("09bb", "3"),
    ("09BB", "3"),
    ("09bbbbbb-0000-4000-8000-00000000000", "3"),
    ("09aaaaaa-1", "2"),
])
def test_ids_as_people_paste_them(config: Path, reference: str, number: str) -> None:
    lay_out_case(config, "09-id-forms")
    assert number_of(find(reference)) == number
    assert number_of(find(*reference.split())) == number  # a shell's words are joined


@pytest.mark.parametrize("title", ["M\u00fcllers Wehr", "MU\u0308LLERS WEHR", "u\u0308llers"])
def test_a_title_is_found_however_its_accents_are_spelled(config: Path, title: str) -> None:
    talk(config, A, extra=json.dumps({"type": "custom-title", "customTitle": "M\u00fcllers Wehr", "sessionId": A}) + "\n")
    assert find("--title", title).path.endswith(f"{A}.jsonl")


def test_the_path_of_a_transcript(config: Path) -> None:
    path = lay_out_case(config, "09-id-forms") / FOLDER / "09aaaaaa-0000-4000-8000-000000000001.jsonl"
    assert find(str(path)).path == str(path)
    assert find("--file", str(path)).path == str(path)


def test_an_id_beats_the_title_that_looks_like_it(config: Path) -> None:
    lay_out_case(config, "09-id-forms")
    assert number_of(find("09aaaaaa-0000-4000-8000-000000000001")) == "1"
    assert number_of(find("--id", "09aaaaaa-0000-4000-8000-000000000001")) == "1"
    assert number_of(find("--title", "09aaaaaa-0000-4000-8000-000000000001")) == "3"


def test_an_ambiguous_prefix_lists_all_and_takes_none(config: Path) -> None:
    lay_out_case(config, "09-id-forms")
    assert refusal("09aa") == (
        '09aa fits 2 sessions: 09aaaaaa-1111-4111-8111-000000000002 "second" 2026-05-01 10:00, '
        '09aaaaaa-0000-4000-8000-000000000001 "first" 2026-05-01 10:00; give more of the id')


def test_an_unknown_prefix_names_the_folder_and_the_newest(config: Path) -> None:
    projects = lay_out_case(config, "09-id-forms")
    message = refusal("deadbeef")
    assert message.startswith("no such session: 'deadbeef' ")
    assert f" in {projects})" in message
    assert message.endswith(
        '; nearest: 09bbbbbb-0000-4000-8000-000000000003 "09aaaaaa-0000-4000-8000-000000000001" 2026-05-01 10:00, '
        '09aaaaaa-1111-4111-8111-000000000002 "second" 2026-05-01 10:00, 09aaaaaa-0000-4000-8000-000000000001 "first" 2026-05-01 10:00')


def test_a_desktop_id_is_no_transcript(config: Path) -> None:
    projects = lay_out_case(config, "09-id-forms")
    message = refusal("local_0dd0f00d-0000-4000-8000-000000000001")
    assert message.startswith(f"no such session: 0dd0f00d-0000-4000-8000-000000000001 (looked in 1 folders of {projects})")


@pytest.mark.parametrize("reference", ["", " ", "*", "..", "--", "?!"])
def test_a_reference_without_a_word_is_refused(config: Path, reference: str) -> None:
    lay_out_case(config, "09-id-forms")
    parser = cc.build_base_parser("find.py", "", "", 28_000)
    arguments = cc.parse_arguments(parser, ["--project", ORCHARD, "--", reference])
    arguments.ref = [reference]
    with pytest.raises(cc.Refusal) as refused:
        cc.find_session(arguments)
    assert str(refused.value) == f"no such session: '{reference.strip()}' is no name; give a title, an id, a prefix of 4 or more, or a path"


@pytest.mark.parametrize("reference", ["../../etc/passwd", "/etc/passwd", "../x", "%s", "09b", "*.jsonl", "09aaaaaa*", "$(touch x)"])
def test_an_unsafe_reference_opens_nothing_outside_the_projects(config: Path, reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    projects = str(lay_out_case(config, "09-id-forms"))
    opened: list[str] = []
    real_open, real_listdir = builtins.open, os.listdir

    def noting_open(path: object, *more: object, **named: object) -> object:
        opened.append(str(path))
        return real_open(path, *more, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(builtins, "open", noting_open)
    monkeypatch.setattr(os, "listdir", lambda folder: opened.append(str(folder)) or real_listdir(folder))
    message = refusal(reference)
    monkeypatch.undo()
    assert reference in message
    assert [path for path in opened if not (path + os.sep).startswith(projects + os.sep)] == []


@pytest.mark.parametrize("reference", ["*", "../../etc/passwd", "nope", "09bb*"])
def test_an_unsafe_id_is_refused(config: Path, reference: str) -> None:
    projects = lay_out_case(config, "09-id-forms")
    message = refusal("--id", reference)
    assert message.startswith("no such session: ") and reference in message
    assert reference == "*" or str(projects) in message


def test_an_id_option_takes_the_file_name_too(config: Path) -> None:
    lay_out_case(config, "09-id-forms")
    assert number_of(find("--id", " 09AAAAAA-0000-4000-8000-000000000001.jsonl")) == "1"


def test_an_upper_case_file_name_is_found_and_kept(config: Path) -> None:
    path = talk(config, A.upper())
    assert find(A).path == str(path)


def test_of_two_copies_the_one_with_the_newest_conversation_counts(config: Path) -> None:
    stub = config / "projects" / "-aaa" / f"{A}.jsonl"
    stub.parent.mkdir(parents=True)
    stub.write_text("")
    old = talk(config, A, 0, folder="-home-ada-old")
    newer = talk(config, A, 30)
    os.utime(old)
    assert find(A).path == str(newer)


def test_only_one_session_can_be_named(config: Path) -> None:
    lay_out_case(config, "09-id-forms")
    for words in (("--latest", "first"), ("--id", "x", "--title", "y"), ("--file", "x", "first")):
        assert refusal(*words) == (
            "more than one session is named; give one of REF, --id, --title, --file, --latest, and put a title with blanks in quotes")


# --------------------------------------------------------------------------------------------------------- sub-agents


def test_latest_is_never_a_sub_agent(config: Path) -> None:
    lay_out_case(config, "10-subagent-files")
    assert number_of(find()) == "1"
    assert os.path.basename(find("10aa").path) == "10aaaaaa-0000-4000-8000-000000000001.jsonl"


@pytest.mark.parametrize("reference", ["agent-a1b2c3d", "agent-a1b2c3d.jsonl", "agent-a9f8e7d"])
def test_a_sub_agent_is_refused_with_its_parent(config: Path, reference: str) -> None:
    lay_out_case(config, "10-subagent-files")
    name = reference.replace(".jsonl", "")
    assert refusal(reference) == f"{name} is a sub-agent of session 10aaaaaa-0000-4000-8000-000000000001; name that session"


def test_a_sub_agent_of_a_workflow_is_refused_with_its_parent(config: Path) -> None:
    folder = lay_out_case(config, "10-subagent-files") / FOLDER / "10aaaaaa-0000-4000-8000-000000000002/subagents/workflows/run1"
    folder.mkdir(parents=True)
    (folder / "agent-b5.jsonl").write_text(row("user", "audit", 1, "10aaaaaa-0000-4000-8000-000000000002", isSidechain=True))
    assert refusal("agent-b5") == "agent-b5 is a sub-agent of session 10aaaaaa-0000-4000-8000-000000000002; name that session"


def test_a_title_may_look_like_a_sub_agents_name(config: Path) -> None:
    talk(config, A, extra=json.dumps({"type": "agent-name", "agentName": "agent-smith", "sessionId": A}) + "\n")
    assert find("agent-smith").path.endswith(f"{A}.jsonl")


def test_a_sub_agent_that_is_not_there(config: Path) -> None:
    projects = lay_out_case(config, "10-subagent-files")
    assert refusal("agent-zzzz").startswith(f"no such session: 'agent-zzzz' is neither id nor title (looked at 2 sessions in {projects}); nearest: ")


def test_the_path_of_a_sub_agents_transcript_is_refused_as_one(config: Path, run_script: Callable[..., subprocess.CompletedProcess[bytes]]) -> None:
    lay_out_case(config, "10-subagent-files")
    path = config / f"projects/{FOLDER}/agent-a1b2c3d.jsonl"
    assert run_script(COMPACT, path).stderr.decode() == (
        f"compact_session.py: no conversation in this session ({path}, a sub-agent's); name another one by id or title\n")


def test_a_sidechain_with_an_id_is_refused(config: Path) -> None:
    lay_out_case(config, "10-subagent-files")
    assert refusal("10aaaaaa-0000-4000-8000-000000000002") == (
        "10aaaaaa-0000-4000-8000-000000000002 is the transcript of a sub-agent, not a session; name the session that started it")


# ------------------------------------------------------------------------------------------------------------- latest


def test_latest_is_the_newest_conversation_a_person_had(config: Path) -> None:
    lay_out_case(config, "11-latest-real-session")
    assert number_of(find()) == "2"
    assert number_of(find("--latest")) == "2"
    assert find().note == "the latest session of this project"


def test_a_headless_session_is_the_latest_only_where_there_is_no_other(config: Path) -> None:
    projects = lay_out_case(config, "11-latest-real-session")
    assert number_of(find("11aaaaaa-0000-4000-8000-000000000006")) == "6"
    for number in "12":
        (projects / FOLDER / f"11aaaaaa-0000-4000-8000-00000000000{number}.jsonl").unlink()
    assert number_of(find()) == "6"


@pytest.mark.parametrize("number", ["3", "4", "5"])
def test_a_session_without_conversation_is_refused_by_the_script(config: Path, run_script: Callable[..., subprocess.CompletedProcess[bytes]], number: str) -> None:
    projects = lay_out_case(config, "11-latest-real-session")
    identifier = f"11aaaaaa-0000-4000-8000-00000000000{number}"
    done = run_script(COMPACT, "--id", identifier)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == (
        f"compact_session.py: no conversation in this session ({projects}/{FOLDER}/{identifier}.jsonl); name another one by id or title\n")


def test_excluded_sessions_are_passed_over(config: Path) -> None:
    for minute, name in ((0, A), (10, B), (20, C)):
        talk(config, name, minute)
    assert find().path.endswith(f"{C}.jsonl")
    assert find("--exclude", C.upper()).path.endswith(f"{B}.jsonl")
    assert find("--exclude", f"{C}.jsonl").path.endswith(f"{B}.jsonl")
    assert find("--exclude", C, "--exclude", B).path.endswith(f"{A}.jsonl")


def test_no_session_at_all(config: Path) -> None:
    assert refusal(project="/nowhere") == (
        f"no session with a conversation in /nowhere (looked in {config}/projects/-nowhere; elsewhere with --project DIR or --all-projects); "
        "is CLAUDE_CONFIG_DIR the client's? A file is named with --file PATH")


def test_no_conversation_case_takes_the_unanswered_prompt(config: Path) -> None:
    lay_out_case(config, "47-no-conversation")
    assert number_of(find()) == "3"


# ----------------------------------------------------------------------------------------------------- the own session


def test_own_session_without_a_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    projects = lay_out_case(config, "12-own-session-env")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "12cccccc-0000-4000-8000-000000000009")
    assert number_of(find()) == "2"
    assert find().note == "the latest session of this project; the own session has no file yet"
    assert refusal("this").startswith(
        f"no such session: 12cccccc-0000-4000-8000-000000000009 (looked in 1 folders of {projects}); "
        "it is this very session, which holds nothing yet; --latest is the one before it; nearest: 12aaaaaa-")
    (projects / "-elsewhere").mkdir()
    (projects / "-elsewhere/12cccccc-0000-4000-8000-000000000009.jsonl").write_text("{}\n")  # as with --project OTHER
    assert find().note == "the latest session of this project"


def test_who_has_no_session_but_the_own_one_is_told_to_clear_it(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As whoever tries the command first: nothing is wrong with the configuration."""
    talk(config, A)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", A)
    assert refusal() == (
        f"no other session with a conversation in {ORCHARD} (looked in {config}/projects/{FOLDER}; elsewhere with --project DIR or --all-projects); "
        "to go on with this one, /clear it first")
    talk(config, B, cwd="/home/ada/barn", folder="-home-ada-barn")
    assert refusal().endswith(f'; to go on with this one, /clear it first; nearest: {B} "hello" 2026-05-01 10:01 in /home/ada/barn')


def test_own_session_is_this_and_never_the_latest(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out_case(config, "12-own-session-env")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "12AAAAAA-0000-4000-8000-000000000001")
    assert (number_of(find()), find().note) == ("2", "the latest session of this project")
    assert number_of(find("this")) == "1"
    assert number_of(find(default="this")) == "1"


def test_this_at_a_shell(config: Path) -> None:
    lay_out_case(config, "12-own-session-env")
    assert refusal("this") == (
        "'this' works only inside Claude Code (CLAUDE_CODE_SESSION_ID is not set); name a session by id or title")


def live_client(config: Path, session: str, pid: int) -> None:
    """The process file of a client that has `session` open."""
    (config / "sessions").mkdir(exist_ok=True)
    (config / "sessions" / f"{pid}.json").write_text(json.dumps({"pid": pid, "sessionId": session, "cwd": ORCHARD, "status": "idle"}))


def test_a_session_open_elsewhere_is_not_the_latest_for_a_caller(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for minute, name in ((0, A), (10, B), (20, C)):
        talk(config, name, minute)
    live_client(config, C.upper(), os.getpid())
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", A)
    assert find().path.endswith(f"{B}.jsonl")
    assert find(C).path.endswith(f"{C}.jsonl")


def test_a_person_at_a_shell_gets_the_live_session_and_is_told(config: Path) -> None:
    for minute, name in ((0, A), (10, B)):
        talk(config, name, minute)
    live_client(config, B, os.getpid())
    found = find()
    assert found.path.endswith(f"{B}.jsonl")
    assert found.note == "the latest session of this project; open in a live client now"


def history(config: Path, *entries: tuple[str, str, str]) -> None:
    """The client's prompt history: (what was typed, project, session)."""
    lines = [json.dumps({"display": text, "pastedContents": {}, "timestamp": 1_777_000_000_000 + at * 1000, "project": project, "sessionId": session})
             for at, (text, project, session) in enumerate(entries)]
    (config / "history.jsonl").write_text("\n".join(lines) + "\n")


def test_the_session_just_cleared_comes_first(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(config, A, 0)
    talk(config, B, 30)  # newer, but another client's
    history(config, ("hello", ORCHARD, A), ("hello", ORCHARD, B), ("/clear", ORCHARD, A), ("/cc-compact", ORCHARD, C))
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", C)
    assert find().path.endswith(f"{A}.jsonl")
    assert find().note == "the session that /clear ended"


def test_a_clear_of_another_project_says_nothing(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(config, A, 0)
    talk(config, B, 30)
    history(config, ("hello", ORCHARD, A), ("/clear", "/home/ada/barn", A), ("/cc-compact", ORCHARD, C))
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", C)
    assert find().path.endswith(f"{B}.jsonl")


# ------------------------------------------------------------------------------------------------------------- titles


@pytest.mark.parametrize(("title", "number"), [
    ("Pump Plan", "1"), ("pump plan", "1"), (" PUMP PLAN ", "1"),
    ("Valve Audit", "2"),
    ("Moss study", "3"),
    ("gate-bot", "4"),
    ("talk 4", "5"),
    ("Harvest", "7"),
    ("talk 7", "8"),
])
def test_titles(config: Path, title: str, number: str) -> None:
    lay_out_case(config, "13-title-rules")
    assert number_of(find(title)) == number
    assert number_of(find("--title", title)) == number
    assert find(title).note == ""


def test_two_sessions_of_one_title_newest_taken_other_named(config: Path) -> None:
    lay_out_case(config, "13-title-rules")
    assert find("Harvest").others == ['13aaaaaa-0000-4000-8000-000000000006 "Harvest" 2026-05-01 10:00']


def test_an_old_copy_of_a_session_is_no_other_match(config: Path) -> None:
    talk(config, A, 0, folder="-home-ada-old", cwd="/home/ada/old")
    newer = talk(config, A, 30)
    talk(config, B, 0)
    found = find("--all-projects", "hello")
    assert (found.path, found.others) == (str(newer), [f'{B} "hello" 2026-05-01 10:01'])


@pytest.mark.parametrize("title", ["Draft", "Auditing valves", "Cleared", "Old summary", "zzz"])
def test_a_title_that_no_session_goes_by(config: Path, title: str) -> None:
    projects = lay_out_case(config, "13-title-rules")
    message = refusal(title)
    assert message.startswith(f"no such session: '{title}' ") and f" in {projects})" in message and "; nearest: " in message


def test_an_old_summary_is_a_suggestion(config: Path) -> None:
    lay_out_case(config, "13-title-rules")
    assert "13aaaaaa-0000-4000-8000-000000000005" in refusal("Old summary").partition("nearest: ")[2]


def test_part_of_a_title(config: Path) -> None:
    lay_out_case(config, "13-title-rules")
    found = find("Pump")
    assert (number_of(found), found.note) == ("1", "part of the title")


def test_this_project_beats_others_and_whole_beats_part(config: Path) -> None:
    rename = '{{"type":"custom-title","customTitle":"{}","sessionId":"x"}}\n'
    talk(config, A, 0, extra=rename.format("Pear list of May"))
    talk(config, B, 30, cwd="/home/ada/barn", folder="-home-ada-barn", extra=rename.format("Pear list"))
    found = find("pear LIST")
    assert (found.path.endswith(f"{B}.jsonl"), found.note) == (True, "from another project")
    found = find("pear")
    assert (found.path.endswith(f"{A}.jsonl"), found.note) == (True, "part of the title")
    assert find("pear list of").note == "part of the title"
    for widely in ("--all-projects", "--title=pear"), ("--all-projects", "pear"):
        assert find(*widely).path.endswith(f"{A}.jsonl")  # all are looked at, whatever is said: the newer one elsewhere still gives way


def test_a_title_far_from_both_ends_of_a_large_file_is_found(config: Path) -> None:
    path = talk(config, A)
    rename = '{"type":"custom-title","customTitle":"In the middle","sessionId":"x"}\n'
    noise = "".join(row("user", "word " * 200, 2, A) for _ in range(400))
    path.write_text(path.read_text() + noise + rename + noise)
    assert find("in the middle").path == str(path)


def test_titles_in_a_spaced_file(config: Path) -> None:
    path = talk(config, A, extra='{"type": "custom-title", "customTitle": "Spaced out", "sessionId": "x"}\n')
    assert find("spaced out").path == str(path)


@pytest.mark.parametrize(("number", "title"), [
    ("1", "Fix the drip line in bed 4"), ("2", "/deploy staging"), ("3", "Count the hives"), ("4", "[image]")])
def test_title_from_the_first_words_of_a_person(config: Path, run_script: Callable[..., subprocess.CompletedProcess[bytes]], number: str, title: str) -> None:
    path = lay_out_case(config, "15-title-from-first-prompt") / FOLDER / f"15aaaaaa-0000-4000-8000-00000000000{number}.jsonl"
    card = cc.read_card(str(path))
    assert card is not None and cc.file_title(card.path) == title
    assert cc.session_title(cc.read_conversation(cc.read_transcript(str(path)))) == title
    assert find(title).path == str(path)


def test_a_session_is_titled_by_the_words_that_find_it_also_when_they_were_rewound(config: Path) -> None:
    path = talk(config, A, extra=row("user", "better words", 5, A) + row("assistant", "ok", 6, A, parent="aaaaaaaa-0005"))
    title = cc.session_title(cc.read_conversation(cc.read_transcript(str(path))))
    assert title == cc.file_title(str(path)) == "hello" and find(title).path == str(path)


def test_a_summary_of_another_file_is_no_title(config: Path) -> None:
    lay_out_case(config, "15-title-from-first-prompt")
    assert refusal("Someone else's work").startswith("no such session: 'Someone else's work' ")


# -------------------------------------------------------------------------------------------- refusals as a person sees


@pytest.mark.parametrize("words", [["nope"], ["--id", "*"], ["../../etc/passwd"], ["%s"], ["--title", ""], ["--title", "a\nb"], ["this"], ["--file", "gone.jsonl"],
                                   ["--file", "."], ["--file", ""], ["--id", ""], ["nul\x1b[31m"], ["09aa"], ["--latest", "x"], ["agent-x"], ["\udcff\udcfe"]])
def test_a_refusal_is_one_line_on_stderr(config: Path, run_script: Callable[..., subprocess.CompletedProcess[bytes]], words: list[str]) -> None:
    lay_out_case(config, "09-id-forms")
    done = run_script(COMPACT, "--project", ORCHARD, *words)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"compact_session.py: ") and done.stderr.endswith(b"\n")
    assert done.stderr.count(b"\n") == 1 and done.stderr.decode("utf-8") and b"\x1b" not in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.parametrize(("path", "message"), [
    ("gone.jsonl", "gone.jsonl does not exist; give the path of a .jsonl file"),
    (".", ". is a directory, not a transcript; give the path of a .jsonl file"),
])
def test_a_path_that_is_no_transcript(config: Path, run_script: Callable[..., subprocess.CompletedProcess[bytes]], path: str, message: str) -> None:
    done = run_script(COMPACT, "--file", path)
    assert done.stderr.decode() == f"compact_session.py: {message}\n"


# ------------------------------------------------------------------------------------- refusals that say where to look next


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """A function that takes the right to read a file away, also from root, whom no mode bit stops."""

    def take_away(path: Path) -> None:
        real_open, real_access = builtins.open, os.access

        def guarded(file: object, *args: object, **named: object) -> object:
            if str(file) == str(path):
                raise PermissionError(13, "Permission denied", str(path))
            return real_open(file, *args, **named)  # type: ignore[call-overload]

        monkeypatch.setattr(builtins, "open", guarded)
        monkeypatch.setattr(os, "access", lambda file, mode: str(file) != str(path) and real_access(file, mode))

    return take_away


@pytest.mark.parametrize("words", [[A], ["--id", A], ["aaaaaaaa"]])
def test_a_named_session_that_cannot_be_read_is_not_called_unknown(config: Path, forbid: Callable[[Path], None], words: list[str]) -> None:
    path = talk(config, A)
    forbid(path)
    assert refusal(*words) == f"cannot read {path}: Permission denied; check the path and its permissions"


@pytest.mark.parametrize("words", [[], ["some title"], ["--all-projects"]])
def test_a_search_that_finds_nothing_says_what_it_could_not_read(config: Path, forbid: Callable[[Path], None], words: list[str]) -> None:
    path = talk(config, A)
    forbid(path)
    assert f"; not permitted to read {path}: check the permissions" in refusal(*words)


def test_of_a_moved_project_the_old_directory_is_named(config: Path, tmp_path: Path) -> None:
    new, other = tmp_path / "orchard", tmp_path / "other"
    new.mkdir()
    other.mkdir()
    talk(config, A, cwd=str(other), folder="-other")
    talk(config, B, cwd="/gone/barn", folder="-gone-barn")
    assert f'; nearest: {B} "hello" 2026-05-01 10:01 in /gone/barn, {A} ' in refusal(project=str(new))
    talk(config, C, cwd="/gone/orchard", folder="-gone-orchard")  # of the same name, and so the likeliest
    assert f'; nearest: {C} "hello" 2026-05-01 10:01 in /gone/orchard, {B} ' in refusal(project=str(new))
    assert find(project="/gone/orchard").path.endswith(f"{C}.jsonl")


def test_where_no_directory_is_gone_the_newest_sessions_elsewhere_are_named(config: Path, tmp_path: Path) -> None:
    talk(config, A, cwd=str(tmp_path), folder="-other")
    assert refusal(project="/nowhere").endswith(f'; nearest: {A} "hello" 2026-05-01 10:01 in {tmp_path}')


def test_with_all_projects_nothing_already_done_is_advised(config: Path) -> None:
    assert refusal("--all-projects") == (
        f"no session with a conversation in any project (looked in {config}/projects); is CLAUDE_CONFIG_DIR the client's? A file is named with --file PATH")


def test_of_a_pruned_session_what_the_prompt_history_keeps_is_said(config: Path) -> None:
    entries = [{"display": text, "timestamp": 1_777_000_000_000, "project": ORCHARD, "sessionId": A} for text in ("prune the pears", "/clear", "and the plums")]
    (config / "history.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert refusal(A).endswith(
        "; its transcript is gone, but a search with --history finds what was typed in it")


def test_a_directory_as_a_reference_is_called_one(config: Path, tmp_path: Path) -> None:
    assert refusal(str(tmp_path)) == f"{tmp_path} is a directory, not a transcript; give the path of a .jsonl file in it, or --project {tmp_path} for its latest session"


def test_the_folder_beside_a_session_names_it(config: Path) -> None:
    """What a shell completes to: it holds the id."""
    path = talk(config, A)
    path.with_suffix("").mkdir()
    assert find(f"{path.with_suffix('')}/").path == str(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("script", ["cc-compact/compact_session.py", "cc-query-chat/query_session.py", "cc-fork/fork_session.py"])
def test_a_pipe_is_refused_and_not_waited_for(config: Path, run_script: Callable[..., subprocess.CompletedProcess[bytes]], tmp_path: Path, script: str) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for words in (["--file", "pipe.jsonl"], ["--file", "pipe.jsonl", *(["--list"] if "query" in script else [])]):
        done = run_script(COMPACT.parent.parent / script, *words, *(["word"] if "query" in script and "--list" not in words else []))
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.decode().endswith(": pipe.jsonl is no regular file; give the path of a .jsonl file\n")


def test_a_blank_title_is_none(config: Path) -> None:
    talk(config, A, prompt="count the hives", extra='{"type":"custom-title","customTitle":"  ","sessionId":"x"}\n{"type":"agent-name","agentName":"\\t","sessionId":"x"}\n')
    assert find("count the hives").path.endswith(f"{A}.jsonl")
    assert cc.session_title(cc.read_conversation(cc.read_transcript(find().path))) == "count the hives"


def test_an_empty_session_cleared_in_its_turn_is_passed_over(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/clear twice in a row: the session between holds nothing but the command."""
    talk(config, A, 0)
    talk(config, B, 30)  # newer, but another client's
    own = "dddddddd-0000-4000-8000-000000000004"
    for at, name in ((1, C), (2, own)):
        cleared = {"parentUuid": None, "isSidechain": False, "type": "user", "message": {"role": "user", "content": "<command-name>/clear</command-name>"},
               "uuid": name, "timestamp": f"2026-04-24T03:06:4{at}.010Z", "cwd": ORCHARD, "sessionId": name}
        (config / "projects/-home-ada-orchard" / f"{name}.jsonl").write_text(json.dumps(cleared) + "\n")
    history(config, ("hello", ORCHARD, A), ("/clear", ORCHARD, A), ("/clear", ORCHARD, C))
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", own)
    assert find().path.endswith(f"{A}.jsonl")
    assert find().note == "the session that /clear ended"


@pytest.mark.parametrize(("excluded", "left"), [(B, A), (B[:8], A), (f"{B.upper()}.jsonl", A), ("", B), (A, B), ("cccc", B)])
def test_excluded_by_its_id_or_the_beginning_of_it(config: Path, excluded: str, left: str) -> None:
    talk(config, A, 0)
    talk(config, B, 30)
    assert find("--exclude", excluded).path.endswith(f"{left}.jsonl")
