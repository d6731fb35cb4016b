"""Small sessions made by hand, each for one question about what the client sends on resume; the answers are in resumed.json.

    lines = crafted_session("queued behind a result")        one JSON object per line, without the line ends

Numbers are uuids: record 5 says "prompt 5" or "answer 5". The records that a pin names were mostly left behind by a rewind.
"""
from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Optional

Json = dict[str, Any]


def uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


class Maker:
    """A session while it is made, a minute between records."""

    def __init__(self, number: int) -> None:
        self.id = f"c0de0000-0000-4000-8000-{number:012x}"
        self.lines: list[Json] = []

    def record(self, number: int, parent: Optional[int], kind: str, **fields: Any) -> None:
        self.lines.append({
            "parentUuid": None if parent is None else uid(parent), "isSidechain": False, "userType": "external", "cwd": "/home/dev/proj",
            "sessionId": self.id, "version": "2.1.332", "gitBranch": "main", "entrypoint": "cli", "type": kind, "uuid": uid(number),
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(1_790_000_000 + 60 * len(self.lines))), **fields,
        })

    def prompt(self, number: int, parent: Optional[int]) -> None:
        self.record(number, parent, "user", message={"role": "user", "content": f"prompt {number}"})

    def row(self, number: int, parent: int, answer: str, block: Json) -> None:
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {"id": answer, "type": "message", "role": "assistant", "model": "claude-opus-5-5", "stop_reason": None, "content": [block], "usage": usage}
        self.record(number, parent, "assistant", message=message)

    def text(self, number: int, parent: int, answer: str = "") -> None:
        self.row(number, parent, answer or f"msg_{number}", {"type": "text", "text": f"answer {number}"})

    def call(self, number: int, parent: int, answer: str = "m") -> None:
        self.row(number, parent, answer, {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": "ls"}})

    def result(self, number: int, call: int) -> None:
        block = {"type": "tool_result", "tool_use_id": f"toolu_{call}", "content": f"output {number}"}
        self.record(number, call, "user", message={"role": "user", "content": [block]}, sourceToolAssistantUUID=uid(call))

    def queued(self, number: int, parent: int) -> None:
        self.record(number, parent, "attachment", attachment={"type": "queued_command", "prompt": f"queued {number}", "commandMode": "prompt"})

    def date(self, number: int, parent: int) -> None:
        self.record(number, parent, "attachment", attachment={"type": "date", "date": "2026-11-30"})

    def system(self, number: int, parent: int) -> None:
        self.record(number, parent, "system", subtype="turn_duration", durationMs=1_000)

    def progress(self, number: int, parent: int) -> None:
        self.record(number, parent, "progress", data={"type": "hook_progress"}, toolUseID="hook")

    def pin(self, number: int, explicit: bool = False) -> None:
        self.lines.append({"type": "last-prompt", "sessionId": self.id, "lastPrompt": "x", "leafUuid": uid(number), **({"explicit": True} if explicit else {})})

    # beginnings and endings

    def called(self) -> None:
        """A prompt (1), one call (2) and its result (3)."""
        self.prompt(1, None)
        self.call(2, 1)
        self.result(3, 2)

    def answered(self) -> None:
        """A prompt (1) and its answer (2)."""
        self.prompt(1, None)
        self.text(2, 1)

    def parallel(self) -> None:
        """A prompt (1), two calls of one answer (2, 3) and their results (4, 5)."""
        self.prompt(1, None)
        self.call(2, 1)
        self.call(3, 2)
        self.result(4, 2)
        self.result(5, 3)

    def compacted(self) -> None:
        """A compaction (10, 11) that kept a prompt and its answer (1, 2), and a turn after it (12, 13)."""
        self.answered()
        kept = {"anchorUuid": uid(11), "uuids": [uid(1), uid(2)], "allUuids": [uid(1), uid(2)]}
        segment = {"headUuid": uid(1), "anchorUuid": uid(11), "tailUuid": uid(2)}
        metadata = {"trigger": "manual", "preTokens": 1_000, "preservedSegment": segment, "preservedMessages": kept}
        self.record(10, None, "system", subtype="compact_boundary", content="Conversation compacted", logicalParentUuid=uid(2), compactMetadata=metadata)
        self.record(11, 10, "user", isCompactSummary=True, isVisibleInTranscriptOnly=True, message={"role": "user", "content": "summary 11"})
        self.prompt(12, 11)
        self.text(13, 12)

    def compacted_between(self) -> None:
        """A compaction (10, 11) that kept the second of two turns, of its parallel calls (4, 5) one by the links, and a turn after it (12, 13)."""
        self.answered()
        self.prompt(3, 2)
        self.call(4, 3)
        self.call(5, 4)
        self.result(6, 5)
        self.result(7, 4)
        self.text(8, 7)
        segment = {"headUuid": uid(3), "anchorUuid": uid(11), "tailUuid": uid(8)}
        metadata = {"trigger": "manual", "preTokens": 1_000, "preservedSegment": segment}
        self.record(10, None, "system", subtype="compact_boundary", content="Conversation compacted", logicalParentUuid=uid(8), compactMetadata=metadata)
        self.record(11, 10, "user", isCompactSummary=True, isVisibleInTranscriptOnly=True, message={"role": "user", "content": "summary 11"})
        self.prompt(12, 11)
        self.text(13, 12)

    def again(self) -> None:
        """All of the file once more: what was copied on top of itself."""
        self.lines += [dict(line) for line in self.lines]

    def elsewhere(self, pinned: int, under: Optional[int] = None, explicit: bool = False) -> None:
        """Another branch, written last, and a pin on what it left behind."""
        self.prompt(90, under)
        self.text(91, 90)
        self.pin(pinned, explicit)


def made(*steps: Callable[[Maker], None]) -> Callable[[Maker], None]:
    def make(maker: Maker) -> None:
        for step in steps:
            step(maker)

    return make


def step(name: str, *given: Any, **named: Any) -> Callable[[Maker], None]:
    return lambda maker: getattr(maker, name)(*given, **named)


CRAFTED: dict[str, Callable[[Maker], None]] = {
    # what hangs below the last record, though a turn that was left behind follows it
    "queued behind a result, explicit": made(Maker.called, step("queued", 4, 3), step("text", 5, 4), step("prompt", 6, 5), step("pin", 3, True)),
    "queued behind a result": made(Maker.called, step("queued", 4, 3), step("text", 5, 4), step("elsewhere", 3)),
    "queued behind a result, nothing after": made(Maker.called, step("queued", 4, 3), step("elsewhere", 3)),
    "queued behind the last of two results": made(Maker.parallel, step("queued", 6, 5), step("text", 7, 6), step("elsewhere", 5)),
    "queued behind the other of two results": made(Maker.parallel, step("queued", 6, 5), step("text", 7, 6), step("elsewhere", 4)),
    "queued behind both results, pin on the first": made(Maker.parallel, step("queued", 6, 4), step("queued", 8, 5), step("text", 7, 6), step("elsewhere", 4)),
    "queued behind two results, pin on the call": made(Maker.parallel, step("queued", 6, 5), step("text", 7, 6), step("elsewhere", 3)),
    "two queued in a row": made(Maker.answered, step("queued", 3, 2), step("queued", 4, 3), step("text", 5, 4), step("elsewhere", 2)),
    "two queued side by side": made(Maker.answered, step("queued", 3, 2), step("text", 4, 3), step("queued", 5, 2), step("text", 6, 5), step("elsewhere", 2)),
    "queued behind a prompt": made(step("prompt", 1, None), step("queued", 2, 1), step("text", 3, 2), step("elsewhere", 1)),
    "queued behind a queued one": made(Maker.answered, step("queued", 3, 2), step("queued", 4, 3), step("text", 5, 4), step("elsewhere", 3)),
    "queued behind a duration": made(Maker.answered, step("system", 3, 2), step("queued", 4, 3), step("text", 5, 4), step("elsewhere", 2)),
    "queued behind a date": made(Maker.answered, step("date", 3, 2), step("queued", 4, 3), step("text", 5, 4), step("elsewhere", 2)),
    "queued behind old progress": made(Maker.answered, step("progress", 3, 2), step("queued", 4, 3), step("text", 5, 4), step("elsewhere", 2)),
    "queued behind a later prompt": made(Maker.answered, step("prompt", 3, 2), step("queued", 4, 3), step("text", 5, 4), step("elsewhere", 2)),
    "queued behind the answer's other row": made(
        step("prompt", 1, None), step("text", 2, 1, "m"), step("text", 3, 2, "m"), step("queued", 4, 3), step("text", 5, 4), step("elsewhere", 2)
    ),
    "queued beside the path": made(Maker.answered, step("queued", 3, 2), step("text", 4, 3), step("prompt", 5, 2), step("text", 6, 5)),
    "queued behind progress behind a result": made(Maker.parallel, step("progress", 20, 4), step("queued", 6, 20), step("text", 7, 5)),
    # a pin on what was left behind after a compaction that kept records
    "kept: on the last answer": made(Maker.compacted, step("elsewhere", 13, 11)),
    "kept: on a kept record": made(Maker.compacted, step("elsewhere", 2, 11)),
    "kept: on an answer before a prompt": made(Maker.compacted, step("prompt", 14, 13), step("elsewhere", 13, 11)),
    "kept: on that prompt": made(Maker.compacted, step("prompt", 14, 13), step("elsewhere", 14, 11)),
    "kept: on an answer before a duration": made(Maker.compacted, step("system", 14, 13), step("elsewhere", 13, 11)),
    "kept: on that duration": made(Maker.compacted, step("system", 14, 13), step("elsewhere", 14, 11)),
    "kept: on that duration, explicit": made(Maker.compacted, step("system", 14, 13), step("elsewhere", 14, 11, True)),
    "kept: explicit, and more was said": made(Maker.compacted, step("system", 14, 13), step("elsewhere", 14, 11, True), step("prompt", 92, 91), step("text", 93, 92)),
    "kept: on an answer before a queued one": made(Maker.compacted, step("queued", 14, 13), step("elsewhere", 13, 11)),
    "kept: on a queued one": made(Maker.compacted, step("queued", 14, 13), step("elsewhere", 14, 11)),
    "kept: on an answer before a queued one and a turn": made(Maker.compacted, step("queued", 14, 13), step("text", 15, 14), step("elsewhere", 13, 11)),
    "kept: the same, explicit": made(Maker.compacted, step("queued", 14, 13), step("text", 15, 14), step("elsewhere", 13, 11, True)),
    "kept: on an answer before a duration and a prompt": made(Maker.compacted, step("system", 14, 13), step("prompt", 15, 13), step("elsewhere", 13, 11)),
    "kept: on an answer before old progress": made(Maker.compacted, step("progress", 14, 13), step("elsewhere", 13, 11)),
    # a file that was copied on top of itself: what stood before the compaction stands behind it as well
    "kept: a call beside the links": made(Maker.compacted_between),
    "kept: the same, the file twice": made(Maker.compacted_between, Maker.again),
    # what hangs beside the path and leads nowhere
    "loose: queued beside an answer without calls": made(Maker.answered, step("queued", 3, 2), step("prompt", 4, 2), step("text", 5, 4)),
    "loose: queued beside a result": made(Maker.called, step("queued", 4, 3), step("text", 5, 3)),
    "loose: queued beside the text of an answer with a call": made(
        step("prompt", 1, None), step("text", 2, 1, "m"), step("call", 3, 2), step("result", 4, 3), step("queued", 6, 2), step("text", 5, 4)
    ),
}


def crafted_session(name: str) -> list[bytes]:
    """The lines of that session, without line ends."""
    maker = Maker(list(CRAFTED).index(name) + 1)
    CRAFTED[name](maker)
    return [json.dumps(line, separators=(",", ":")).encode() for line in maker.lines]
