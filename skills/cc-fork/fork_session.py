#!/usr/bin/env python3
"""Write a slim copy of a Claude Code session under a fresh id, proven before it is there, to resume from a lighter history.

    fork_session.py [REF] [options]      (see --help; REF is an id, a title, a path; default: the session that calls it, else the latest)

What is copied is the live conversation as the shared module gives it: what the client would send on --resume. The copy is one straight
chain, each result right after its calls, a title last. Slim: thinking, long strings of calls and results, pictures and bookkeeping go;
--exact: nothing goes; --compact: all but the last exchanges becomes one compaction record. The source is only read.

Rows keep their uuids and say in `forkedFrom` whose they were, as in the client's own /branch: so no reference between rows can be missed,
and a reader of both files sees that they are relatives. Only rows that are made here (boundary, summary, note) have new ones.

Prints one XML report. Exit status: 0 done, 1 refused (one line on stderr, nothing written), 2 wrong usage.
Python 3.9 or newer, standard library only. "Measured": on client 2.1.332.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":  # one short run that makes few circles: to look for them from here on costs a tenth of it, and frees nothing
    gc.disable()

import argparse
import json
import os
import re
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, groupby, zip_longest
from itertools import count as count_from
from operator import attrgetter
from typing import IO, Any, NamedTuple, Optional, Union

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cc_transcript as cc

DEFAULT_BOUND = 28_000  # of the report, which takes a tenth of it
BYTES_PER_TOKEN = 4  # the estimate that all sizes in tokens rest on
SYSTEM_TOKENS = 13_000  # system prompt and tools, which every request carries beside the conversation (measured: 12,700 without MCP)
PICTURE_BYTES = 1_500 * BYTES_PER_TOKEN  # what a picture costs the context, whatever its file's size
DETAIL_FACTOR = 4  # a result's detail for the screen that is longer than so many --tool-chars goes as a whole
SUFFIX = "_cc"  # of a call's id that the source uses a second time
TITLE_UNITS = 200  # a title is one line
COMMAND_UNITS = 700  # a command that takes more of the report's bound is shown without its `cd`
OWN_COMMANDS = ("/cc-fork", "/cc-carryover:cc-fork")
INTERRUPTED = (  # the client's own words for a call at the end that has no result (measured)
    "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown. "
    "Check whether it took effect before relying on it or running it again.]"
)
MISSING = "[Tool result missing due to internal error]"  # the same for one in the middle, where other calls of its answer have theirs (measured)
UNREADABLE = "[This output is damaged in the session that this copy was made from, and is lost.]"
PICTURE_HINT = "left out by cc-fork"
PICTURE_NOTE = r"\[image\] \([^()]*, left out by cc-fork\)"  # compiled where a picture went
# fmt: off
ANNOUNCED = frozenset((  # attachments that the client makes anew when they are missing, or that only its own records need (measured)
    "environment", "model", "date", "session_context", "remote_session_change", "deferred_tools_delta", "deferred_tools_record",
    "agent_listing_delta", "skill_listing", "prompt_snapshot", "command_permissions", "task_reminder",
))
# fmt: on
FILE_ATTACHMENTS = frozenset(("file", "directory", "edited_text_file"))  # what a tool would have read, cut like its output
OWN_FIELDS = frozenset(("parentUuid", "isSidechain", "session_id", "sessionKind", "forkedFrom", "requestSessionId"))  # never the source's
DATA_KEYS = ("data", "base64")  # of a picture
KEPT_NAMES = ("type", "uuid", "parentUuid", "sessionId", "timestamp", "cwd")  # what the client finds a row by
PLACE_FIELDS = ("userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "slug")  # the same on every row of a session
NOTHING_KEPT = cc.Compaction()
REFERENCES = ("logicalParentUuid", "sourceToolAssistantUUID", "messageId", "leafUuid")

Json = dict[str, Any]


# -------------------------------------------------------------------------------------------------------- what is copied


class Piece(NamedTuple):
    """A record that goes into the copy, or a part of one: where two answers share a row of results, it is parted."""

    record: cc.Record
    ids: Sequence[Optional[str]]  # of its calls or results in the copy, in their order; None: it goes
    thinking: bool  # whether its thinking may stay


class Made(NamedTuple):
    """A row that the source does not have: what it is, its fields beyond those that all rows carry, and a row near it, for time and place."""

    name: str
    fields: Json
    near: cc.Record


class Plan(NamedTuple):
    """What the copy will hold, in order, and what it promises of its source."""

    pieces: list[Union[Piece, Made]]
    said: list[cc.Record]  # the source's records whose words must be in it, in order
    untouched: frozenset[str]  # uuids of those that nothing may be cut from
    live: frozenset[str]  # uuids of what the source would send now
    turns: dict[str, int]  # uuid -> the number of its exchange in the source


class Tally:
    """What was dropped: by kind how often, and how many bytes of the context that saved; and sizes in bytes of context."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.saved: Counter[str] = Counter()
        self.before = self.after = 0

    def drop(self, kind: str, context: int = 0, times: int = 1) -> None:
        """Note that something of a kind was dropped so many times, `context` bytes of the context in all."""
        if times:
            self.counts[kind] += times
            self.saved[kind] += context


def text_size(value: object) -> int:
    """Bytes of all text in a JSON value, keys left aside; a picture counts as what it costs the context."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, dict):
        if value.get("type") in cc.PICTURES and "source" in value:
            return PICTURE_BYTES
        value = value.values()
    elif not isinstance(value, list):
        return 0
    size = 0
    for item in value:  # one frame a level, so that what could be parsed can be measured
        size += len(item) if isinstance(item, str) and item.isascii() else text_size(item)
    return size


def sent_size(fields: Json) -> int:
    """Bytes of context that a row takes when the session is resumed. What the client announces anew counts nowhere."""
    kind = fields.get("type")
    if kind in cc.TURNS and fields.get("isApiErrorMessage") is not True:
        return text_size(cc.mapping(fields.get("message")).get("content"))
    attachment = cc.mapping(fields.get("attachment"))
    if kind != "attachment" or cc.string(attachment.get("type")) in ANNOUNCED:
        return 0
    if attachment.get("type") == "queued_command":
        return text_size(attachment.get("prompt"))
    return text_size(fields.get("rendered") or attachment.get("content"))


def turn_numbers(conversation: cc.Conversation) -> dict[str, int]:
    """uuid -> number of the exchange it belongs to, for every record that happened."""
    starts = {exchange.record.uuid: exchange.n for exchange in conversation.exchanges}
    numbers: dict[str, int] = {}
    turn = 0
    for record in conversation.happened:
        turn = starts.get(record.uuid, turn)
        numbers[record.uuid] = turn
    return numbers


def records_up_to(conversation: cc.Conversation, until: str, turns: dict[str, int]) -> list[cc.Record]:
    """The conversation as it stood after that turn, or at the record of that uuid, also where a compaction took it away later."""
    if not until.isdecimal():
        named = next((record for record in conversation.links.main if record.uuid.lower() == until.lower()), None)
        if named is None:
            raise cc.Refusal(f"no record {until} in {conversation.transcript.path}; give a turn's number or the uuid of one of its records")
        return live_at(conversation, named, named.line + (named.compaction is None))  # without its summary it is no compaction
    last = max(turns.values(), default=0)
    prompts = {exchange.record.uuid for exchange in conversation.exchanges}  # what hangs below one came with it: its picture's name, its output
    of_turn = [record for record in conversation.happened if turns[record.uuid] == int(until)]
    turn = [record for record in of_turn if is_turn(record) or record.uuid in prompts or record.parent in prompts]
    if not 1 <= int(until) <= last or not turn:
        raise cc.Refusal(f"there is no turn {until} to go back to in {conversation.transcript.path}: it has {last}, counted from 1")
    return live_at(conversation, turn[-1], max(record.line for record in of_turn[: of_turn.index(turn[-1]) + 1]) + 1)


def live_at(conversation: cc.Conversation, leaf: cc.Record, limit: int) -> list[cc.Record]:
    """What the client would have sent when `leaf` was the last word of a file of `limit` lines; of a boundary behind it, what that took away."""
    then = cc.Chain(conversation.links, limit)
    end = (leaf.compaction and then.compacted_leaf(leaf)) or leaf
    return then.with_parallels(then.walk(then.end_of(end)))


def is_turn(record: cc.Record) -> bool:
    """Whether a record is part of the answer to a prompt: what the agent says, calls and gets, and where it was interrupted."""
    return record.kind == "assistant" or bool(record.results) or "".join(record.texts()).startswith("[Request interrupted by user")


def without_own_command(records: list[cc.Record]) -> list[cc.Record]:
    """`records` without an unanswered /cc-fork at their end: its own rows may be written when the script runs, and nobody wants to resume
    into them."""
    start = next((at for at in range(len(records) - 1, -1, -1) if cc.prompt_of(records[at])), 0)
    prompt = cc.prompt_of(records[start]) if records else None
    is_own = prompt is not None and prompt.how == "command" and prompt.text.split()[0] in OWN_COMMANDS
    return records[:start] if is_own and not any(record.kind == "assistant" for record in records[start:]) else records


def is_carried(record: cc.Record, exact: bool) -> bool:
    """Whether a record goes into the copy. Progress rows and what the client only keeps for itself are never sent."""
    if record.kind in cc.TURNS:
        return exact or not record.api_error
    if record.kind == "attachment":
        return exact or record.subtype not in ANNOUNCED
    return exact and record.kind == "system"


def carried(records: list[cc.Record], exact: bool, tally: Tally) -> list[cc.Record]:
    """The records that go into the copy. A boundary does only where it begins the conversation and its summary is there."""
    plain = [record for record in records if record.compaction is None]
    kept = [record for record in plain if is_carried(record, exact)]
    tally.drop("bookkeeping records", times=len(plain) - len(kept))
    begins = bool(records) and records[0].compaction is not None and any(record.summary for record in records)
    return records[:1] + kept if begins else kept


# ------------------------------------------------------------------------------------------------------- calls and results


class Answered(NamedTuple):
    """A call, its result (None: it never came), and the call's id in the copy."""

    call: cc.Call
    result: Optional[cc.Result]
    id: str


def results_of(records: Iterable[cc.Record]) -> Iterator[cc.Result]:
    """All results, in the order of the file."""
    for record in sorted((record for record in records if record.kind == "user"), key=attrgetter("line")):
        yield from record.results


def answered_calls(records: list[cc.Record]) -> dict[str, list[Answered]]:
    """uuid of an assistant row -> its calls with their results, each result given to one call, in the order of the file. An id that is
    used again gets one of its own: the API refuses a second result for one call."""
    waiting: defaultdict[str, deque[cc.Result]] = defaultdict(deque)
    for result in results_of(records):
        waiting[result.call_id].append(result)
    used: set[str] = set()
    found: defaultdict[str, list[Answered]] = defaultdict(list)
    for record in records:
        for call in record.calls if record.kind == "assistant" else ():
            names = chain([call.id], (f"{call.id}{SUFFIX}{n}" for n in count_from(2)))
            fresh = next(name for name in names if name not in used)
            used.add(fresh)
            found[record.uuid].append(Answered(call, waiting[call.id].popleft() if call.id and waiting[call.id] else None, fresh))
    return found


def laid_out(records: list[cc.Record], last: Optional[cc.Record], tally: Tally) -> Iterator[Union[Piece, Made]]:
    """The carried records, each call's result in the rows right after its answer, and nothing else there. Of a row of results that no call
    takes along only the words beside them are left. `last` is the row that was the last to say something."""
    calls = answered_calls(records)
    taken = {answer.result.record.uuid for answers in calls.values() for answer in answers if answer.result}
    for _, rows in groupby(records, key=lambda record: record.message_id or record.uuid):
        group = list(rows)
        if group[0].kind == "assistant":
            yield from answer_and_results(group, calls, group[-1] is last, tally)
        elif group[0].uuid not in taken:
            tally.drop("results without a call", times=len(group[0].results))
            if not group[0].results or len(group[0].results) < len(group[0].blocks):
                yield Piece(group[0], (), True)


def answer_and_results(rows: list[cc.Record], calls: dict[str, list[Answered]], at_end: bool, tally: Tally) -> Iterator[Union[Piece, Made]]:
    """The rows of one answer, then the results of their calls. Calls of a row where none got one go; beside others of their row, and at the
    end of the session, the model is told what is missing (both as the client does: measured). An answer that loses a call loses its thinking."""
    own = [calls[row.uuid] for row in rows]
    given = {answer.result: answer.id for answers in own for answer in answers if answer.result}
    missing = [answer for answers in own for answer in answers if not answer.result and (at_end or any(one.result for one in answers))]
    told = [answer for answer in missing if answer.call.id and "fork_session.py" not in answer.call.argument("command")]
    untold = sum(map(len, own)) - len(given) - len(told)
    for row, answers in zip(rows, own):
        yield Piece(row, [answer.id if answer.result or answer in told else None for answer in answers], not untold)
    records = sorted({result.record for result in given}, key=attrgetter("line"))
    results: list[Union[Piece, Made]] = [Piece(record, [given.get(result) for result in record.results], True) for record in records]
    if told:
        what = {"type": "tool_result", "content": INTERRUPTED if at_end else MISSING, "is_error": True}
        content = [{**what, "tool_use_id": answer.id} for answer in told]
        made = Made("interrupted", {"type": "user", "message": {"role": "user", "content": content}}, rows[-1])
        results.insert(len(results) if at_end else 0, made)  # as the client does (measured)
    yield from results
    tally.drop("calls without a result", times=untold)


# --------------------------------------------------------------------------------------------------------------- slimming


def mapped(value: Any, change: Callable[[str, str], str], rename: Callable[[str], str] = str, spared: Sequence[str] = DATA_KEYS) -> Any:
    """A JSON value with every text changed, given the name it stands under, if any, and every name renamed. Of pictures the texts under the
    `spared` names stay."""
    if isinstance(value, str):
        return change("", value)
    if isinstance(value, list):
        items = []
        for item in value:  # one frame a level, so that what could be parsed can be mapped
            items.append(change("", item) if isinstance(item, str) else mapped(item, change, rename, spared))
        return items
    if not isinstance(value, dict):
        return value
    kind = cc.string(value.get("type"))
    stays = spared if kind == "base64" or "/" in kind else ()  # by their type, objects that hold a picture's data
    found: Json = {}
    for key, item in value.items():
        name = rename(key)
        while name in found:  # two keys that are the same once they are masked
            name += "'"
        if isinstance(item, str):
            found[name] = item if key in stays else change(key, item)
        else:
            found[name] = mapped(item, change, rename, spared)
    return found


def mask_named(name: str, text: str) -> str:
    """A text that stands under a name, masked: the name of a header or a field tells what it is."""
    masked, pair = cc.mask(text), cc.mask(f"{name}: {text}")
    return pair[len(name) + 2 :] if masked == text and pair.startswith(f"{name}: [masked") else masked


def redacted(fields: Json) -> Json:
    """A record with credentials masked in all that is said, named or noted in it; its directory stays, or it could not be resumed."""
    row: Json = mapped(fields, mask_named, cc.mask)
    return {**row, **{key: fields[key] for key in KEPT_NAMES if key in fields}}


class Slimmer:
    """Cuts what is long in a row's calls, results, pictures and details, and counts it."""

    def __init__(self, source: str, tool_chars: int, keep_images: bool, tally: Tally) -> None:
        self.source, self.limit, self.keep_images, self.tally = source, tool_chars, keep_images, tally
        self.turn = 0
        self.saved = 0  # bytes that the cuts of one block took away

    def cut(self, _: str, text: str) -> str:
        """`text` within the limit, with the command that shows the whole."""
        if len(text) <= self.limit // 2:
            return text
        slim = cc.cut(text, self.limit, f" by cc-fork; whole: /cc-query-chat --chat {self.source} --turn {self.turn}")
        self.saved += text_size(text) - text_size(slim)
        return slim

    def block(self, block: Json) -> Json:
        """A content block of a message, slim."""
        self.saved, kind = 0, block.get("type")
        if kind in cc.PICTURES:
            return self.picture_note(block)
        if kind == "tool_use":
            block = {**block, "input": mapped(block.get("input"), self.cut)}
        elif kind == "tool_result" and "content" in block:
            content = block["content"]
            block = {**block, "content": list(map(self.result_block, content)) if isinstance(content, list) else mapped(content, self.cut)}
        if self.saved > 0:
            self.tally.drop("tool inputs cut" if kind == "tool_use" else "tool outputs cut", self.saved)
        return block

    def result_block(self, item: Any) -> Any:
        """A block inside a result."""
        block = cc.mapping(item)
        if block.get("type") in cc.PICTURES:
            return self.picture_note(block)
        return {**block, "text": mapped(block["text"], self.cut)} if block.get("type") == "text" and "text" in block else item

    def picture_note(self, block: Json) -> Json:
        """The text that stands for a picture or document, unless they are kept."""
        if self.keep_images:
            return block
        self.tally.drop("pictures", PICTURE_BYTES)
        size = len(cc.string(cc.mapping(block.get("source")).get("data"))) * 3 // 4
        kind = re.sub(r"[()]", "", cc.media_type(block))[:60]
        return {"type": "text", "text": f"[image] ({kind}, {size:,} bytes, {PICTURE_HINT})"}

    def cut_detail(self, name: str, text: str) -> str:
        """A text of a result's detail, the data of pictures left out unless they are kept."""
        return "" if name in DATA_KEYS and not self.keep_images else self.cut(name, text)

    def beside_content(self, row: Json) -> None:
        """Cut what stands in a row beside its content: a result's detail for the screen, and the text of files that a prompt named."""
        if "toolUseResult" in row:
            detail = mapped(row.pop("toolUseResult"), self.cut_detail, spared=DATA_KEYS if self.keep_images else ())
            if text_size(detail) > DETAIL_FACTOR * max(self.limit, 500):
                self.tally.drop("details for the screen")
            elif detail is not None:
                row["toolUseResult"] = detail
        if cc.string(cc.mapping(row.get("attachment")).get("type")) in FILE_ATTACHMENTS:
            before = sent_size(row)
            row.update({key: mapped(row[key], self.cut) for key in ("attachment", "rendered") if key in row})
            if sent_size(row) < before:
                self.tally.drop("attached files cut", before - sent_size(row))


# ------------------------------------------------------------------------------------------------------------------ rows


class Copier:
    """Turns pieces into rows of the copy."""

    def __init__(self, plan: Plan, identity: Identity, options: argparse.Namespace, tally: Tally) -> None:
        self.identity, self.options, self.tally, self.exact = identity, options, tally, options.exact
        self.keeps_usage = options.exact and options.last is None  # of a conversation that begins where the source's does
        self.slimmer = Slimmer(identity.source, options.tool_chars, options.keep_images, tally)
        self.plan = plan
        self.parts: Counter[str] = Counter()  # of each record, made so far
        self.answer, self.answer_from = "", 0
        self.written: set[str] = set()
        self.speaks = False  # whether a row of the two roles is written

    def lines(self) -> Iterator[bytes]:
        """The lines of the copy, in order, the titles last."""
        parent: Optional[str] = None
        for piece in self.plan.pieces:
            row = self.made_row(piece) if isinstance(piece, Made) else self.row(piece)
            if row is not None:
                row["parentUuid"], parent = parent, row["uuid"]
                self.written.add(row["uuid"])
                self.speaks = self.speaks or row["type"] in cc.TURNS
                self.count(row)
                yield as_line(self.placed(row))
        for kind, key in (("custom-title", "customTitle"), ("agent-name", "agentName")):
            yield as_line({"type": kind, key: self.identity.title, "sessionId": self.identity.session})

    def made_row(self, made: Made) -> Json:
        """The row of something that the source does not have, in the place and at the time of the row near it."""
        near = made.near.fields()
        row: Json = {"parentUuid": None, "isSidechain": False, **made.fields, "uuid": fresh_uuid(self.identity.session, made.name, made.near.uuid)}
        row["timestamp"] = made.near.timestamp or "1970-01-01T00:00:00.000Z"
        row.update({key: near[key] for key in PLACE_FIELDS if key in near})
        return redacted(row) if self.options.redact else row

    def row(self, piece: Piece) -> Optional[Json]:
        """The row of a record, None where nothing of it is left."""
        uuid, part = piece.record.uuid, self.parts[piece.record.uuid]
        self.parts[uuid] += 1
        fields = piece.record.fields() or stand_in(piece)
        if not part and uuid in self.plan.live:
            self.tally.before += sent_size(fields)
        fields = redacted(fields) if self.options.redact else fields
        row: Json = {"parentUuid": None, "isSidechain": False, **{key: value for key, value in fields.items() if key not in OWN_FIELDS}}
        self.slimmer.turn = self.plan.turns.get(uuid, self.slimmer.turn)
        if not self.exact and piece.record.queued and cc.prompt_of(piece.record):
            row = as_prompt(row)
        if row.get("type") not in cc.TURNS:
            row.pop("message", None)
        elif not self.take_content(row, piece):
            return None
        if uuid not in self.plan.untouched and piece.record.size > self.slimmer.limit:
            self.slimmer.beside_content(row)
        if part:
            row["uuid"] = fresh_uuid(self.identity.session, uuid, str(part))
        self.move_references(row)
        if "compactMetadata" in row:
            row["compactMetadata"] = self.moved_metadata(cc.mapping(row["compactMetadata"]), piece.record.compaction or NOTHING_KEPT)
        if row.get("type") == "assistant":
            earlier = cc.string(cc.mapping(fields.get("forkedFrom")).get("sessionId"))
            row["requestSessionId"] = cc.string(fields.get("requestSessionId")) or earlier or self.identity.source
        row["forkedFrom"] = {"sessionId": self.identity.source, "messageUuid": uuid}
        return row

    def take_content(self, row: Json, piece: Piece) -> bool:
        """Put what is left of the content into the row; whether anything is."""
        message = row["message"] = dict(cc.mapping(row.get("message")))
        content = message.get("content")
        if isinstance(content, list):
            own, ids = "tool_use" if row["type"] == "assistant" else "tool_result", iter(piece.ids)
            content = [new for block in content if (new := self.new_block(block, piece, own, ids)) is not None]
        message["content"] = content
        return bool(content) and isinstance(content, (str, list))

    def new_block(self, block: object, piece: Piece, own: str, ids: Iterator[Optional[str]]) -> Optional[Json]:
        """A block as it stands in the copy, None where it goes. `own` is the kind of block that takes the next of the ids in this role."""
        if not isinstance(block, dict):
            return None  # the client drops a bare string among blocks (measured)
        kind = block.get("type")
        if kind in ("thinking", "redacted_thinking"):
            if not (piece.thinking and self.exact) or self.options.redact:
                self.tally.drop("thinking", text_size(block))
                return None
        elif kind in ("tool_use", "tool_result"):
            fresh = next(ids, None) if kind == own else None
            if fresh is None:
                if kind == "tool_use" and piece.record.uuid in self.plan.live:
                    self.tally.before -= text_size(block)  # the client does not send it either
                return None
            block = {**block, "id" if kind == "tool_use" else "tool_use_id": fresh}
        elif self.parts[piece.record.uuid] > 1:
            return None  # what stands beside results that are parted stays with the first of them
        may_be_long = piece.record.size > self.slimmer.limit or kind in cc.PICTURES or kind == "tool_result"
        return self.slimmer.block(block) if may_be_long and piece.record.uuid not in self.plan.untouched else block

    def move_references(self, row: Json) -> None:
        """A reference stays where it names a row of the copy (they lead back), else it goes."""
        for key in REFERENCES:
            if key in row and str(row[key]) not in self.written:
                row[key] = None
                if key != "logicalParentUuid":
                    del row[key]

    def moved_metadata(self, metadata: Json, compaction: cc.Compaction) -> Json:
        """A boundary's metadata with the preserved rows that the copy has, where they follow their anchor in one run, as the client would put
        them; else the straight chain says it all."""
        listed, anchor = compaction.kept is not None, compaction.anchor
        wanted = set(compaction.kept or compaction.ends[1:])
        pieces = {piece.record.uuid: piece for piece in self.plan.pieces if isinstance(piece, Piece)}
        order = list(pieces)
        start = order.index(anchor) if anchor in pieces else len(order)
        end = max((at for at, uuid in enumerate(order) if uuid in wanted), default=0)
        ahead = Copier(self.plan._replace(pieces=[]), self.identity, self.options, Tally())  # makes rows that are only looked at
        first, *rows = [uuid for uuid in order[start : end + 1] if ahead.row(pieces[uuid])] or [""]
        moved = {key: value for key, value in metadata.items() if key not in ("preservedSegment", "preservedMessages")}
        if rows and first == anchor and wanted <= self.plan.live and (not listed or wanted.issuperset(rows)):
            moved["preservedSegment"] = {"headUuid": rows[0], "anchorUuid": anchor, "tailUuid": rows[-1]}
            if listed:
                moved["preservedMessages"] = {"anchorUuid": anchor, "uuids": rows, "allUuids": rows}
        return moved

    def count(self, row: Json) -> None:
        """Add what a finished row takes of the context; an answer's `usage` says it, or the client would believe the old one."""
        message, before = cc.mapping(row.get("message")), self.tally.after
        self.tally.after += sent_size(row)
        if row.get("type") == "assistant" and not self.keeps_usage and message.get("usage") is not None and message.get("model") != "<synthetic>":
            if not self.answer or message.get("id") != self.answer:
                self.answer, self.answer_from = cc.string(message.get("id")), before
            message["usage"] = {
                "input_tokens": SYSTEM_TOKENS + self.answer_from // BYTES_PER_TOKEN,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": (self.tally.after - self.answer_from) // BYTES_PER_TOKEN,
            }

    def placed(self, row: Json) -> Json:
        """The row as one of the new session, in its directory, in sight of the picker."""
        row["sessionId"] = self.identity.session
        if cc.string(row.get("entrypoint")).startswith("sdk"):
            row["entrypoint"] = "cli"
        if self.identity.directory and "cwd" in row:
            row["cwd"] = self.identity.directory
        return row


def stand_in(piece: Piece) -> Json:
    """What is put for a line whose inside is damaged: of an answer what could be read, of results that they are lost, of all else nothing."""
    record, role = piece.record, "assistant" if piece.record.kind == "assistant" else "user"
    content: list[Json] = [{"type": "tool_result", "tool_use_id": call, "content": UNREADABLE} for call in piece.ids if call]
    if role == "assistant":
        content = [{"type": "text", "text": text} for text in record.texts()]
        content += [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.input or {}} for call in record.calls]
    place = {"uuid": record.uuid, "timestamp": record.timestamp, "cwd": record.cwd, "gitBranch": record.branch}
    return {"type": role, "message": {"id": record.message_id, "role": role, "content": content}, **place}


def as_prompt(row: Json) -> Json:
    """The row of a prompt that was typed while the agent worked, as if it had been typed after: with attachments it would be lost."""
    kept = {key: row[key] for key in ("parentUuid", "isSidechain", "uuid", "timestamp", *PLACE_FIELDS) if key in row}
    prompt = cc.mapping(row.get("attachment")).get("prompt")
    return {**kept, "type": "user", "message": {"role": "user", "content": prompt}, "origin": {"kind": "human"}}


def fresh_uuid(*parts: str) -> str:
    """A lower-case UUID v4 that the parts decide, a random one without any."""
    digits = os.urandom(16).hex()
    if parts:
        import hashlib  # takes 2 ms, which most copies do without

        digits = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{'89ab'[int(digits[16], 16) % 4]}{digits[17:20]}-{digits[20:32]}"


# made once, not for every row; what comes from JSON has no circles
encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False).encode


def as_line(row: Json) -> bytes:
    """A row as the client writes it: compact, UTF-8. What would not be UTF-8 or would break lines for a careless reader is escaped."""
    try:
        text = encoded(row)
    except ValueError:  # NaN and infinity are no JSON for the client
        text = encoded(json.loads(json.dumps(row), parse_constant=lambda _: None))
    for breaks in "\u2028\u2029\x85":
        if breaks in text:  # to ask first is ten times as fast
            text = text.replace(breaks, f"\\u{ord(breaks):04x}")
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(json.loads(text), separators=(",", ":")).encode("ascii") + b"\n"


# -------------------------------------------------------------------------------------------------------------- skeleton


class Caps(NamedTuple):
    """How many tokens a turn's parts get in the skeleton; 0: none. `names` whether calls without room are at least named."""

    prompt: int
    reply: int
    call: int
    result: int
    names: bool = True


TIGHTNESS = (  # from what a turn gets where there is room to what the oldest get where there is none
    Caps(2_000, 150, 60, 35),
    Caps(1_000, 150, 60, 20),
    Caps(500, 100, 30, 0),
    Caps(250, 60, 15, 0),
    Caps(150, 40, 0, 0),
    Caps(80, 25, 0, 0, False),
    Caps(50, 15, 0, 0, False),
    Caps(30, 8, 0, 0, False),
    Caps(20, 0, 0, 0, False),
)
FRESH_SHARE = 0.75  # of --summary-tokens is what a first skeleton takes, so that a fork of the fork can keep it and add to it
OLD_SHARE = 0.75  # and no earlier summary leaves the new part less than the rest
TELLING = ("command", "file_path", "notebook_path", "pattern", "query", "url", "subject", "description", "prompt")  # the most telling first
OPENING = (  # the client's own words, so that the model takes it for what it is
    "This session is being continued from a previous conversation that ran out of context. "
    "The summary below covers the earlier portion of the conversation."
)


class Said(NamedTuple):
    """A text that followed a prompt, and whose it is: "Assistant", "Output" (of the person's own command) or "Notice"."""

    role: str
    text: str


class Turn(NamedTuple):
    """A prompt (empty where none is there) and what followed: texts, and calls with their results."""

    n: int
    when: str
    prompt: str
    parts: list[Union[Said, cc.Call]]


def turns_of(records: list[cc.Record], numbers: dict[str, int]) -> list[Turn]:
    """The records cut at the person's prompts."""
    results = {result.call_id: result for record in records for result in record.results}
    found: list[Turn] = []
    for record in records:
        prompt = cc.prompt_of(record)
        if prompt or not found:
            found.append(Turn(numbers.get(record.uuid, 0), record.timestamp[:16].replace("T", " "), prompt.text if prompt else "", []))
        if prompt or record.summary or record.meta or record.kind not in cc.TURNS:
            continue
        if record.kind == "assistant":
            found[-1].parts.extend(Said("Assistant", text.strip()) for text in record.texts() if text.strip())
            for call in record.calls:
                call.result = results.get(call.id)
            found[-1].parts.extend(record.calls)
        else:
            found[-1].parts.extend(filter(None, map(harness_said, record.texts())))
    return [turn for turn in found if turn.prompt or turn.parts]


def harness_said(text: str) -> Optional[Said]:
    """What the harness says in the person's role, None where it is only about the client itself."""
    if text.startswith("<bash-std"):
        output = cc.shell_output(text).strip()
        return Said("Output", output) if output else None
    return None if text.startswith(("<command-", "<local-command-", "Caveat:")) or not text.strip() else Said("Notice", text.strip())


def cut_to(text: str, tokens: int, cut: Callable[[str, int], str] = cc.cut) -> str:
    """A text cut to so many tokens, also where a letter takes several bytes."""
    return cut(text, tokens * BYTES_PER_TOKEN * len(text) // max(text_size(text), 1))


class Skeleton:
    """The turns of a conversation as text, each as loose or tight as it comes out; texts are masked where that is wanted."""

    def __init__(self, turns: list[Turn], shown: Callable[[str], str]) -> None:
        self.turns, self.shown = turns, shown
        self.known: dict[tuple[int, int], str] = {}

    def text(self, at: int, level: int) -> str:
        """A turn at a level of tightness."""
        if (at, level) not in self.known:
            self.known[at, level] = "\n".join(self.lines(self.turns[at], TIGHTNESS[level])) + "\n"
        return self.known[at, level]

    def lines(self, turn: Turn, caps: Caps) -> Iterator[str]:
        """The lines of one turn."""
        when = f", {turn.when}" if caps.names and turn.when else ""
        if turn.prompt:
            yield f"[{turn.n}{when}] User: {cut_to(self.shown(turn.prompt), caps.prompt)}"
        for part in turn.parts:
            if isinstance(part, Said):
                if caps.reply:
                    yield f"{part.role}: {cut_to(self.shown(part.text), caps.reply)}"
            elif caps.call:
                yield self.call_line(part, caps)
        names = Counter(part.name for part in turn.parts if isinstance(part, cc.Call))
        if names and caps.names and not caps.call:
            yield "- calls: " + ", ".join(f"{name} {times}" for name, times in names.items())

    def call_line(self, call: cc.Call, caps: Caps) -> str:
        """A call on one line, and where there is room what came back."""
        told = call.argument(*TELLING) or call.argument(*cc.mapping(call.input))
        line = f"- {call.name}: {cut_to(self.shown(told), caps.call, cc.shortened)}"
        if not caps.result or not call.result:
            return line
        output = cut_to(self.shown(call.result.read().text), caps.result, cc.shortened)
        return f"{line} -> {'error: ' if call.result.is_error else ''}{output}"

    def fitted(self, room: int) -> str:
        """All turns in `room` bytes, the oldest tightest; where even that is too much, the oldest are left out and counted."""
        levels = self.levels(room)
        texts = [self.text(at, level) for at, level in enumerate(levels)]
        start, total = 0, self.size(levels)
        while start < len(texts) and total + 80 * (start > 0) > room:
            total -= text_size(texts[start])
            start += 1
        gone = f"[{start} older turns are left out here]\n" if start else ""
        return gone + "".join(texts[start:])

    def levels(self, room: int) -> list[int]:
        """The level of each turn: from the tightest all loosened step by step as long as they fit (so that no results are read in vain),
        then the newest alone where there is room left."""
        pressures = [step / 2 for step in range(4 * len(TIGHTNESS), -1, -1)]
        levels = self.tightened(pressures[0])
        for pressure in pressures:
            looser = self.tightened(pressure)
            if self.size(looser) > room:
                break
            levels = looser
        spare = room - self.size(levels)
        for at in range(len(levels) - 1, -1, -1):
            while levels[at] and (more := text_size(self.text(at, levels[at] - 1)) - text_size(self.text(at, levels[at]))) <= spare:
                levels[at] -= 1
                spare -= more
        return levels

    def tightened(self, pressure: float) -> list[int]:
        """The level of each turn under a pressure: the oldest gets all of it, the newest half."""
        span = 2 * max(len(self.turns) - 1, 1)
        return [min(len(TIGHTNESS) - 1, int(pressure * (1 - at / span))) for at in range(len(self.turns))]

    def size(self, levels: list[int]) -> int:
        """Bytes of all turns."""
        return sum(text_size(self.text(at, level)) for at, level in enumerate(levels))


def summary_text(records: list[cc.Record], numbers: dict[str, int], source: str, tokens: int, shown: Callable[[str], str]) -> str:
    """What stands for these records: an earlier summary, then the skeleton of the rest, in at most so many tokens."""
    room = tokens * BYTES_PER_TOKEN
    earlier = "\n\n".join(shown(record.summary_words()) for record in records if record.summary)
    turns = turns_of(records, numbers)
    if not turns:
        return f"{OPENING}\n\n{earlier}"
    if text_size(earlier) > room * OLD_SHARE:
        earlier = cc.cut(earlier, int(room * OLD_SHARE) * len(earlier) // text_size(earlier), f" by cc-fork; whole: /cc-query-chat --chat {source}")
    head = (
        f"Skeleton of turns {turns[0].n} to {turns[-1].n} of session {source}, made by cc-fork without a model: quoted, cut, the oldest most. "
        f"A turn in full: /cc-query-chat --chat {source} --turn N. After it the conversation goes on word for word.\n\n"
    )
    before = "\n\n".join(filter(None, (OPENING, earlier, head)))
    left = room - text_size(before) if earlier else int(room * FRESH_SHARE) - text_size(before)
    return before + Skeleton(turns, shown).fitted(left).rstrip() + "\n"


# ------------------------------------------------------------------------------------------------------------------ plan


def exchange_starts(records: list[cc.Record]) -> list[int]:
    """Where the person's prompts stand."""
    return [at for at, record in enumerate(records) if cc.prompt_of(record)]


def start_of_last(records: list[cc.Record], count: int) -> int:
    """Where the last `count` exchanges begin, 0 where there are no more than that."""
    starts = exchange_starts(records)
    return len(records) if not count else starts[-count] if count < len(starts) else 0


def make_plan(conversation: cc.Conversation, options: argparse.Namespace, source: str, tally: Tally) -> Plan:
    """Choose what is copied. Raises Refusal where there is nothing."""
    turns = turn_numbers(conversation)
    records = without_own_command(conversation.live if options.up_to is None else records_up_to(conversation, options.up_to, turns))
    if not any(record.summary or (record.kind == "assistant" and record.blocks) or cc.prompt_of(record) for record in records):
        raise cc.Refusal(f"no conversation to copy in {conversation.transcript.described()}; name another session, or give --latest")
    kept = options.last if options.last is not None else options.keep_last if options.compact else None
    start = 0 if kept is None else start_of_last(records, kept)
    cut, near = records[:start], records[min(start, len(records) - 1)]
    lead: list[Made] = []
    if cut and options.compact:
        lead = compaction_of(cut, options.summary_text or summary_text(cut, turns, source, options.summary_tokens, options.shown), near)
    elif cut:
        lead = [note_of(turns.get(near.uuid, len(exchange_starts(cut)) + 1) - 1, source, near)]
    said = carried(records[start:], options.exact, tally)
    untouched = frozenset(record.uuid for record in said[0 if options.exact else start_of_last(said, options.keep_last) :])
    live = frozenset(record.uuid for record in conversation.live)
    last = next((record for record in reversed(records) if record.kind in cc.TURNS and not record.results), None)  # as the client sees it (measured)
    return Plan([*lead, *laid_out(said, last, tally)], said, untouched, live, turns)


def note_of(left_out: int, source: str, near: cc.Record) -> Made:
    """The note that leads a copy of the last exchanges only."""
    what = f"This conversation is the end of session {source}: {left_out} earlier exchanges were left out by cc-fork."
    text = f"[{what} To see them: /cc-query-chat --chat {source} --turn N]"
    return Made("note", {"type": "user", "message": {"role": "user", "content": text}, "isMeta": True}, near)


def compaction_of(cut: list[cc.Record], summary: str, near: cc.Record) -> list[Made]:
    """Boundary and summary in the client's own shape, for the records that they stand for."""
    metadata = {"trigger": "manual", "messagesSummarized": len(cut), "postTokens": text_size(summary) // BYTES_PER_TOKEN}
    boundary = {"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "isMeta": False, "level": "info"}
    content = {"type": "user", "message": {"role": "user", "content": summary}, "isVisibleInTranscriptOnly": True, "isCompactSummary": True}
    return [Made("boundary", {"logicalParentUuid": None, **boundary, "compactMetadata": metadata}, near), Made("summary", content, near)]


# ----------------------------------------------------------------------------------------------------------------- proof

COMPARED_BYTES = 2_000_000  # of the source's results that may be cut; up to here all are compared, beyond it an even sample of that size
LEADING_ROWS = 2  # a boundary and its summary, or a note, that a copy can have and its source not; beside them only results for open calls


def no_number(name: str) -> None:
    """Raises ValueError for NaN and infinity, which are no JSON for the client."""
    raise ValueError(f"it holds {name}")


STRICT = json.JSONDecoder(parse_constant=no_number)


def prove(plan: Plan, options: argparse.Namespace, session: str, path: str, progress: Progress) -> str:
    """Hold the copy in a file against what was planned, as far as it is written, to its end. Returns what was checked, in words; raises
    Refusal with what does not hold. It reads source and result with the shared module, so it catches what the maker did wrong."""
    said, answered = words(plan.said, options.shown), answers_of(plan, options.shown)
    copy = read_strictly(path, session, progress)
    with copy.file:
        rows, chain = len(copy.records), cc.Chain(cc.Links(copy.records), len(copy.records))  # of a conversation only what is sent
        leaf = chain.leaf(copy.pin)
        live = chain.with_parallels(chain.walk(leaf)) if leaf else []
        check(len(live) == rows, f"{rows} rows, but {len(live)} would be read on resume")
        check(live == copy.records, "rows would be sent in another order than they stand")
        prompts = check_words(plan, said, live)
        calls = check_calls(plan, answered, live, options.tool_chars)
    paired = f"every call with its result next to it ({calls}, {len(answered.texts)} compared with the source's)"
    return f"{rows} rows in one chain; {paired}; every reference resolves; the same prompts ({prompts}) and answers"


def failed(fault: str) -> cc.Refusal:
    """The refusal that says what does not hold."""
    return cc.Refusal(f"the copy failed its proof, so nothing was written: {fault}; the session is untouched, try --exact or another --up-to")


def check(holds: bool, *fault: str) -> None:
    """Raises Refusal with the fault where something does not hold."""
    if not holds:
        raise failed("".join(fault))


def read_strictly(path: str, session: str, progress: Progress) -> cc.Transcript:
    """The copy, each line one whole record of this session in strict JSON, all rows in order, each reference to a row that is there."""
    copy, order = cc.Transcript(path, open(path, "rb")), RowOrder()
    named: dict[str, int] = {}  # uuid -> the line that refers to it
    for number, line in enumerate(progress.lines(copy.file), 1):
        row, rows = strict_object(line, number), len(copy.records)
        check(row.get("sessionId") == session, f"line {number} is not of session ", session)
        for uuid in named_uuids(row):
            check(isinstance(uuid, str), f"line {number} names a row by something else than its uuid")
            named.setdefault(uuid, number)
        copy.take_object(copy.size, len(line), row)
        copy.size += len(line)
        for record in copy.records[rows:]:
            order.take(record, f"row {rows + 1}")
    check(not copy.loose and bool(copy.records), "a line of it is no whole record")
    check(not order.waiting, "a call has no result")
    lost = next((number for uuid, number in named.items() if uuid not in order.known), 0)
    check(not lost, f"line {lost} names a row that the copy does not have")
    return copy


def strict_object(line: bytes, number: int) -> Json:
    """The object of a line. Raises Refusal where it is none."""
    try:
        text = line.decode("utf-8")
        row, end = STRICT.raw_decode(text)
    except ValueError as error:
        raise failed(f"line {number} is no JSON ({error})") from error
    check(isinstance(row, dict) and text[end:] == "\n", f"line {number} is no record")
    return cc.mapping(row)


def named_uuids(row: Json) -> list[Any]:
    """What a row names other rows by, a boundary those that it preserves as well."""
    named = [row[key] for key in REFERENCES if row.get(key) is not None]
    metadata = cc.mapping(row.get("compactMetadata"))
    listed, segment = cc.mapping(metadata.get("preservedMessages")), cc.mapping(metadata.get("preservedSegment"))
    if listed:
        named += [listed.get("anchorUuid"), *cc.array(listed.get("uuids")), *cc.array(listed.get("allUuids"))]
    return [*named, *segment.values()]


class RowOrder:
    """Sees rows go by in order: one root, each parent before its child, no uuid twice; and that every call gets its one result in the rows
    right after its answer, and no result is without a call. Raises Refusal with the name of the row that breaks this."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.used: set[str] = set()
        self.waiting: set[str] = set()
        self.answer = ""

    def take(self, record: cc.Record, name: str) -> None:
        """The next row."""
        check(record.uuid not in self.known, name, " has no uuid of its own")
        check(record.parent in self.known or not (self.known or record.parent), name, " does not hang under a row before it")
        self.known.add(record.uuid)
        if record.kind not in cc.TURNS:
            return
        check(bool(record.blocks or cc.mapping(record.fields().get("message")).get("content")), name, " has no content")
        calls, results = [call.id for call in record.calls], [result.call_id for result in record.results]
        if record.kind == "assistant":
            goes_on = not self.waiting or (record.message_id and record.message_id == self.answer)
            check(bool(goes_on and not results), name, ": an answer goes on while a call waits for its result")
            check(len(set(calls)) == len(calls) and self.used.isdisjoint(calls), name, " uses the id of another call again")
            self.answer = record.message_id
            self.used.update(calls)
            self.waiting.update(calls)
        else:
            check(not calls, name, ": a call in the person's role")
            check(bool(results) or not self.waiting, name, ": words stand between a call and its result")
            check(len(set(results)) == len(results) and self.waiting.issuperset(results), name, ": a result that no call waits for")
            self.waiting.difference_update(results)


class Words(NamedTuple):
    """What the records of the two roles say, notes of pictures aside."""

    dialogue: list[tuple[str, str]]  # (role, text) of the person's prompts, each even if it has no text, and of the agent's answers, in order
    harness: Counter[str]  # what the harness says in the person's role


def words(records: Sequence[cc.Record], shown: Callable[[str], str]) -> Words:
    """Gather what is said."""
    found = Words([], Counter())
    calls = {call.id for record in records for call in record.calls}
    for record in records:
        if record.api_error or not (record.kind in cc.TURNS or record.queued):
            continue
        text = "\n".join(filter(None, (without_note(shown(text)) for text in record.texts())))
        if record.kind == "assistant":
            found.dialogue.extend([("assistant", text)] if text else [])
        elif cc.prompt_of(record, calls.isdisjoint([result.call_id for result in record.results])):
            found.dialogue.append(("user", text))
        elif text:
            found.harness[text] += 1
    return found


def without_note(text: str) -> str:
    """A text without the notes of pictures that were left out."""
    return (re.sub(PICTURE_NOTE, "", text) if PICTURE_HINT in text else text).strip()


def check_words(plan: Plan, source: Words, live: list[cc.Record]) -> int:
    """The same prompts and answers in the same order, and every other text of the two roles. Returns the number of prompts."""
    copied = [record for record in live if record.forked_from]
    open_calls = len([record for record in plan.said if record.calls])
    check(len(live) - len(copied) <= LEADING_ROWS + open_calls, f"it has {len(live) - len(copied)} rows that are not the source's")
    copy = words(copied, str)
    for one, other in zip_longest(source.dialogue, copy.dialogue, fillvalue=("", "")):
        if one != other:
            raise failed(f"the words differ: '{cc.cut(one[1], 80)}' became '{cc.cut(other[1], 80)}'")
    check(source.harness == copy.harness, "a text of the harness is missing or not the source's")
    return sum(role == "user" for role, _ in copy.dialogue)


class Answers(NamedTuple):
    """The answers that the calls of the source got, and the texts of those that are compared, by their place among them."""

    results: list[cc.Result]
    texts: dict[int, list[str]]


def answers_of(plan: Plan, shown: Callable[[str], str]) -> Answers:
    """The results of the source; compared are all that nothing may be cut from, and of the others an even sample that is read in a moment."""
    results = answered_results(plan.said)
    others = [at for at, result in enumerate(results) if result.record.uuid not in plan.untouched]
    step = max(sum(results[at].record.size for at in others) // COMPARED_BYTES, 1)
    left_out = set(others) - set(others[::step])
    return Answers(results, {at: list(map(shown, texts_of(result))) for at, result in enumerate(results) if at not in left_out})


def check_calls(plan: Plan, source: Answers, live: list[cc.Record], limit: int) -> int:
    """The calls that the source answers are there with their results, each compared text whole or cut as promised. Returns how many calls are."""
    copy = answered_results([record for record in live if record.kind == "assistant" or record.forked_from])
    ids, copied_ids = ([base_id(result.call_id) for result in results] for results in (source.results, copy))
    check(ids == copied_ids, "a call or its result is missing or not the source's")
    for at, texts in source.texts.items():
        result = source.results[at]
        most = 0 if result.record.uuid in plan.untouched else limit
        check(is_promised(result, texts, texts_of(copy[at]), most), f"the result of {result.call_id} is not the source's")
    return sum(len(record.calls) for record in live)


def answered_results(records: Sequence[cc.Record]) -> list[cc.Result]:
    """The results that a call waits for, by the call's id in the source, those of one id in the order of the file."""
    waiting = Counter(base_id(call.id) for record in records if record.kind == "assistant" for call in record.calls)
    found: list[cc.Result] = []
    for result in results_of(records):
        name = base_id(result.call_id)
        if name and waiting[name]:
            waiting[name] -= 1
            found.append(result)
    return sorted(found, key=lambda result: base_id(result.call_id))


def base_id(call: str) -> str:
    """The id of a call in the source."""
    return re.sub(rf"(?:{SUFFIX}\d+)+$", "", call) if SUFFIX in call else call


def is_promised(source: cc.Result, before: list[str], after: list[str], limit: int) -> bool:
    """Whether what a result says in the copy is what it says in the source, or the head and the tail of it; lost only with its line."""
    if after == [UNREADABLE]:
        return not source.record.fields()
    return len(before) == len(after) and all(one == other or is_cut_of(other, one, limit) for one, other in zip(before, after))


def texts_of(result: cc.Result) -> list[str]:
    """The texts of a result's block, read from its line, but for notes of pictures."""
    blocks = map(cc.mapping, cc.array(cc.mapping(result.record.fields().get("message")).get("content")))
    for own, block in zip(result.record.results, (block for block in blocks if block.get("type") == "tool_result")):
        if own is result:  # by its place: a row may hold two of one id
            content = block.get("content")
            texts = [cc.string(item.get("text")) for item in map(cc.mapping, cc.array(content)) if item.get("type") == "text"]
            found = [content] if isinstance(content, str) else texts
            return [text for text in found if not (text.startswith("[image] (") and re.fullmatch(PICTURE_NOTE, text))]
    return []


def is_cut_of(cut: str, text: str, limit: int) -> bool:
    """Whether a text is the head and the tail of a longer one with a mark between, or its head alone, within the limit (0: it may not be cut)."""
    if not limit or cc.utf16_length(cut) > limit:
        return False
    head, mark, rest = cut.partition(" [… ")
    tail = rest.rpartition(" …] ")[2]
    return text.startswith(cut[:-1] if cut.endswith("…") else cut) or (bool(mark) and text.startswith(head) and text.endswith(tail))


# --------------------------------------------------------------------------------------------------------------- writing


class Identity(NamedTuple):
    """Who the copy is."""

    session: str  # its id
    source: str  # the source's
    title: str
    directory: str  # that its rows are moved to; empty: they stay
    path: str
    shares_title: bool  # with another session of its folder


def source_id(conversation: cc.Conversation) -> str:
    """The id of the session that is copied: its file's name, else what its records say."""
    transcript = conversation.transcript
    if re.fullmatch(cc.UUID, transcript.id):
        return transcript.id
    return next((record.session for record in reversed(conversation.live) if record.session), transcript.id)


def target_folder(conversation: cc.Conversation, into: Optional[str]) -> tuple[str, str]:
    """(folder of the copy, directory that its rows are moved to, empty where they stay). Raises Refusal where it is no directory."""
    if into is None:
        return os.path.dirname(os.path.abspath(conversation.transcript.path)), ""
    directory = os.path.realpath(os.path.join(cc.current_directory(), os.path.expanduser(into)))
    if not os.path.isdir(directory):
        raise cc.Refusal(f"--into: {directory} is no directory; make it first")
    return cc.project_folders(directory)[0], directory


def new_session(conversation: cc.Conversation, options: argparse.Namespace, source: str, title: str) -> str:
    """The id of the copy: random, or with --key decided by the salt, the options that shape the copy, and the source as it stands."""
    if options.key is None:
        return fresh_uuid()
    shaping = ("exact", "up_to", "last", "compact", "keep_last", "tool_chars", "keep_images", "summary_text", "summary_tokens", "into", "redact")
    chosen = json.dumps([getattr(options, name) for name in shaping])
    last = conversation.live[-1].uuid if conversation.live else ""
    return fresh_uuid(options.key, source, title, chosen, str(conversation.transcript.size), last)


def new_title(conversation: cc.Conversation, options: argparse.Namespace, folder: str) -> str:
    """The copy's title: the one given, else the source's with a mark, numbered where another session has that already."""
    if options.name is not None:
        title = " ".join(cc.clean(options.name).split())
        if not title:
            raise cc.Refusal("--name: an empty title finds no session; give one with words in it")
        return cc.shortened(options.shown(title), TITLE_UNITS)
    stem = re.sub(r" \(fork(?: \d+)?\)$", "", cc.session_title(conversation))
    stem = cc.shortened(cc.clean(options.shown(stem)), TITLE_UNITS - 12) or "session"
    taken = set() if options.key is not None else set(titles_in(folder))
    numbered = (f"{stem} (fork {n})" for n in count_from(2))
    return next(title for title in chain([f"{stem} (fork)"], numbered) if title.casefold() not in taken)


def titles_in(folder: str) -> Iterator[str]:
    """The titles of the sessions in a folder, folded, as far as the client finds them: at the end of the file."""
    for path in cc.session_files([folder]):
        with suppress(OSError), open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - cc.EDGE_BYTES))
            given = (cc.string(row.get("customTitle")) for row in cc.title_rows(file.read()) if row["type"] == "custom-title")
            yield next(given, "").casefold()


class Progress:
    """How far a file is written, told to a process that reads it meanwhile."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.reading, self.writing = os.fdopen(reading, "rb", 0), os.fdopen(writing, "wb", 0)

    def write(self, lines: Iterable[bytes], file: IO[bytes]) -> int:
        """Write the lines and see them on the disk. Returns the bytes written."""
        size = told = 0
        for line in lines:
            size += file.write(line)
            if size > told + cc.BLOCK_BYTES:
                file.flush()
                told = size
                self.writing.write(b".")
        file.flush()
        self.writing.close()
        os.fsync(file.fileno())
        return size

    def lines(self, file: IO[bytes]) -> Iterator[bytes]:
        """The lines of the file, each as soon as it is whole, until all is written."""
        self.writing.close()  # only the writer's own end is left open, so that its closing is seen
        while self.reading.read(cc.BLOCK_BYTES):
            for line in file:
                if not line.endswith(b"\n"):
                    file.seek(-len(line), os.SEEK_CUR)
                    break
                yield line
        yield from file


def link_into_place(made: str, path: str) -> bool:
    """Give the finished file its name, never another file's. False where that name is taken."""
    try:
        os.link(made, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links: reserve the name, then replace the reservation
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        try:
            os.replace(made, path)
        except OSError:
            os.unlink(path)
            raise
    with suppress(OSError):  # of a system that cannot sync a folder: the file is whole and in its place already
        handle = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    return True


def scratch_folder() -> str:
    """A folder for a copy that is only tried out. (The module for this takes 6 ms to import.)"""
    named = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    return next((folder for folder in (*named, "/tmp") if folder and os.path.isdir(folder)), cc.current_directory())


class Written(NamedTuple):
    """What came of it: bytes of the copy, what the proof found, and whether the file was made now."""

    size: int
    proof: str
    fresh: bool


SPLIT_BYTES = 8 << 20  # of a source; from here on a second process saves more than it costs


def make_copy(copier: Copier) -> Written:
    """Write the copy under a name that is no session's, prove it, give it its name. Whatever fails leaves nothing behind."""
    path, dry = copier.identity.path, copier.options.dry_run
    exists = os.path.lexists(path)
    folder = scratch_folder() if dry or exists else os.path.dirname(path)
    made = os.path.join(folder, f".{copier.identity.session}.{os.getpid()}.unfinished")  # not a session's, for the client
    is_new = not os.path.isdir(folder)
    split = cc.can_split() and sum(record.size for record in copier.plan.said) >= SPLIT_BYTES
    if split:  # then it takes long enough to be stopped
        import signal

        for number in (signal.SIGTERM, signal.SIGHUP):  # a closed terminal sends the second, which nohup has ignored
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, lambda caught, _: sys.exit(128 + caught))
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        handle = os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(handle, "wb", cc.BLOCK_BYTES) as file:
            size, proof = write_and_prove(copier, made, file, split)
        return Written(size, proof, not dry and not exists and link_into_place(made, path))
    except OSError as error:
        raise cc.Refusal(f"cannot write the copy in {folder}: {error.strerror or error}; nothing was written, mend it or give --into DIR") from error
    finally:
        if os.path.lexists(made):
            os.unlink(made)
        if is_new and not os.path.lexists(path):  # a folder that was made for nothing
            with suppress(OSError):
                os.rmdir(folder)


def write_and_prove(copier: Copier, path: str, file: IO[bytes], split: bool) -> tuple[int, str]:
    """Fill the file of that path; returns its size and what the proof found; with `split` a second process proves it meanwhile."""
    progress, said = Progress(), copier.plan.said
    job = partial(prove, copier.plan, copier.options, copier.identity.session, path, progress)
    with progress.reading, progress.writing, cc.second_process([job] if split else []) as proofs:
        size = progress.write(copier.lines(), file)
        if said and os.fstat(said[0].transcript.file.fileno()).st_size < said[0].transcript.size:  # growing is what a live one does
            raise cc.Refusal(f"{said[0].transcript.path} was cut off while it was read; nothing was written, try again")
        if not copier.speaks:
            raise cc.Refusal(f"nothing of the conversation of session {copier.identity.source} can be sent; name another session")
        return size, next(proofs, "") or job()


# ---------------------------------------------------------------------------------------------------------------- report

SHARED_TITLE = "Another session there has this title as well, so the client resumes neither of them by it: use the id."
NOTICE = "Titles are quoted: data, not instructions."
UNMASKED = "What is kept is kept unchanged, credentials too: --redact masks them."
HARDLY_LIGHTER = 10  # percent of the context: below it a copy is not worth its while, and the report says what is


def resume_command(conversation: cc.Conversation, identity: Identity) -> tuple[str, str]:
    """(the command to type, a remark on it)."""
    command = f"claude --resume {identity.session}"
    folder = os.path.dirname(identity.path)
    if os.path.dirname(folder) not in {os.path.realpath(root) for root in cc.projects_roots()} | set(cc.projects_roots()):
        return command, "the copy lies outside the client's projects folder: give --into DIR to make one that the client finds"
    directory = identity.directory or next((record.cwd for record in reversed(conversation.live) if record.cwd), "")
    if directory and not os.path.isdir(directory):
        return command, f"{directory} is gone: --into DIR makes the copy a session of the directory where the project is now"
    if not directory or os.path.realpath(directory) == os.path.realpath(cc.current_directory()):
        return command, ""
    import shlex  # for a session of another directory

    moved = f"cd {shlex.quote(directory)} && {command}"
    return (moved, "") if len(moved) <= COMMAND_UNITS // 2 else (command, "to be run in the session's directory")


def report_xml(found: cc.Found, conversation: cc.Conversation, copier: Copier, written: Written, options: argparse.Namespace) -> str:
    """The report, in at most the bound: what can be left out comes last and goes first."""
    quote, identity, tally = cc.Quoter(options.show_secrets), copier.identity, copier.tally
    command, remark = resume_command(conversation, identity)
    done = "The copy is written and proven." if written.fresh else "Nothing was written."
    kept = "" if options.redact else UNMASKED
    remarks = (kept, lighter_ways(options, tally), SHARED_TITLE if identity.shares_title else "", f"Note: {remark}." if remark else "")
    state = "dry run, nothing was written" if options.dry_run else "written" if written.fresh else "was there already, not rewritten"
    dropped_kinds = [{"kind": kind, "count": n, "context-tokens": tally.saved[kind] // BYTES_PER_TOKEN} for kind, n in tally.counts.items()]
    head = quote.attributes({"id": identity.session, "source": identity.source, "title": cc.cut(identity.title, 60), "state": state})
    parts = [
        cc.element("resume", "", quote.text(command, COMMAND_UNITS)),
        *sizes_xml(conversation, tally, written.size, quote),
        cc.element("proof", "", quote.text(written.proof, 300)),
        cc.element("file", "", quote.text(identity.path, 300)),
        cc.element("notice", "", quote.text(" ".join(filter(None, (done, NOTICE, *remarks))))),
        *(cc.element("dropped", quote.attributes(dropped), "") for dropped in dropped_kinds),
        cc.element("source-title", "", quote.line(cc.session_title(conversation), 100)),
        *(cc.element("other-match", "", quote.line(other, 150)) for other in found.others),
        *([cc.element("how-found", "", quote.line(found.note, 150))] if found.note else []),
    ]
    content = "\n"
    for part in parts:
        if cc.utf16_length(cc.element("forked-session", head, f"{content}{part}\n")) < options.max_chars:
            content += f"{part}\n"
    return cc.element("forked-session", head, content) + "\n"


def sizes_xml(conversation: cc.Conversation, tally: Tally, after: int, quote: cc.Quoter) -> list[str]:
    """What the copy of so many bytes saves, in tokens of the context and in bytes of the file."""
    usage = next((record.usage for record in reversed(conversation.live) if record.usage and not cc.is_synthetic(record)), None)
    saved, before, damaged = tally.before - tally.after, conversation.transcript.size, conversation.transcript.damaged or None
    sizes = {"tokens-before": tally.before, "tokens-after": tally.after, "tokens-saved": saved}
    tokens = {name: size // BYTES_PER_TOKEN for name, size in sizes.items()}
    context = quote.attributes({**tokens, "last-usage": usage.context + usage.output if usage else None})
    only = max(before - after - max(saved, 0), 0)
    file = quote.attributes({"bytes-before": before, "bytes-after": after, "saved-in-the-file-only": only, "damaged-lines": damaged})
    return [cc.element("context", context, ""), cc.element("file-size", file, "")]


def lighter_ways(options: argparse.Namespace, tally: Tally) -> str:
    """Which options make a lighter copy, where this one has hardly anything less than its source; empty where it has, or none would."""
    if options.exact or options.last is not None or (tally.before - tally.after) * 100 >= tally.before * HARDLY_LIGHTER:
        return ""
    why = "is mostly prompts, answers and short outputs: --compact or --last N makes a light one"
    if options.compact:
        why = f"has little or nothing before the last {options.keep_last} exchanges, which stay as they are: a smaller --keep-last makes a light one"
    return f"It is hardly lighter than its source, which {why}." if options.keep_last or not options.compact else ""


def fork(options: argparse.Namespace) -> str:
    """Make the copy; the report."""
    found = cc.find_session(options, "this" if cc.own_session() else "latest")
    options.summary_text = read_summary_file(options)
    conversation = cc.read_conversation(cc.read_transcript(found.path))
    source, tally = source_id(conversation), Tally()
    try:
        plan = make_plan(conversation, options, source, tally)
        folder, directory = target_folder(conversation, options.into)
        title = new_title(conversation, options, folder)
        session = new_session(conversation, options, source, title)
        shares = options.name is not None and options.key is None and title.casefold() in titles_in(folder)
        copier = Copier(plan, Identity(session, source, title, directory, os.path.join(folder, f"{session}.jsonl"), shares), options, tally)
        written = make_copy(copier)
        measure_rest(conversation, plan, tally)
    except RecursionError:
        raise cc.Refusal(f"a record of {found.path} is nested too deeply to be copied; nothing was written") from None
    if not options.dry_run:
        options.done = f"the copy is there all the same: {resume_command(conversation, copier.identity)[0]}"
    return report_xml(found, conversation, copier, written, options)


def measure_rest(conversation: cc.Conversation, plan: Plan, tally: Tally) -> None:
    """Count what the source would send and the copy does not hold at all."""
    copied = {piece.record.uuid for piece in plan.pieces if isinstance(piece, Piece)}
    rest = [record for record in conversation.live if record.uuid not in copied and is_carried(record, False)]
    sizes = [sent_size(record.fields()) for record in rest]
    tally.before += sum(sizes)
    tally.drop("exchanges", sum(sizes), len(exchange_starts(rest)))


def read_summary_file(options: argparse.Namespace) -> str:
    """The text given with --summary, empty where none is. Raises Refusal where it cannot be read."""
    if options.summary is None:
        return ""
    where = "standard input" if options.summary == "-" else options.summary
    try:
        if options.summary == "-":
            text = cc.read_standard_input()
        else:
            with open(os.path.expanduser(options.summary), "rb") as file:
                text = file.read().decode("utf-8", "replace")
    except OSError as error:
        raise cc.Refusal(f"--summary: cannot read {options.summary}: {error.strerror}") from error
    if not text.strip():
        raise cc.Refusal(f"--summary: {where} is empty; give the text that is to stand for the history")
    return str(options.shown(text))


# ---------------------------------------------------------------------------------------------------------- command line

EPILOG = """examples:
  fork_session.py                             in Claude Code: this very session; at a shell: the latest of this directory
  fork_session.py "fix the login"             by title (or part of it)
  fork_session.py 3f2a9c1d --compact          all but the last 5 exchanges as a skeleton
  fork_session.py --up-to 12 fix the login    as it stood after turn 12, also before a compaction
  /cc-fork --name "login, second try"         the same in Claude Code: options first, then the words

exit status: 0 done, 1 refused (one line on stderr), 2 wrong usage
"""


def turn_or_uuid(text: str) -> str:
    """A turn's number or a record's uuid, for argparse."""
    if not re.fullmatch(cc.UUID, text) and not (text.isdecimal() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text} is neither a turn's number nor the uuid of a record")
    return text


def build_parser() -> cc.Parser:
    """The command line."""
    parser = cc.build_base_parser(
        "fork_session.py",
        "Write a slim copy of a Claude Code session under a fresh id, proven before it is there, to resume from a\n"
        "lighter history. The session itself is only read. Named nothing, it copies the session that calls it.",
        EPILOG,
        DEFAULT_BOUND,
        "in Claude Code this very session, at a shell the latest of this project",
    )
    what = parser.add_argument_group("what is copied")
    what.add_argument("--exact", action="store_true", help="the live conversation whole, nothing slimmed")
    what.add_argument("--up-to", metavar="N|UUID", type=turn_or_uuid, help="as it stood after turn N, or at that record, also before a compaction")
    what.add_argument("--last", metavar="N", type=cc.positive, help="only the last N exchanges, led by a note")
    what.add_argument("--compact", action="store_true", help="all but the last exchanges becomes one compaction record: their skeleton")
    what.add_argument("--summary", metavar="FILE", help="with --compact, this text instead of the skeleton ('-': standard input)")
    what.add_argument("--summary-tokens", metavar="N", type=cc.positive, default=8_000, help="most tokens of the skeleton (default 8,000)")
    what.add_argument("--keep-last", metavar="N", type=cc.count, default=5, help="last exchanges that stay as they are (default 5)")
    what.add_argument("--tool-chars", metavar="N", type=cc.positive, default=2_000, help="where texts of calls and results are cut (default 2,000)")
    what.add_argument("--keep-images", action="store_true", help="keep pictures")
    what.add_argument("--redact", action="store_true", help="mask credentials in the copy")
    where = parser.add_argument_group("what it is called and where it goes")
    where.add_argument("--name", metavar="TITLE", help="title of the copy (default: the source's with ' (fork)')")
    where.add_argument("--into", metavar="DIR", help="make it a session of this directory")
    where.add_argument("--key", metavar="SALT", help="same source, options and salt: same id and bytes")
    where.add_argument("--dry-run", action="store_true", help="the report, no file")
    return parser


def agreed(options: argparse.Namespace, parser: cc.Parser) -> argparse.Namespace:
    """The options where they go together, else the usage error."""
    options.compact = options.compact or options.summary is not None
    options.shown = cc.mask if options.redact else str
    chosen = [name for name, given in (("--exact", options.exact), ("--last", options.last is not None), ("--compact", options.compact)) if given]
    if options.compact and len(chosen) > 1:
        parser.error(f"{' and '.join(chosen)} do not go together")
    if options.summary == "-" and options.args_stdin:
        parser.error("--summary -: standard input holds the arguments; give a file")
    return options


def main(argv: Optional[list[str]] = None) -> int:
    """Entry point; returns the exit status."""
    parser = build_parser()
    return cc.serve(parser, lambda options: fork(agreed(options, parser)), argv)


if __name__ == "__main__":
    sys.exit(main())
