"""README.md against the project: its commands run, its options are those of --help, its report is today's, its links lead somewhere."""
from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, SCRIPT_SECONDS

README = (ROOT / "README.md").read_text(encoding="utf-8")
SCRIPT = "skills/cc-compact/compact_session.py"
OPTION_TABLES = [  # heading, whose options stand below it, the line of --help above them, how many there are
    ("## Options", SCRIPT, "\n\n", 20),
    ("### Options of the search", "skills/cc-query-chat/query_session.py", "\n\n", 29),
    ("## Fork: a slim copy to resume", "skills/cc-fork/fork_session.py", "\nwhat is copied:\n", 14),
]
SAMPLE = "tests/fixtures/sample/projects/-home-ada-orchard/5a3e1c70-8d42-4b6f-9c15-2f7be0d4a961.jsonl"

SHOWN = [  # the elements of the sample's report that README.md shows, in this order
    r"<compacted-session-chain [^>]*>",
    r"<session depth=\"0\"[^>]*>",
    r"<cost [^>]*/>",
    r"<ended>.*?</ended>",
    r"<user>Add a command.*?</user>",
    r"<user>No, that's wrong.*?</user>",
    r"<user>also sort.*?</user>",
    r"<user>Leave legacy.*?</user>",
    r"<decision n=\"2\".*?</decision>",
    r"<task [^>]*in_progress.*?</task>",
    r"<task [^>]*pending.*?</task>",
    r"<edited [^>]*>[^<]*report\.py</edited>",
    r"<outcome .*?</outcome>",
    r"<problem n=\"10\"[^>]*>",
]


def blocks(language: str) -> list[str]:
    """The fenced blocks of README.md in this language, without their fences."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)


def commands() -> list[str]:
    """Every command line of README.md, one of each."""
    return list(dict.fromkeys(line for block in blocks("sh") for line in block.splitlines() if line.strip()))


def is_for_the_client(command: str) -> bool:
    """Whether it needs the real client: those run in tests/live."""
    return command.startswith("claude ")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what the commands use, beside a home folder that holds the sample as a session of its own."""
    for name in ("skills", "tests/fixtures/sample"):
        shutil.copytree(ROOT / name, tmp_path / "clone" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests/fixtures/sample/projects", tmp_path / "home/.claude/projects")
    return tmp_path / "clone"


def python_in(folder: Path, name: str) -> Path:
    """A program in this folder that is the tests' interpreter, packages included."""
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / name
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    return python


def run(command: str, folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a line as a person at a shell does, with the tests' interpreter as python3, nothing of the caller's but PATH, and no pip."""
    tools = python_in(home.parent / "tools", "python3").parent
    path = os.pathsep.join((str(tools), os.environ.get("PATH", os.defpath)))
    environment = {"PATH": path, "HOME": str(home), "COLUMNS": "1000", "PYTHONUTF8": "1", "PIP_NO_INDEX": "1"}
    return subprocess.run(["sh", "-c", command], cwd=folder, env=environment,
                          stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=SCRIPT_SECONDS)


def report_of_sample(clone: Path) -> str:
    """What README.md's first command prints now."""
    done = run(f"python3 {SCRIPT} --file {SAMPLE}", clone, clone.parent / "home")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def excerpt(report: str) -> str:
    """The shown elements, one on a line. Raises where the report no longer holds one, or holds it in another order."""
    lines, at = [], 0
    for pattern in SHOWN:
        found = re.compile(pattern, re.S).search(report, at)
        assert found, f"not in the report after the one before: {pattern}"
        lines.append(" ".join(found[0].split()))
        at = found.end()
    return "\n".join(lines) + "\n"


def settled(text: str) -> str:
    """Without what depends on where the project lies and on the machine: the size, which counts a path, and the state of edited files."""
    return re.sub(r'(\bchars|\btokens|\bsince)="[^"]*"', r'\1="…"', text)


@pytest.mark.skipif(os.name == "nt", reason="the commands are for a POSIX shell")
def test_every_command_runs_in_the_order_of_the_page(clone: Path) -> None:
    here = [command for command in commands() if not is_for_the_client(command) and command != "scripts/test"]
    assert here[0] == f"python3 {SCRIPT} --file {SAMPLE}"
    assert len(here) >= 6
    stranger, exported = clone.parent / "stranger", ""  # a home without any session: only the clone's own can be found
    stranger.mkdir()
    for command in here:
        done = run(exported + command, clone, stranger)
        exported += f"{command}; " if command.startswith("export ") else ""
        assert (done.returncode, done.stderr) == (0, ""), command
        if command.startswith("python3 "):
            assert re.search(r'(?:id|source|session)="5a3e1c70-8d42-4b6f-9c15-2f7be0d4a961"', done.stdout), command


@pytest.mark.skipif(os.name == "nt", reason="the commands are for a POSIX shell")
def test_the_copied_skill_works_alone(clone: Path) -> None:
    home = clone.parent / "home"
    for command in commands():
        if command.startswith(("mkdir ", "cp ")):
            assert run(command, clone, home).returncode == 0
    shutil.rmtree(clone / "skills")
    done = run("python3 ~/.claude/skills/cc-compact/compact_session.py 'harvest report'", clone, home)
    assert (done.returncode, done.stderr) == (0, "")
    assert 'title="harvest report"' in done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="scripts/test is a bash script")
def test_the_command_for_the_tests_runs_pytest_on_the_tests(tmp_path: Path) -> None:
    """In a copy with an environment that looks finished: to make one needs the network, and a stale one would be deleted."""
    assert "scripts/test" in commands()
    copy, home = tmp_path / "clone", tmp_path / "home"
    for folder in (copy / "scripts", copy / "tests", home):
        folder.mkdir(parents=True)
    shutil.copy(ROOT / "scripts/test", copy / "scripts/test")
    (copy / "tests/test_one.py").write_text("def test_one() -> None:\n    assert True\n")
    environment = copy / ".venv/{}.{}".format(*sys.version_info)
    python = python_in(environment / "bin", "python")
    packages = re.findall(r'^PACKAGES="(.*?)"', (copy / "scripts/test").read_text(encoding="utf-8"), re.M)
    (environment / "finished").write_text(f"{packages[0]} on {sys.base_prefix}\n")
    done = run("scripts/test", copy, home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert python.is_file()


def test_the_install_lines_name_this_plugin_and_this_marketplace() -> None:
    plugin = json.loads((ROOT / ".claude-plugin/plugin.json").read_text(encoding="utf-8"))["name"]
    marketplace = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text(encoding="utf-8"))["name"]
    assert [command for command in commands() if is_for_the_client(command)] == [
        f"claude plugin marketplace add ./{plugin}", f"claude plugin install {plugin}@{marketplace}"]


@pytest.mark.skipif(os.name == "nt", reason="the command is for a POSIX shell")
def test_the_shown_report_is_what_the_script_prints_now(clone: Path) -> None:
    shown, now = blocks("xml"), excerpt(report_of_sample(clone))
    assert len(shown) == 1
    assert settled(shown[0]) == settled(now), f"README.md should show:\n{now}"


def offered(usage: str) -> dict[str, str]:
    """Option with its value's name -> default, of a --help text."""
    defaults = {name: re.search(r"\(default:? (.*)\)$", text) for name, text in re.findall(r"^  (REF|WORDS|-\S.*?) {2,}(\S.*)$", usage, re.M)}
    return {name: default[1] if default else "" for name, default in defaults.items()}


def table(heading: str) -> dict[str, str]:
    """The same of the option table below a heading of README.md."""
    section = README.partition(f"\n{heading}\n")[2].partition("\n#")[0].replace("\\|", "/")
    lines = re.findall(r"^\| (`(?:REF|WORDS|-)[^|]*`) \| ([^|]*?) ?\| [^|]+ \|$", section, re.M)
    rows = [(name.strip("`"), default) for names, default in lines for name in ([names.replace("`", "")] if "-h" in names else names.split("`, `"))]
    assert len(dict(rows)) == len(rows), "an option stands twice"
    return dict(rows)


@pytest.mark.skipif(os.name == "nt", reason="the command is for a POSIX shell")
@pytest.mark.parametrize(("heading", "script", "above", "count"), OPTION_TABLES)
def test_the_option_table_is_that_of_help(clone: Path, heading: str, script: str, above: str, count: int) -> None:
    usage = run(f"python3 {script} --help", clone, clone.parent / "home").stdout
    expected = offered(usage.partition(above)[2].replace("|", "/"))
    assert len(expected) == count, usage
    assert table(heading) == expected


def test_links_lead_to_files_of_the_project() -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", README)
    assert "LICENSE" in links
    for link in links:
        assert not link.startswith(("/", "http")), link
        assert (ROOT / link.partition("#")[0]).is_file(), link


def test_every_path_in_code_spans_that_looks_like_the_projects_exists() -> None:
    for path in re.findall(r"`((?:skills|scripts|tests)/[\w./-]+)`", README):
        assert (ROOT / path).exists(), path


def test_the_sample_is_the_invented_session_that_readme_speaks_of() -> None:
    rows = [json.loads(line) for line in (ROOT / SAMPLE).read_text(encoding="utf-8").splitlines()]
    assert {row["cwd"] for row in rows if "cwd" in row} == {"/home/ada/orchard"}
    assert {row["version"] for row in rows if "version" in row} == {"2.1.332"}
    assert {row["customTitle"] for row in rows if row["type"] == "custom-title"} == {"harvest report"}
    uuids = {row["uuid"] for row in rows if "uuid" in row}
    assert {row["parentUuid"] for row in rows if row.get("parentUuid")} <= uuids
