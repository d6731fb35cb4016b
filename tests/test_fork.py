"""cc-fork: the handed cases with their literal answers, every fixture forked in every way, and what a copy may never break.

What a copy holds is read here as plain JSON, line by line, not with the code under test.
"""
from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import ROOT
from test_promises import fork_faults

SCRIPT = ROOT / "skills/cc-fork/fork_session.py"
CASES = ROOT / "tests/cases"
FIXTURES = sorted(path for path in (ROOT / "tests/fixtures").glob("*/projects/*/*.jsonl"))
WAYS = ([], ["--exact"], ["--compact"], ["--compact", "--keep-last", "1"], ["--last", "2"], ["--up-to", "1"], ["--redact"], ["--keep-images"],
        ["--keep-last", "0", "--tool-chars", "400"], ["--exact", "--last", "1"], ["--up-to", "1", "--compact", "--keep-last", "0"])
LARGEST = {path.parents[2].name: path for path in sorted(FIXTURES, key=lambda path: path.stat().st_size)}
FORKED = [(path, way) for path in FIXTURES for way in (WAYS if path in LARGEST.values() else WAYS[:3])]  # of each fixture one session in every way
Json = dict[str, Any]
Fork = Callable[..., "Copy"]


class Copy(NamedTuple):
    """A fork: its path, its rows, its report."""

    path: Path
    rows: list[Json]
    report: ET.Element

    def chain(self) -> list[Json]:
        return [row for row in self.rows if "uuid" in row]

    def texts(self) -> list[tuple[str, str]]:
        """(role, text) of every text block of the two roles."""
        return [(row["type"], text) for row in self.chain() if row["type"] in ("user", "assistant") for text in texts(row)]

    def blocks(self, kind: str) -> list[Json]:
        return [block for row in self.chain() for block in content(row) if block.get("type") == kind]

    def results(self) -> dict[str, Any]:
        return {block["tool_use_id"]: block.get("content") for block in self.blocks("tool_result")}

    def title(self) -> str:
        return str([row["customTitle"] for row in self.rows if row["type"] == "custom-title"][-1])


def content(row: Json) -> list[Json]:
    given = row.get("message", {}).get("content")
    return [{"type": "text", "text": given}] if isinstance(given, str) else given or []


def texts(row: Json) -> list[str]:
    return [block["text"] for block in content(row) if block.get("type") == "text"]


@pytest.fixture
def fork(run_script: Callable[..., subprocess.CompletedProcess[bytes]], config: Path) -> Fork:
    """A function that forks a transcript lying in the projects folder and gives back the copy; it looks after the source and the promises."""

    def run(source: Path, *options: str, **more: Any) -> Copy:
        before = source.read_bytes(), source.stat().st_mtime_ns
        there = set(source.parent.iterdir())
        done = run_script(SCRIPT, "--file", source, *options, **more)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
        assert (source.read_bytes(), source.stat().st_mtime_ns) == before
        report = ET.fromstring(done.stdout)
        path = Path(report.findtext("file") or "")
        if "--into" not in options:
            assert set(source.parent.iterdir()) - there == {path}
        assert list(fork_faults(path)) == []
        return Copy(path, [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]], report)

    return run


def case(name: str) -> bytes:
    return next(CASES.glob(name)).read_bytes()


def rows_of(*given: Json, session: str = "aaaaaaaa-0000-4000-8000-00000000000a") -> bytes:
    """A transcript of these rows, chained, seven seconds apart."""
    lines, parent = [], None
    for at, row in enumerate(given, 1):
        uuid = f"{at:08x}-0000-4000-8000-000000000000"
        full = {"parentUuid": parent, "isSidechain": False, **row, "uuid": uuid, "timestamp": f"2026-05-01T{at * 7 // 3600:02d}:{at * 7 // 60 % 60:02d}:{at * 7 % 60:02d}.000Z",
                "userType": "external", "entrypoint": "cli", "cwd": "/home/ada/orchard", "sessionId": session, "version": "2.1.332", "gitBranch": "main"}
        lines.append(json.dumps(full, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        parent = uuid
    return b"".join(lines)


def user(text: Any, **more: Any) -> Json:
    return {"type": "user", "message": {"role": "user", "content": text}, **more}


def agent(*blocks: Json, name: str = "", usage: int = 100) -> Json:
    identity = name or f"msg_{abs(hash(json.dumps(blocks))):x}"
    return {"type": "assistant", "message": {"id": identity, "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": list(blocks),
                                             "usage": {"input_tokens": usage, "output_tokens": 5}}}


def said(text: str) -> Json:
    return {"type": "text", "text": text}


def call(identity: str, tool: str = "Bash", **given: Any) -> Json:
    return {"type": "tool_use", "id": identity, "name": tool, "input": given}


def result(identity: str, text: Any, **more: Any) -> Json:
    return user([{"type": "tool_result", "tool_use_id": identity, "content": text}], toolUseResult={"stdout": text if isinstance(text, str) else "", "stderr": ""}, **more)


# --- 53: calls and results ----------------------------------------------------------------------------------------------

INTERRUPTED = "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown. Check whether it took effect before relying on it or running it again.]"


@pytest.mark.parametrize("way", [[], ["--exact"]])
def test_a_call_that_has_not_come_back_is_said_to_be_interrupted(fork: Fork, place: Callable[..., Path], way: list[str]) -> None:
    copy = fork(place(case("53-*/tail.jsonl")), *way)
    assert copy.texts() == [("user", "dig a hole"), ("assistant", "I will dig")]
    assert copy.results() == {"toolu_53A": INTERRUPTED}


@pytest.mark.parametrize("way", [[], ["--exact"]])
def test_a_call_in_the_middle_without_a_result_goes(fork: Fork, place: Callable[..., Path], way: list[str]) -> None:
    copy = fork(place(case("53-*/middle.jsonl")), *way)
    assert copy.texts() == [("user", "dig"), ("user", "never mind"), ("assistant", "ok then")]
    assert not copy.blocks("tool_use")


@pytest.mark.parametrize("way", [[], ["--exact"]])
def test_of_two_calls_the_one_without_a_result_gets_the_clients_words(fork: Fork, place: Callable[..., Path], way: list[str]) -> None:
    copy = fork(place(case("53-*/partial.jsonl")), *way)
    assert copy.results() == {"toolu_53D": "[Tool result missing due to internal error]", "toolu_53C": "out-A"}
    assert copy.texts()[-1] == ("assistant", "one done")


@pytest.mark.parametrize("way", [[], ["--exact"]])
def test_an_open_call_in_a_row_of_its_own_goes_as_in_the_client(fork: Fork, place: Callable[..., Path], way: list[str]) -> None:
    """Also where other calls of its answer have results (measured); it is counted as dropped, not as saved."""
    copy = fork(place(rows_of(user("go"), agent(call("t1"), name="m1"), agent(call("t2", command="x" * 4_000), name="m1"), result("t1", "one"), agent(said("done")))), *way)
    assert copy.results() == {"t1": "one"} and [block["id"] for block in copy.blocks("tool_use")] == ["t1"]
    assert copy.report.find("context").get("tokens-saved") == "0"  # type: ignore[union-attr]
    assert [(each.get("kind"), each.get("count")) for each in copy.report.iter("dropped")] == [("calls without a result", "1")]


QUEUED: Json = {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "hurry", "commandMode": "prompt"}}
BESIDE = user([{"type": "tool_result", "tool_use_id": "t1", "content": "one"}, said("beside")])


@pytest.mark.parametrize("way", [[], ["--exact"]])
@pytest.mark.parametrize(("after", "told"), [
    ([result("t1", "one"), QUEUED], True), ([BESIDE], True), ([result("t1", "one"), user("note", isMeta=True)], False), ([BESIDE, user("next")], False),
    ([result("t1", "one"), {**agent(said("API Error: 529")), "isApiErrorMessage": True}], False),
])
def test_what_is_the_end_for_an_open_call(fork: Fork, place: Callable[..., Path], after: list[Json], told: bool, way: list[str]) -> None:
    """The last row of the two roles that is no result, whoever wrote it (measured); a queued prompt stands in none, words beside a result make none."""
    copy = fork(place(rows_of(user("go"), agent(call("t1"), name="m1"), agent(call("t2"), name="m1"), *after)), *way)
    assert copy.results() == {"t1": "one", **({"t2": INTERRUPTED} if told else {})}


@pytest.mark.parametrize("way", [[], ["--exact"]])
def test_a_result_without_a_call_goes(fork: Fork, place: Callable[..., Path], way: list[str]) -> None:
    copy = fork(place(case("53-*/head.jsonl")), *way)
    assert copy.texts() == [("assistant", "ok"), ("user", "go on"), ("assistant", "going")]
    assert copy.results() == {}


def test_what_is_told_of_an_open_call_stands_where_the_client_puts_it(fork: Fork, place: Callable[..., Path]) -> None:
    """At the end of the session behind the results that came, in the middle before them (measured)."""
    given = [user("go"), agent(call("t1"), call("t2"), name="m1"), result("t1", "one")]
    assert list(fork(place(rows_of(*given))).results().items()) == [("t1", "one"), ("t2", INTERRUPTED)]
    assert list(fork(place(rows_of(*given, agent(said("done"))))).results()) == ["t2", "t1"]


@pytest.mark.parametrize("way", [[], ["--exact"]])
def test_an_id_used_twice_gets_one_of_its_own(fork: Fork, place: Callable[..., Path], way: list[str]) -> None:
    copy = fork(place(case("53-*/twice.jsonl")), *way)
    assert list(copy.results().values()) == ["first out", "second out"]
    assert [block["id"] for block in copy.blocks("tool_use")] == ["toolu_53E", "toolu_53E_cc2"]


def test_an_id_used_again_by_a_call_that_never_came_back(fork: Fork, place: Callable[..., Path]) -> None:
    copy = fork(place(rows_of(user("go"), agent(call("t1"), name="m1"), result("t1", "first"), agent(call("t1"), name="m2"))))
    assert copy.results() == {"t1": "first", "t1_cc2": INTERRUPTED}


def test_results_of_one_row_that_answer_two_answers_are_parted(fork: Fork, place: Callable[..., Path]) -> None:
    both = user([{"type": "tool_result", "tool_use_id": name, "content": name} for name in ("t1", "t2")])
    copy = fork(place(rows_of(user("go"), agent(call("t1"), name="m1"), agent(call("t2"), name="m2"), both, agent(said("done")))))
    assert [(row["type"], [block.get("id") or block.get("tool_use_id") for block in content(row)]) for row in copy.chain()][1:5] == [
        ("assistant", ["t1"]), ("user", ["t1"]), ("assistant", ["t2"]), ("user", ["t2"])]


def test_words_beside_results_that_are_parted_stand_once(fork: Fork, place: Callable[..., Path]) -> None:
    both = user([*({"type": "tool_result", "tool_use_id": name, "content": name} for name in ("t1", "t2")), said("beside them")])
    copy = fork(place(rows_of(user("go"), agent(call("t1"), name="m1"), agent(call("t2"), name="m2"), both, agent(said("done")))))
    assert copy.texts() == [("user", "go"), ("user", "beside them"), ("assistant", "done")] and copy.results() == {"t1": "t1", "t2": "t2"}


# --- 54: thinking -------------------------------------------------------------------------------------------------------


def test_slim_drops_all_thinking(fork: Fork, place: Callable[..., Path]) -> None:
    copy = fork(place(case("54-*/session.jsonl")))
    assert not copy.blocks("thinking") and not copy.blocks("redacted_thinking")
    assert [text for role, text in copy.texts() if role == "assistant"] == ["The ditch is 4 m.", "The bank holds."]
    assert len(copy.blocks("tool_use")) == 1 and copy.results() == {"toolu_54A": "ditch measured"}
    assert all(row["message"]["content"] for row in copy.chain())


def test_exact_keeps_thinking_byte_for_byte(fork: Fork, place: Callable[..., Path]) -> None:
    source = case("54-*/session.jsonl")
    blocks = [json.dumps(block, separators=(",", ":")).encode() for kind in ("thinking", "redacted_thinking") for block in fork(place(source), "--exact").blocks(kind)]
    assert len(blocks) == 5 and all(block in source for block in blocks)


def test_an_answer_that_loses_its_call_loses_its_thinking(fork: Fork, place: Callable[..., Path]) -> None:
    thinks = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    copy = fork(place(rows_of(user("go"), agent(thinks, name="m"), agent(call("t1"), name="m"), user("never mind"), agent(said("ok")))), "--exact")
    assert not copy.blocks("thinking") and not copy.blocks("tool_use")


# --- 55: references -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [[], ["--exact"]])
def test_references_name_rows_of_the_copy(fork: Fork, place: Callable[..., Path], way: list[str]) -> None:
    copy = fork(place(case("55-*/session.jsonl")), *way)
    uuids = {row["uuid"] for row in copy.chain()}
    assert {row["sessionId"] for row in copy.rows} == {copy.path.stem}
    assert {row["forkedFrom"]["sessionId"] for row in copy.chain()} == {"55aaaaaa-0000-4000-8000-000000000001"}
    metadata = copy.chain()[0]["compactMetadata"]
    assert {*metadata["preservedSegment"].values(), *metadata["preservedMessages"]["uuids"], *metadata["preservedMessages"]["allUuids"]} <= uuids
    assert copy.chain()[0]["logicalParentUuid"] is None
    assert [row["sourceToolAssistantUUID"] in uuids for row in copy.chain() if "sourceToolAssistantUUID" in row] == [True]
    assert not [row for row in copy.rows if row["type"] in ("last-prompt", "file-history-snapshot", "progress")]
    quoting = "new question about session 55aaaaaa-0000-4000-8000-000000000001 and row 55000000-0000-4000-8000-000000000002"
    assert [text for _, text in copy.texts()][1:] == ["kept question", "kept answer", quoting, "new answer"]
    assert copy.results() == {"toolu_55A": "kept out"}


# --- 56: identity -------------------------------------------------------------------------------------------------------


@pytest.fixture
def orchard(config: Path) -> Path:
    """The project folder of case 56."""
    shutil.copytree(next(CASES.glob("56-*")) / "projects", config / "projects")
    folder = config / "projects/-home-ada-orchard"
    for path in folder.iterdir():
        path.chmod(0o600)
    return folder


def test_title_mode_place_and_times(fork: Fork, orchard: Path, run_script: Callable[..., subprocess.CompletedProcess[bytes]]) -> None:
    source = orchard / "56aaaaaa-0000-4000-8000-000000000001.jsonl"
    copy = fork(source)
    assert copy.rows[-2:] == [{"type": "custom-title", "customTitle": "Graft plan (fork)", "sessionId": copy.path.stem},
                              {"type": "agent-name", "agentName": "Graft plan (fork)", "sessionId": copy.path.stem}]
    assert copy.path.read_bytes().splitlines()[-2].startswith(b'{"type":"custom-title","customTitle":')
    assert [row["timestamp"] for row in copy.chain()] == ["2026-05-01T10:00:01.000Z", "2026-05-01T10:00:02.000Z"]
    assert stat.S_IMODE(copy.path.stat().st_mode) == 0o600 and copy.path.parent == orchard
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.jsonl", copy.path.name)
    assert fork(source).title() == "Graft plan (fork 2)"
    report = run_script(ROOT / "skills/cc-compact/compact_session.py", "--title", "Graft plan", "--all-projects").stdout
    assert b'id="56aaaaaa-0000-4000-8000-000000000001"' in report


def test_the_immediate_parent_is_named(fork: Fork, orchard: Path) -> None:
    copy = fork(orchard / "56aaaaaa-0000-4000-8000-000000000002.jsonl")
    assert {row["forkedFrom"]["sessionId"] for row in copy.chain()} == {"56aaaaaa-0000-4000-8000-000000000002"}
    again = fork(copy.path)
    assert {row["forkedFrom"]["sessionId"] for row in again.chain()} == {copy.path.stem}
    assert again.texts() == copy.texts() and again.title() == "Side branch (fork 2)"


def test_an_unused_copy_is_not_the_latest(fork: Fork, place: Callable[..., Path], run_script: Callable[..., subprocess.CompletedProcess[bytes]], tmp_path: Path) -> None:
    source = place(rows_of(user("go"), agent(said("gone"))).replace(b"/home/ada/orchard", str(tmp_path).encode()), re.sub(r"[^A-Za-z0-9]", "-", str(tmp_path)))
    copies = [fork(source) for _ in range(4)]
    latest = run_script(ROOT / "skills/cc-compact/compact_session.py").stdout
    assert b'id="aaaaaaaa-0000-4000-8000-00000000000a"' in latest
    used = {**copies[0].chain()[-1], "uuid": "ffffffff-0000-4000-8000-000000000000", "parentUuid": copies[0].chain()[-1]["uuid"], "timestamp": "2026-05-01T12:00:00.000Z"}
    used.pop("forkedFrom")
    with copies[0].path.open("a") as file:
        file.write(json.dumps(used, separators=(",", ":")) + "\n")
    assert copies[0].path.stem.encode() in run_script(ROOT / "skills/cc-compact/compact_session.py").stdout


# --- every fixture in every way -----------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize(("source", "way"), FORKED, ids=lambda given: " ".join(given) or "slim" if isinstance(given, list) else f"{given.parents[2].name}-{given.stem[:8]}")
def test_every_fixture_in_every_way(fork: Fork, place: Callable[..., Path], source: Path, way: list[str]) -> None:
    copy = fork(place(source.read_bytes()), *way)
    assert copy.report.findtext("resume", "").endswith(f"claude --resume {copy.path.stem}")
    assert "every reference resolves" in copy.report.findtext("proof", "")
    if not {"--compact", "--last"} & set(way):
        again = fork(copy.path, *way)
        assert again.texts() == copy.texts()
        assert again.results() == copy.results()


# --- slim ---------------------------------------------------------------------------------------------------------------

LONG = "first line\n" + "x" * 50_000 + "\nlast line"


def long_session(turns: int = 8) -> bytes:
    given: list[Json] = []
    for n in range(1, turns + 1):
        given += [user(f"prompt {n}"), agent(call(f"t{n}", "Write", file_path="/a.txt", content=LONG), usage=990_000), result(f"t{n}", LONG), agent(said(f"answer {n}"), usage=990_000)]
    return rows_of(*given)


def test_slim_cuts_old_calls_and_results_and_leaves_the_last_exchanges(fork: Fork, place: Callable[..., Path]) -> None:
    copy = fork(place(long_session()))
    results = list(copy.results().values())
    assert results[3:] == [LONG] * 5
    for n, text in enumerate(results[:3], 1):
        assert len(text) <= 2_000 and text.startswith("first line\nx") and text.endswith("x\nlast line")
        cut = int(re.search(r"\[… ([\d,]+) characters, cut by cc-fork; whole: /cc-query-chat --chat aaaaaaaa-0000-4000-8000-00000000000a --turn (\d+) …\]", text)[1].replace(",", ""))
        assert f"--turn {n} …]" in text and len(text) - len(re.search(r" \[… .* …\] ", text)[0]) + cut == len(LONG)
    inputs = [block["input"] for block in copy.blocks("tool_use")]
    assert [len(given["content"]) <= 2_000 for given in inputs] == [True] * 3 + [False] * 5
    assert {given["file_path"] for given in inputs} == {"/a.txt"}
    details = [row["toolUseResult"]["stdout"] for row in copy.chain() if "toolUseResult" in row]
    assert details == results


def test_usage_says_what_the_copy_holds(fork: Fork, place: Callable[..., Path]) -> None:
    usages = [row["message"]["usage"] for row in fork(place(long_session())).chain() if row["type"] == "assistant"]
    held = [usage["input_tokens"] + usage["output_tokens"] for usage in usages]
    assert held == sorted(held) and 13_000 < held[0] < 15_000
    assert held[-1] - 13_000 == pytest.approx((5 * 2 * len(LONG) + 3 * 2 * 2_000) / 4, rel=0.01)
    for options, kept in (["--exact"], True), (["--exact", "--up-to", "7"], True), (["--exact", "--last", "2"], False):
        exact = [row["message"]["usage"]["input_tokens"] for row in fork(place(long_session()), *options).chain() if row["type"] == "assistant"]
        assert set(exact) == {990_000} if kept else max(exact) < 70_000


def test_what_goes_from_a_row_that_is_not_cut_weighs_nothing(fork: Fork, place: Callable[..., Path]) -> None:
    """Thinking beside a text goes from the last exchanges as well, and a result that no call takes along from beside its words."""
    thinking = {"type": "thinking", "thinking": "plum " * 8_000, "signature": "c2ln"}
    stray = user([{"type": "tool_result", "tool_use_id": "toolu_x", "content": "pear " * 8_000}, said("[Request interrupted by user]")])
    made = fork(place(rows_of(user("first"), agent(thinking, said("one")), stray, agent(said("two")))))
    context = made.report.find("context")
    assert context is not None and int(context.attrib["tokens-after"]) < 100 and int(context.attrib["tokens-saved"]) > 15_000
    assert made.chain()[-1]["message"]["usage"]["input_tokens"] < 13_100


def test_a_copy_of_a_copy_is_cut_no_further(fork: Fork, place: Callable[..., Path]) -> None:
    first = fork(place(long_session()), "--keep-last", "0")
    assert fork(first.path, "--keep-last", "0").results() == first.results()


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo" * 300}}


def test_pictures_become_notes(fork: Fork, place: Callable[..., Path]) -> None:
    given = rows_of(user([said("look"), PICTURE]), agent(call("t1", "Read", file_path="/a.png")), result("t1", [PICTURE]), agent(said("seen")), user("thanks"), agent(said("ok")))
    copy = fork(place(given), "--keep-last", "1")
    assert texts(copy.chain()[0]) == ["look", "[image] (image/png, 2,475 bytes, left out by cc-fork)"]
    assert copy.results() == {"t1": [{"type": "text", "text": "[image] (image/png, 2,475 bytes, left out by cc-fork)"}]}
    assert [(one.get("kind"), one.get("count")) for one in copy.report.findall("dropped")] == [("pictures", "2")]
    assert fork(place(given), "--keep-last", "1", "--keep-images").blocks("image") == [PICTURE]


def test_a_detail_of_a_kept_picture_is_whole(fork: Fork, place: Callable[..., Path]) -> None:
    shown = {"type": "image", "file": {"base64": "iVBORw0KGgo" * 300, "type": "image/png", "originalSize": 2_475}}
    given = rows_of(user("look"), agent(call("t1", "Read", file_path="/a.png")), {**result("t1", [PICTURE]), "toolUseResult": shown}, agent(said("seen")))
    assert [row["toolUseResult"] for row in fork(place(given), "--keep-last", "0", "--keep-images").chain() if "toolUseResult" in row] == [shown]
    assert "iVBORw0KGgo" not in fork(place(given), "--keep-last", "0").path.read_text()


@pytest.mark.parametrize("way", [["--keep-last", "0"], ["--exact"], ["--redact", "--keep-last", "0"]], ids=" ".join)
@pytest.mark.parametrize("opening, closing", ["[]", "{}"])
def test_a_record_nested_as_deeply_as_json_takes_it(fork: Fork, place: Callable[..., Path], opening: str, closing: str, way: list[str]) -> None:
    """In a call's input and in a result's detail: 980 levels are what json reads here."""
    levels = 900
    deep = (opening + ('"a":' if opening == "{" else "")) * levels + '"core"' + closing * levels
    given = rows_of(user("do it"), agent(call("t1", v="DEEP", long="x" * 5_000)), {**result("t1", "y" * 5_000), "toolUseResult": {"v": "DEEP"}}, agent(said("done")))
    copy = fork(place(given.replace(b'"DEEP"', deep.encode())), *way)
    assert copy.path.read_bytes().count(b'"v":' + deep.encode()) == 2
    assert bool(copy.report.findall("dropped")) == ("--exact" not in way)


def test_queued_prompts_become_rows_of_the_person(fork: Fork, place: Callable[..., Path]) -> None:
    copy = fork(place(case("40-*/session.jsonl")))
    assert not [row for row in copy.chain() if row["type"] == "attachment" and row["attachment"]["type"] == "queued_command" and row["attachment"].get("commandMode") == "prompt"]


def test_redact_masks_everywhere(fork: Fork, place: Callable[..., Path]) -> None:
    key = "sk-ant-" + "a1B2c3D4" * 6
    given = rows_of(user(f"use {key}"), agent({"type": "thinking", "thinking": key, "signature": "c2ln"}, name="m"), agent(call("t1", command=f"curl -H {key}"), name="m"), result("t1", f"ok {key}"), agent(said(f"used {key}")))
    copy = fork(place(given), "--redact", "--exact", "--name", f"with {key}")
    assert key.encode() not in copy.path.read_bytes()
    assert texts(copy.chain()[0]) == ["use [masked: api key]"] and copy.results() == {"t1": "ok [masked: api key]"}


# --- which part ---------------------------------------------------------------------------------------------------------


def test_up_to_a_turn_before_a_compaction(fork: Fork, place: Callable[..., Path]) -> None:
    copy = fork(place(case("55-*/session.jsonl")), "--up-to", "1")
    assert copy.texts() == [("user", "old question"), ("assistant", "old answer")]
    assert fork(place(case("55-*/session.jsonl")), "--up-to", "55000000-0000-4000-8000-000000000003").texts()[-1] == ("user", "kept question")


def test_up_to_a_turn_takes_what_came_with_its_prompt(fork: Fork, place: Callable[..., Path]) -> None:
    """The output of the person's own command, what tells of a picture, what a command of theirs loads; not the client's talk about itself."""
    skill = user("<command-message>graft</command-message>\n<command-name>/graft</command-name>\n<command-args>pear</command-args>")
    source = place(rows_of(user("<bash-input>pwd</bash-input>"), user("<bash-stdout>/x</bash-stdout><bash-stderr></bash-stderr>"), user("look"), user("[Image: source: /a.png]", isMeta=True),
                           user("<command-name>/model</command-name>"), user("<local-command-stdout>Set model</local-command-stdout>"), skill, user("Base directory for this skill: /g", isMeta=True)))
    ends = [fork(source, "--up-to", str(n)).texts()[-1][1] for n in (1, 2, 3)]
    assert ends == ["<bash-stdout>/x</bash-stdout><bash-stderr></bash-stderr>", "[Image: source: /a.png]", "Base directory for this skill: /g"]


@pytest.mark.parametrize(("options", "exchanges"), [(["--up-to", "2"], "6"), (["--last", "2"], "6"), (["--compact", "--keep-last", "1"], "7"), (["--up-to", "6", "--last", "2"], "6")])
def test_exchanges_that_are_not_in_the_copy_are_counted(fork: Fork, place: Callable[..., Path], options: list[str], exchanges: str) -> None:
    dropped = {one.get("kind"): one for one in fork(place(long_session()), *options).report.findall("dropped")}
    assert dropped["exchanges"].get("count") == exchanges
    assert int(dropped["exchanges"].get("context-tokens", "")) == pytest.approx(int(exchanges) * 2 * len(LONG) / 4, rel=0.01)


def test_last_is_led_by_one_note(fork: Fork, place: Callable[..., Path]) -> None:
    copy = fork(place(long_session()), "--last", "2")
    note, *rest = copy.chain()
    assert note["isMeta"] is True and texts(note) == ["[This conversation is the end of session aaaaaaaa-0000-4000-8000-00000000000a: 6 earlier exchanges were left out by cc-fork. "
                                                      "To see them: /cc-query-chat --chat aaaaaaaa-0000-4000-8000-00000000000a --turn N]"]
    assert [texts(row)[0] for row in rest if texts(row)] == ["prompt 7", "answer 7", "prompt 8", "answer 8"]


def test_the_note_counts_what_a_compaction_took_away_as_well(fork: Fork, place: Callable[..., Path]) -> None:
    copy = fork(place(case("36-*/session.jsonl")), "--last", "1")
    assert "2 earlier exchanges were left out" in texts(copy.chain()[0])[0] and texts(copy.chain()[1]) == ["cap the well"]


# --- compact ------------------------------------------------------------------------------------------------------------


def facts(turns: int) -> bytes:
    """A session that says one fact in each prompt, another in each answer, and has a call with a long result between."""
    given: list[Json] = []
    for n in range(1, turns + 1):
        given += [user(f"Row {n} is planted with PEAR-{n:03}, mind the fence there."), agent(call(f"t{n}", command=f"measure {n}")), result(f"t{n}", f"{n} m\n" + "tall grass " * 300),
                  agent(said(f"Row {n} measured: its gate is GATE-{n:03}. " + "It stands well. " * 40))]
    return rows_of(*given)


def test_compact_holds_a_skeleton_of_both_halves_and_the_last_exchanges(fork: Fork, place: Callable[..., Path]) -> None:
    copy = fork(place(facts(200)), "--compact")
    boundary, summary, *rest = copy.chain()
    assert boundary["subtype"] == "compact_boundary" and summary["isCompactSummary"] is True
    text = texts(summary)[0]
    assert text.startswith("This session is being continued from a previous conversation that ran out of context.")
    assert 5_000 < len(text.encode()) / 4 <= 8_000
    assert [int(n) for n in re.findall(r"^\[(\d+)[^\]]*\] User: Row \d+ is planted with PEAR-\d+, mind the fence there\.$", text, re.M)] == list(range(1, 196))
    assert "GATE-195" in text and "- Bash: measure 195 -> 195 m" in text
    assert [texts(row)[0] for row in rest if row["type"] == "user" and texts(row)] == [f"Row {n} is planted with PEAR-{n:03}, mind the fence there." for n in range(196, 201)]
    assert [len(output) for output in copy.results().values()] == [len("196 m\n" + "tall grass " * 300)] * 5


def test_a_fork_of_the_fork_keeps_the_first_skeleton(fork: Fork, place: Callable[..., Path]) -> None:
    first = fork(place(facts(120)), "--compact")
    second = fork(first.path, "--compact", "--keep-last", "2")
    one, two = texts(first.chain()[1])[0].strip(), texts(second.chain()[1])[0]
    assert two.startswith(one) and len(two.encode()) / 4 <= 8_000
    assert [int(n) for n in re.findall(r"PEAR-(\d+)", two)] == list(range(1, 119))


def test_a_clients_summary_is_kept_as_it_is_and_extended(fork: Fork, place: Callable[..., Path]) -> None:
    copy = fork(place(case("55-*/session.jsonl")), "--compact", "--keep-last", "1")
    text = texts(copy.chain()[1])[0]
    assert text.startswith("This session is being continued from a previous conversation that ran out of context. The summary below covers the earlier portion of the conversation.\n\nThe old part.\n\n")
    assert text.count("This session is being continued") == 1
    assert text.endswith("[2, 2026-05-01 10:00] User: kept question\n- Bash: ls -> kept out\nAssistant: kept answer\n")


def test_an_own_text_stands_for_the_history(fork: Fork, place: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("What we did, in my words.")
    copy = fork(place(long_session()), "--summary", str(tmp_path / "own.txt"), "--keep-last", "1")
    assert texts(copy.chain()[1]) == ["What we did, in my words."] and texts(copy.chain()[2]) == ["prompt 8"]
    assert texts(fork(place(long_session()), "--summary", "-", "--keep-last", "1", stdin="Said - é".encode()).chain()[1]) == ["Said - é"]


def test_that_nothing_stands_before_the_kept_exchanges_is_said(fork: Fork, place: Callable[..., Path], tmp_path: Path) -> None:
    """Then there is nothing that a skeleton or a text of one's own would stand for."""
    (tmp_path / "own.txt").write_text("In my words.")
    said_of = {way: fork(place(facts(6)), *way).report.findtext("notice", "") for way in (("--compact",), ("--compact", "--keep-last", "9"), ("--summary", str(tmp_path / "own.txt"), "--keep-last", "6"))}
    assert ["a smaller --keep-last" in notice for notice in said_of.values()] == [False, True, True]


def test_a_letter_of_several_bytes_takes_its_share_of_the_tokens(fork: Fork, place: Callable[..., Path]) -> None:
    given = rows_of(user("畑" * 9_000), agent(said("苗" * 900), call("t1", command="水" * 300)), result("t1", "土" * 300), user("go on"), agent(said("gone")))
    text = texts(fork(place(given), "--compact", "--keep-last", "1").chain()[1])[0]
    assert [7_900 < len(re.findall(r"畑.*畑", text)[0].encode()) <= 8_000, 500 < len(re.findall(r"苗.*苗", text)[0].encode()) <= 600] == [True, True]
    assert [text.count("水"), text.count("土")] == [79, 45]  # of 60 and 35 tokens, 4 bytes each, less the mark


# --- where and who ------------------------------------------------------------------------------------------------------


def test_the_same_fork_twice_with_a_key_is_the_same_file(fork: Fork, place: Callable[..., Path], run_script: Callable[..., subprocess.CompletedProcess[bytes]]) -> None:
    source = place(facts(30))
    first = fork(source, "--key", "salt")
    data = first.path.read_bytes()
    first.path.unlink()
    assert fork(source, "--key", "salt").path.read_bytes() == data
    stamp = first.path.stat().st_mtime_ns
    again = run_script(SCRIPT, "--file", source, "--key", "salt")
    report = ET.fromstring(again.stdout)
    assert report.get("state") == "was there already, not rewritten" and report.findtext("notice", "").startswith("Nothing was written. ") and first.path.stat().st_mtime_ns == stamp
    assert fork(source, "--key", "other").path != first.path and fork(source, "--key", "salt", "--exact").path != first.path


def test_into_another_directory(fork: Fork, place: Callable[..., Path], config: Path, tmp_path: Path) -> None:
    there = tmp_path / "another place"
    there.mkdir()
    copy = fork(place(long_session(2)), "--into", str(there))
    assert copy.path.parent == config / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(there.resolve()))
    assert {row["cwd"] for row in copy.chain()} == {str(there.resolve())}
    assert copy.report.findtext("resume") == f"cd '{there.resolve()}' && claude --resume {copy.path.stem}"


def test_the_session_that_calls_is_forked_up_to_its_command(place: Callable[..., Path], run_script: Callable[..., subprocess.CompletedProcess[bytes]]) -> None:
    command = user("<command-message>cc-fork</command-message>\n<command-name>/cc-fork</command-name>\n<command-args></command-args>")
    place(rows_of(user("plant the apples"), agent(said("planted")), command))
    done = run_script(SCRIPT, "--args-stdin", stdin=b"--name 'row two'\n", env={"CLAUDE_CODE_SESSION_ID": "aaaaaaaa-0000-4000-8000-00000000000a"})
    assert done.returncode == 0, done.stderr
    path = Path(ET.fromstring(done.stdout).findtext("file") or "")
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [texts(row) for row in rows if "uuid" in row] == [["plant the apples"], ["planted"]]
    assert rows[-2]["customTitle"] == "row two"


def test_dry_run_writes_nothing(place: Callable[..., Path], run_script: Callable[..., subprocess.CompletedProcess[bytes]]) -> None:
    source = place(long_session(2))
    done = run_script(SCRIPT, "--file", source, "--dry-run")
    assert ET.fromstring(done.stdout).get("state") == "dry run, nothing was written"
    assert list(source.parent.iterdir()) == [source]


def test_a_picker_sees_a_copy_of_a_headless_session(fork: Fork, place: Callable[..., Path]) -> None:
    copy = fork(place(long_session(1).replace(b'"entrypoint":"cli"', b'"entrypoint":"sdk-cli"')))
    assert {row["entrypoint"] for row in copy.chain()} == {"cli"}


def test_line_breaks_and_surrogates_stay_inside_their_lines(fork: Fork, place: Callable[..., Path]) -> None:
    data = rows_of(user("a\u2028b\u2029c\x85d"), agent(said("ok"))).replace(b'"ok"', b'"\\ud800 ok"')
    copy = fork(place(data))
    assert copy.texts() == [("user", "a\u2028b\u2029c\x85d"), ("assistant", "\ud800 ok")]
    assert len(copy.path.read_bytes().decode().splitlines()) == len(copy.rows)


# --- the proof catches the maker's mistakes

SPOIL = """
import json, sys
sys.path.insert(0, {folder!r})
import fork_session
real = fork_session.as_line
def spoilt(row):
    {spoil}
    return real(row)
fork_session.as_line = spoilt
fork_session.SPLIT_BYTES *= {alone}
fork_session.cc.can_split = lambda: hasattr(fork_session.os, "fork")
sys.exit(fork_session.main(["--file", {source!r}, "--key", "salt"]))
"""


@pytest.mark.parametrize("alone", [True, False])  # whether the proof is made here, or by a second process while this one writes
@pytest.mark.parametrize("spoil, fault", [
    ("row.update(parentUuid='00000000-0000-4000-8000-000000000000') if row.get('type') == 'assistant' else None", "does not hang under a row before it"),
    ("row.update(sessionId='00000000-0000-4000-8000-000000000000')", "is not of session"),
    ("row.update(sourceToolAssistantUUID='00000000-0000-4000-8000-000000000000')", "names a row that the copy does not have"),
    ("row['message'].update(content='spoilt') if row.get('type') == 'user' and row['message']['content'] == 'prompt 2' else None", "the words differ: 'prompt 2' became 'spoilt'"),
    ("row['message']['content'][0].update(content='spoilt') if row.get('toolUseResult') else None", "is not the source's"),
    ("row['message']['content'][0].update(tool_use_id='other') if row.get('toolUseResult') else None", "a result that no call waits for"),
    ("row['message'].update(content=[]) if row.get('type') == 'assistant' else None", "has no content"),
    ("row.update(isSidechain=True) if row.get('type') == 'assistant' else None", "would be read on resume"),
    ("row.update(uuid='00000000-0000-4000-8000-000000000000')", "has no uuid of its own"),
])
def test_a_failed_proof_writes_nothing(place: Callable[..., Path], tmp_path: Path, config: Path, spoil: str, fault: str, alone: bool) -> None:
    source = place(long_session(3))
    done = spoilt_fork(source, spoil, alone, config, tmp_path)
    assert done.returncode == 1 and not done.stdout and "the copy failed its proof, so nothing was written" in done.stderr and fault in done.stderr, done.stderr
    assert list(source.parent.iterdir()) == [source]


def spoilt_fork(source: Path, spoil: str, alone: bool, config: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """A run of the script that does this to each row before it is written."""
    program = SPOIL.format(folder=str(SCRIPT.parent), source=str(source), spoil=spoil, alone=alone)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=home,
                          env={"PATH": os.environ["PATH"], "HOME": str(home), "CLAUDE_CONFIG_DIR": str(config)})


def test_a_copy_proven_by_a_second_process_is_the_same(place: Callable[..., Path], tmp_path: Path, config: Path) -> None:
    source = place(long_session(40))
    runs = []
    for alone in (True, False):
        done = spoilt_fork(source, "pass", alone, config, tmp_path)
        assert done.returncode == 0, done.stderr
        copy = Path(ET.fromstring(done.stdout).findtext("file") or "")
        runs.append((done.stdout, copy.read_bytes()))
        copy.unlink()
    assert runs[0] == runs[1]
    assert list(source.parent.iterdir()) == [source]


READS = "import atexit; atexit.register(lambda: print(open('/proc/self/io').read(), file=sys.stderr))"


@pytest.mark.skipif(not os.access("/proc/self/io", os.R_OK), reason="nothing here counts a process's reads")
def test_the_files_are_read_in_blocks(place: Callable[..., Path], tmp_path: Path, config: Path) -> None:
    """A file that is read without a buffer, line by line, takes a call for each byte: twenty times the run."""
    source = place(long_session(40))
    program = SPOIL.format(folder=str(SCRIPT.parent), source=str(source), spoil="pass", alone=True).replace("real =", f"{READS}\nreal =")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path,
                          env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(config)})
    reads = int(re.search(r"syscr: (\d+)", done.stderr)[1])  # type: ignore[index]
    assert done.returncode == 0 and reads < source.stat().st_size // 1_000, (reads, source.stat().st_size)


# --- a source that changes, and refusals --------------------------------------------------------------------------------

GROW = """
import sys
sys.path.insert(0, {folder!r})
import fork_session, cc_transcript as cc
real = cc.read_conversation
def growing(transcript):
    with open({source!r}, "ab") as file:
        file.write({more!r})
    cc.read_conversation = real
    return real(transcript)
cc.read_conversation = growing
sys.exit(fork_session.main(["--file", {source!r}]))
"""


@pytest.mark.parametrize("at, last", [(5, "more"), (-300, "more"), (-1, "done")])  # a record that lacks only its line's end is whole
def test_a_source_that_grows_while_it_is_forked(place: Callable[..., Path], tmp_path: Path, at: int, last: str, config: Path) -> None:
    """A live client writes a record in two halves; the fork begins between them."""
    whole = rows_of(user("go"), agent(said("gone")), user("more"), agent(said("done")))
    lines = [line + b"\n" for line in whole.split(b"\n")[:-1]]
    torn = lines[3][:at]
    source = place(b"".join(lines[:3]) + torn)
    done = subprocess.run([sys.executable, "-c", GROW.format(folder=str(SCRIPT.parent), source=str(source), more=lines[3][at:])], capture_output=True, cwd=tmp_path,
                          env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(config)})
    assert done.returncode == 0, done.stderr
    copy = Path(ET.fromstring(done.stdout).findtext("file") or "")
    assert source.read_bytes() == whole and list(fork_faults(copy)) == []
    assert [texts(json.loads(line)) for line in copy.read_bytes().splitlines()[:-2]][-1] == [last]


@pytest.mark.parametrize("way", [[], ["--exact"], ["--last", "2"], ["--compact", "--keep-last", "2"]], ids=" ".join)
@pytest.mark.parametrize("where", ["ANSWER", "CALL", "done"])
def test_an_answer_whose_line_is_damaged_keeps_what_can_be_read(fork: Fork, place: Callable[..., Path], where: str, way: list[str]) -> None:
    """The line still links the chain; only its `usage` cannot be read."""
    given = rows_of(user("dig"), agent(said("ANSWER")), user("more"), agent(call("t1", command="CALL")), result("t1", "holes"), agent(said("done"))).splitlines(True)
    at = next(at for at, line in enumerate(given) if where.encode() in line)
    given[at] = as_client(given[at]).replace(b'"usage":{', b'"usage":{!')
    copy = fork(place(b"".join(given)), *way)
    assert [text for _, text in copy.texts()][-4:] == ["dig", "ANSWER", "more", "done"] and copy.results() == {"t1": "holes"}
    assert [block["input"] for block in copy.blocks("tool_use")] == [{"command": "CALL"}]


def as_client(line: bytes) -> bytes:
    """A row of an answer with its keys in the client's order."""
    row = json.loads(line)
    message = row.pop("message")
    head = {"parentUuid": row.pop("parentUuid"), "isSidechain": False}
    kind, uuid, timestamp = row.pop("type"), row.pop("uuid"), row.pop("timestamp")
    return json.dumps({**head, "message": message, "type": kind, "uuid": uuid, "timestamp": timestamp, **row}, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize("how, status, told", [(signal.SIGTERM, 143, b""), (signal.SIGHUP, 129, b""), (signal.SIGINT, 1, b"interrupted")])
def test_a_fork_that_is_stopped_leaves_nothing(
    place: Callable[..., Path], tmp_path: Path, config: Path, how: signal.Signals, status: int, told: bytes
) -> None:
    source = place(long_session(100))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(config)}
    for _ in range(20):  # on a busy machine a fork may be done before the signal is sent
        with subprocess.Popen([sys.executable, str(SCRIPT), "--file", str(source), "--exact"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
                              preexec_fn=lambda: signal.signal(how, signal.SIG_DFL)) as run:  # where the tests run in the background some are ignored
            while run.poll() is None and not list(source.parent.glob(".*.unfinished")):
                time.sleep(0.001)
            run.send_signal(how)
            out, err = run.communicate()
        if run.returncode:
            break
        for copy in set(source.parent.iterdir()) - {source}:
            copy.unlink()
    assert (out, run.returncode) == (b"", status) and told in err and len(err.splitlines()) == bool(told)
    assert list(source.parent.iterdir()) == [source]


@pytest.mark.parametrize("options, message", [
    (["--up-to", "9"], "there is no turn 9 to go back to"),
    (["--up-to", "99999999-0000-4000-8000-000000000000"], "no record 99999999-0000-4000-8000-000000000000"),
    (["--into", "/no/such/place"], "--into: /no/such/place is no directory"),
    (["--summary", "/no/such/file"], "--summary: cannot read /no/such/file"),
    (["--name", " "], "--name: an empty title finds no session"),
])
def test_refused_in_one_line_and_nothing_written(place: Callable[..., Path], run_script: Callable[..., subprocess.CompletedProcess[bytes]], options: list[str], message: str) -> None:
    source = place(long_session(2))
    done = run_script(SCRIPT, "--file", source, *options)
    assert done.returncode == 1 and message in done.stderr.decode() and len(done.stderr.splitlines()) == 1
    assert list(source.parent.iterdir()) == [source]


@pytest.mark.parametrize("options", [["--exact", "--compact"], ["--last", "0"], ["--up-to", "soon"], ["--tool-chars", "x"], ["--summary", "-", "--args-stdin"]])
def test_what_does_not_go_together_is_wrong_usage(place: Callable[..., Path], run_script: Callable[..., subprocess.CompletedProcess[bytes]], options: list[str]) -> None:
    done = run_script(SCRIPT, "--file", place(long_session(1)), *options)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1


def test_a_folder_that_cannot_be_written(place: Callable[..., Path], run_script: Callable[..., subprocess.CompletedProcess[bytes]], config: Path) -> None:
    """A file stands in its place: no right to write stops root."""
    source = place(long_session(1))
    folder = config / "projects/-"
    folder.write_text("")
    done = run_script(SCRIPT, "--file", source, "--into", "/")
    assert (done.returncode, done.stderr.decode()) == (
        1, f"fork_session.py: cannot write the copy in {folder}: File exists; nothing was written, mend it or give --into DIR\n")
