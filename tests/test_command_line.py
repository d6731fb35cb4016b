"""The command line: help and version, arguments on standard input, exit statuses, pipes, locales, and each skill folder alone."""
from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Optional
from xml.etree import ElementTree

import cc_transcript as cc
import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(path for path in ROOT.glob("skills/*/*_session.py"))
COMPACT = ROOT / "skills/cc-compact/compact_session.py"
QUERY = ROOT / "skills/cc-query-chat/query_session.py"
Run = Callable[..., "subprocess.CompletedProcess[bytes]"]
ID = "aaaaaaaa-0000-4000-8000-000000000001"


@pytest.fixture
def session(config: Path, tmp_path: Path) -> Path:
    """A session of the directory that the scripts run in: two prompts, one with an emoji, titled "Ada's barn"."""
    here = os.path.realpath(tmp_path)
    path = config / "projects" / cc.folder_name(here) / f"{ID}.jsonl"
    path.parent.mkdir(parents=True)
    rows = [("user", "paint the barn \U0001F33E na\u00efvely"), ("assistant", "painted"), ("user", "and the gate?"), ("assistant", "that too")]
    lines = [json.dumps({
        "parentUuid": f"u{at - 1}" if at else None, "isSidechain": False, "type": kind, "message": {"role": kind, "content": text, "id": f"m{at}"}, "uuid": f"u{at}",
        "timestamp": f"2026-05-01T10:00:0{at}.000Z", "cwd": here, "sessionId": ID}) for at, (kind, text) in enumerate(rows)]
    lines.append(json.dumps({"type": "custom-title", "customTitle": "Ada's barn", "sessionId": ID}))
    path.write_text("\n".join(lines) + "\n")
    return path


def parsed(done: subprocess.CompletedProcess[bytes]) -> ElementTree.Element:
    assert (done.returncode, done.stderr) == (0, b"")
    return ElementTree.fromstring(done.stdout.decode("utf-8"))


def title(report: ElementTree.Element) -> Optional[str]:
    return report.find("session").attrib["title"]  # type: ignore[union-attr]


def test_there_are_scripts() -> None:
    assert [script.name for script in SCRIPTS] == ["compact_session.py", "fork_session.py", "query_session.py"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_help_begins_with_what_it_is_for_and_ends_with_examples(run_script: Run, script: Path) -> None:
    done = run_script(script, "--help")
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    purpose, usage = text.split("\n\n")[:2]
    assert purpose.startswith({"compact": "Print the essence of a past", "query": "Find one detail in past", "fork": "Write a slim copy of a"}[script.name.partition("_")[0]])
    assert usage.startswith(f"usage: {script.name} [") and usage.endswith(" [options]")
    tail = text[text.index("\nexamples:\n"):]
    assert tail.count(script.name) >= 3
    assert "\n  -" not in tail and "  --id" not in tail  # no option is described after them
    assert "exit status: 0 done, 1 refused (one line on stderr), 2 wrong usage" in tail


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_version_is_the_plugins(run_script: Run, script: Path) -> None:
    version = json.loads((ROOT / ".claude-plugin/plugin.json").read_text("utf-8"))["version"]
    done = run_script(script, "--version")
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, f"{script.name} {version}\n", b"")


# ----------------------------------------------------------------------------------------------------- exit statuses


def test_done(run_script: Run, session: Path) -> None:
    report = parsed(run_script(COMPACT))
    assert title(report) == "Ada's barn"
    assert [user.text for user in report.iter("user")] == ["paint the barn \U0001F33E na\u00efvely", "and the gate?"]


@pytest.mark.parametrize("words", [
    ["Ada's", "--maxlen", "20", "barn"], ["Ada's", "barn", "--maxlen", "20"], ["--maxlen", "20", "Ada's", "--", "barn"], ["--title", "Ada's barn", "--maxlen=20"], [f"--id={ID}"],
])
def test_words_may_stand_on_both_sides_of_an_option(run_script: Run, session: Path, words: list[str]) -> None:
    assert title(parsed(run_script(COMPACT, *words))) == "Ada's barn"


def test_with_values() -> None:
    parser = cc.build_base_parser("x.py", "", "", 28_000)
    for words, argv in (
            ([], []), (["a", "--id", "-x", "b"], ["--id=-x", "--", "a", "b"]), (["--id", "--latest"], ["--id", "--latest"]), (["--latest", "x"], ["--latest", "--", "x"]),
            (["--", "--id"], ["--", "--id"]), (["-"], ["--", "-"]), (["--id", "a", "b", "--id"], ["--id=a", "--id", "--", "b"]), (["--title", ""], ["--title="])):
        assert cc.with_values(parser, words) == argv, words


def test_an_options_value_may_be_two_hyphens(run_script: Run, session: Path) -> None:
    with session.open("a") as file:
        file.write('{"type":"custom-title","customTitle":"--","sessionId":"x"}\n')
    assert title(parsed(run_script(COMPACT, "--title=--"))) == title(parsed(run_script(COMPACT, "--args-stdin", stdin=b"--title --\n"))) == "--"
    for text, showing in (("--keyword --", "0"), ("--regexp -- --type user", "0"), ("--keyword=barn", "1")):
        assert parsed(run_script(QUERY, "--args-stdin", stdin=text.encode())).get("showing") == showing
    done = run_script(COMPACT, "--max-chars=--")
    assert (done.returncode, done.stderr) == (2, b"compact_session.py: argument --max-chars: -- is no whole number of 2000 or more; see --help\n")


def test_refused(run_script: Run, config: Path) -> None:
    done = run_script(COMPACT, "nothing like it")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"compact_session.py: no such session: 'nothing like it' ") and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(("words", "message"), [
    (["--nonsense"], "unrecognized arguments: --nonsense"),
    (["--max-chars", "many"], "argument --max-chars: many is no whole number of 2000 or more"),
    (["--max-chars", "1999"], "argument --max-chars: 1999 is no whole number of 2000 or more"),
    (["--max-chars", "-5"], "argument --max-chars: -5 is no whole number of 2000 or more"),
    (["--id"], "argument --id: expected one argument"),
    (["--first", "-1"], "argument --first: -1 is no whole number of 0 or more"),
    (["--decay", "0"], "argument --decay: 0 is no number above 0 and up to 1"),
    (["--decay", "nan"], "argument --decay: nan is no number above 0 and up to 1"),
    (["--max"], "unrecognized arguments: --max"),
])
def test_wrong_usage(run_script: Run, config: Path, words: list[str], message: str) -> None:
    done = run_script(COMPACT, *words)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"compact_session.py: {message}; see --help\n"


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_unreadable(run_script: Run, config: Path, tmp_path: Path) -> None:
    """A link to itself, which root cannot read either."""
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    done = run_script(COMPACT, "--file", "loop.jsonl")
    assert (done.returncode, done.stdout, done.stderr.decode()) == (
        1, b"", f"compact_session.py: cannot read loop.jsonl: {os.strerror(errno.ELOOP)}; check the path and its permissions\n")


def test_interrupted_by_the_person(capsys: pytest.CaptureFixture[str]) -> None:
    def job(options: object) -> str:
        raise KeyboardInterrupt

    assert cc.serve(cc.build_base_parser("x.py", "", "", 28_000), job, []) == 1
    assert capsys.readouterr() == ("", "x.py: interrupted, so there is no report; call it again for one\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_one_line(session: Path) -> None:
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "CLAUDE_CONFIG_DIR")}
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, str(COMPACT), "--id", ID], stdout=full, stderr=subprocess.PIPE, env=environment, check=False)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr and done.stderr.count(b"\n") == 1


def shell(command: str, script: Path) -> subprocess.CompletedProcess[bytes]:
    """What a shell does with a line in which SCRIPT stands for the script, run by the tests' interpreter."""
    line = command.replace("SCRIPT", f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}")
    return subprocess.run(["sh", "-c", line], capture_output=True, check=False, env={name: os.environ[name] for name in ("PATH", "HOME", "CLAUDE_CONFIG_DIR")}, timeout=60)


@pytest.mark.skipif(os.name == "nt" or not os.path.exists("/dev/full"), reason="needs a shell and /dev/full")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
@pytest.mark.parametrize("words", ["--help", "--version"])
def test_help_that_cannot_be_written_is_one_line(config: Path, script: Path, words: str) -> None:
    for place, reason in ((">/dev/full", "No space left on device"), (">&-", "it is closed")):
        done = shell(f"SCRIPT {words} {place}", script)
        assert (done.returncode, done.stdout, done.stderr.decode()) == (
            1, b"", f"{script.name}: cannot write to standard output: {reason}; give it a terminal, a pipe or a file with room\n")
    assert shell(f"SCRIPT {words} | true", script).stderr == b""


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
def test_closed_standard_streams(session: Path) -> None:
    """What stands in a service or a cron job: no standard input, output or error at all."""
    done = shell(f"SCRIPT --id {ID} >&-", COMPACT)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1) and b"it is closed" in done.stderr
    assert title(parsed(shell(f"SCRIPT --id {ID} 2>&-", COMPACT))) == "Ada's barn"
    assert title(parsed(shell(f"SCRIPT --id {ID} --args-stdin <&-", COMPACT))) == "Ada's barn"
    assert shell("SCRIPT nobody 2>&-", COMPACT).returncode == 1
    assert shell("SCRIPT --nobody 2>&-", COMPACT).returncode == 2


# -------------------------------------------------------------------------------------------- arguments on standard input


def slash(run_script: Run, text: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run the script as its skill does: the arguments stand on standard input, with the newline of the here-document."""
    return run_script(COMPACT, "--args-stdin", *words, stdin=text.encode("utf-8") + b"\n")


@pytest.mark.parametrize("text", [
    "", "   ", "\n", "Ada's barn", "ada's BARN", "  Ada's barn  ", "Ada's", ID, f"claude --resume {ID}", f"{ID} --maxlen 20", "aaaa --maxlen=20 --first 1", "--latest", f"--id {ID}", f"--id={ID}", f'--id "{ID}"', f"--id '{ID}'",
    "--title \"Ada's barn\"", "\"Ada's barn\"", "'Ada's barn'", "`Ada's barn`", "“Ada's barn”", "-- Ada's barn", "--maxlen 20 -- Ada's barn", "Ada's\0 barn", "--maxlen 20 Ada's barn", "--max-chars=2000 --first 1 Ada's barn", "--show-secrets Ada's barn", "--project . Ada's barn",
    f"--exclude bbbbbbbb-0000-4000-8000-000000000002 {ID}", "aaaa",
])
def test_slash_arguments_that_name_the_session(run_script: Run, session: Path, text: str) -> None:
    assert title(parsed(slash(run_script, text))) == "Ada's barn"


@pytest.mark.parametrize("text", [
    "it's", "\"unbalanced", "$(touch pwned)", "`touch pwned`", "; touch pwned", "a | b > pwned", "tab\there", "emoji \U0001F33E", "%s %d {0}", "back\\slash", "no --latest", "x --id y",
    "Ada's barn --latest", "two\nlines", "'", "\"\"", "*", "~", "&& touch pwned",
])
def test_slash_arguments_are_kept_as_they_are(run_script: Run, session: Path, tmp_path: Path, text: str) -> None:
    done = slash(run_script, text)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1)
    said = " ".join(text.split()).encode()
    assert done.stderr.startswith(b"compact_session.py: no such session: '" + said + b"' ")
    assert (b"; options stand before the words; " in done.stderr) == (" --" in text)
    assert not (tmp_path / "pwned").exists()


def test_split_arguments() -> None:
    parser = cc.build_base_parser("x.py", "", "", 28_000)
    for text, argv in (
            ("", []), ("  \n", []), ("fix it", ["--", "fix it"]), ("it's  two  blanks\n", ["--", "it's  two  blanks"]),
            ("--latest", ["--latest"]), ("--latest more words --id x", ["--latest", "--", "more words --id x"]),
            ("--id abc", ["--id=abc"]), ("--id=abc rest", ["--id=abc", "--", "rest"]), ("--title 'a b' c", ["--title=a b", "--", "c"]), ("--title \"it's\"", ["--title=it's"]),
            ("--title= x", ["--title=", "--", "x"]), ("-h", ["-h"]), ("5a3e1c70 --id x", ["--id=x", "--", "5a3e1c70"]), (f"{ID} --latest\n", ["--latest", "--", ID]), ("5a3e1c70 --nonsense", ["--", "5a3e1c70 --nonsense"]), ("5a3 --latest", ["--", "5a3 --latest"]), ("5a3e1c70 --id x y", ["--id=x", "--", "5a3e1c70 y"]), ("5a3e1c70 --id", ["--id", "--", "5a3e1c70"]), (f"claude --resume {ID} --id x", ["--", f"claude --resume {ID} --id x"]), ("-- --id x", ["--", "--id x"]), ("--latest -- x", ["--latest", "--", "x"]), ("--", []), ("--- x", ["--", "--- x"]), ("--max-chars 2000 --show-secrets $(x)", ["--max-chars=2000", "--show-secrets", "--", "$(x)"])):
        assert cc.split_arguments(parser, text) == argv, text


def test_words_to_search_for_are_no_id() -> None:
    parser = cc.build_base_parser("x.py", "", "", 28_000, words=("WORDS", ""))
    assert cc.split_arguments(parser, "dead --latest links") == ["--", "dead --latest links"]


@pytest.mark.parametrize("text", ["--file ~/barn.jsonl", "--file=~/barn.jsonl", "~/barn.jsonl", "--project ~/work", "--project=~/work aaaa"])
def test_a_tilde_is_the_home_folder(run_script: Run, session: Path, tmp_path: Path, text: str) -> None:
    home = Path(os.environ["HOME"])
    (home / "work").symlink_to(tmp_path)
    shutil.copy(session, home / "barn.jsonl")
    assert title(parsed(run_script(COMPACT, "--args-stdin", stdin=text.encode(), cwd=Path("/")))) == "Ada's barn"


def test_an_unknown_option_on_standard_input(run_script: Run, session: Path) -> None:
    done = slash(run_script, "--nonsense Ada's barn")
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"compact_session.py: unrecognized arguments: --nonsense; see --help\n")


def test_options_may_stand_in_both_places(run_script: Run, session: Path) -> None:
    assert title(parsed(slash(run_script, "Ada's barn", "--max-chars", "2000"))) == "Ada's barn"


def test_standard_input_that_is_no_utf8(run_script: Run, session: Path) -> None:
    done = run_script(COMPACT, "--args-stdin", stdin=b"caf\xe9\xff\n")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1)


def test_a_word_that_is_no_utf8(run_script: Run, session: Path) -> None:
    done = run_script(QUERY, "--project", "/home/ada/barn", "gate \udcff")
    assert (done.returncode, done.stderr) == (0, b"")


def test_no_standard_input(run_script: Run, session: Path) -> None:
    assert title(parsed(run_script(COMPACT, "--args-stdin", stdin=b""))) == "Ada's barn"


def notice(report: ElementTree.Element) -> str:
    return report.findtext("notice", "")


def test_a_larger_bound_is_clamped_through_standard_input_and_said(run_script: Run, session: Path) -> None:
    with session.open("a") as file:
        for at in range(4, 1_200):
            kind = ("user", "assistant")[at % 2]
            file.write(json.dumps({"parentUuid": f"u{at - 1}", "isSidechain": False, "type": kind, "message": {"role": kind, "content": f"{at} " + "word " * 60, "id": f"m{at}"},
                                   "uuid": f"u{at}", "timestamp": "2026-05-01T11:00:00.000Z", "sessionId": ID}) + "\n")
    clamped = slash(run_script, "--max-chars 80000 --first 100 --last 100 Ada's barn")
    assert 25_000 < len(clamped.stdout.decode().encode("utf-16-le")) // 2 <= 29_500
    assert "The bound of 80000 was lowered to 29500: the client cuts longer output." in notice(parsed(clamped))
    by_hand = run_script(COMPACT, "--max-chars", "80000", "--first", "100", "--last", "100", "Ada's barn")
    assert 30_500 < len(by_hand.stdout.decode().encode("utf-16-le")) // 2 <= 80_000
    assert "lowered" not in notice(parsed(by_hand))
    assert "lowered" not in notice(parsed(slash(run_script, "--max-chars 29500 Ada's barn")))


# ------------------------------------------------------------------------------------------------- locales and places


@pytest.mark.parametrize("env", [{"LANG": "C", "LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "utf-16"}])
def test_the_report_is_utf8_whatever_the_locale(run_script: Run, session: Path, env: dict[str, str]) -> None:
    report = parsed(run_script(COMPACT, "--id", ID, env=env))
    assert next(report.iter("user")).text == "paint the barn \U0001F33E na\u00efvely"
    done = run_script(COMPACT, "--title", "na\u00efve \U0001F33E", env={**env, "PYTHONUTF8": "1"})
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1)


@pytest.mark.parametrize("env", [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_paths_and_words_are_utf8_whatever_the_locale(run_script: Run, config: Path, tmp_path: Path, env: dict[str, str]) -> None:
    here = tmp_path.resolve() / "\u00e9t\u00e9 \U0001F33E"
    here.mkdir()
    path = config / "projects" / (cc.folder_name(str(tmp_path.resolve())) + "--t----") / f"{ID}.jsonl"
    path.parent.mkdir(parents=True)
    record = {"parentUuid": None, "type": "user", "message": {"role": "user", "content": "die Gr\u00f6\u00dfe pr\u00fcfen"}, "uuid": "u0", "cwd": str(here),
              "timestamp": "2026-05-01T10:00:00.000Z", "sessionId": ID}
    path.write_text(json.dumps(record) + "\n")
    assert title(parsed(run_script(COMPACT, cwd=here, env=env))) == "die Gr\u00f6\u00dfe pr\u00fcfen"
    assert title(parsed(run_script(COMPACT, "GR\u00d6SSE", env=env, flags=("-I",)))) == "die Gr\u00f6\u00dfe pr\u00fcfen"
    assert parsed(run_script(QUERY, "gr\u00f6\u00dfe", cwd=here, env=env)).get("matched") == "1"


@pytest.mark.skipif(os.name == "nt", reason="no locales of old there")
def test_an_interpreter_that_does_not_know_its_own_path_goes_on(session: Path, config: Path) -> None:
    """Started without PATH under a bare name it has no sys.executable, so it cannot be started anew in another mode."""
    env = {"HOME": os.environ["HOME"], "CLAUDE_CONFIG_DIR": str(config), "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(["nameless", str(COMPACT), "--id", ID], executable=sys.executable, capture_output=True, check=False, env=env, timeout=60)
    assert next(parsed(done).iter("user")).text == "paint the barn \U0001F33E na\u00efvely"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_skill_folder_works_alone(run_script: Run, session: Path, tmp_path: Path, script: Path) -> None:
    """Copied into a folder whose name holds blanks, run isolated: nothing but the standard library and its own folder is at hand."""
    alone = tmp_path / "my own skills" / script.parent.name
    shutil.copytree(script.parent, alone, ignore=shutil.ignore_patterns("__pycache__"))
    for flags in ((), ("-I",), ("-I", "-S"), ("-I", "-B", "-W", "error")):
        words = {"query_session.py": ["barn"], "fork_session.py": ["--dry-run"]}.get(script.name, [])
        done = run_script(alone / script.name, "--id", ID, *words, flags=flags, cwd=Path("/"), env={"PYTHONSAFEPATH": "1"})
        assert f'"{ID}"' in ElementTree.tostring(parsed(done), "unicode")


@pytest.mark.skipif(os.name == "nt", reason="a directory in use cannot be removed there")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_working_directory_is_gone(session: Path, tmp_path: Path, script: Path) -> None:
    """As in a worktree that was removed: its sessions are still found, by the name that the shell has for it."""
    gone = tmp_path / "gone"
    gone.mkdir()
    row = json.loads(session.read_text("utf-8").splitlines()[0])
    other = session.parents[1] / cc.folder_name(os.path.realpath(gone)) / "bbbbbbbb-0000-4000-8000-000000000002.jsonl"
    other.parent.mkdir()
    other.write_text(json.dumps({**row, "cwd": os.path.realpath(gone), "sessionId": other.stem, "message": {"role": "user", "content": "mow the barn lawn"}}) + "\n")
    for words, found in (("--latest", b"mow the barn lawn"), (f"--id {ID}", b"Ada's barn"), ("--latest --project ..", b""), ("--latest --into .", b""), ("--all-projects --project . --limit 1 gate", b"")):
        extra = {"query_session.py": "barn", "fork_session.py": "--dry-run"}.get(script.name, "")
        gone.mkdir(exist_ok=True)
        done = shell(f"cd {shlex.quote(os.path.realpath(gone))} && rmdir ../gone && SCRIPT {words} {extra}", script)
        assert b"Traceback" not in done.stderr and done.stderr.count(b"\n") <= 1
        assert found in done.stdout.replace(b"mow the barn lawn (fork)", b"mow the barn lawn")


@pytest.mark.skipif(os.name == "nt" or not hasattr(os, "geteuid"), reason="needs permissions")
def test_folders_that_cannot_be_listed(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Live clients, worktrees and sub-agents are then none; root may list everything, so the list is made to fail."""
    def barred(folder: str) -> list[str]:
        raise PermissionError(13, "Permission denied", folder)

    (config / "sessions").mkdir()
    (config / "projects/-x").mkdir(parents=True)
    (tmp_path / ".git/worktrees").mkdir(parents=True)
    monkeypatch.setattr(os, "listdir", barred)
    assert cc.live_clients() == {}
    assert cc.worktrees(str(tmp_path)) == []
    cc.refuse_agent("agent-a1")  # there is none


def test_modules_of_the_working_directory_are_not_imported(run_script: Run, session: Path, tmp_path: Path) -> None:
    for name in ("json.py", "re.py", "cc_transcript.py", "argparse.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the working directory')\n")
    assert title(parsed(run_script(COMPACT, "--id", ID))) == "Ada's barn"


def test_nothing_is_written_beside_the_transcript(run_script: Run, session: Path, config: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in config.rglob("*") if path.is_file()}
    for words in ((), ("--id", ID), ("Ada's barn",), ("nope",), ("--file", session)):
        run_script(COMPACT, *words)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in config.rglob("*") if path.is_file()} == before


def test_the_report_is_the_same_every_time(run_script: Run, session: Path) -> None:
    first, second = (run_script(COMPACT, "--id", ID, env={"PYTHONHASHSEED": seed}).stdout for seed in ("1", "2"))
    assert first == second
