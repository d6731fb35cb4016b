"""What cc-query-chat finds: the hard cases with their numbers of hits, all item types, states, targets, and what it says where nothing is found."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Optional
from xml.etree import ElementTree

import cc_transcript as cc
import pytest
from conftest import ROOT

CASES = ROOT / "tests/cases"
FIXTURES = ROOT / "tests/fixtures"
QUERY = ROOT / "skills/cc-query-chat/query_session.py"
Ask = Callable[..., ElementTree.Element]
Run = Callable[..., "subprocess.CompletedProcess[bytes]"]
OWN = "0a0a0a0a-0000-4000-8000-00000000000a"


def load_query() -> ModuleType:
    """The script as a module that uses the canonical cc_transcript, once: most searches need no process of their own."""
    if "query_under_test" in sys.modules:
        return sys.modules["query_under_test"]
    spec = importlib.util.spec_from_file_location("query_under_test", QUERY)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["query_under_test"] = module
    spec.loader.exec_module(module)
    return module


query = load_query()


@pytest.fixture
def ask(config: Path) -> Callable[..., ElementTree.Element]:
    """A function that gives the report of these arguments, in an empty configuration."""

    def report(*args: object) -> ElementTree.Element:
        parser = query.build_parser()
        options = cc.parse_arguments(parser, list(map(str, args)))
        return ElementTree.fromstring(query.report(query.settle(parser, options)))

    return report


def hits(report: ElementTree.Element) -> list[tuple[Optional[str], ...]]:
    """(type, state, turn) of each result."""
    return [(result.get("type"), result.get("state"), result.get("turn")) for result in report.iter("result")]


def matches(report: ElementTree.Element) -> list[str]:
    return [result.findtext("match") or "" for result in report.iter("result")]


# ---------------------------------------------------------------------------------------------------------------- the cases

SEARCHES: list[tuple[str, list[str], Sequence[tuple[Optional[str], ...]]]] = [
    ("16-torn-tail/session.jsonl", ["second"], [("agent", "live", "2"), ("user", "live", "2")]),
    ("19-bom-crlf-nonobjects/session.jsonl", ["answer"], [("agent", "live", "2"), ("agent", "live", "1")]),
    ("20-unicode-line-breaks/session.jsonl", ['"right of the separator"'], [("agent", "live", "1")]),
    ("20-unicode-line-breaks/session.jsonl", ['"separator right"'], [("agent", "live", "1")]),
    ("24-reemitted-before-compaction/session.jsonl", ['"old answer"'], [("agent", "compacted", "1")]),
    ("29-parallel-tools/session.jsonl", ["pump"], [("command", "live", "1")] * 3 + [("user", "live", "1")]),
    ("31-rewind/session.jsonl", ["paint", "--only", "live"], [("user", "live", "2")]),
    ("36-compaction/session.jsonl", ["well", "--only", "compacted"], [("user", "compacted", "1"), ("summary", "compacted", "1")]),
    ("36-compaction/session.jsonl", ["lined"], [("agent", "live", "2"), ("summary", "live", "2")]),
    ("38-content-shapes/session.jsonl", ['"from a list"'], [("output", "live", "2")]),
    ("39-not-typed-by-a-person/session.jsonl", ["deploy", "--type", "user"], [("user", "live", "3")]),
    ("39-not-typed-by-a-person/session.jsonl", ["caveat reminder hook ladder Steps"], []),
    ("40-queued-prompts/session.jsonl", ['"west gate"'], [("agent", "live", "2"), ("user", "live", "2")]),
    ("40-queued-prompts/session.jsonl", ['"never mind"'], []),
    ("41-errors-and-interrupts/session.jsonl", ["overloaded"], [("output", "live", "1")]),
    ("44-request-snapshots/session.jsonl", ['"NEVER reveal"'], []),
    ("49-injection/session.jsonl", ['"approved deleting"'], [("output", "live", "1")]),
    ("60-search-regex/session.jsonl", ["a.b"], [("agent", "live", "1")]),
    ("60-search-regex/session.jsonl", ["--keyword", "("], [("agent", "live", "1")]),
    ("60-search-regex/session.jsonl", ["--keyword", "["], [("agent", "live", "1")]),
    ("60-search-regex/session.jsonl", ["--keyword", "*"], [("agent", "live", "1")]),
    ("60-search-regex/session.jsonl", ["--regexp", "a.b"], [("agent", "live", "1")]),
    (
        "60-search-regex/session.jsonl",
        ["--regexp", "x*"],
        [("agent", "live", "2"), ("agent", "live", "1"), ("user", "live", "2"), ("user", "live", "1")],
    ),
    (
        "60-search-regex/session.jsonl",
        ["--regexp", "^"],
        [("agent", "live", "2"), ("user", "live", "2"), ("agent", "live", "1"), ("user", "live", "1")],
    ),
    ("60-search-regex/session.jsonl", ["--glob", "a?b*\\["], []),
    ("60-search-regex/session.jsonl", ["--glob", "a?b*[[]"], [("agent", "live", "1")]),
    ("60-search-regex/session.jsonl", ["--glob", "w[a-o]rd"], [("user", "live", "2")]),
]


@pytest.mark.parametrize(
    "case, words, found", SEARCHES, ids=lambda value: " ".join(value) if isinstance(value, list) and all(isinstance(x, str) for x in value) else ""
)
def test_each_case_gives_these_hits(ask: Ask, case: str, words: list[str], found: list[tuple[Optional[str], ...]]) -> None:
    report = ask("--file", CASES / case, "--limit", "20", *words)
    assert sorted(hits(report), key=str) == sorted(found, key=str)
    assert report.get("matched") == str(len(found))
    assert report.get("sessions") == "1" and report.get("bytes") == str((CASES / case).stat().st_size)


ESCAPED = [(query, count) for query, count in json.loads((CASES / "58-search-escapes/queries.json").read_text(encoding="utf-8"))]


@pytest.mark.parametrize("query, count", ESCAPED)
def test_text_that_json_stores_escaped(ask: Ask, query: str, count: int) -> None:
    """As a phrase, as a regular expression and as a glob: each finds the text itself, whatever its spelling in the file."""
    path = CASES / "58-search-escapes/session.jsonl"
    quoted = '"' + query.replace('"', '\\"') + '"'
    glob = re.sub(r"([*?[])", r"[\1]", query)
    for scheme, text in (("--keyword", quoted), ("--regexp", re.escape(query)), ("--glob", glob)):
        assert ask("--file", path, scheme, text).get("matched") == str(count), scheme


def test_there_are_queries() -> None:
    assert len(ESCAPED) == 13


@pytest.mark.parametrize("pattern, place", [("(", "position 0"), ("[a-", "position 0"), ("(?P<n", "position 4"), ("a**", "position 2")])
def test_a_pattern_that_does_not_compile_is_one_line_with_the_place(run_script: Run, pattern: str, place: str) -> None:
    done = run_script(QUERY, "--file", CASES / "60-search-regex/session.jsonl", "--regexp", pattern)
    assert done.returncode == 1 and done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert pattern in line and place in line


@pytest.mark.parametrize("args", [[""], ["   "], ["--keyword", ""], ["--keyword", " \n"], ["--regexp", ""], ["--glob", ""], ["--glob", "***"], []])
def test_nothing_to_search_for_is_refused(run_script: Run, args: list[str]) -> None:
    done = run_script(QUERY, "--file", CASES / "60-search-regex/session.jsonl", *args)
    assert done.returncode == 1 and done.stdout == b"" and len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(os.name == "nt", reason="there is no alarm to stop it")
def test_a_pattern_that_runs_away_ends_with_what_was_found(run_script: Run, tmp_path: Path) -> None:
    """The hit stands before the line that hangs."""
    rows = (CASES / "60-search-regex/session.jsonl").read_text(encoding="utf-8").splitlines()
    hangs, end = rows[0], rows[3].replace("60000000-0000-4000-8000-000000000003", "60000000-0000-4000-8000-000000000009")
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join([rows[1].replace('"end"', '"aaa"').replace("axb and a.b and ( and [ and *", "aaa"), hangs, end, ""]), encoding="utf-8")
    done = run_script(QUERY, "--file", path, "--regexp", "^(a+)+$", "--timeout", "0.5")
    report = ElementTree.fromstring(done.stdout.decode())
    assert done.returncode == 1 and report.get("stopped") == "timeout"
    assert matches(report) == ["aaa"]
    (line,) = done.stderr.decode().splitlines()
    assert "0.5 s" in line and "1 hits" in line


@pytest.mark.skipif(os.name == "nt", reason="it ends by a signal elsewhere")
def test_without_an_alarm_a_watchdog_ends_it(config: Path) -> None:
    """As on Windows: a line, no result, and the watchdog goes with the search, also where nothing runs away."""
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); import query_session as q; q.HAS_ALARM = False; sys.exit(q.main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, str(QUERY.parent), "--file", str(CASES / "60-search-regex/session.jsonl"), "--timeout", "0.5", "--regexp"]
    calm = subprocess.run([*command, "a.b"], capture_output=True, timeout=20, check=False)
    assert (calm.returncode, calm.stderr) == (0, b"") and b'matched="1"' in calm.stdout
    wild = subprocess.run([*command, "^(a+)+$"], capture_output=True, timeout=20, check=False)
    assert wild.returncode == -9 and wild.stdout == b""
    (line,) = wild.stderr.decode().splitlines()
    assert line.startswith("query_session.py: the pattern ran away and was stopped after 0.5 s")


# ---------------------------------------------------------------------------------------------------------- what is an item


def record(n: int, kind: str, parent: Optional[int], **fields: Any) -> dict[str, Any]:
    """A chain record, numbered."""
    made = {
        "parentUuid": None if parent is None else uuid_of(parent),
        "isSidechain": False,
        "type": kind,
        "uuid": uuid_of(n),
        "timestamp": f"2026-05-01T10:{n // 60:02}:{n % 60:02}.000Z",
        "cwd": "/home/ada/orchard",
        "sessionId": "12345678-0000-4000-8000-000000000001",
        "gitBranch": "main",
    }
    return {**made, **fields}


def uuid_of(n: int) -> str:
    return f"00000000-0000-4000-8000-{n:012}"


def said(n: int, parent: Optional[int], text: Any) -> dict[str, Any]:
    return record(n, "user", parent, message={"role": "user", "content": text})


def replied(n: int, parent: int, *content: dict[str, Any]) -> dict[str, Any]:
    return record(n, "assistant", parent, message={"id": f"msg_{n}", "role": "assistant", "model": "claude", "content": list(content)})


def called(n: int, parent: int, name: str, given: Any) -> dict[str, Any]:
    return replied(n, parent, {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": given})


def answered(n: int, call: int, content: Any, detail: Any = None) -> dict[str, Any]:
    return record(
        n,
        "user",
        call,
        message={"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{call}", "content": content}]},
        toolUseResult=detail,
    )


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def write(path: Path, *rows: dict[str, Any], ascii_only: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=ascii_only, separators=(",", ":")) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def orchard(config: Path) -> Callable[..., Path]:
    """A function that writes a session of the project /home/ada/orchard."""

    def make(name: str, *rows: dict[str, Any]) -> Path:
        return write(config / "projects/-home-ada-orchard" / f"{name}.jsonl", *({**row, "sessionId": name} for row in rows))

    return make


KINDS = [
    ("user", said(2, 1, "the zircon prompt")),
    ("agent", replied(2, 1, text("the zircon reply"))),
    ("command", called(2, 1, "Bash", {"command": "echo zircon"})),
    ("command", said(2, 1, "<bash-input>echo zircon</bash-input>")),
    ("file", called(2, 1, "Read", {"file_path": "/src/zircon.py"})),
    ("file", called(2, 1, "Write", {"file_path": "/a.py", "content": "import zircon"})),
    ("file", called(2, 1, "Edit", {"file_path": "/a.py", "old_string": "a", "new_string": "zircon"})),
    ("file", called(2, 1, "MultiEdit", {"file_path": "/a.py", "edits": [{"old_string": "zircon", "new_string": ""}]})),
    ("file", called(2, 1, "NotebookEdit", {"notebook_path": "/a.ipynb", "new_source": "zircon()"})),
    ("tool", called(2, 1, "WebFetch", {"url": "https://example.org/zircon"})),
    ("tool", called(2, 1, "mcp__zircon__find", {"deep": [{"er": 1}]})),
    ("tool", called(2, 1, "Grep", "zircon")),
    ("summary", record(2, "user", 1, message={"role": "user", "content": "This session: zircon"}, isCompactSummary=True)),
    ("thinking", replied(2, 1, {"type": "thinking", "thinking": "zircon?", "signature": "s"})),
]


@pytest.mark.parametrize("kind, row", KINDS, ids=[f"{at}-{kind}" for at, (kind, _) in enumerate(KINDS)])
def test_each_kind_is_found_as_what_it_is(ask: Ask, tmp_path: Path, kind: str, row: dict[str, Any]) -> None:
    path = write(tmp_path / "s.jsonl", said(1, None, "begin"), row, replied(3, 2, text("done")))
    asked = ["--type", "thinking"] if kind == "thinking" else []
    report = ask("--file", path, "ZIRCON", *asked)
    assert [found[0] for found in hits(report)] == [kind]
    others = ",".join(other for other in ("user", "agent", "command", "file", "tool", "output", "summary", "thinking") if other != kind)
    assert ask("--file", path, "zircon", "--type", others).get("matched") == "0"
    if kind == "thinking":
        assert ask("--file", path, "zircon").get("matched") == "0"


OUTPUTS: list[tuple[str, Any, Any]] = [
    ("block", "the zircon", None),
    ("list", [text("the zircon")], None),
    ("stdout", "cut", {"stdout": "cut and zircon", "stderr": ""}),
    ("stderr", "", {"stdout": "", "stderr": "zircon"}),
    ("text", None, "zircon"),
    ("file", "", {"type": "text", "file": {"filePath": "/x", "content": "zircon"}}),
    ("agent", [], {"status": "completed", "content": [text("zircon")]}),
    ("answers", "ok", {"answers": {"Which?": "zircon"}}),
    ("original", "updated", {"filePath": "/x", "originalFile": "zircon", "structuredPatch": []}),
]


@pytest.mark.parametrize("content, detail", [(content, detail) for _, content, detail in OUTPUTS], ids=[name for name, _, _ in OUTPUTS])
def test_the_fullest_text_of_an_output_is_found_once_with_its_call(ask: Ask, tmp_path: Path, content: Any, detail: Any) -> None:
    path = write(tmp_path / "s.jsonl", said(1, None, "begin"), called(2, 1, "Bash", {"command": "dig here"}), answered(3, 2, content, detail))
    report = ask("--file", path, "zircon")
    assert hits(report) == [("output", "live", "1")]
    assert [label.text for label in report.iter("label")] == ["Bash dig here"]


def test_what_an_edit_changed_is_the_calls_text_and_no_second_hit(ask: Ask, tmp_path: Path) -> None:
    detail = {
        "filePath": "/a.py",
        "oldString": "old zircon",
        "newString": "zircon",
        "structuredPatch": [{"lines": ["-old zircon", "+zircon", " context"]}],
    }
    path = write(
        tmp_path / "s.jsonl",
        said(1, None, "begin"),
        called(2, 1, "Edit", {"file_path": "/a.py", "old_string": "old zircon", "new_string": "zircon"}),
        answered(3, 2, "updated", detail),
    )
    assert hits(ask("--file", path, "zircon")) == [("file", "live", "1")]
    assert hits(ask("--file", path, "context")) == [("output", "live", "1")]


def test_bookkeeping_and_pictures_are_no_text(ask: Ask, tmp_path: Path) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "zircon" * 50}}
    detail = {"type": "zircon", "file": {"type": "image/png", "base64": "zircon" * 50}, "agentId": "zircon", "status": "zircon", "totalTokens": 7}
    path = write(tmp_path / "s.jsonl", said(1, None, "begin"), called(2, 1, "Read", {"file_path": "/a.png"}), answered(3, 2, [picture], detail))
    assert ask("--file", path, "zircon").get("matched") == "0"


@pytest.mark.parametrize("deep", [300, 980, 3_000])
def test_what_nests_deep_is_searched_as_far_as_python_reads_it(run_script: Run, tmp_path: Path, deep: int) -> None:
    nested = "[" * deep + '"zircon"' + "]" * deep
    rows = [json.dumps(said(1, None, "zircon")), json.dumps(called(2, 1, "mcp__x", {"a": 0})).replace('{"a": 0}', f'{{"a": {nested}}}')]
    rows.append(json.dumps(answered(3, 2, "zircon", {"a": 0})).replace('{"a": 0}', f'{{"a": {nested}}}'))
    path = tmp_path / "s.jsonl"
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    done = run_script(QUERY, "--file", path, "zircon")
    assert (done.returncode, done.stderr) == (0, b"")
    assert ElementTree.fromstring(done.stdout).get("matched") in ("1", "2", "3")  # how deep that is depends on its version


def test_a_saved_output_is_searched_whole_also_where_the_folder_moved(ask: Ask, config: Path) -> None:
    """207 KB in a file, of which the record has a preview and the first 30 KB."""
    source = FIXTURES / "v197_print_multiturn/projects/-home-dev-proj-one-app"
    target = config / "projects/-elsewhere"
    shutil.copytree(source, target)
    session = "40ed2dcf-d1c0-4b4e-a25e-abc10092894a"
    last = (source / session / "tool-results/bxicsuu40.txt").read_text(encoding="utf-8").splitlines()[-1]
    report = ask("--id", session, f'"{last}"')
    assert [found[0] for found in hits(report)] == ["output"]
    assert last in matches(report)[0]
    fork = config / "projects/-third/11111111-1111-4111-8111-111111111111.jsonl"
    fork.parent.mkdir()
    shutil.copy(source / f"{session}.jsonl", fork)
    assert [found[0] for found in hits(ask("--file", fork, f'"{last}"'))] == ["output"]


def test_a_saved_output_is_the_one_of_the_session_that_its_line_names(ask: Ask, tmp_path: Path) -> None:
    """A fork has copied the line, and an output of its own by the same name."""
    for session, words in (("source", "zircon here"), ("fork", "opal there")):
        (tmp_path / session / "tool-results").mkdir(parents=True)
        (tmp_path / session / "tool-results/b1.txt").write_text(words, encoding="utf-8")
    block = {"type": "tool_result", "tool_use_id": "t", "content": f"<persisted-output>\nsaved to: {tmp_path}/source/tool-results/b1.txt"}
    path = tmp_path / "fork.jsonl"
    path.write_text(json.dumps(said(1, None, [block])) + "\n", encoding="utf-8")
    assert ask("--file", path, "zircon").get("matched") == "1"
    assert ask("--file", path, "opal").get("matched") == "0"


def test_a_long_word_beside_a_saved_output_does_not_run_away() -> None:
    """The name of the session in front of it was looked for from each letter: 30,000 took 9 s, these would have taken hours."""
    saved = "0a1b" * 250_000 + " /home/ada/.claude/projects/-p/5e551015-0000-4000-8000-000000000001/tool-results/b1.txt"
    assert list(query.saved_names(saved.encode())) == [("5e551015-0000-4000-8000-000000000001", "b1.txt")]


def test_own_traces_are_no_hits(ask: Ask, tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.jsonl",
        said(1, None, "<command-name>/cc-query-chat</command-name><command-args>zircon</command-args>"),
        called(2, 1, "Bash", {"command": 'python3 "/a b/skills/cc-query-chat/query_session.py" --regexp zircon'}),
        answered(3, 2, "<chat-query>zircon</chat-query>"),
        called(4, 3, "Skill", {"skill": "cc-carryover:cc-query-chat", "args": "zircon"}),
        answered(5, 4, "zircon"),
        said(6, 5, "<bash-input>python3 compact_session.py zircon</bash-input>"),
        said(7, 6, "<bash-stdout>&lt;compacted-session-chain&gt;zircon</bash-stdout>"),
        called(8, 7, "Bash", {"command": "cat notes"}),
        answered(9, 8, "zircon in my notes"),
    )
    assert matches(ask("--file", path, "zircon")) == ["zircon in my notes"]
    named = write(
        tmp_path / "t.jsonl", said(1, None, "begin"), called(2, 1, "Bash", {"command": "cat skills/cc-query-chat/query_session.py | grep zircon"})
    )
    assert ask("--file", named, "zircon").get("matched") == "1"


def test_a_page_that_begins_as_a_report_is_a_hit(ask: Ask, tmp_path: Path) -> None:
    rows = [said(1, None, "begin"), called(2, 1, "WebFetch", {"url": "https://a"}), answered(3, 2, "<chat-query>zircon</chat-query>")]
    assert hits(ask("--file", write(tmp_path / "s.jsonl", *rows), "zircon")) == [("output", "live", "1")]


RUNS = [
    "cd /tmp/x && CLAUDE_CONFIG_DIR='/a b' ./query_session.py zircon",
    "env FOO=1 python3 -X utf8 -u query_session.py zircon",
    "if true; then sudo ./fork_session.py zircon; fi",
    "/usr/bin/python3.11 /a\\ b/query_session.py zircon",
    "pypy3 query_session.py zircon",
]
MENTIONS = ["python3 scripts/vendor.py query_session.py zircon", "python3 -m mypy query_session.py zircon"]


@pytest.mark.parametrize("command, found", [*((command, "0") for command in RUNS), *((command, "2") for command in MENTIONS)])
def test_a_call_of_these_scripts_is_known_however_it_is_spelled(ask: Ask, tmp_path: Path, command: str, found: str) -> None:
    rows = [said(1, None, "begin"), called(2, 1, "Bash", {"command": command}), answered(3, 2, "zircon")]
    assert ask("--file", write(tmp_path / "s.jsonl", *rows), "zircon").get("matched") == found


@pytest.mark.parametrize("piece", [";", "(", "\n", "\\a", "A=b ", "python -X "])
def test_knowing_a_call_does_not_run_away(piece: str) -> None:
    began = time.process_time()
    assert not query.runs_own_script(piece * 40_000 + "'x_session.py")
    assert time.process_time() - began < 5


def test_the_late_result_of_a_background_call_is_its_output(ask: Ask) -> None:
    path = next((FIXTURES / "v332_subagents/projects").glob("*/*.jsonl"))
    reports = [ask("--file", path, "OCHRE-VOLE") for path in (FIXTURES / "v332_subagents/projects").glob("*/*.jsonl")]
    found = [result for report in reports for result in report.iter("result") if result.get("type") == "output"]
    assert path and len(found) >= 1
    assert any("Agent" in (result.findtext("label") or "") for result in found)


# ----------------------------------------------------------------------------------------------------------------- matching


@pytest.mark.parametrize(
    "query",
    [
        "café",
        "CAFÉ",
        "cafe\u0301",
        "strasse",
        "STRASSE",
        "straße",
        "\u212aelvin",
        "kelvin",
        "ﬁne",
        "FINE",
        "ΣΟΦΌΣ",
        "σοφός",
        "привет",
        "ПРИВЕТ",
        "梨",
        "한국",
        "😀",
        "İzmir",
    ],
)
@pytest.mark.parametrize("scheme", ["--keyword", "--regexp", "--glob"])
def test_case_and_normal_forms_do_not_matter(ask: Ask, tmp_path: Path, query: str, scheme: str) -> None:
    said_so = "un café; Straße; \u212aelvin; fine; Σοφός; Привет; 梨; \u1112\u1161\u11ab국; 😀; İzmir"
    for ascii_only in (False, True):
        for spelled in (said_so, said_so.replace("é", "e\u0301").replace("fine", "ﬁne").replace("Straße", "STRASSE").replace("\u212a", "k")):
            path = write(tmp_path / "s.jsonl", said(1, None, spelled), replied(2, 1, text("none of it")), ascii_only=ascii_only)
            report = ask("--file", path, scheme, query)
            assert hits(report) == [("user", "live", "1")], spelled
            assert matches(report) == [spelled]  # the snippet in its own spelling


def test_case_sensitive(ask: Ask, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", said(1, None, "Zircon"), replied(2, 1, text("zircon")))
    for scheme, query in (("--keyword", "Zircon"), ("--regexp", "Z.rcon"), ("--glob", "Z?rcon")):
        assert hits(ask("--file", path, "--case-sensitive", scheme, query)) == [("user", "live", "1")]
        assert ask("--file", path, scheme, query).get("matched") == "2"


def test_a_phrase_crosses_lines_and_any_blank(ask: Ask, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", said(1, None, "the retry\u00a0\r\n\tpolicy"), replied(2, 1, text("retry the policy")))
    assert hits(ask("--file", path, '"retry policy"')) == [("user", "live", "1")]


def test_of_several_words_those_in_quotes_keep_their_marks(ask: Ask, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", said(1, None, "TODO: plums"), replied(2, 1, text("the TODO list")))
    assert hits(ask("--file", path, '"TODO:" pears')) == [("user", "live", "1")]
    assert len(hits(ask("--file", path, "TODO: pears?"))) == 2


def test_hits_are_ranked_by_words_then_hits_then_time(ask: Ask, tmp_path: Path) -> None:
    rows = ["alpha alpha alpha", "alpha beta", "alpha", "alpha beta beta", "alpha"]
    made = [said(1, None, "begin"), *(replied(n + 2, n + 1, text(words)) for n, words in enumerate(rows))]
    report = ask("--file", write(tmp_path / "s.jsonl", *made), "alpha beta gamma")
    assert matches(report) == ["alpha beta beta", "alpha beta", "alpha alpha alpha", "alpha", "alpha"]
    assert [result.get("ts") for result in report.iter("result")][-2:] == ["2026-05-01 10:00:06", "2026-05-01 10:00:04"]


def test_the_snippet_is_cut_around_the_hit(ask: Ask, tmp_path: Path) -> None:
    before, after = "é line before\n" * 3_000, "and 😀 after\n" * 3_000
    path = write(tmp_path / "s.jsonl", said(1, None, f"{before}the Straßen-Zirkon{after}"))
    report = ask("--file", path, "strassen-zirkon", "--truncate", "200")
    (snippet,) = matches(report)
    assert "the Straßen-Zirkon" in snippet
    assert len(snippet.encode("utf-16-le")) // 2 <= 200
    counts = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) characters", snippet)]
    assert len(counts) == 2 and all(count > 30_000 for count in counts)
    shown = re.sub(r"\[… [\d,]+ characters\] | \[[\d,]+ characters …\]", "", snippet)
    assert sum(counts) + len(shown) == len(f"{before}the Straßen-Zirkon{after}")
    assert abs(shown.index("the Straßen") - len(shown) // 2) < 40


def test_near_an_end_the_snippet_uses_all_of_its_room(ask: Ask, tmp_path: Path) -> None:
    for text in (f"{'x' * 5_000} zircon at the end", f"zircon at the start {'x' * 5_000}"):
        path = write(tmp_path / "s.jsonl", said(1, None, text))
        (snippet,) = matches(ask("--file", path, "zircon", "--truncate", "300"))
        assert "zircon at the" in snippet and 260 <= len(snippet) <= 300


def test_since_and_until(ask: Ask, tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.jsonl",
        said(1, None, "zircon one"),
        said(90, 1, "zircon two"),
        {**said(91, 90, "zircon three"), "timestamp": "2026-05-03T00:00:00Z"},
    )

    def found(*args: str) -> list[str]:
        return sorted(word.split()[1] for word in matches(ask("--file", path, "zircon", *args)))

    assert found("--since", "2026-05-01T10:01") == ["three", "two"]
    assert found("--until", "2026-05-01") == ["one", "two"]
    assert found("--since", "2026-05-02", "--until", "2026-05-03") == ["three"]
    assert found("--until", "1d") == ["one", "three", "two"]
    assert found("--since", "12h") == []


# ------------------------------------------------------------------------------------------------------------------ targets


def test_all_sessions_of_the_project_but_the_own_one(monkeypatch: pytest.MonkeyPatch, ask: Ask, orchard: Callable[..., Path], config: Path) -> None:
    one, two = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
    orchard(one, said(1, None, "zircon in one"))
    orchard(two, said(11, None, "zircon in two"))
    orchard(OWN, said(21, None, "zircon in mine"))
    write(
        config / "projects/-home-ada-other/33333333-0000-4000-8000-000000000003.jsonl",
        {**said(31, None, "zircon elsewhere"), "cwd": "/home/ada/other"},
    )
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", OWN)
    project = ["--project", "/home/ada/orchard"]
    report = ask(*project, "zircon")
    assert matches(report) == ["zircon in two", "zircon in one"]
    assert report.get("sessions") == "2"
    assert [result.get("session") for result in report.iter("result")] == [two, one]
    assert matches(ask(*project, "--exclude", one, "zircon")) == ["zircon in two"]
    assert matches(ask(*project, "zircon", "--chat", "this")) == ["zircon in mine"]
    assert matches(ask(*project, "zircon", "--chat", "1111")) == ["zircon in one"]
    assert len(matches(ask(*project, "zircon", "--all-projects"))) == 3


def test_the_others_that_a_title_fits_are_named(ask: Ask, orchard: Callable[..., Path]) -> None:
    for n in (1, 2):
        orchard(f"{n}1111111-0000-4000-8000-000000000001", said(n, None, "zircon"))
    assert ask("--project", "/home/ada/orchard", "--chat", "zircon", "zircon").findtext("target") == (
        'also fits: 11111111-0000-4000-8000-000000000001 "zircon" 2026-05-01 10:00')


def test_a_pattern_that_matches_nothing_but_emptiness_shows_the_first_such_place(ask: Ask, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", said(1, None, f"the beginning {'word ' * 800}the end"))
    (match,) = matches(ask("--file", path, "--regexp", "q*", "--truncate", "120"))
    assert match.startswith("the beginning word") and match.endswith("characters …]")


@pytest.mark.parametrize("option", ["--id", "--title", "--file", "--chat"])
def test_a_session_that_is_named_with_nothing_is_not_all_of_them(ask: Ask, orchard: Callable[..., Path], option: str) -> None:
    orchard("11111111-0000-4000-8000-000000000001", said(1, None, "zircon"))
    with pytest.raises(cc.Refusal):
        ask("--project", "/home/ada/orchard", f"{option}=", "zircon")


def test_sub_agents_only_when_asked_for(ask: Ask, config: Path) -> None:
    shutil.copytree(CASES / "10-subagent-files/projects", config / "projects")
    project = ["--project", "/home/ada/orchard", '"sub-agent finding"']
    assert ask(*project).get("matched") == "0"
    report = ask(*project, "--subagents")
    found = {(result.get("session"), result.get("agent"), result.get("state")) for result in report.iter("result")}
    parent = "10aaaaaa-0000-4000-8000-000000000001"
    assert found == {(parent, "agent-a9f8e7d", "subagent"), (parent, "agent-a1b2c3d", "subagent")}
    assert report.get("bytes") == "4967"  # 2143 + 965 + 895 + 964: each file once, also the one that lies beside its session
    assert ask("--chat", "10aaaaaa-0000-4000-8000-000000000001", '"sub-agent finding"', "--subagents").get("matched") == "2"


def test_a_named_sub_agent_s_transcript_is_searched(ask: Ask) -> None:
    folder = CASES / "10-subagent-files/projects/-home-ada-orchard"
    parent = "10aaaaaa-0000-4000-8000-000000000001"
    for option, path in (("--file", folder / parent / "subagents/agent-a9f8e7d.jsonl"), ("--chat", folder / "agent-a1b2c3d.jsonl")):
        report = ask(option, path, '"sub-agent finding"')
        found = [(result.get("session"), result.get("agent"), result.get("state")) for result in report.iter("result")]
        assert found == [(parent, path.stem, "subagent")]
        assert ask(option, path, "--only", "live", '"sub-agent finding"').get("matched") == "0"
        assert ask(option, path, "--list").get("sessions") == "1"


def test_the_history_of_a_session_of_which_only_a_sub_agent_was_searched(ask: Ask, config: Path) -> None:
    parent = "10aaaaaa-0000-4000-8000-000000000001"
    config.mkdir(exist_ok=True)
    typed = {"display": "wait for the sub-agent finding", "timestamp": 1777629600000, "project": "/home/ada/orchard", "sessionId": parent}
    (config / "history.jsonl").write_text(json.dumps(typed) + "\n")
    path = CASES / f"10-subagent-files/projects/-home-ada-orchard/{parent}/subagents/agent-a9f8e7d.jsonl"
    report = ask("--file", path, "--history", "--project", "/home/ada/orchard", '"sub-agent finding"')
    assert sorted(result.get("state") or "" for result in report.iter("result")) == ["history", "subagent"]


def test_a_row_copied_into_a_fork_is_one_hit_that_names_both(ask: Ask, orchard: Callable[..., Path]) -> None:
    rows = [said(1, None, "zircon at the root"), replied(2, 1, text("kept"))]
    one, two = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
    for session, more in ((one, []), (two, [said(3, 2, "and on")])):
        orchard(session, *rows, *more)
    report = ask("--project", "/home/ada/orchard", "zircon")
    (result,) = report.iter("result")
    assert report.get("matched") == "1"
    assert {result.get("session"), result.get("also-in")} == {one, two}


def test_of_many_copies_of_a_row_four_are_named_and_the_others_counted(ask: Ask, orchard: Callable[..., Path]) -> None:
    for n in range(1, 8):
        orchard(f"{n}1111111-0000-4000-8000-000000000001", said(1, None, "zircon"))
    (result,) = ask("--project", "/home/ada/orchard", "zircon").iter("result")
    assert (result.get("also-in") or "").endswith("-000000000001 and 2 more") and len((result.get("also-in") or "").split()) == 7


@pytest.mark.parametrize("split", [False, True])
def test_the_sessions_that_hold_a_row_are_named_in_one_order(
    ask: Ask, orchard: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, split: bool
) -> None:
    """The largest ones are searched by one process, the others by another one."""
    for n, more in ((1, 0), (2, 90), (3, 10), (4, 50)):
        rows = [said(at, 1, "padding") for at in range(10, 10 + more)]
        orchard(f"{n}1111111-0000-4000-8000-000000000001", said(1, None, "zircon"), *rows)
    if split and hasattr(os, "fork"):
        monkeypatch.setattr(query, "SPLIT_BYTES", 10)
        monkeypatch.setattr(query.cc, "can_split", lambda: True)
    (result,) = ask("--project", "/home/ada/orchard", "zircon").iter("result")
    assert [result.get("session"), *(result.get("also-in") or "").split()] == [f"{n}1111111-0000-4000-8000-000000000001" for n in (1, 2, 3, 4)]


def test_of_a_row_that_a_fork_holds_cut_the_whole_text_is_shown(ask: Ask, config: Path) -> None:
    one, two = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
    for session, output in ((one, "zircon [… cut]"), (two, "zircon, all of it")):
        folder = config / "projects/-home-ada-orchard"
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / f"{session}.jsonl", said(1, None, "begin"), called(2, 1, "Bash", {"command": "cat x"}), answered(3, 2, output))
    assert matches(ask("--all-projects", "zircon")) == ["zircon, all of it"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("[image]", ["look\n[image]"]),
        ("[image/png]", ["[image/png]"]),
        ("[application/pdf]", ["[application/pdf]"]),
        ("[tool_reference:", ["[tool_reference: Grep]"]),
    ],
)
def test_what_stands_for_a_picture_or_another_block_is_found(ask: Ask, tmp_path: Path, words: str, found: list[str]) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    paper = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}}
    rows = [said(1, None, [text("look"), picture])]
    for n, block in ((2, picture), (4, paper), (6, {"type": "tool_reference", "tool_name": "Grep"})):
        rows += [called(n, n - 1, "Read", {}), answered(n + 1, n, [block])]
    assert matches(ask("--file", write(tmp_path / "s.jsonl", *rows), words)) == found


def test_a_letter_that_folding_makes_longer_is_found_beside_one_that_it_makes_shorter(ask: Ask, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", said(1, None, "cafe\u0301 in der Straße"))
    assert matches(ask("--file", path, "--regexp", "Stra.e")) == ["cafe\u0301 in der Straße"]


@pytest.mark.parametrize(("truncate", "shown"), [("900", ["zircon", "opal"]), ("200", ["zircon"]), ("60", ["zircon"])])
def test_a_snippet_too_short_for_all_words_shows_one_of_them(ask: Ask, tmp_path: Path, truncate: str, shown: list[str]) -> None:
    """Not what stands between them."""
    path = write(tmp_path / "s.jsonl", said(1, None, "begin " * 200 + "zircon " + "middle " * 60 + "opal" + " end" * 300))
    (match,) = matches(ask("--file", path, "--truncate", truncate, "opal zircon"))
    assert [word for word in ("zircon", "opal") if word in match] == shown


@pytest.mark.parametrize("split", [False, True])
def test_a_fork_with_new_ids_is_known_by_the_same_text_at_the_same_time(
    ask: Ask, orchard: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, split: bool
) -> None:
    for at, session in enumerate(
        ("11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002", "33333333-0000-4000-8000-000000000003")
    ):
        orchard(session, {**said(1, None, "zircon at the root"), "uuid": uuid_of(100 + at)}, said(10 + at, None, "zircon of its own"))
    if split and hasattr(os, "fork"):
        monkeypatch.setattr(query, "SPLIT_BYTES", 10)
        monkeypatch.setattr(query.cc, "can_split", lambda: True)
    report = ask("--project", "/home/ada/orchard", '"zircon at the root" own')
    assert report.get("matched") == "4"
    assert sorted(len((result.get("also-in") or "").split()) for result in report.iter("result")) == [0, 0, 0, 2]


def test_the_prompt_history_keeps_what_is_gone(ask: Ask, orchard: Callable[..., Path], config: Path) -> None:
    kept = "11111111-0000-4000-8000-000000000001"
    orchard(kept, said(1, None, "the zircon that is kept"))
    entries = [
        ("the zircon that is kept", "/home/ada/orchard", kept),
        ("a zircon long gone", "/home/ada/orchard", "99999999-0000-4000-8000-000000000009"),
        ("zircon of others", "/home/bob", "88888888-0000-4000-8000-000000000008"),
        ("/cc-query-chat zircon", "/home/ada/orchard", "99999999-0000-4000-8000-000000000009"),
    ]
    lines = [
        json.dumps({"display": words, "timestamp": 1_700_000_000_000, "project": project, "sessionId": session})
        for words, project, session in entries
    ]
    (config / "history.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    project = ["--project", "/home/ada/orchard", "zircon"]
    assert matches(ask(*project)) == ["the zircon that is kept"]
    report = ask(*project, "--history")
    assert [(state, words) for (_, state, _), words in zip(hits(report), matches(report))] == [
        ("live", "the zircon that is kept"),
        ("history", "a zircon long gone"),
    ]
    assert matches(ask(*project, "--history", "--only", "history")) == ["a zircon long gone"]
    assert len(matches(ask("zircon", "--history", "--all-projects"))) == 3


def test_entries_of_old_clients_name_no_session(ask: Ask, config: Path) -> None:
    entry = {"display": "a zircon of old", "pastedContents": {}, "timestamp": 1_700_000_000_000, "project": "/home/ada/orchard"}
    (config / "history.jsonl").write_text(json.dumps(entry) + "\n", encoding="utf-8")
    (result,) = ask("--project", "/home/ada/orchard", "zircon", "--history").iter("result")
    assert (result.get("state"), result.get("session"), result.findtext("match")) == ("history", None, "a zircon of old")


# --------------------------------------------------------------------------------------------------------------- the answer


def test_no_hit_says_what_was_searched_and_what_comes_close(ask: Ask, orchard: Callable[..., Path]) -> None:
    path = orchard("11111111-0000-4000-8000-000000000001", said(1, None, "the zirkon valve"), replied(2, 1, text("an iron")))
    report = ask("--project", "/home/ada/orchard", "zircon")
    assert (report.get("sessions"), report.get("bytes"), report.get("matched")) == ("1", str(path.stat().st_size), "0")
    (none,) = report.iter("no-hit")
    assert "zirkon" in (none.get("close-words") or "").split(", ")
    assert none.text == (
        "Nothing found. Not searched: other projects (--all-projects), sub-agents (--subagents), the prompt history (--history), thinking (--type thinking).")
    named = ask("--file", path, "--subagents", "--history", "zircon").findtext("no-hit")
    assert named == "Nothing found. Not searched: the project's other sessions (name none), thinking (--type thinking)."


@pytest.mark.parametrize(("typed", "told"), [
    ("zircon --only live", True), ("--only live zircon", False), ("--keyword 'git commit --amend'", False), ("zircon--limit --limitless", False)])
def test_an_option_behind_the_words_is_said_to_be_a_word(ask: Ask, run_script: Run, orchard: Callable[..., Path], typed: str, told: bool) -> None:
    orchard("11111111-0000-4000-8000-000000000001", said(1, None, "the zircon valve"))
    done = run_script(QUERY, "--project", "/home/ada/orchard", "--args-stdin", stdin=typed.encode())
    assert ("Options stand before the words" in (ElementTree.fromstring(done.stdout).findtext("notice") or "")) == told, done.stderr


def test_no_hit_names_the_filters_that_were_on(ask: Ask, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", said(1, None, "zircon"))
    assert "Filters were on (--type, --case-sensitive)." in (ask("--file", path, "Zircon", "--case-sensitive", "--type", "user").findtext("no-hit") or "")
    assert "Filters" not in (ask("--file", path, "quartz").findtext("no-hit") or "")
    (none,) = ask("--file", path, "zircon", "--only", "compacted").iter("no-hit")  # a word that occurs is not close to itself
    assert none.get("close-words") is None and "Filters were on (--only)." in (none.text or "")


def test_limit_truncate_and_the_bound(run_script: Run, ask: Ask, tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.jsonl", said(1, None, "begin"), *(replied(n, n - 1, text(f'zircon <&"> {n} ' + "é<&>😀 " * 400)) for n in range(2, 60))
    )
    report = ask("--file", path, "zircon")
    assert (report.get("matched"), report.get("showing")) == ("58", "5")
    (omitted,) = report.iter("omitted")
    assert omitted.get("results") == "53" and "--limit 20" in (omitted.text or "") and str(path) in (omitted.text or "")
    for bound in (2_000, 2_345, 5_000, 10_000, 29_000):
        done = run_script(QUERY, "--file", path, "zircon", "--limit", "1000", "--truncate", "100000", "--max-chars", bound)
        out = done.stdout.decode("utf-8")
        assert len(out.encode("utf-16-le")) // 2 <= bound
        tight = ElementTree.fromstring(out)
        assert int(tight.get("showing") or 0) == len(list(tight.iter("result"))) > 0
        assert all("zircon" in snippet for snippet in matches(tight))


def test_what_does_not_fit_is_said_also_where_the_limit_would_show_all(ask: Ask, tmp_path: Path) -> None:
    rows = [said(1, None, "begin"), *(replied(n, n - 1, text(f"zircon {n} " + "x" * 200)) for n in range(2, 14))]
    path = write(tmp_path / "s.jsonl", *rows)
    report = ask("--file", path, "zircon", "--limit", "50", "--max-chars", "2000")
    (omitted,) = report.iter("omitted")
    assert report.get("matched") == "12" and 12 == int(omitted.get("results") or 0) + len(list(report.iter("result")))


@pytest.mark.parametrize("asked, found", [(["--since", "2026-05-02"], 1), (["--until", "2026-05-01"], 1), (["--since", "2026-06-01"], 0)])
def test_the_list_of_a_time(ask: Ask, orchard: Callable[..., Path], asked: list[str], found: int) -> None:
    for n in (1, 2):
        orchard(f"{str(n) * 8}-0000-4000-8000-00000000000{n}", {**said(n, None, "begin"), "timestamp": f"2026-05-0{n}T10:00:00.000Z"})
    report = ask("--project", "/home/ada/orchard", "--list", *asked)
    assert report.get("sessions") == str(found) == str(len(list(report.iter("session"))))
    assert ("in that time" in (report.findtext("no-session") or "")) == (not found)


@pytest.mark.parametrize("option, pattern", [("--regexp", "[[:alpha:]]+"), ("--regexp", "[a&&b]"), ("--glob", "zir[&&]con")])
def test_a_set_that_python_warns_of_leaves_standard_error_empty(run_script: Run, tmp_path: Path, option: str, pattern: str) -> None:
    done = run_script(QUERY, "--file", write(tmp_path / "s.jsonl", said(1, None, "zircon")), option, pattern)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_part_of_a_pattern_that_tells_case(ask: Ask, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", said(1, None, "Zircon ONE"), replied(2, 1, text("zircon one")))
    assert matches(ask("--file", path, "--regexp", "(?-i:Zir)con one")) == ["Zircon ONE"]
    assert matches(ask("--file", path, "--regexp", "(?-i:zir)CON")) == ["zircon one"]


def test_the_follow_up_commands_run_as_they_stand(ask: Ask, orchard: Callable[..., Path], tmp_path: Path) -> None:
    session = "11111111-0000-4000-8000-000000000001"
    orchard(session, said(1, None, "begin 'here' $(id)"), *(replied(n, n - 1, text(f"it's zircon {n}")) for n in range(2, 12)))
    report = ask("--project", "/home/ada/orchard", "it's zircon")
    environment = {**os.environ}
    for name in ("read-on", "omitted"):
        command = report.findtext(name) or ""
        done = subprocess.run(["sh", "-c", command], capture_output=True, env=environment, cwd=tmp_path, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        again = ElementTree.fromstring(done.stdout.decode())
        assert again.get("session") == session if name == "read-on" else again.get("showing") == "10"


@pytest.mark.parametrize(("option", "sought"), [("--regexp", "x  +y"), ("--glob", "x  y"), ("--glob", "x\ty"), ("--glob", "--type"), ("--keyword", "--type")])
def test_the_command_for_more_asks_for_the_same(run_script: Run, orchard: Callable[..., Path], tmp_path: Path, option: str, sought: str) -> None:
    """Blanks of a pattern stay as they are, and what is spelled as an option is none."""
    words = f"x y, x  y, x\ty, git --type {sought}"
    orchard("11111111-0000-4000-8000-000000000001", said(1, None, words), *(replied(n, n - 1, text(words)) for n in range(2, 5)))
    done = run_script(QUERY, "--project", "/home/ada/orchard", "--limit", "1", f"{option}={sought}")
    command = ElementTree.fromstring(done.stdout).findtext("omitted") or ""
    again = subprocess.run(["sh", "-c", command], capture_output=True, cwd=tmp_path, timeout=60, check=False)
    assert (again.returncode, again.stderr) == (0, b"")
    assert ElementTree.fromstring(again.stdout.decode()).get("showing") == "4"


def test_secrets_are_masked_also_where_they_are_the_hit(run_script: Run, ask: Ask, tmp_path: Path) -> None:
    secret = "ghp_" + "Zx9" * 12
    path = write(tmp_path / "s.jsonl", said(1, None, "my token is " + "x " * 300 + secret + " y" * 300))
    for args in (["token"], [secret], ["--regexp", "Zx9Zx9"], ["--truncate", "70", secret]):
        done = run_script(QUERY, "--file", path, *args)
        shown = done.stdout.decode().replace(f'query="{secret}"', "").partition("<result")[2]
        assert done.returncode == 0 and "Zx9Zx9Zx9" not in shown
    assert secret in matches(ask("--file", path, secret, "--show-secrets"))[0]


def test_turns_are_read_on(run_script: Run, ask: Ask) -> None:
    path = CASES / "36-compaction/session.jsonl"
    report = ask("--file", path, "--turn", "1-2")
    assert [(turn.get("n"), turn.get("state")) for turn in report.iter("exchange")] == [("1", "compacted"), ("2", "live")]
    assert [words.text for words in report.iter("user")] == ["dig the well", "line the well"]
    assert [words.text for words in report.iter("agent")] == ["hit bedrock at 9 m", "lined"]
    done = run_script(QUERY, "--file", path, "--turn", "9")
    assert done.returncode == 1 and b"has 3" in done.stderr
    assert run_script(QUERY, "--turn", "1").returncode == 1


def test_what_is_cut_of_a_very_long_text_is_counted_whole(ask: Ask, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", said(1, None, "begin"), replied(2, 1, text("zircon " * 100_000)))
    (reply,) = ask("--file", path, "--turn", "1").iter("agent")
    head, cut, tail = re.split(r" \[… ([\d,]+) characters, cut …\] ", reply.text or "")
    assert len(head) + int(cut.replace(",", "")) + len(tail) == 700_000


def test_the_list_is_newest_first_with_titles(ask: Ask, config: Path) -> None:
    shutil.copytree(CASES / "13-title-rules/projects", config / "projects")
    report = ask("--project", "/home/ada/orchard", "--list")
    times = [session.get("last") or "" for session in report.iter("session")]
    assert len(times) == 8 and times == sorted(times, reverse=True)
    assert {"id", "last", "prompts", "bytes"} <= set(next(report.iter("session")).attrib)


def test_a_command_of_the_list_that_is_too_long_is_left_out(ask: Ask, orchard: Callable[..., Path]) -> None:
    for n in range(1, 5):
        orchard(f"{str(n) * 8}-0000-4000-8000-00000000000{n}", said(n, None, "zircon " * 20))
    asked = ["--project", "/home/ada/orchard", "--list", "--limit", 2]
    assert "--list" in (ask(*asked).findtext("omitted") or "")
    (omitted,) = ask(*asked, *["--exclude", uuid_of(99)] * 30).iter("omitted")
    assert omitted.get("sessions") and not omitted.text  # cut, it would not run


def test_several_sessions_are_searched_without_standard_error(ask: Ask, orchard: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for n in "123":
        orchard(f"{n * 8}-0000-4000-8000-00000000000{n}", said(int(n), None, "zircon"))
    monkeypatch.setattr(sys, "stderr", None)  # as Python has it where it is closed
    assert ask("--project", "/home/ada/orchard", "zircon").get("matched") == "3"


# -------------------------------------------------------------------------------------------------------------- the command


def test_slash_arguments_are_words_as_they_stand(run_script: Run, orchard: Callable[..., Path]) -> None:
    orchard("11111111-0000-4000-8000-000000000001", said(1, None, "it's the \"odd $(id) title"))
    given = "--project /home/ada/orchard --type user it's the \"odd $(id)".encode()
    done = run_script(QUERY, "--args-stdin", stdin=given)
    assert (done.returncode, done.stderr) == (0, b"")
    report = ElementTree.fromstring(done.stdout.decode("utf-8"))
    assert report.get("query") == "it's the \"odd $(id)"
    assert hits(report) == [("user", "live", "1")]
    assert next(report.iter("result")).get("score") == "4 of 4 words, 4 hits"


TWO_QUERIES = "more than one thing to search for is given; give words, --keyword, --regexp or --glob, a text with blanks in quotes"


@pytest.mark.parametrize("args, message", [
    (["a", "--regexp", "b"], TWO_QUERIES), (["--glob", "a", "--keyword", "b"], TWO_QUERIES),
    (["a", "--type", "nothing"], "argument --type: nothing is not among user, agent, command, file, tool, output, summary, thinking"),
    (["a", "--only", "x"], "argument --only: x is not among live, compacted, abandoned, subagent, history"),
    (["a", "--since", "soon"], "--since soon is no time; write 2026-05-01, 2026-05-01T10:00, 3d or 12h"),
    (["a", "--limit", "0"], "argument --limit: 0 is no whole number of 1 or more"),
    (["--turn", "3-1"], "argument --turn: 3-1 is neither N nor N-M"),
    (["a", "--timeout", "0"], "argument --timeout: 0 is no number of seconds above 0"),
    (["a", "--max-chars", "100"], "argument --max-chars: 100 is no whole number of 2000 or more"),
])
def test_wrong_usage_is_one_line_and_status_2(run_script: Run, args: list[str], message: str) -> None:
    done = run_script(QUERY, *args)
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", f"query_session.py: {message}; see --help\n")


# --------------------------------------------------------------------------------------------------- as people type it


ERROR = "Traceback: ValueError: cursor already closed (E4711)"


@pytest.fixture
def shop(orchard: Callable[..., Path]) -> Path:
    """A session in which a question's common words stand everywhere, and its rare ones in one place each."""
    chatter = "what was it that we did about the thing, and where is the file that you would have for us? " * 3
    rows = [said(1, None, "the retry policy: three times, then give up"), replied(2, 1, text("Settled."))]
    rows += [replied(n, n - 1, text(f"{chatter} {n}")) for n in range(3, 12)]
    rows += [said(12, 11, "run pytest -k cache_77"), replied(13, 12, text(f"It says:\n{ERROR}")), replied(14, 13, text("use git commit --no-verify"))]
    return orchard("11111111-0000-4000-8000-000000000001", *rows)


@pytest.mark.parametrize(("typed", "answer"), [
    ("where did we settle the retry policy?", "the retry policy: three times, then give up"),
    ("what was the error about the cursor that we have had", f"It says:\n{ERROR}"),
    ('what about the "retry policy"?', "the retry policy: three times, then give up"),
    ("where is the 'retry policy'?", "the retry policy: three times, then give up"),
    ("where is the \u201cretry policy\u201d, please", "the retry policy: three times, then give up"),
    ("`pytest -k cache_77`", "run pytest -k cache_77"),
    ("why did `pytest -k cache_77` fail", "run pytest -k cache_77"),
    (ERROR, f"It says:\n{ERROR}"),
    ('"--no-verify"', "use git commit --no-verify"),
    ("it's the retry policy", "the retry policy: three times, then give up"),
])
def test_the_answer_to_a_question_comes_first(ask: Ask, shop: Path, typed: str, answer: str) -> None:
    assert matches(ask("--file", shop, "--", typed))[0] == answer


def test_common_words_alone_are_ranked_like_any(ask: Ask, shop: Path) -> None:
    report = ask("--file", shop, "--", "what we did")
    assert (report.get("matched"), [result.get("score") for result in report.iter("result")][0]) == ("9", "3 of 3 words, 9 hits")


def test_common_words_are_hits_all_the_same(ask: Ask, shop: Path) -> None:
    report = ask("--file", shop, "--limit", "50", "--", "where is the retry policy")
    assert report.get("matched") == "10" and next(report.iter("result")).get("score") == "3 of 5 words, 4 hits"


@pytest.mark.parametrize(("typed", "option"), [
    ("cursor.*closed", "--regexp 'cursor.*closed'"), (r"E\d{4}", r"--regexp 'E\d{4}'"), ("^cursor", "--regexp '^cursor'"), ("retry|backoff|jitter", "--regexp 'retry|backoff|jitter'"),
    ("cursor*closed", "--glob 'cursor*closed'"),
])
def test_words_that_look_like_a_pattern_name_the_option_that_reads_them_so(ask: Ask, shop: Path, typed: str, option: str) -> None:
    (none,) = ask("--file", shop, "--", typed).iter("no-hit")
    assert f"searched with {option}" in (none.text or "")


@pytest.mark.parametrize("typed", ["nowhere.py", "C++", "why?", "f(x)", "$HOME/nowhere", "a.b.c", "nope [sic]"])
def test_plain_words_are_not_called_a_pattern(ask: Ask, shop: Path, typed: str) -> None:
    (none,) = ask("--file", shop, "--type", "summary", "--", typed).iter("no-hit")
    assert "searched with" not in (none.text or "")


def test_an_unknown_option_says_how_to_search_for_it(run_script: Run) -> None:
    done = run_script(QUERY, "--args-stdin", stdin=b"--no-verify where\n")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == (
        'query_session.py: unrecognized arguments: --no-verify; see --help, or put text that begins with -- in quotes to search for it: "--no-verify"\n')


@pytest.mark.parametrize("words", [["--list", "retry"], ["--turn", "1", "--keyword", "retry"]])
def test_words_that_nothing_would_search_for_are_refused(run_script: Run, shop: Path, words: list[str]) -> None:
    done = run_script(QUERY, "--file", shop, *words)
    assert (done.returncode, done.stdout) == (2, b"") and b"searches for nothing; leave out the words, or the option" in done.stderr


def test_a_directory_without_sessions_says_where_it_looked_and_where_they_may_be(ask: Ask, shop: Path, config: Path, tmp_path: Path) -> None:
    here = tmp_path / "orchard"
    here.mkdir()
    said_of_it = f"No other session of {here} is kept (looked in {config}/projects/"
    for report in (ask("--project", here, "retry"), ask("--project", here, "--list")):
        (hint,) = [element.text or "" for element in report.iter() if element.tag in ("no-hit", "no-session")]
        assert said_of_it in hint and "in /home/ada/orchard" in hint
        assert report.get("sessions") == "0"


def test_a_session_that_cannot_be_read_is_counted(ask: Ask, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = open

    def guarded(file: object, *args: Any, **named: Any) -> Any:
        if str(file) == str(shop):
            raise PermissionError(13, "Permission denied", str(file))
        return real(file, *args, **named)  # type: ignore[call-overload]

    monkeypatch.setattr("builtins.open", guarded)
    report = ask("--project", "/home/ada/orchard", "retry")
    assert (report.get("sessions"), report.get("unreadable")) == ("0", "1")


def traceback_of(lines: int) -> str:
    """What people paste: many frames with numbers in them, and the error at the end."""
    frames = "".join(f'  File "/srv/shop/mod{n}.py", line {n * 3}, in handler_{n}\n    return self.call_{n}(request, *args)\n' for n in range(lines))
    return f"Traceback (most recent call last):\n{frames}{ERROR}"


def test_a_pasted_traceback_finds_its_error_not_texts_full_of_numbers(run_script: Run, orchard: Callable[..., Path]) -> None:
    digits = " ".join(f"{n}9x{n}" for n in range(900))  # every number of the traceback stands in it, inside other ones
    path = orchard(
        "11111111-0000-4000-8000-000000000001", said(1, None, "it failed again"), replied(2, 1, text(f"The log ends with:\n{ERROR}")),
        *(replied(n, n - 1, text(digits)) for n in range(3, 60)))
    done = run_script(QUERY, "--file", path, "--args-stdin", stdin=traceback_of(200).encode())
    assert (done.returncode, done.stderr) == (0, b"")
    report = ElementTree.fromstring(done.stdout.decode("utf-8"))
    assert matches(report)[0] == f"The log ends with:\n{ERROR}" and report.get("matched") == "59"
    (omitted,) = report.iter("omitted")
    assert omitted.get("results") and not omitted.text  # the whole paste again is no command to run


def test_a_lone_letter_or_number_is_one_in_the_ranking_only_by_itself(ask: Ask, orchard: Callable[..., Path]) -> None:
    path = orchard(
        "11111111-0000-4000-8000-000000000001", said(1, None, "we take option B"), replied(2, 1, text("an option about bulbs")), said(3, 2, "error 404 in prod"),
        replied(4, 3, text("no error 14041 anywhere")))
    assert matches(ask("--file", path, "option B")) == ["we take option B", "an option about bulbs"]
    assert matches(ask("--file", path, "error 404")) == ["error 404 in prod", "no error 14041 anywhere"]
    assert matches(ask("--file", path, "404")) == ["no error 14041 anywhere", "error 404 in prod"]  # alone it is any text


def test_a_snippet_shows_a_lone_number_where_it_stands_by_itself(ask: Ask, orchard: Callable[..., Path]) -> None:
    log = f"error on line 9515{' and so on' * 300} error 5 of the pump{' and so on' * 300}"
    path = orchard("11111111-0000-4000-8000-000000000001", said(1, None, "look"), replied(2, 1, text(log)))
    (shown,) = matches(ask("--file", path, "error 5", "--truncate", "200"))
    assert " error 5 of the pump " in shown


def test_what_was_pasted_into_a_prompt_is_in_the_prompt_history_too(ask: Ask, config: Path) -> None:
    """The client keeps a place-holder in the prompt, and the pasted text beside it (fixture v332_tui_rewind_interrupt)."""
    shutil.copy(FIXTURES / "v332_tui_rewind_interrupt/history.jsonl", config)
    (pasted,) = ask("--project", "/home/dev/proj_one.app", "--history", '"Pasted block line one"').iter("result")
    assert pasted.get("state") == "history"
    assert pasted.findtext("match") == "[Pasted text #1 +6 lines]\nPasted block line one\nline two\nline three\nline four\nline five\nline six\n"


def test_an_edits_label_says_which_text_is_the_old_one(ask: Ask) -> None:
    sample = next((FIXTURES / "sample").rglob("*.jsonl"))
    (exchange,) = ask("--file", sample, "--turn", "4").iter("exchange")
    assert [file.get("label") for file in exchange.iter("file")] == ["Edit (file_path, old_string, new_string)"] * 2
    (read,) = ask("--file", sample, "--type", "file", "--limit", "1", "cli.py", "--until", "2026-11-14T16:03").iter("result")
    assert read.findtext("label") == "Read"


def test_what_was_said_before_the_person_went_back_to_the_beginning_is_abandoned(ask: Ask, tmp_path: Path) -> None:
    row = {"parentUuid": None, "isSidechain": False, "type": "user", "message": {"role": "user", "content": "paint the heron"}, "uuid": "u1", "timestamp": "2026-05-01T10:00:00.000Z", "sessionId": "s"}
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (row, {"type": "last-prompt", "leafUuid": None, "explicit": True})), "utf-8")
    assert hits(ask("--file", path, "heron")) == [("user", "abandoned", None)]
