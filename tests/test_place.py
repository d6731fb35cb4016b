"""Where sessions lie: folder names, hashes, configuration roots, worktrees, live clients, the prompt history."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import cc_transcript as cc
import pytest
from conftest import ROOT

CASES = Path(__file__).parent / "cases"
FIXTURES = Path(__file__).parent / "fixtures"
VECTORS = [*json.loads((CASES / "01-encode-path/encoding.json").read_text("utf-8")), *json.loads((CASES / "02-encode-long-path/encoding.json").read_text("utf-8"))]
ROOTS = json.loads((CASES / "05-config-dir-env/env.json").read_text("utf-8"))


def test_there_are_vectors() -> None:
    assert (len(VECTORS), len(ROOTS)) == (14, 8)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector.get("why", f"{len(vector['cwd'])} characters") for vector in VECTORS])
def test_folder_of_a_directory(vector: dict[str, str]) -> None:
    assert cc.folder_name(vector["cwd"]) == vector["dir"]


@pytest.mark.parametrize(("directory", "folder"), [
    ("/home/ada/my_app", "-home-ada-my-app"),
    ("C:\\Users\\Ada\\proj", "C--Users-Ada-proj"),
    ("c:\\Users\\Ada\\proj", "c--Users-Ada-proj"),
    ("\\\\server\\share\\x", "--server-share-x"),
    ("/a/\ud800b", "-a--b"),  # a lone surrogate is one unit
    ("/a/b c\n", "-a-b-c-"),
    ("", ""),
])
def test_folder_of_odd_directories(directory: str, folder: str) -> None:
    assert cc.folder_name(directory) == folder


def test_real_folders_of_the_client_are_met() -> None:
    """The real client made these: a blank, an accent, an umlaut, Chinese, and more than 200 units."""
    root = FIXTURES / "v332_path_names/projects"
    for path in root.glob("*/*.jsonl"):
        seen = {json.loads(line).get("cwd") or "" for line in path.read_bytes().split(b"\n") if line}
        (cwd,) = (directory for directory in seen if directory.startswith("/"))  # the others are snapshots, their texts replaced
        assert cc.folder_name(cwd) == path.parent.name
    assert len(list(root.iterdir())) == 5


def test_200_units_have_no_hash_and_201_have() -> None:
    assert cc.folder_name("/" + "a" * 199) == "-" + "a" * 199
    assert cc.folder_name("/" + "a" * 200) == "-" + "a" * 199 + "-b6ymvl"


@pytest.mark.parametrize(("text", "digits"), [
    ("", "0"), ("a", "2p"), ("abc", "22ci"),
    ("polygenelubricants", "zik0zk"),  # its hash is -2**31, whose absolute value does not fit in 32 bits
])
def test_hash(text: str, digits: str) -> None:
    assert cc.path_hash(text) == digits


@pytest.mark.parametrize(("text", "units"), [("", 0), ("abc", 3), ("caf\u00e9", 4), ("\u6587\u6863", 2), ("p\U0001F600q", 4), ("\ud83d", 1), ("\ud83d\ude00", 2)])
def test_utf16_length(text: str, units: int) -> None:
    assert cc.utf16_length(text) == units


# ----------------------------------------------------------------------------------------------------- configuration


@pytest.mark.parametrize("row", ROOTS[:7], ids=[json.dumps(row["env"]) for row in ROOTS[:7]])
def test_folder_by_environment(row: dict[str, object], config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The case's working directory cannot be made here, so a folder below tmp_path stands for it where the path is relative."""
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    for name, value in row["env"].items():  # type: ignore[attr-defined]
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", "/home/someone")
    here = tmp_path / "orchard"
    here.mkdir()
    monkeypatch.chdir(here)
    wanted = str(row["folder"]).replace("$HOME", "/home/someone").replace("/home/ada/orchard/~", f"{os.path.realpath(here)}/~")
    assert cc.project_folders(str(row["cwd"]))[0] == wanted


def test_empty_config_dir_reads_home_and_then_the_projects_here(config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "")
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.chdir(tmp_path)
    assert cc.project_folders("/home/ada/orchard") == [
        "/home/someone/.claude/projects/-home-ada-orchard", f"{os.path.realpath(tmp_path)}/projects/-home-ada-orchard"]


def test_a_decomposed_config_dir_is_composed(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/srv/cafe\u0301")
    assert cc.config_root() == "/srv/caf\u00e9"


def test_the_project_name_alone_has_no_effect(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("CLAUDE_CODE_PROJECT_DIR_NAME", "short")
    assert cc.project_folders("/x") == ["/home/someone/.claude/projects/-x"]


def test_decomposed_directory_under_its_own_name_first(config: Path) -> None:
    assert [os.path.basename(path) for path in cc.project_folders("/home/ada/cafe\u0301")] == ["-home-ada-cafe-", "-home-ada-caf-"]


def test_folders_with_another_hash_are_candidates(config: Path) -> None:
    """Other clients hash a long path differently; the session's cwd has to prove such a folder."""
    shutil.copytree(CASES / "02-encode-long-path/projects", config / "projects")
    long = VECTORS[11]["cwd"]
    assert [os.path.basename(path)[-6:] for path in cc.project_folders(long)] == ["dt7wbc", "br1qlx", "zz9zz9"]


def test_environment_is_read_when_needed(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/one")
    assert cc.projects_roots() == ["/one/projects"]
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/two")
    assert cc.projects_roots() == ["/two/projects"]


def test_only_transcripts_are_listed(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "agent-x.jsonl", "a.json", "a.jsonl.bak", "notes.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / "a/c.jsonl").write_text("")
    assert list(cc.session_files([str(tmp_path), str(tmp_path / "gone")])) == [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]


# --------------------------------------------------------------------------------------------------------- worktrees


def git(*words: object) -> None:
    subprocess.run(["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *map(str, words)], check=True, capture_output=True)


@pytest.fixture
def trees(tmp_path: Path) -> tuple[str, str, str]:
    """A repository and two linked working trees of it: (main, left, right)."""
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    root = Path(os.path.realpath(tmp_path))
    main, left, right = root / "main", root / "left tree", root / "main/.claude/right"
    git("init", "-q", main)
    git("-C", main, "commit", "-q", "--allow-empty", "-m", "start")
    git("-C", main, "worktree", "add", "-q", "-b", "left", left)
    git("-C", main, "worktree", "add", "-q", "-b", "right", right)
    return str(main), str(left), str(right)


def test_worktrees_of_a_repository(trees: tuple[str, str, str]) -> None:
    main, left, right = trees
    os.mkdir(os.path.join(main, "src"))
    assert sorted(cc.worktrees(main)) == sorted([left, right])
    assert cc.worktrees(os.path.join(main, "src"))[0] == main  # the tree that one stands in is nearer than any other
    assert sorted(cc.worktrees(os.path.join(main, "src"))) == sorted([main, left, right])
    assert sorted(cc.worktrees(left)) == sorted([main, right])
    assert sorted(cc.worktrees(right)) == sorted([main, left])


def test_the_working_trees_are_those_that_git_names(trees: tuple[str, str, str]) -> None:
    """A bare repository is none, and neither is what holds it; a submodule is another repository; pointers may be relative."""
    main, left, right = trees
    root = Path(main).parent
    git("clone", "-q", "--bare", main, root / "below/bare.git")
    for name in ("one", "two"):
        git("-C", root / "below/bare.git", "worktree", "add", "-q", "-b", name, root / "below" / name)
    assert cc.worktrees(str(root / "below/one")) == [str(root / "below/two")]
    git("-C", main, "-c", "protocol.file.allow=always", "submodule", "add", "-q", main, "part")
    assert cc.worktrees(os.path.join(main, "part")) == []
    place = Path((root / "left tree/.git").read_text().partition("gitdir: ")[2].strip())  # git's own name for it has no blank
    (place / "gitdir").write_text("../../../../left tree/.git\n")
    (root / "left tree/.git").write_text(f"gitdir: ../main/.git/worktrees/{place.name}\n")
    assert sorted(cc.worktrees(main)) == sorted([left, right])
    assert sorted(cc.worktrees(left)) == sorted([main, right])


def test_no_repository_no_worktrees(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert cc.worktrees(str(tmp_path / "plain")) == []
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/.git").write_text("nonsense")
    assert cc.worktrees(str(tmp_path / "odd")) == []


def test_a_session_of_another_worktree_is_found(trees: tuple[str, str, str], config: Path) -> None:
    main, left, _ = trees
    folder = config / "projects" / cc.folder_name(left)
    folder.mkdir(parents=True)
    record = {"parentUuid": None, "isSidechain": False, "type": "user", "message": {"role": "user", "content": "hi"}, "uuid": "u", "timestamp": "2026-05-01T10:00:00Z", "cwd": left}
    path = folder / "aaaaaaaa-0000-4000-8000-000000000001.jsonl"
    path.write_text(json.dumps(record) + "\n")
    found = cc.latest_session(main, False, set())
    assert (found.path, found.note) == (str(path), f"the latest session of this project, from {left}: {main} has none")


def test_below_the_top_of_a_tree_its_own_sessions_are_taken(trees: tuple[str, str, str], config: Path) -> None:
    main, left, _ = trees
    os.mkdir(os.path.join(main, "src"))
    for at, tree in enumerate((main, left)):  # the other tree's is the newer one
        path = config / "projects" / cc.folder_name(tree) / f"aaaaaaaa-0000-4000-8000-00000000000{at}.jsonl"
        path.parent.mkdir(parents=True)
        record = {"parentUuid": None, "isSidechain": False, "type": "user", "message": {"role": "user", "content": "hi"}, "uuid": "u"}
        path.write_text(json.dumps({**record, "timestamp": f"2026-05-01T1{at}:00:00Z", "cwd": tree}) + "\n")
    assert cc.latest_session(os.path.join(main, "src"), False, set()).path.endswith("0.jsonl")


def test_the_callers_own_session_does_not_hide_those_of_the_other_trees(
    trees: tuple[str, str, str], config: Path, monkeypatch: pytest.MonkeyPatch, run_script: Callable[..., subprocess.CompletedProcess[bytes]]
) -> None:
    """In a new worktree the only session is the one that asks; whether it has said a word yet changes nothing."""
    main, left, _ = trees
    ids = [f"{letter * 8}-0000-4000-8000-000000000001" for letter in "ab"]
    for tree, name in zip((main, left), ids):
        path = config / "projects" / cc.folder_name(tree) / f"{name}.jsonl"
        path.parent.mkdir(parents=True)
        record = {"parentUuid": None, "isSidechain": False, "type": "user", "message": {"role": "user", "content": "hi"}, "uuid": "u"}
        path.write_text(json.dumps({**record, "timestamp": "2026-05-01T10:00:00Z", "cwd": tree}) + "\n")
    done = run_script(ROOT / "skills/cc-query-chat/query_session.py", "--list", "--project", left, env={"CLAUDE_CODE_SESSION_ID": ids[1]})
    assert [found.get("id") for found in ElementTree.fromstring(done.stdout).iter("session")] == ids[:1]
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", ids[1])
    found = cc.latest_session(left, False, set())
    assert (os.path.basename(found.path), found.note) == (f"{ids[0]}.jsonl", f"the latest session of this project, from {main}: {left} has no other")


def test_real_worktree_fixture(config: Path) -> None:
    """Sessions that the real client wrote in two working trees carry the cwd of their own."""
    shutil.copytree(FIXTURES / "v332_worktree/projects", config / "projects")
    assert os.path.basename(cc.latest_session("/home/dev/wt/proj_one_side", False, set()).path) == "ea12655f-cf0b-4847-8a3a-2687c7856ee0.jsonl"


# ------------------------------------------------------------------------------------------------------ live clients


def dead_pid() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_live_clients(config: Path) -> None:
    folder = config / "sessions"
    assert cc.live_clients() == {}
    folder.mkdir()
    for name, content in (
            ("1.json", json.dumps({"pid": os.getpid(), "sessionId": "AAAA", "cwd": "/x"})),
            ("2.json", json.dumps({"pid": dead_pid(), "sessionId": "bbbb"})),
            ("3.json", "not json"), ("4.json", "[]"), ("5.json", json.dumps({"pid": "7", "sessionId": "cccc"})),
            ("6.json", json.dumps({"pid": os.getpid()})), ("7.json", json.dumps({"pid": -1, "sessionId": "dddd"})), ("8.json", ""),
            ("9.json", json.dumps({"pid": 1 << 70, "sessionId": "eeee"})), ("10.json", json.dumps({"pid": 0, "sessionId": "ffff"})),
            ("11.json", json.dumps({"pid": True, "sessionId": "abab"}))):
        (folder / name).write_text(content)
    (folder / "folder").mkdir()
    assert cc.live_clients() == {"aaaa": "/x"}


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="only Linux tells when a process began")
def test_a_crashed_clients_number_that_is_used_again_is_no_client(config: Path) -> None:
    """Client 2.1.332 writes procStart, the 22nd field of /proc/<pid>/stat, and leaves the files of the crashed where they are."""
    began = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19]
    (config / "sessions").mkdir()
    for name, start in (("aaaa", began), ("bbbb", "5"), ("cccc", "Mon Nov 30 2026"), ("dddd", None)):
        (config / f"sessions/{name}.json").write_text(json.dumps({"pid": os.getpid(), "sessionId": name, "cwd": "/x", "procStart": start}))
    assert sorted(cc.live_clients()) == ["aaaa", "cccc", "dddd"]


def test_a_process_of_somebody_else_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", kill)
    assert cc.is_running(1)


# ------------------------------------------------------------------------------------------------------------ history


P = "/home/ada/orchard"


def write_history(config: Path, *entries: tuple[str, str, str]) -> None:
    lines = [json.dumps({"display": text, "pastedContents": {}, "timestamp": 1_777_000_000_000 + 1000 * at, "project": project, "sessionId": session})
             for at, (text, project, session) in enumerate(entries)]
    (config / "history.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_history_is_read_as_it_was_typed(config: Path) -> None:
    (config / "history.jsonl").write_bytes(
        b'{"display":"one","timestamp":1777000000500,"project":"/x","sessionId":"ABC"}\n'
        b'\nnull\n{"display":5}\n{"torn": \n'
        b'{"display":"two","project":"/x","sessionId":"def"}\n')
    assert list(cc.prompt_history()) == [
        cc.Typed("one", 1_777_000_000.5, "/x", "abc"), cc.Typed("", 0.0, "", ""), cc.Typed("two", 0.0, "/x", "def")]


def test_no_history(config: Path) -> None:
    assert list(cc.prompt_history()) == []
    assert cc.cleared_session("a", P) is None


def test_cleared_session(config: Path) -> None:
    write_history(config, ("hello", P, "a"), ("/clear", P, "a"), ("go on", P, "b"))
    assert cc.cleared_session("b", P) == "a"
    assert cc.cleared_session("a", P) is None


def test_cleared_session_a_session_that_has_typed_nothing_yet(config: Path) -> None:
    write_history(config, ("hello", P, "a"), ("/clear", P, "a"))
    assert cc.cleared_session("b", P) == "a"


def test_a_clear_with_blanks_and_arguments(config: Path) -> None:
    write_history(config, ("hello", P, "a"), (" /clear ", P, "a"), ("go on", P, "b"))
    assert cc.cleared_session("b", P) == "a"
    write_history(config, ("hello", P, "a"), ("/clearly not", P, "a"), ("go on", P, "b"))
    assert cc.cleared_session("b", P) is None


def test_other_clients_write_between_the_clear_and_the_first_prompt(config: Path) -> None:
    write_history(config, ("hello", P, "a"), ("hi", P, "x"), ("/clear", P, "a"), ("still here", P, "x"), ("elsewhere", "/y", "y"), ("go on", P, "b"))
    assert cc.cleared_session("b", P) == "a"


def test_a_spent_clear_is_not_used_again(config: Path) -> None:
    write_history(config, ("hello", P, "a"), ("/clear", P, "a"), ("go on", P, "b"), ("new window", P, "c"))
    assert cc.cleared_session("b", P) == "a"
    assert cc.cleared_session("c", P) is None


def test_cleared_twice(config: Path) -> None:
    write_history(config, ("hello", P, "a"), ("/clear", P, "a"), ("go on", P, "b"), ("/clear", P, "b"), ("further", P, "c"))
    assert cc.cleared_session("c", P) == "b"
    assert cc.cleared_session("b", P) == "a"


@pytest.mark.parametrize("typed", ["/clear", "/clear apples", "/reset", "/new", "/new apples"])
def test_clear_by_its_other_names_and_with_a_name(config: Path, typed: str) -> None:
    """Tried on client 2.1.332: the history has what was typed, the new file /clear and the name, which is the old session's."""
    write_history(config, ("hello", P, "a"), ("hi", P, "x"), (typed, P, "a"), ("still here", P, "x"), ("go on", P, "b"))
    assert cc.cleared_session("b", P) == "a"
    session_begun_by_clear(config, "b", "2026-04-24T03:06:42.010Z", typed.partition(" ")[2])
    assert cc.cleared_session("b", P) == "a"


def session_begun_by_clear(config: Path, session: str, stamp: str, name: str = "") -> None:
    """A session file as the client begins it after /clear: the command stands in its head."""
    path = config / "projects/-home-ada-orchard" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "<command-name>/clear</command-name>\n<command-message>clear</command-message>\n<command-args>" + name + "</command-args>"
    rows = [("user", text, stamp), ("user", "go on", stamp)]
    path.write_text("".join(json.dumps({
        "parentUuid": None, "isSidechain": False, "type": kind, "message": {"role": kind, "content": said}, "uuid": f"{session}-{at}", "timestamp": when, "cwd": P}) + "\n"
        for at, (kind, said, when) in enumerate(rows)))


def test_the_head_of_the_new_file_tells_which_of_two_clears(config: Path) -> None:
    """Two clients in one project both cleared, and the second new session typed first."""
    write_history(config, ("hello", P, "a"), ("hi", P, "x"), ("/clear", P, "a"), ("hm", P, "x"), ("hm", P, "x"), ("hm", P, "x"), ("hm", P, "x"), ("hm", P, "x"),
                  ("hm", P, "x"), ("hm", P, "x"), ("hm", P, "x"), ("hm", P, "x"), ("/clear", P, "x"), ("go on", P, "y"), ("go on", P, "b"))
    session_begun_by_clear(config, "b", "2026-04-24T03:06:42.010Z")  # the history's third entry is at 1777000002
    session_begun_by_clear(config, "y", "2026-04-24T03:06:52.010Z")
    assert cc.cleared_session("b", P) == "a"
    assert cc.cleared_session("y", P) == "x"


def test_a_clear_after_the_session_was_moved_to_another_directory(config: Path) -> None:
    """Tried on client 2.1.332: /cd moves the file to the other directory's folder; the history keeps the directory of before."""
    write_history(config, ("hello", "/home/ada/old", "a"), ("hi", "/elsewhere", "x"), ("/clear", "/elsewhere", "x"), ("/clear", "/home/ada/old", "a"))
    session_begun_by_clear(config, "b", "2026-04-24T03:06:42.010Z")
    (config / "projects/-elsewhere").mkdir()
    (config / "projects/-elsewhere/x.jsonl").touch()
    assert cc.cleared_session("b", P) is None  # a's file is in neither folder
    (config / "projects/-home-ada-orchard/a.jsonl").touch()
    assert cc.cleared_session("b", P) == "a"


def test_a_session_that_no_clear_began(config: Path) -> None:
    write_history(config, ("hello", P, "a"), ("/clear", P, "a"), ("go on", P, "b"))
    path = config / "projects/-home-ada-orchard/b.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"parentUuid": None, "type": "user", "message": {"role": "user", "content": "go on"}, "uuid": "u", "timestamp": "2026-04-24T03:06:42Z"}) + "\n")
    assert cc.cleared_session("b", P) is None


def test_clear_of_the_real_client(config: Path) -> None:
    shutil.copytree(FIXTURES / "v332_tui_compact_then_clear", config, dirs_exist_ok=True)
    assert cc.cleared_session("572906cc-5f3f-4a4d-bd48-c210a869f1cf", "/home/dev/proj_one.app") == "95253da1-08fd-43da-af90-418f05b56e74"
    assert cc.cleared_session("95253da1-08fd-43da-af90-418f05b56e74", "/home/dev/proj_one.app") is None


def test_clear_of_the_real_client_before_the_new_file_is_there(config: Path) -> None:
    shutil.copytree(FIXTURES / "v332_tui_compact_then_clear", config, dirs_exist_ok=True)
    (config / "projects/-home-dev-proj-one-app/572906cc-5f3f-4a4d-bd48-c210a869f1cf.jsonl").unlink()
    assert cc.cleared_session("572906cc-5f3f-4a4d-bd48-c210a869f1cf", "/home/dev/proj_one.app") == "95253da1-08fd-43da-af90-418f05b56e74"


@pytest.mark.skipif(os.name == "nt", reason="links and pipes of a Unix system")
def test_foreign_entries_beside_sessions_hide_none(config: Path) -> None:
    folder = config / "projects/-home-ada-app"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text("{}\n")
    (folder / "loop.jsonl").symlink_to("loop.jsonl")
    (folder / "nowhere.jsonl").symlink_to("/nowhere/at/all.jsonl")
    (folder / "linked.jsonl").symlink_to("a.jsonl")
    (folder / "folder.jsonl").mkdir()
    os.mkfifo(folder / "pipe.jsonl")
    (config / "projects/round").symlink_to("round")
    (config / "projects/-home-ada-an-old-name").symlink_to("-home-ada-app")
    assert cc.all_folders() == [str(folder)]
    assert [os.path.basename(path) for path in cc.session_files([str(folder)])] == ["a.jsonl", "linked.jsonl"]
