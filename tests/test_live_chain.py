"""What the module takes for live is what the real client was seen to send on --resume (tests/resumed.json; resumed.py says how)."""
from __future__ import annotations

import json
from pathlib import Path

import cc_transcript as cc
import pytest
import resumed


def test_every_session_is_pinned() -> None:
    assert list(resumed.pinned()) == resumed.names()
    assert len(resumed.sources()) > 50
    assert all(resumed.pinned().values())


@pytest.mark.parametrize("name", resumed.names())
def test_live_is_what_the_client_sends(name: str, tmp_path: Path) -> None:
    assert resumed.live(name, tmp_path) == resumed.pinned()[name]


@pytest.mark.parametrize(("retracted", "note_under", "sent"), [
    ([], 4, "1 2 3 4 5 6 7"), ([4], 4, "1 2 3 5 6 7"), ([2, 3, 5], 4, "1 4 5 6 7"), (["00000004-0000-4000-8000-ffffffffffff"], 4, "1 2 3 5 6 7"), ([4], 3, "1 2 3 4 6 7"), ([None, 9], 4, "1 2 3 4 5 6 7"),
])
def test_what_a_change_of_the_model_took_back_is_not_sent(retracted: list[object], note_under: int, sent: str, tmp_path: Path) -> None:
    """Tried on client 2.1.332. Record 5 is the note; where it hangs beside the path, it counts for nothing."""
    def uid(number: object) -> object:
        return f"{number:08d}-0000-4000-8000-{number:012d}" if isinstance(number, int) else number

    parents, note_is_on_path = {1: None, 2: 1, 3: 2, 4: 3, 5: note_under, 6: 5 if note_under == 4 else 4, 7: 6}, note_under == 4
    lines = []
    for number, parent in parents.items():
        kind = "system" if number == 5 else ("assistant", "user")[number % 2 if number < 5 else 1 - number % 2]
        told = {"subtype": "model_refusal_fallback", "retractedMessageUuids": [uid(item) for item in retracted]} if number == 5 else {
            "message": {"role": kind, "content": [{"type": "text", "text": f"said {number}"}], "id": f"m{number}"}}
        lines.append(json.dumps({"parentUuid": uid(parent), "isSidechain": False, "type": kind, "uuid": uid(number), "timestamp": f"2026-05-01T10:{number:02d}:00.000Z", "sessionId": "s", **told}))
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    live = cc.read_conversation(cc.read_transcript(str(path))).live
    assert " ".join(str(int(record.uuid[:8])) for record in live if note_is_on_path or record.kind != "system") == sent


def test_a_thousand_compactions_are_one_history(tmp_path: Path) -> None:
    """Each level was a chain of all records and a call within the call before: 255 of them took four seconds, these would have been refused."""
    times = 1_200
    path, rows = tmp_path / "5e551015-0000-4000-8000-000000000002.jsonl", []
    for at in range(times):
        boundary, summary, prompt, answer = (f"{kind}{at:07d}-0000-4000-8000-000000000000" for kind in "bcde")
        last = f"e{at - 1:07d}-0000-4000-8000-000000000000"
        common = {"isSidechain": False, "timestamp": "2026-05-01T10:00:00.000Z", "sessionId": "s"}
        metadata = {"trigger": "auto", "preservedMessages": {"anchorUuid": summary, "uuids": []}}
        rows += [
            {"parentUuid": None, "logicalParentUuid": last, **common, "type": "system", "subtype": "compact_boundary", "compactMetadata": metadata, "uuid": boundary},
            {"parentUuid": boundary, **common, "type": "user", "isCompactSummary": True, "message": {"role": "user", "content": f"summary {at}"}, "uuid": summary},
        ][: 2 if at else 0]
        rows += [
            {"parentUuid": summary if at else None, **common, "type": "user", "message": {"role": "user", "content": f"prompt {at}"}, "uuid": prompt},
            {"parentUuid": prompt, **common, "type": "assistant", "message": {"role": "assistant", "id": f"m{at}", "content": [{"type": "text", "text": "done"}]}, "uuid": answer},
        ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    conversation = cc.read_conversation(cc.read_transcript(str(path)))
    assert [exchange.prompt.text for exchange in conversation.exchanges] == [f"prompt {at}" for at in range(times)]
    assert (conversation.compactions, len(conversation.live), len(conversation.earlier)) == (times - 1, 4, (times - 1) * 4 - 2)
    assert [exchange.live for exchange in conversation.exchanges] == [False] * (times - 1) + [True]


def read_rows(path: Path, rows: list[tuple[str, dict[str, object]]]) -> cc.Conversation:
    """The conversation of these rows, named "1 user 0" (number, kind, the parent's number) or "pin 2"; a minute lies between two."""
    lines = []
    for minute, (named, told) in enumerate(rows):
        number, kind, parent = named.split() if not named.startswith("pin") else ("", "", "")
        common = {"isSidechain": False, "uuid": f"u{number}", "timestamp": f"2026-05-01T10:{minute:02d}:00.000Z", "sessionId": "s"}
        lines.append({"parentUuid": f"u{parent}" if parent != "0" else None, **common, "type": kind, **told} if number else {"type": "last-prompt", **told})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return cc.read_conversation(cc.read_transcript(str(path)))


def spoken(number: int, kind: str = "user") -> dict[str, object]:
    return {"message": {"role": kind, "id": f"m{number}", "content": [{"type": "text", "text": f"said {number}"}]}}


TALK = [("1 user 0", spoken(1)), ("2 assistant 1", spoken(2, "assistant")), ("pin", {"leafUuid": "u2"})]
TO_THE_BEGINNING = ("pin", {"leafUuid": None, "explicit": True})


@pytest.mark.parametrize(("rows", "live", "abandoned"), [
    ([TO_THE_BEGINNING, ("3 user 0", spoken(3)), ("4 assistant 3", spoken(4, "assistant"))], ["u3", "u4"], ["u1", "u2"]),
    ([TO_THE_BEGINNING], [], ["u1", "u2"]),
    ([("pin", {"leafUuid": None}), ("3 user 0", spoken(3))], ["u1", "u2"], ["u3"]),
    ([("3 user 2", spoken(3)), ("pin", {"leafUuid": "u2", "explicit": True}), ("pin", {"leafUuid": "u2"})], ["u1", "u2"], ["u3"]),
    ([("3 user 2", spoken(3)), ("pin", {"leafUuid": "u2", "explicit": True}), ("4 user 3", spoken(4)), ("pin", {"leafUuid": "u2"})], ["u1", "u2", "u3", "u4"], []),
])
def test_who_goes_back_leaves_behind_what_followed(rows: list[tuple[str, dict[str, object]]], live: list[str], abandoned: list[str], tmp_path: Path) -> None:
    """To before the first prompt the client withdraws its note of the leaf (2.1.332); the one before it was taken for another branch, and the old
    talk for the live one. Where it notes the same leaf once more, the person's choice holds."""
    conversation = read_rows(tmp_path / "s.jsonl", [*TALK, *rows])
    assert [record.uuid for record in conversation.live] == live
    assert [record.uuid for record in conversation.abandoned] == abandoned


def test_a_gap_right_behind_a_summary_leads_to_what_was_kept(tmp_path: Path) -> None:
    """What a compaction kept is sent below the summary; the row that the client writes there next may be lost."""
    boundary = {"subtype": "compact_boundary", "compactMetadata": {"preservedMessages": {"anchorUuid": "u4", "uuids": ["u2"]}}}
    summary = {"isCompactSummary": True, **spoken(4)}
    rows = [("3 system 0", boundary), ("4 user 3", summary), ("6 user 5", spoken(6)), ("7 assistant 6", spoken(7, "assistant"))]
    conversation = read_rows(tmp_path / "s.jsonl", [*TALK, *rows])
    assert [record.uuid for record in conversation.live] == ["u3", "u4", "u2", "u6", "u7"]
    assert [record.uuid for record in conversation.earlier] == ["u1"]


def at_second(second: float) -> dict[str, object]:
    return {"timestamp": f"2026-05-01T10:00:{second:06.3f}Z"}


def numbers(conversation: cc.Conversation) -> str:
    """The numbers of the live records."""
    return " ".join(record.uuid[1:] for record in conversation.live)


@pytest.mark.parametrize(("parents", "times", "live"), [
    pytest.param("0 1 2 9 4 5", [0, 1, 2, 2, 2, 3], "1 2 3 4 5 6", id="never to what hangs below the gap, though it is as old"),
    pytest.param("0 1 2 3 9 5", [0, 1, 2, 2, 2, 3], "1 2 3 5 6", id="of equals to the first in the file"),
    pytest.param("0 1 2 5 4 5", [0, 1, 2, 3, 4, 5], "1 2 3 4 5 6", id="a ring is a gap"),
    pytest.param("0 1 2 4 4 5", [0, 1, 2, 3, 4, 5], "1 2 3 4 5 6", id="its own parent"),
    pytest.param("0 1 2 1 6 5", [0, 1, 2, 3, 4, 5], "1 4 5 6", id="a ring, and what was rewound stays out"),
    pytest.param("9 9 9 9 9 9", [0, 0, 0, 0, 0, 0], "5 4 3 2 1 6", id="gaps alone, all in one moment"),
])
def test_a_gap_leads_to_what_is_no_more_than_five_seconds_older(parents: str, times: list[float], live: str, tmp_path: Path) -> None:
    """As client 2.1.332 does it. A gap that led to what hangs below it was a ring, and in a ring all records were live, rewound ones as well."""
    kinds = ("user", "assistant")
    rows = [(f"{number} {kinds[(number + 1) % 2]} {parent}", {**spoken(number, kinds[(number + 1) % 2]), **at_second(time)})
            for number, (parent, time) in enumerate(zip(parents.split(), times), 1)]
    assert numbers(read_rows(tmp_path / "s.jsonl", rows)) == live


def test_rows_in_which_nothing_was_said_are_walked_in_one_pass(tmp_path: Path) -> None:
    """Where each of them was walked to the root, this took a minute."""
    rows = [("1 user 0", spoken(1)), *((f"{number} system {number - 1 if number > 2 else 0}", {}) for number in range(2, 20_001))]
    assert numbers(read_rows(tmp_path / "s.jsonl", rows)) == "1"


@pytest.mark.parametrize(("kind", "live"), [("user", "4 5 3 8"), ("assistant", "4 5 3 8"), ("attachment", "4 5 3 6 7 8"), ("system", "4 5 3 6 7 8")])
def test_a_turn_below_what_was_taken_away_goes_on_from_what_was_kept(kind: str, live: str, tmp_path: Path) -> None:
    """Another row there leads to what is no more than five seconds older (client 2.1.332)."""
    boundary = {"subtype": "compact_boundary", "compactMetadata": {"preservedMessages": {"anchorUuid": "u5", "uuids": ["u3"]}}}
    rows = [("1 user 0", spoken(1)), ("2 assistant 1", spoken(2, "assistant")), ("3 user 2", spoken(3)), ("4 system 0", boundary), ("5 user 4", {"isCompactSummary": True, **spoken(5)}),
            ("6 user 5", spoken(6)), ("7 assistant 6", spoken(7, "assistant")), (f"8 {kind} 2", spoken(8, kind) if kind in ("user", "assistant") else {}), ("9 user 8", spoken(9))]
    timed = [(name, {**told, **at_second(second)}) for second, (name, told) in enumerate(rows)]
    assert numbers(read_rows(tmp_path / "s.jsonl", timed)) == f"{live} 9"


@pytest.mark.parametrize(("parent", "live"), [([], "1 2 3 4"), ({}, "1 2 3 4"), ({"a": 1}, "1 2 3 4"), (7, "1 2 3 4"), (True, "1 2 3 4"), (0, "3 4"), (False, "3 4"), ("", "3 4"), (None, "3 4")])
def test_a_link_that_is_no_text_is_a_gap_and_an_empty_one_a_root(parent: object, live: str, tmp_path: Path) -> None:
    """As client 2.1.332 reads it: an empty list or object is no root."""
    rows = [("1 user 0", spoken(1)), ("2 assistant 1", spoken(2, "assistant")), ("3 user 2", {"parentUuid": parent, **spoken(3)}), ("4 assistant 3", spoken(4, "assistant"))]
    timed = [(name, {**told, **at_second(second)}) for second, (name, told) in enumerate(rows)]
    assert numbers(read_rows(tmp_path / "s.jsonl", timed)) == live


LISTED = {"subtype": "compact_boundary", "compactMetadata": {"preservedMessages": {"anchorUuid": "u4", "uuids": ["u2"]}}}
BRANCHES = [("1 user 0", spoken(1)), ("2 assistant 1", spoken(2, "assistant")), ("3 user 2", spoken(3)), ("4 assistant 3", spoken(4, "assistant")), ("5 user 2", spoken(5)), ("6 assistant 5", spoken(6, "assistant"))]


@pytest.mark.parametrize(("rows", "live"), [
    pytest.param([*BRANCHES[:4], BRANCHES[1]], "1 2 3 4", id="an old row again"),
    pytest.param([*BRANCHES, BRANCHES[1]], "1 2 5 6", id="the newer branch"),
    pytest.param([*BRANCHES[:2], *BRANCHES[4:], *BRANCHES[2:4], BRANCHES[0]], "1 2 3 4", id="newer by time, not by name"),
    pytest.param([*BRANCHES, BRANCHES[2]], "1 2 3 4", id="on its own branch"),
    pytest.param([*BRANCHES[:2], ("3 system 0", LISTED), ("4 user 3", {"isCompactSummary": True, **spoken(4)}), ("5 user 4", spoken(5)), ("6 assistant 5", spoken(6, "assistant")), ("5 user 4", spoken(5))], "3 4 2 5", id="behind a compaction that lists what it kept it is"),
    pytest.param([*BRANCHES[:2], ("3 system 0", {"subtype": "compact_boundary"}), ("4 user 3", {"isCompactSummary": True, **spoken(4)}), ("5 user 4", spoken(5)), ("6 assistant 5", spoken(6, "assistant")), ("5 user 4", spoken(5))], "3 4 5 6", id="behind another it is not"),
    pytest.param([*BRANCHES, ("pin", {"leafUuid": "u9"}), BRANCHES[1]], "1 2", id="a pin, even one to nothing, says that this is the leaf"),
])
def test_an_old_row_that_ends_the_file_is_not_the_end_of_the_talk(rows: list[tuple[str, dict[str, object]]], live: str, tmp_path: Path) -> None:
    """The client goes on to the newest row below it, where it has noted no leaf (2.1.332)."""
    times: dict[str, dict[str, object]] = {}
    timed = [(name, {**told, **times.setdefault(name, at_second(second))}) for second, (name, told) in enumerate(rows)]
    assert numbers(read_rows(tmp_path / "s.jsonl", timed)) == live


CALLING = {"message": {"role": "assistant", "id": "m2", "content": [{"type": "tool_use", "id": "t", "name": "Skill", "input": {}}]}}
GIVEN = {"message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]}}
QUEUED = {"attachment": {"type": "queued_command", "prompt": "while you work", "commandMode": "prompt"}}
META = {"isMeta": True, **spoken(9)}


@pytest.mark.parametrize(("rows", "live"), [
    pytest.param([("2 assistant 1", CALLING), ("3 user 2", GIVEN), ("4 user 3", META), ("5 attachment 4", QUEUED), ("6 assistant 3", spoken(6))], "1 2 3 4 5 6", id="a body of a skill under a result"),
    pytest.param([("2 assistant 1", CALLING), ("3 user 2", GIVEN), ("4 user 3", META), ("5 attachment 4", QUEUED), ("6 assistant 4", spoken(6))], "1 2 3 4 5 6", id="under what is said aside"),
    pytest.param([("2 assistant 1", CALLING), ("3 user 2", GIVEN), ("4 attachment 3", QUEUED), ("5 user 4", spoken(5)), ("6 assistant 3", spoken(6))], "1 2 3 6", id="a turn follows it"),
    pytest.param([("2 assistant 1", spoken(2)), ("3 attachment 2", QUEUED), ("4 user 2", spoken(4)), ("5 assistant 4", spoken(5))], "1 2 4 5", id="under an answer without a call"),
    pytest.param([("2 assistant 1", CALLING), ("3 user 2", GIVEN), ("4 user 3", spoken(4)), ("5 attachment 4", QUEUED), ("6 assistant 4", spoken(6))], "1 2 3 4 6", id="under a prompt"),
])
def test_what_is_said_aside_below_a_call_is_sent(rows: list[tuple[str, dict[str, object]]], live: str, tmp_path: Path) -> None:
    """As client 2.1.332 sends it: below the answers that call, their results and what is said aside there, if it leads nowhere."""
    conversation = read_rows(tmp_path / "s.jsonl", [("1 user 0", spoken(1)), *rows])
    assert " ".join(record.uuid[1:] for record in conversation.live) == live


def test_no_row_is_looked_at_again_and_again_for_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these gaps stands behind, or in the same second as, all rows that the walk has taken already: passing over them anew each time
    took minutes for a file of 50,000 rows. Half of the rows lead to the other half, whose links lead nowhere."""
    looks: list[object] = []
    monkeypatch.setattr(cc.Walk, "__contains__", lambda walk, uuid: looks.append(uuid) or dict.__contains__(walk, uuid))
    rows = 200
    for stamp in ("", "2026-05-01T10:00:00.000Z"):
        looks.clear()
        parents = [*(f"{2 * rows - 1 - number}" for number in range(rows)), *("gone" for _ in range(rows)), f"{rows - 1}"]
        path = tmp_path / "s.jsonl"
        path.write_text("".join(json.dumps({
            "parentUuid": parent, "isSidechain": False, "type": "user", "uuid": str(number), "timestamp": stamp, "sessionId": "s",
            "message": {"role": "user", "content": f"said {number}"}}) + "\n" for number, parent in enumerate(parents)), "utf-8")
        live = cc.read_conversation(cc.read_transcript(str(path))).live
        assert len(live) == 2 * rows + 1
        assert len(looks) < 20 * rows
