"""Sessions that never happened, made from a seed: the same seed gives the same bytes.

    lines = random_session(7)                    one JSON object per line, without the line ends
    python3 tests/random_sessions.py 7           prints them

What may happen in one: rewinds, prompts cancelled before an answer, parallel calls answered in any order, calls never answered,
queued prompts, one or two compactions that keep nothing, a tail or a prefix, old hook progress, `last-prompt` pins that are right,
stale, unknown, zero or explicit, parents never written, lines out of order, repeated records, sub-agents' records in between.

What never happens, because the project decided to differ from the client there, or the client differs from itself:
- timestamps are a minute apart, so that the client's bridge over a missing parent (5 s) never helps by chance; only the record
  whose parent is missing follows two seconds after the newest one, which is then what both bridge to (format.md 4.3);
- rows of one answer out of order among themselves;
- a gap and a pin in one session: the client takes a pin before a gap for one on another branch, even where it bridges the gap;
- cycles, and boundaries without a summary (format.md 4.3, 4.4);
- a rewind or a pin behind a compaction to what stands before it and was not kept: the client sends the old records of a small
  file and nothing of them in a large one (2.1.332; 8 MB tried);
- a repeat as the last line: the client continues from the old record then, and the real client writes no repeats at all.
"""
from __future__ import annotations

import json
import random
import sys
import time
import uuid
from typing import Any, Optional

Json = dict[str, Any]

START = 1_790_000_000  # of the first record, seconds since 1970
ZERO = "00000000-0000-0000-0000-000000000000"


def session_id(seed: int) -> str:
    """The session id of that seed's session."""
    return str(uuid.UUID(int=(0xFACE << 112) | (4 << 76) | (8 << 60) | seed))


class Session:
    """A session while it is made. `path` is what the model sees now, `tip` what the next record hangs under."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.id = session_id(seed)
        self.lines: list[Json] = []
        self.path: list[Json] = []
        self.tip: Optional[str] = None
        self.aside: list[str] = []  # uuids of main-chain records that were left behind since the last compaction
        self.minute = 0
        self.seconds = 0.0
        self.count = 0
        self.unbroken = 0  # from here on `path` is a walk over parents as they stand in the file
        self.compactions = 0
        self.gaps = self.likely(0.3)  # whether a parent may be missing; then there are no pins

    def likely(self, chance: float) -> bool:
        return self.random.random() < chance

    def name(self, prefix: str) -> str:
        """A name that is new in this session: for texts, calls and messages."""
        self.count += 1
        return f"{prefix}{self.count}"

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    # records

    def record(self, kind: str, parent: Optional[str], seconds: int = 0, **fields: Any) -> Json:
        """Append a chain record, a minute after the one before it, or `seconds` after it where given."""
        self.minute += not seconds
        self.seconds = self.seconds + seconds if seconds else START + 60.0 * self.minute
        made = {
            "parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/home/dev/proj", "sessionId": self.id,
            "version": "2.1.332", "gitBranch": "main", "entrypoint": "cli", "type": kind, "uuid": self.uuid(),
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self.seconds)), **fields,
        }
        self.lines.append(made)
        return made

    def step(self, kind: str, seconds: int = 0, **fields: Any) -> Json:
        """Append a record under the tip; it is the new tip."""
        made = self.record(kind, self.tip, seconds, **fields)
        self.path.append(made)
        self.tip = made["uuid"]
        return made

    def side(self, kind: str, **fields: Any) -> None:
        """Append a side record: no link of the chain."""
        self.lines.append({"type": kind, "sessionId": self.id, **fields})

    # what a turn is made of

    def prompt(self) -> None:
        content: Any = self.name("prompt ")
        if self.likely(0.2):
            content = [{"type": "text", "text": content}]
        self.step("user", message={"role": "user", "content": content})

    def answer_rows(self, blocks: list[Json]) -> list[Json]:
        """One answer of the model, a record for each block."""
        message = {"id": self.name("msg_"), "type": "message", "role": "assistant", "model": "claude-opus-5-5", "stop_reason": None}
        usage = {"input_tokens": 10, "output_tokens": 5}
        return [self.step("assistant", message={**message, "content": [block], "usage": usage}) for block in blocks]

    def text(self) -> Json:
        return {"type": "text", "text": self.name("answer ")}

    def tool_calls(self) -> None:
        """An answer with one to four calls and their results, in any order, each under its own call."""
        blocks = [self.text()] if self.likely(0.4) else []
        calls = [self.name("toolu_") for _ in range(self.random.choice([1, 1, 2, 3, 4]))]
        blocks += [{"type": "tool_use", "id": call, "name": "Bash", "input": {"command": "ls"}} for call in calls]
        rows = self.answer_rows(blocks)[-len(calls):]
        pairs = list(zip(calls, rows))
        self.random.shuffle(pairs)
        for call, row in pairs:
            self.result(call, row)

    def result(self, call: str, row: Json) -> None:
        """A call's result under its call, or under old hook progress that hangs there."""
        self.tip = row["uuid"]
        if self.likely(0.15):
            self.progress()
        block = {"type": "tool_result", "tool_use_id": call, "content": self.name("output ")}
        self.step("user", message={"role": "user", "content": [block]}, sourceToolAssistantUUID=row["uuid"])

    def progress(self) -> None:
        self.step("progress", data={"type": "hook_progress"}, toolUseID=self.name("hook_"))

    def queued_prompt(self) -> None:
        self.step("attachment", attachment={"type": "queued_command", "prompt": self.name("queued "), "commandMode": "prompt"})

    def turn(self) -> None:
        """A prompt, some calls, an answer."""
        self.prompt()
        if self.likely(0.3):
            self.step("attachment", attachment={"type": "date", "date": "2026-11-30"})
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            self.tool_calls()
            if self.likely(0.3):
                self.queued_prompt()
        self.answer_rows([self.text() for _ in range(1 + self.likely(0.2))])
        if self.likely(0.5):
            self.step("system", subtype="turn_duration", durationMs=1000)

    # what can happen between turns

    def rewind(self) -> None:
        """Go back to before a prompt that is still seen; what followed is left behind."""
        places = [at for at, record in enumerate(self.path) if at and is_prompt(record)]
        if places:
            self.leave(self.random.choice(places))

    def leave(self, at: int) -> None:
        self.aside += [record["uuid"] for record in self.path[at:] if record["type"] != "progress"]
        del self.path[at:]
        self.unbroken = min(self.unbroken, at)
        self.tip = self.path[-1]["uuid"]

    def cancelled_prompt(self) -> None:
        """A prompt that was taken back before any answer: the next one hangs under the same record."""
        if self.path:
            self.prompt()
            self.leave(len(self.path) - 1)

    def unanswered_call(self) -> None:
        """A call whose result was never written; the next prompt hangs under it."""
        self.prompt()
        self.answer_rows([{"type": "tool_use", "id": self.name("toolu_"), "name": "Bash", "input": {}}])

    def missing_parent(self) -> None:
        """A prompt under a record that was never written, two seconds after the newest one."""
        if self.newest_is_tip():
            self.tip = self.uuid()
            self.step("user", seconds=2, message={"role": "user", "content": self.name("prompt ")})
            self.unbroken = len(self.path) - 1

    def newest_is_tip(self) -> bool:
        """Whether the tip is what was written last; a repeat is not."""
        return bool(self.path) and self.lines[-1] is self.path[-1]

    def sub_agent(self) -> None:
        """Records of a sub-agent in the main file."""
        parent = self.random.choice([None, self.tip])
        for kind in ("user", "assistant"):
            message = {"id": self.name("msg_"), "role": kind, "content": [{"type": "text", "text": self.name("aside ")}]}
            parent = self.record(kind, parent, isSidechain=True, message=message)["uuid"]

    def pin(self) -> None:
        """A last-prompt record: mostly right, else stale, of another branch, unknown or zero."""
        leaves = [self.tip, self.tip, self.random.choice(self.path)["uuid"], self.uuid(), ZERO]
        if self.aside:
            leaves.append(self.random.choice(self.aside))
        self.side("last-prompt", lastPrompt="x", leafUuid=self.random.choice(leaves), **{"explicit": True} if self.likely(0.3) else {})

    def repeat(self) -> None:
        """Write an old record again; of a result perhaps without its output."""
        old = self.random.choice([line for line in self.lines if line["type"] in ("user", "assistant", "attachment")])
        copy = json.loads(json.dumps(old))
        content = copy.get("message", {}).get("content")
        if isinstance(content, list) and "tool_use_id" in content[0] and self.likely(0.5):
            content[0]["content"] = ""
        self.lines.append(copy)

    # compaction

    def compact(self) -> None:
        """A boundary and a summary, which keep nothing, the newest records or the oldest ones."""
        if self.compactions == 2 or len(self.path) < 4:
            return
        self.compactions += 1
        keep = self.random.choice(["nothing", "tail", "tail", "prefix"])
        by_list = self.likely(0.7)
        kept = self.kept(keep, 0 if by_list else self.unbroken)
        boundary = self.record("system", None, subtype="compact_boundary", content="Conversation compacted", logicalParentUuid=self.tip)
        content = self.name("summary ")
        summary = self.record("user", boundary["uuid"], isCompactSummary=True, isVisibleInTranscriptOnly=True,
                              message={"role": "user", "content": content})
        anchor = (boundary if keep == "prefix" else summary)["uuid"]
        boundary["compactMetadata"] = {"trigger": "manual", "preTokens": 1000, **preserved(kept, anchor, by_list)}
        self.path = [*kept, summary] if keep == "prefix" else [summary, *kept]
        self.tip, self.aside, self.unbroken = summary["uuid"], [], len(self.path) - 1

    def kept(self, keep: str, first: int) -> list[Json]:
        """The records that a compaction keeps, cut where a prompt or an answer begins and not before `first`."""
        cuts = [at for at in range(first, len(self.path)) if is_prompt(self.path[at])]
        if keep == "nothing" or not cuts:
            return []
        cut = self.random.choice(cuts)
        kept = self.path[cut:] if keep == "tail" else self.path[first:cut]
        return [record for record in kept if record["type"] != "progress"]


def is_prompt(record: Json) -> bool:
    """Whether a prompt of a person stands in this record (and not a summary or a result)."""
    content = record.get("message", {}).get("content")
    text = content[0].get("text") if isinstance(content, list) else content
    return record["type"] == "user" and isinstance(text, str) and text.startswith("prompt ")


def preserved(kept: list[Json], anchor: str, by_list: bool) -> Json:
    """The fields of compactMetadata that say what is kept: the list of recent clients, or only the older ends of the segment."""
    if not kept:
        return {}
    uuids = [record["uuid"] for record in kept]
    segment = {"preservedSegment": {"headUuid": uuids[0], "anchorUuid": anchor, "tailUuid": uuids[-1]}}
    return {**segment, "preservedMessages": {"anchorUuid": anchor, "uuids": uuids, "allUuids": uuids}} if by_list else segment


def swap_lines(session: Session) -> None:
    """Put one record before its parent, as two writers would; never the last, and none that time or place decides about."""
    lines = session.lines
    places = [at for at in range(len(lines) - 3) if all(line.get("type") in ("user", "assistant") for line in lines[at:at + 2])]
    places = [at for at in places if lines[at + 1]["parentUuid"] == lines[at]["uuid"] and not lines[at]["isSidechain"]
              and lines[at]["type"] != lines[at + 1]["type"]]
    if places:
        at = session.random.choice(places)
        lines[at], lines[at + 1] = lines[at + 1], lines[at]


def random_session(seed: int) -> list[bytes]:
    """The lines of that seed's session, without line ends. The last one is a turn's, or a pin."""
    session = Session(seed)
    events = [session.rewind, session.rewind, session.cancelled_prompt, session.compact, session.compact, session.repeat, session.sub_agent,
              session.unanswered_call, session.missing_parent if session.gaps else session.pin]
    session.turn()
    for _ in range(session.random.randint(2, 8)):
        for event in session.random.sample(events, session.random.choice([0, 1, 1, 2])):
            event()
        session.turn()
    if session.likely(0.3):
        swap_lines(session)
    if session.likely(0.2):
        session.cancelled_prompt()
    if not session.gaps and session.likely(0.5):
        session.pin()
    return [json.dumps(line, separators=(",", ":")).encode() for line in session.lines]


if __name__ == "__main__":
    sys.stdout.write("".join(line.decode() + "\n" for line in random_session(int(sys.argv[1]))))
