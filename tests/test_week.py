"""What a heavy user meets in a week: a project that was moved, a session open in another terminal, one of 500 prompts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Optional
from xml.etree import ElementTree

import pytest
from conftest import ROOT
from planted import planted_session, write_session
from test_find_session import A, B, find, live_client, refusal, talk

COMPACT = ROOT / "skills/cc-compact/compact_session.py"
SAMPLE = ROOT / "tests/fixtures/sample/projects/-home-ada-orchard/5a3e1c70-8d42-4b6f-9c15-2f7be0d4a961.jsonl"
EDITED = ("src/orchard/report.py", "src/orchard/cli.py", "tests/test_report.py")
Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """The sample's transcript, as if its project had stood in `old` below tmp_path, where nothing is any more."""
    path = tmp_path / "sample.jsonl"
    path.write_bytes(SAMPLE.read_bytes().replace(b"/home/ada/orchard", str(tmp_path / "old").encode()))
    return path


def fill(directory: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("x")
    directory.mkdir(exist_ok=True)
    return directory


def report(run_script: Run, path: Path, cwd: Path, *options: str) -> ElementTree.Element:
    done = run_script(COMPACT, "--file", path, *options, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, b"")
    return ElementTree.fromstring(done.stdout.decode("utf-8"))


def fates(told: ElementTree.Element) -> dict[Optional[str], Optional[str]]:
    return {edited.text: edited.get("since") for edited in told.iter("edited")}


def test_of_a_moved_project_the_files_are_looked_for_where_we_are(run_script: Run, moved: Path, tmp_path: Path) -> None:
    new = fill(tmp_path / "new", EDITED[:2])
    told = report(run_script, moved, new)
    assert fates(told) == {EDITED[0]: "changed since", EDITED[1]: "changed since", EDITED[2]: "gone"}
    (project,) = told.iter("project")
    assert (project.text, project.get("now")) == (str(tmp_path / "old"), str(new))
    by_name = report(run_script, moved, tmp_path, "--project", str(new))
    assert fates(by_name) == fates(told)


def test_a_project_that_has_one_name_in_common_is_not_the_moved_one(run_script: Run, moved: Path, tmp_path: Path) -> None:
    told = report(run_script, moved, fill(tmp_path / "unlike", EDITED[2:]))
    assert set(fates(told).values()) == {"gone"} and next(told.iter("project")).get("now") == "gone"


def test_of_a_project_in_its_place_nothing_is_said(run_script: Run, moved: Path, tmp_path: Path) -> None:
    fill(tmp_path / "old", EDITED[:1])
    told = report(run_script, moved, fill(tmp_path / "copy", EDITED))
    assert next(told.iter("project")).get("now") is None and fates(told)[EDITED[2]] == "gone"


def test_a_named_session_that_is_open_in_another_terminal_is_said_to_be(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(config, A)
    talk(config, B, 10, extra='{"type":"custom-title","customTitle":"barn","sessionId":"x"}\n')
    live_client(config, B, os.getpid())
    assert (find(B).note, find("bbbb").note, find("barn").note) == ("open in a live client now",) * 3
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", B)
    assert find("this").note == ""  # nobody needs to be told of the terminal they sit at


def test_where_all_sessions_are_open_elsewhere_they_are_named(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(config, A)
    live_client(config, A, os.getpid())
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", B)
    assert refusal() == (
        "no other session with a conversation that is not open in a client now in /home/ada/orchard "
        f"(looked in {config}/projects/-home-ada-orchard; elsewhere with --project DIR or --all-projects); to go on with this one, /clear it first; "
        f'nearest: {A} "hello" 2026-05-01 10:01')


def test_of_500_prompts_the_last_answers_are_still_told(run_script: Run, tmp_path: Path) -> None:
    """The list of all prompts takes most of the room, but where things stood is what one goes on from."""
    session = planted_session(7, 500)
    told = report(run_script, write_session(session, tmp_path / "s.jsonl"), tmp_path)
    (last,) = [section for section in told.iter("exchanges") if section.get("section") == "last"]
    answered = [exchange for exchange in list(last.iter("exchange"))[-3:] if exchange.find("no-answer") is None]
    assert len(answered) >= 2 and all(len(exchange.findtext("agent") or "") > 60 for exchange in answered)


def test_of_200_prompts_the_list_takes_no_room_from_the_exchanges(run_script: Run, tmp_path: Path) -> None:
    """All prompts in a line each fit beside all exchanges asked for: longer lines cost more than half of these."""
    told = report(run_script, write_session(planted_session(81001, 200), tmp_path / "s.jsonl"), tmp_path)
    assert [(section.get("section"), len(section)) for section in told.iter("exchanges")] == [("first", 5), ("pivotal", 8), ("last", 10)]
    assert len(list(told.iter("prompt"))) == 202


def test_of_a_damaged_file_it_is_said_how_much_is_damaged(run_script: Run, tmp_path: Path) -> None:
    (tmp_path / "spoilt.jsonl").write_bytes(b"\x00\xff{]\nnonsense\n")
    done = run_script(COMPACT, "--file", "spoilt.jsonl")
    assert done.stderr.decode() == (
        "compact_session.py: no conversation in this session (spoilt.jsonl, in which 2 lines cannot be read); name another one by id or title\n")
    assert run_script(FORK, "--file", "spoilt.jsonl").stderr.decode() == (
        "fork_session.py: no conversation to copy in spoilt.jsonl, in which 2 lines cannot be read; name another session, or give --latest\n")


def test_a_copy_tells_how_many_lines_of_its_source_are_damaged(config: Path, run_script: Run) -> None:
    talk(config, A, extra="nonsense\n")
    talk(config, B)
    assert [forked(run_script, name).find("file-size").get("damaged-lines") for name in (A, B)] == ["1", None]  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------------------------ forks


FORK = ROOT / "skills/cc-fork/fork_session.py"


def forked(run_script: Run, *options: str, cwd: Optional[Path] = None) -> ElementTree.Element:
    done = run_script(FORK, *options, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, b"")
    return ElementTree.fromstring(done.stdout.decode("utf-8"))


def notice(told: ElementTree.Element) -> str:
    return told.findtext("notice") or ""


def test_a_dry_run_does_not_say_that_the_copy_is_written(config: Path, run_script: Run) -> None:
    talk(config, A)
    assert notice(forked(run_script, A, "--dry-run")).startswith("Nothing was written. ")
    assert notice(forked(run_script, A)).startswith("The copy is written and proven. ")


def test_a_slim_copy_that_is_no_lighter_says_what_makes_one(config: Path, run_script: Run) -> None:
    talk(config, A)
    talk(config, B, extra="".join(
        f'{{"parentUuid":"bbbbbbbb-{at:04}","isSidechain":false,"type":"user","message":{{"role":"user","content":"more {at}"}},"uuid":"bbbbbbbb-{at + 1:04}",'
        f'"timestamp":"2026-05-01T11:00:{at:02}.000Z","sessionId":"{B}"}}\n' for at in range(1, 20)))
    hint = "--compact or --last N makes a light one"
    assert hint in notice(forked(run_script, A)) and hint in notice(forked(run_script, B))
    assert not any(hint in notice(forked(run_script, B, *options)) for options in (("--exact",), ("--last", "3"), ("--compact",)))


def test_the_copy_of_a_moved_projects_session_says_how_to_move_it(config: Path, run_script: Run, tmp_path: Path) -> None:
    talk(config, A, cwd="/gone/orchard", folder="-gone-orchard")
    assert "/gone/orchard is gone: --into DIR makes the copy a session of the directory where the project is now" in notice(forked(run_script, A))
    here = tmp_path.resolve()
    moved_here = forked(run_script, A, "--into", ".", cwd=here)
    assert "is gone" not in notice(moved_here)
    copy = Path(moved_here.findtext("file") or "").read_text("utf-8")
    assert f'"cwd":"{here}"' in copy and "/gone/orchard" not in copy


@pytest.mark.skipif(os.name == "nt" or not os.path.exists("/dev/full"), reason="needs a shell and /dev/full")
@pytest.mark.parametrize("place", [">/dev/full", ">&-"])
def test_a_report_that_is_lost_does_not_hide_the_copy(config: Path, place: str) -> None:
    path = talk(config, A)
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "CLAUDE_CONFIG_DIR")}
    done = subprocess.run(["sh", "-c", f'"$0" "$1" {A} {place}', sys.executable, str(FORK)], capture_output=True, check=False, text=True, env=environment, timeout=60)
    (copy,) = [other.stem for other in path.parent.glob("*.jsonl") if other != path]
    assert done.returncode == 1 and f"; the copy is there all the same: claude --resume {copy}\n" in done.stderr


# --------------------------------------------------------------------------------------------------------------- refusals


def test_a_refusal_is_in_the_persons_own_language(config: Path, run_script: Run) -> None:
    talk(config, A, prompt="die Größe prüfen 🌾")
    done = run_script(COMPACT, "die Größe 🌳 prüfen", env={"LC_ALL": "C.UTF-8"})
    assert done.returncode == 1
    assert "'die Größe 🌳 prüfen' is neither" in done.stderr.decode("utf-8") and '"die Größe prüfen 🌾"' in done.stderr.decode("utf-8")
    plain = run_script(COMPACT, "die Größe 🌳 prüfen", env={"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "ascii"})
    assert plain.returncode == 1 and b"'die Gr\\xf6\\xdfe \\U0001f333 pr\\xfcfen' is neither" in plain.stderr


def test_of_many_sessions_that_a_prefix_fits_the_newest_are_named(config: Path) -> None:
    for at in range(7):
        talk(config, f"aaaaaaaa-0000-4000-8000-00000000000{at}", at)
    said = refusal("aaaa")
    assert said.startswith('aaaa fits 7 sessions: aaaaaaaa-0000-4000-8000-000000000006 "hello" 2026-05-01 10:07, ')
    assert said.count('"hello"') == 5 and said.endswith(", and 2 more; give more of the id")
