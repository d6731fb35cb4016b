"""What the real client was seen to send when it resumed a session, and the same read from a transcript by the shared module.

`tests/resumed.json` holds it: {name: [[role, item], ...]}, written by `tests/live/test_resume.py --write` from client 2.1.332.
A name is `fixture/session`, `case/file`, `crafted/question` or `random/seed`. An item is a text, `USE:tool:id` or `RES:id`.

Both sides are reduced to what the claim is about, the person's prompts, the agent's answers, calls and results, in order:
- a text counts if it stands in a user or assistant record of the file that is neither isMeta, nor visible in the transcript only
  (the summary of a compaction excepted), nor an API error. So reminders, what the client makes of attachments, and what it adds
  on resume ("No response requested.") count on neither side, and nor do task notifications, which it rewraps;
- a queued prompt counts: the client wraps it in a sentence of its own, the module gives its text. The sanitizer of the fixtures
  replaced that rendered sentence, so the copies that are resumed lack `rendered` and the client makes it anew;
- a call counts only together with its result, the first where there are two: the client drops, or invents, the missing half;
- a bare string among the blocks of a record does not count: the client drops it;
- thinking, pictures and the outputs themselves do not count.
"""
from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import cc_transcript
from crafted_sessions import CRAFTED, crafted_session
from random_sessions import random_session

Json = dict[str, Any]
Item = tuple[str, str]

HERE = Path(__file__).resolve().parent
PINNED = HERE / "resumed.json"
SEEDS = 50  # of random sessions, from 0
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.S)
QUEUED = re.compile(r"The user sent a new message while you were working:\n(.*?)\n\nThis is how Claude Code surfaces", re.S)
NO_RESPONSE = "No response requested."  # stands in old records, and is added by the client after an unanswered prompt
NOTIFICATIONS = ("<task-notification>", "[SYSTEM NOTIFICATION")
INVENTED = ("[Tool call interrupted: the session ended", "[Tool result missing")  # results that the client makes up


# the sessions


def sources() -> dict[str, Path]:
    """The transcripts of the fixtures and of the cases that are one file, by name."""
    fixtures = {f"{path.parents[2].name}/{path.stem}": path for path in HERE.glob("fixtures/v*/projects/*/*.jsonl")}
    cases = {f"{path.parent.name}/{path.stem}": path for path in HERE.glob("cases/*/*.jsonl")}
    return dict(sorted({**fixtures, **cases}.items()))


def written() -> list[str]:
    """The names of those that somebody wrote: fixtures, cases, crafted ones."""
    return [*sources(), *(f"crafted/{name}" for name in CRAFTED)]


def names() -> list[str]:
    """All names, the random ones last."""
    return [*written(), *(f"random/{seed}" for seed in range(SEEDS))]


def transcript(name: str) -> bytes:
    """The bytes of the named session."""
    kind, _, rest = name.partition("/")
    if kind in ("random", "crafted"):
        return b"".join(line + b"\n" for line in (random_session(int(rest)) if kind == "random" else crafted_session(rest)))
    return sources()[name].read_bytes()


def objects(data: bytes) -> list[Json]:
    """The records of a transcript, as plainly as can be: lines that are no JSON object are left out."""
    return [value for line in data.split(b"\n") for value in parsed(line)]


def parsed(line: bytes) -> list[Json]:
    """The object of a line in a list, or an empty list."""
    try:
        value = json.loads(line.decode("utf-8", "replace").strip("\ufeff\0 \r"))
    except ValueError:
        return []
    return [value] if isinstance(value, dict) else []


def place(name: str, folder: Path) -> str:
    """Write the named session into a projects folder, as the client wants it; the session's id."""
    data = transcript(name)
    session = next(fields["sessionId"] for fields in objects(data) if fields.get("sessionId"))
    (folder / f"{session}.jsonl").write_bytes(b"\n".join(map(without_rendered, data.split(b"\n"))))
    return str(session)


def without_rendered(line: bytes) -> bytes:
    """The line of a queued prompt without the client's own rendering; any other line as it is."""
    if b'"queued_command"' not in line or b'"rendered"' not in line:
        return line
    return json.dumps({key: value for key, value in json.loads(line).items() if key != "rendered"}, separators=(",", ":")).encode()


# items


def pinned() -> dict[str, list[Item]]:
    """What the client was seen to send, by name."""
    return {name: [(role, item) for role, item in items] for name, items in json.loads(PINNED.read_text("utf-8")).items()}


def plain(text: str) -> str:
    """A text without reminders and without space around it."""
    return REMINDER.sub("", text).strip()


def counts(text: str) -> bool:
    return bool(text) and text != NO_RESPONSE and not text.startswith(NOTIFICATIONS)


def said(data: bytes) -> set[Item]:
    """(role, text) of every text in a transcript that counts."""
    return {(fields["type"], plain(text)) for fields in objects(data) if is_spoken(fields) for text in texts(fields.get("message"))}


def is_spoken(fields: Json) -> bool:
    """Whether a record's texts count."""
    shown_only = fields.get("isVisibleInTranscriptOnly") and not fields.get("isCompactSummary")
    return fields.get("type") in ("user", "assistant") and not (fields.get("isMeta") or fields.get("isApiErrorMessage") or shown_only)


def texts(message: Any) -> Iterator[str]:
    """The texts of a message, whatever its shape."""
    content = message.get("content") if isinstance(message, dict) else None
    for block in [content] if isinstance(content, str) else content if isinstance(content, list) else []:
        if isinstance(block, str):
            yield block
        elif isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            yield block["text"]


def sent_items(body: Json, data: bytes) -> list[Item]:
    """The items of a request that resumed the transcript `data`."""
    known = said(data)
    return paired(item for message in body["messages"] for item in message_items(message, known))


def message_items(message: Json, known: set[Item]) -> Iterator[Item]:
    content = message["content"]
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if block["type"] == "tool_use":
            yield "assistant", use_item(block["name"], block["id"])
        elif block["type"] == "tool_result":
            output = "\n".join(texts(block))
            if not output.startswith(INVENTED):
                yield "user", f"RES:{block['tool_use_id']}"
            yield from (("user", text) for text in QUEUED.findall(output))
        elif block["type"] == "text":
            yield from (("user", text) for text in QUEUED.findall(block["text"]))
            text = plain(block["text"])
            if counts(text) and (message["role"], text) in known:
                yield message["role"], text


def use_item(tool: str, call: str) -> str:
    """The item of a call; the client sends the old name Task as Agent."""
    return f"USE:{'Agent' if tool == 'Task' else tool}:{call}"


def live(name: str, folder: Path) -> list[Item]:
    """The items that the module takes for live in the named session; `folder` is for a copy of it."""
    session = place(name, folder)
    return live_items(cc_transcript.read_conversation(cc_transcript.read_transcript(str(folder / f"{session}.jsonl"))))


def live_items(conversation: cc_transcript.Conversation) -> list[Item]:
    """The items of what the module takes for live."""
    return paired(item for record in conversation.live for item in record_items(record))


def record_items(record: cc_transcript.Record) -> Iterator[Item]:
    if record.queued or record.kind in ("user", "assistant"):
        role = "user" if record.queued else record.kind
        hidden = record.api_error or (record.meta and not record.summary)
        for block in record.blocks:
            if isinstance(block, cc_transcript.Call):
                yield role, use_item(block.name, block.id)
            elif isinstance(block, cc_transcript.Result):
                yield role, f"RES:{block.call_id}"
            elif isinstance(block, cc_transcript.Text) and not hidden and counts(plain(block.text)):
                yield role, plain(block.text)


def paired(found: Iterable[Item]) -> list[Item]:
    """The items without calls that have no result, results that have no call, and calls or results that come again."""
    items = list(found)
    answered = {call_id(item) for _, item in items if item.startswith("RES:")} & {call_id(item) for _, item in items if item.startswith("USE:")}
    kept: list[Item] = []
    for role, item in items:
        is_half = item.startswith(("USE:", "RES:"))
        if not is_half or (call_id(item) in answered and (role, item) not in kept):
            kept.append((role, item))
    return kept


def call_id(item: str) -> str:
    return item.rsplit(":", 1)[1]
