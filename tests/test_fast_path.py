"""The fast path (a long line read by its head and tail, side records passed over) never changes what is read or reported.

Every transcript is read twice, with each line parsed and by the ends of its lines; over all fixtures and cases, and over damaged copies of
them. Of these the quick way counts less: damage inside a line that it does not parse.
"""
from __future__ import annotations

import importlib.util
import random
import re
import sys
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cc_transcript as cc
import pytest
from planted import planted_session, write_session

TESTS = Path(__file__).parent
COMPACT = TESTS.parent / "skills/cc-compact/compact_session.py"
SOURCES = sorted(path for folder in ("fixtures", "cases") for path in (TESTS / folder).rglob("*.jsonl") if path.name != "history.jsonl" and path.stat().st_size)
SEEDS = range(6)  # damaged copies of each

# What the fast path leaves out on purpose, because it is read from the line when it is asked for or never is
NOT_KNOWN = frozenset(("transcript", "calls", "results", "known_blocks", "known_tokens", "session", "cwd", "branch", "entrypoint", "meta", "local", "blocks", "origin", "forked_from", "logical_parent"))


DAMAGE = re.compile(r' damaged-lines="\d+"|, in which \d+ lines? cannot be read')


def name_of(path: Path) -> str:
    return f"{path.parts[len(TESTS.parts) + 1]}-{path.stem[-16:]}"


def load_compact(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module that uses the canonical cc_transcript."""
    monkeypatch.setitem(sys.modules, "cc_transcript", cc)
    spec = importlib.util.spec_from_file_location("compact_under_test", COMPACT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "compact_under_test", module)
    spec.loader.exec_module(module)
    return module


def view(block: object) -> Any:
    """A block as a value that can be compared, a result with what it reads."""
    if isinstance(block, cc.Result):
        assert block.text() == block.read().text or not block.record.fields()  # a damaged line may still tell its block
        return ("result", block.call_id, block.is_error, block.read())
    if isinstance(block, cc.Call):
        return ("call", block.id, block.name, block.input)
    return (type(block).__name__, getattr(block, "text", ""))  # a picture has none


def known_to_both(quick: cc.Record, slow: cc.Record) -> None:
    """Compare two records: every field that the quick reading sets, and what is read on request."""
    names = {name for name in (*vars(quick), *vars(slow))} - NOT_KNOWN
    assert {name: getattr(quick, name) for name in names} == {name: getattr(slow, name) for name in names}
    assert quick.fields() == slow.fields()
    for name in ("cwd", "branch", "entrypoint", "forked_from"):
        assert getattr(quick, name) in ("", getattr(slow, name))
    assert quick.logical_parent == slow.logical_parent
    assert (quick.meta, quick.local, quick.origin) == (slow.meta, slow.local, slow.origin) or slow.results or slow.kind == "attachment"
    assert quick.usage == slow.usage
    assert [(call.id, call.name) for call in quick.calls] == [(call.id, call.name) for call in slow.calls]
    if slow.kind != "attachment":
        assert [view(block) for block in quick.blocks] == [view(block) for block in slow.blocks]


def uuids(records: list[cc.Record]) -> list[str]:
    return [record.uuid for record in records]


def compare_readings(path: Path) -> int:
    """Read a file both ways and compare all of it. Returns how many lines the fast path took."""
    taken = []
    real = cc.recognise
    cc.recognise = lambda *given: taken.append(1) or found if (found := real(*given)) else None  # type: ignore[assignment,func-returns-value]
    try:
        quick = cc.read_transcript(str(path), False)
    finally:
        cc.recognise = real
    slow = cc.read_transcript(str(path), True)
    assert (len(quick.records), len(quick.loose)) == (len(slow.records), len(slow.loose))
    for one, other in zip(quick.records + quick.loose, slow.records + slow.loose):
        known_to_both(one, other)
    assert (quick.titles, quick.pin, quick.size, quick.id) == (slow.titles, slow.pin, slow.size, slow.id)
    assert quick.damaged <= slow.damaged
    one, other = cc.read_conversation(quick), cc.read_conversation(slow)  # type: ignore[assignment]
    for part in ("live", "earlier", "abandoned", "happened", "summaries"):
        assert uuids(getattr(one, part)) == uuids(getattr(other, part)), part
    assert (one.compactions, one.commands) == (other.compactions, other.commands)  # type: ignore[attr-defined]
    assert [exchange.prompt for exchange in one.exchanges] == [exchange.prompt for exchange in other.exchanges]  # type: ignore[attr-defined]
    quick.file.close()
    slow.file.close()
    return len(taken)


def reports_of(compact: ModuleType, path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The report with the fast path and without; a refusal is its line."""

    def report() -> str:
        options = cc.parse_arguments(compact.build_parser(), ["--file", str(path)])
        try:
            return str(compact.report(options))
        except cc.Refusal as refusal:
            return f"refused: {refusal}"

    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)
    slow = report()
    with monkeypatch.context() as quick_path:
        quick_path.setattr(cc, "WHOLE_BYTES", 0)
        return report(), slow


def compare_lone_values(path: Path) -> int:
    """Read each result's patch alone and with the whole line. Returns how many were found alone."""
    found = 0
    for record in cc.read_transcript(str(path)).records:
        alone = record.lone_value("structuredPatch")
        assert alone is None or alone == cc.mapping(record.fields().get("toolUseResult")).get("structuredPatch")
        found += alone is not None
    return found


def damaged(data: bytes, seed: int) -> bytes:
    """The file after one to four faults of the kinds that happen to lines."""
    dice = random.Random(seed)
    lines = [line for line in data.split(b"\n") if line]
    for _ in range(dice.randrange(1, 5)):
        if not lines:
            break
        at = dice.randrange(len(lines))
        fault = dice.choice(("cut", "cut", "behead", "glue", "glue", "stub", "drop", "duplicate", "reorder", "nul", "nul inside", "bom", "crlf", "blank", "flip", "spaces"))
        if fault == "cut":
            lines[at] = lines[at][:dice.randrange(len(lines[at]) + 1)]
        elif fault == "behead":
            lines[at] = lines[at][dice.randrange(len(lines[at]) + 1):]
        elif fault == "glue" and at + 1 < len(lines):
            lines[at:at + 2] = [lines[at] + lines[at + 1]]
        elif fault == "stub" and at + 1 < len(lines):
            lines[at:at + 2] = [lines[at][:dice.randrange(len(lines[at]) + 1)] + lines[at + 1]]
        elif fault == "drop":
            del lines[at]
        elif fault == "duplicate":
            lines.insert(dice.randrange(len(lines) + 1), lines[at])
        elif fault == "reorder":
            lines.insert(dice.randrange(len(lines)), lines.pop(at))
        elif fault == "nul":
            lines[at] = b"\0" * dice.choice((1, 4_096, 70_000)) + lines[at]
        elif fault == "nul inside":
            split = dice.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:split] + b"\0" * 7 + lines[at][split:]
        elif fault == "bom":
            lines[at] = b"\xef\xbb\xbf" + lines[at]
        elif fault == "crlf":
            lines = [line.rstrip(b"\r") + b"\r" for line in lines]
        elif fault == "blank":
            lines.insert(at, dice.choice((b"", b"  ", b"\r", b"null", b"[]", b"{}")))
        elif fault == "flip" and lines[at]:
            split = dice.randrange(len(lines[at]))
            lines[at] = lines[at][:split] + bytes([lines[at][split] ^ 1 << dice.randrange(8)]).replace(b"\n", b"\r") + lines[at][split + 1:]
        elif fault == "spaces":
            lines[at] = lines[at].replace(b'":', b'": ').replace(b',"', b', "')
    return b"\n".join(lines) + dice.choice((b"\n", b"\n", b""))


def test_there_are_sources() -> None:
    assert len(SOURCES) >= 85


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_both_ways_read_the_same(path: Path) -> None:
    compare_readings(path)


def test_the_fast_path_is_taken() -> None:
    assert sum(compare_readings(path) for path in SOURCES if "v332" in str(path)) >= 200


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_reports_are_byte_identical(path: Path, monkeypatch: pytest.MonkeyPatch, config: Path) -> None:
    quick, slow = reports_of(load_compact(monkeypatch), path, monkeypatch)
    assert quick == slow


@pytest.mark.deep
@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_damaged_files_read_the_same(path: Path, monkeypatch: pytest.MonkeyPatch, config: Path, tmp_path: Path) -> None:
    compact, data = load_compact(monkeypatch), path.read_bytes()
    for seed in SEEDS:
        copy = tmp_path / f"{seed}.jsonl"
        copy.write_bytes(damaged(data, seed))
        try:
            compare_readings(copy)
            quick, slow = (DAMAGE.sub("", report) for report in reports_of(compact, copy, monkeypatch))
            assert quick == slow
        except AssertionError as error:
            raise AssertionError(f"seed {seed} of {path.name}: {error}") from error


# ------------------------------------------------------------------------------- lines made to look like what they are not


HEAD = '{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1",'
TAIL = ',"uuid":"u1","timestamp":"2026-05-01T10:00:00.000Z","cwd":"/x","sessionId":"s","version":"2.1.332","gitBranch":"main"}\n'
ANSWER = '{"parentUuid":"p","isSidechain":false,"message":{"id":"m1","type":"message","role":"assistant","model":"claude-opus-4-6","content":['
ANSWER_TAIL = '],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":2}},"requestId":"r1","type":"assistant"' + TAIL
ATTACHMENT = '{"parentUuid":"p","isSidechain":false,"attachment":{"type":"file","content":'

LOOKALIKES = {
    "plain": HEAD + '"content":"out"}]}' + TAIL,
    "an error": HEAD + '"content":"out","is_error":true}]}' + TAIL,
    "says is_error in its text": HEAD + '"content":"\\"is_error\\":true"}]}' + TAIL,
    "the result object says is_error": HEAD + '"content":"out"}]},"toolUseResult":{"is_error":true}' + TAIL,
    "is_error false": HEAD + '"content":"out","is_error":false}]}' + TAIL,
    "is_error deep in the content": HEAD + '"content":[{"type":"text","text":"x","is_error":true}]}]}' + TAIL,
    "two results": HEAD + '"content":"out"},{"type":"tool_result","tool_use_id":"t2","content":"more"}]}' + TAIL,
    "a text beside": HEAD + '"content":"out"},{"type":"text","text":"and I say"}]}' + TAIL,
    "a picture beside": HEAD + '"content":"out"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}' + TAIL,
    "refused": HEAD + '"content":"no","is_error":true}]},"toolUseResult":"User rejected tool use","toolDenialKind":"user-rejected"' + TAIL,
    "refused, old": HEAD + '"content":"no","is_error":true}]},"toolUseResult":"User rejected tool use"' + TAIL,
    "meta": HEAD + '"content":"out"}]},"isMeta":true' + TAIL,
    "summary": HEAD + '"content":"out"}]},"isCompactSummary":true' + TAIL,
    "uuid in the detail": HEAD + '"content":"out"}]},"toolUseResult":{"x":[{"y":[1]},"uuid"],"uuid":"other"}' + TAIL,
    "detail that ends like a message": HEAD + '"content":"out"}]},"toolUseResult":{"a":{"content":[]},"uuid":"evil","timestamp":"2020-01-01T00:00:00.000Z"}' + TAIL,
    "content that ends like a message": HEAD + '"content":[{"type":"x","y":{"z":[]},"uuid":"evil","timestamp":"2020-01-01T00:00:00.000Z"}]}]}' + TAIL,
    "the id after the content": HEAD.replace('"tool_use_id":"t1",', "") + '"content":[{"tool_use_id":"inner"}],"tool_use_id":"t1"}]}' + TAIL,
    "id inside the content only": HEAD.replace('"tool_use_id":"t1",', "") + '"content":[{"tool_use_id":"inner"}]}]}' + TAIL,
    "an escaped id": HEAD.replace('"t1"', '"t\\u0031"') + '"content":"out"}]}' + TAIL,
    "denial after the tail": HEAD + '"content":"out"}]}' + TAIL.replace('"main"}', '"main","toolDenialKind":"user-rejected"}'),
    "origin": HEAD + '"content":"out"}]},"origin":{"kind":"human"}' + TAIL,
    "the session of a fork": HEAD + '"content":"out"}]}' + TAIL.replace('"s"', '"other"'),
    "attachment": ATTACHMENT + '"x"},"type":"attachment"' + TAIL,
    "queued prompt": '{"parentUuid":"p","isSidechain":false,"attachment":{"type":"queued_command","prompt":"do it","commandMode":"prompt"},"type":"attachment"' + TAIL,
    "an answer": ANSWER + '{"type":"text","text":"out"}' + ANSWER_TAIL,
    "an answer of two blocks": ANSWER + '{"type":"text","text":"out"},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}' + ANSWER_TAIL,
    "a call": ANSWER + '{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls","note":"\\"content\\":[{"}}' + ANSWER_TAIL,
    "a call of odd input": ANSWER + '{"type":"tool_use","id":"t1","name":"Bash","input":"ls","content":["x"]}' + ANSWER_TAIL,
    "a block with a list of its own": ANSWER + '{"type":"text","text":"out","content":[{"type":"text","text":"in"}]}' + ANSWER_TAIL,
    "thinking": ANSWER + '{"type":"thinking","thinking":"","signature":"c2ln"}' + ANSWER_TAIL,
    "an API error": ANSWER + '{"type":"text","text":"out"}' + ANSWER_TAIL.replace('"uuid"', '"isApiErrorMessage":true,"uuid"'),
    "an answer broken inside": ANSWER + '{"type":"text","text":"out \\x bad"}' + ANSWER_TAIL,
    "an answer broken behind its block": ANSWER + '{"type":"text","text":"out"}' + ANSWER_TAIL.replace('"usage":{', '"usage":{{'),
    "an answer that breaks off in its block": ANSWER + '{"type":"text","text":"out' + ANSWER_TAIL,
    "a side record": '{"type":"queue-operation","operation":"enqueue","content":"x"}\n',
    "a side record with a uuid": '{"type":"queue-operation","operation":"enqueue","uuid":"u9","content":"x"}\n',
    "a user record, type first": '{"type":"user","message":{"role":"user","content":"hi"},"uuid":"u1","parentUuid":null}\n',
    "two side records glued": '{"type":"mode","mode":"x"}{"type":"custom-title","customTitle":"glued"}\n',
    "a title glued to a long side record": '{"type":"file-history-snapshot","x":"' + "y" * 3_000 + '"}{"type":"custom-title","customTitle":"glued"}\n',
    "a long title glued to a side record": '{"type":"mode","mode":"x"}{"type":"custom-title","customTitle":"' + "g" * 3_000 + '"}\n',
    "a stub and a record": HEAD + '"content":"half a th' + HEAD + '"content":"out"}]}' + TAIL,
    "a stub and a side record": HEAD + '"content":"half a th{"type":"custom-title","customTitle":"glued"}\n',
    "a side stub and a record": '{"type":"mode","mo' + HEAD + '"content":"out"}]}' + TAIL,
    "an escaped kind": '{"type":"custom\\u002dtitle","customTitle":"escaped"}\n',
    "a pin": '{"type":"last-prompt","leafUuid":"u1","explicit":true}\n',
    "broken inside": HEAD + '"content":"out \\x bad"}]}' + TAIL,
    "raw newline escape": HEAD + '"content":"tab\there"}]}' + TAIL,
}


@pytest.mark.parametrize("name", LOOKALIKES)
@pytest.mark.parametrize("padding", [0, 5_000])
def test_a_line_made_to_mislead(name: str, padding: int, tmp_path: Path) -> None:
    """Between a prompt and an answer, as it is and made long in the middle."""
    line = LOOKALIKES[name]
    if padding:
        line = line.replace('"content":"', '"content":"' + "p" * padding, 1)
    before = '{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":"go"},"uuid":"p","timestamp":"2026-05-01T09:00:00.000Z","sessionId":"s"}\n'
    after = '{"parentUuid":"u1","isSidechain":false,"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"done"}]},"uuid":"a","timestamp":"2026-05-01T11:00:00.000Z","sessionId":"s"}\n'
    path = tmp_path / "s.jsonl"
    path.write_bytes((before + line + after).encode("utf-8"))
    compare_readings(path)


ENDING = ',"entrypoint":"cli","cwd":"/x","sessionId":"s","version":"2.1.332","gitBranch":"main"}\n'
ENDINGS = {  # what stands before and in the end of a line, and the entrypoint, directory and source of a fork that it tells
    "the same": (ENDING, ("cli", "/x", "")),
    "another": (ENDING.replace("cli", "sdk-py"), ("sdk-py", "/x", "")),
    "another directory": (ENDING.replace("/x", "/x/y"), ("cli", "/x/y", "")),
    "a fork's": (',"entrypoint":"cli","forkedFrom":{"sessionId":"f","messageUuid":"m"},"cwd"' + ENDING.partition(',"cwd"')[2], ("cli", "/x", "f")),
    "a fork's, at its end": (ENDING.replace("}", ',"forkedFrom":{"sessionId":"f","messageUuid":"m"}}'), ("cli", "/x", "f")),
    "said twice": (',"entrypoint":"sdk-py"' + ENDING, ("cli", "/x", "")),
    "none": (',"cwd"' + ENDING.partition(',"cwd"')[2], ("", "/x", "")),
    "none, and one before": (',"entrypoint":"sdk-py","userType":"external","cwd"' + ENDING.partition(',"cwd"')[2], ("sdk-py", "/x", "")),
    "torn": (ENDING.replace("}", ""), ("", "", "")),
}


@pytest.mark.parametrize("first", ENDINGS)
@pytest.mark.parametrize("second", ENDINGS)
def test_an_end_met_before_hides_nothing(first: str, second: str, tmp_path: Path) -> None:
    """Three lines, of which the last ends like the first."""
    told = [ENDINGS[name] for name in (first, second, first)]
    start = HEAD + '"content":"out"}]},"uuid":"u%d","timestamp":"2026-05-01T10:00:00.000Z"'
    path = tmp_path / "s.jsonl"
    path.write_text("".join(start % at + ending for at, (ending, _) in enumerate(told)), encoding="utf-8")
    compare_readings(path)
    with (transcript := cc.read_transcript(str(path), False)).file:
        places = [(record.entrypoint, record.cwd, record.forked_from) for record in transcript.records]
    assert places == [place for _, place in told if place != ("", "", "")]


@pytest.mark.parametrize("seed", range(24))
def test_lines_are_cut_where_they_end(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their lengths against the buffer, which is read into again and again, grows and is moved."""
    monkeypatch.setattr(cc, "FIRST_BYTES", 16)
    monkeypatch.setattr(cc, "BLOCK_BYTES", 64)
    chance = random.Random(seed)
    idle = b'{"type":"mode","mode":"x"}'
    lines = [chance.choice((b"", b" ", b" \t  \r", idle, b"a" * chance.choice((1, 14, 15, 16, 17, 31, 63, 64, 65, 200, 1_000)))) for _ in range(200)]
    data = b"\n".join(lines) + chance.choice((b"", b"\n", b"\r\n"))
    whole, offset = [], 0
    for line in data.splitlines(keepends=True):
        whole += [(offset, line)] if line.strip() else []
        offset += len(line)
    assert list(cc.read_lines(BytesIO(data))) == whole
    assert list(cc.read_lines(BytesIO(data), False)) == [(at, line) for at, line in whole if line.strip() != idle or not line.endswith(b"\n")]


def test_a_patch_read_alone_is_the_one_in_the_whole_line(tmp_path: Path) -> None:
    found = sum(compare_lone_values(path) for path in SOURCES if "subagents" not in path.parts)
    session = planted_session(3, 60)
    assert compare_lone_values(write_session(session, tmp_path / f"{session.id}.jsonl")) > 20
    assert found > 10


@pytest.mark.parametrize("line", [
    b'{"parentUuid":null,"uuid":"a","type":"user","toolUseResult":{"structuredPatch":[1],"x":{"structuredPatch":[2]}}}',
    b'{"parentUuid":null,"uuid":"a","type":"user","to{"parentUuid":null,"uuid":"b","type":"user","toolUseResult":{"structuredPatch":[1]}}',
    b'{"parentUuid":null,"uuid":"a","type":"user","toolUseResult":{"structuredPatch":[1,}}',
    b'{"parentUuid":null,"uuid":"a","type":"user","toolUseResult":{"content":"\\"structuredPatch\\":[1]"}}',
], ids=["twice", "glued", "damaged", "quoted"])
def test_what_cannot_be_told_alone_is_not(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "one.jsonl"
    path.write_bytes(line + b"\n")
    assert [record.lone_value("structuredPatch") for record in cc.read_transcript(str(path)).records] in ([], [None])
