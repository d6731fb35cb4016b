#!/usr/bin/env python3
"""Seeded damage to the bytes of a transcript: what power cuts, two writers, editors, syncing and other programs leave behind.

    damaged = corrupted(data, 7)                         Damaged(data, damage): the bytes, and the names of what was done
    python3 tests/corrupt.py SEED SOURCE TARGET          writes them, and prints the names

The same seed and data give the same bytes. One to four kinds of damage are done one after the other, each once or a few times.
Damage to the form (cut, glue, flip, NUL, order, line ends) works on bytes and lines; damage to the sense (a field that is missing
or of the wrong type, links that lead nowhere or in circles, numbers out of range) works on the parsed records.
"""
from __future__ import annotations

import copy
import json
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Union

Json = dict[str, Any]
Lines = list[bytes]  # without their line ends
Place = tuple[Any, Any]  # a container and a key or index into it

OPENERS = (b"[", b'{"a":', b'[{"a":')  # of nested values
DEEP = 100_000  # levels of nesting; no parser of Python's follows that far
LONG_NUMBER = 5_000  # digits; above 4,300 Python refuses to convert them
LONG_TEXT = 200_000  # characters

VALUES: tuple[object, ...] = (  # what a field may hold instead of what it should
    None, True, False, 0, -1, 3, 2**63, 10**400, -1.5, 1e308, "", "x", "  ", "null", "\x00", "a\x00b\x1b[31mred\x1b[0m",
    "\ud800", "ok\udfff\ud83d", "\ufffe\uffff",
    "\u2028\u2029\x85", "]]>", "</user>", "<![CDATA[", "&#0;", [], {}, [[]], [None], [{}], ["x", 3, None], {"": None}, {"type": "text"},
    {"type": "text", "text": 5}, [{"type": "tool_use"}], [{"type": "tool_result", "content": [None, 3, {"type": "image"}]}],
    {"a": {"b": [1, {"c": "d"}]}},
)
TIMES: tuple[object, ...] = (
    None, "", "yesterday", "2026-13-45T99:99:99Z", "2026-11-30", "2026-11-30T03:34:57", "2026-11-30T03:34:57+14:00", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999Z", "99999-01-01T00:00:00Z", "2026-11-30T03:34:57.123456789Z", "-2026-11-30T03:34:57Z",
    1796009697903, 10**30, -1, 1e300, [], {},
)
STRANGERS: tuple[bytes, ...] = (  # lines that are JSON, or nearly, but no record
    b"null", b"true", b"3", b'"text"', b"[]", b"{}", b"[1,2,{}]", b"NaN", b"-Infinity", b"1e999", b"{", b"}", b'{"type":',
    b'{"type":"user"}', b"\xef\xbb\xbf{}",
    b'{"type":"user","type":"assistant"}', b'{"parentUuid":null}', b"not json at all", b"# comment", b"<<<<<<< HEAD", b"\x1f\x8b\x08\x00binary",
    b'{"type":"user","uuid":"u1","message":{"role":"user","content":"no time, no parent"}}', b'{"type":"summary","summary":3,"leafUuid":[]}',
    b'{"type":"custom-title","customTitle":{"a":1},"sessionId":[]}', b'{"type":"last-prompt","leafUuid":{},"explicit":"yes"}',
    b'{"type":"queue-operation","operation":7,"content":[1]}', b'{"type":["user"],"uuid":"u2","parentUuid":null}',
)


TOOLS = (
    "Bash", "Edit", "Write", "TodoWrite", "TaskCreate", "TaskUpdate", "Agent", "AskUserQuestion", "ExitPlanMode", "MultiEdit", "NotebookEdit",
    "", None, 5,
)
INPUTS = ("todos", "file_path", "notebook_path", "command", "questions", "plan", "taskId", "status", "subject", "prompt", "description", "edits")
DETAILS = ("answers", "structuredPatch", "task", "taskId", "gitOperation", "content", "newTodos", "stdout", "filePath", "plan", "agentId", "file")


class Damaged(NamedTuple):
    """A transcript's bytes after the damage, and what was done, in order."""

    data: bytes
    damage: list[str]


# ------------------------------------------------------------------------------------------------ the form: bytes


def cut_end(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randint(0, len(data))]


def cut_start(data: bytes, chance: random.Random) -> bytes:
    return data[chance.randint(0, len(data)):]


def cut_out(data: bytes, chance: random.Random) -> bytes:
    start = chance.randint(0, len(data))
    return data[:start] + data[start + chance.choice((1, 50, 3_000, 60_000)):]


def flip_bytes(data: bytes, chance: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.choice((1, 5, 60)) if made else 0):
        made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
    return bytes(made)


def spoil_structure(data: bytes, chance: random.Random) -> bytes:
    """Another character in the place of a bracket, a quote, a comma or a colon."""
    made = bytearray(data)
    places = [at for at in (chance.randrange(len(made)) for _ in range(2_000)) if made[at] in b'{}[]",:\\'] if made else []
    for at in places[: chance.choice((1, 8, 40))]:
        made[at] = chance.choice(b'{}[]",:\\ x\n')
    return bytes(made)


def insert(data: bytes, chance: random.Random, piece: bytes) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + piece + data[at:]


def nul_run(data: bytes, chance: random.Random) -> bytes:
    return insert(data, chance, b"\x00" * chance.choice((1, 512, 4096)))


def nul_over(data: bytes, chance: random.Random) -> bytes:
    """A block of the disk that was never written."""
    at = chance.randint(0, len(data)) // 512 * 512
    size = min(chance.choice((512, 4096)), len(data) - at)
    return data[:at] + b"\x00" * size + data[at + size:]


def no_utf8(data: bytes, chance: random.Random) -> bytes:
    return insert(data, chance, chance.choice((b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80", b"\x80" * 9, b"\xc0\xaf")))


def odd_characters(data: bytes, chance: random.Random) -> bytes:
    """Characters that some readers take for line ends, and some XML forbids, raw within the file."""
    return insert(data, chance, chance.choice(("\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\r", "\ufeff", "\ufffe", "\U0010ffff")).encode("utf-8"))


def escapes(data: bytes, chance: random.Random) -> bytes:
    """Escapes that JSON allows or not, most of them in the middle of a text."""
    piece = chance.choice((rb"\ud800", rb"\udc00\ud800", rb"\u0000", rb"\u", rb"\x41", b"\\", rb"\ud83d\ude00", rb"\u001b[31m", rb"\uffff"))
    at = data.find(b'text":"', chance.randint(0, len(data)))
    at = at + 7 if at >= 0 else chance.randint(0, len(data))
    return data[:at] + piece + data[at:]


def byte_order_mark(data: bytes, chance: random.Random) -> bytes:
    return b"\xef\xbb\xbf" + data if chance.random() < 0.7 else data.decode("utf-8", "replace").encode("utf-16")


def windows_line_ends(data: bytes, chance: random.Random) -> bytes:
    return data.replace(b"\n", chance.choice((b"\r\n", b"\r\n", b"\r\r\n", b"\r")))


def no_last_line_end(data: bytes, chance: random.Random) -> bytes:
    return data.rstrip(b"\n")


def nothing(data: bytes, chance: random.Random) -> bytes:
    return chance.choice((b"", b"\n", b"\n\n\n", b" ", b"\x00", b"{}\n"))


# ------------------------------------------------------------------------------------------------ the form: lines


def at_random(lines: Lines, chance: random.Random) -> int:
    return chance.randrange(len(lines)) if lines else 0


def glue_lines(lines: Lines, chance: random.Random) -> Lines:
    at = at_random(lines, chance)
    return [*lines[:at], b"".join(lines[at:at + 2]), *lines[at + 2:]]


def glue_stub(lines: Lines, chance: random.Random) -> Lines:
    """The beginning of a record, and the next record on the same line."""
    at = at_random(lines, chance)
    stub = lines[at][: chance.randint(1, len(lines[at]) or 1)] if lines else b'{"parentUuid":"'
    return [*lines[:at], stub + (lines[at + 1] if at + 1 < len(lines) else b""), *lines[at + 2:]]


def break_line(lines: Lines, chance: random.Random) -> Lines:
    at = at_random(lines, chance)
    middle = chance.randint(0, len(lines[at])) if lines else 0
    return [*lines[:at], lines[at][:middle], lines[at][middle:], *lines[at + 1:]] if lines else lines


def swap_lines(lines: Lines, chance: random.Random) -> Lines:
    made = list(lines)
    for _ in range(chance.choice((1, 10)) if made else 0):
        one, other = at_random(made, chance), at_random(made, chance)
        made[one], made[other] = made[other], made[one]
    return made


def shuffle_lines(lines: Lines, chance: random.Random) -> Lines:
    return chance.sample(lines, len(lines)) if chance.random() < 0.7 else lines[::-1]


def drop_lines(lines: Lines, chance: random.Random) -> Lines:
    share = chance.choice((0.02, 0.2, 0.6, 0.95))
    return [line for line in lines if chance.random() >= share]


def repeat_lines(lines: Lines, chance: random.Random) -> Lines:
    at = at_random(lines, chance)
    block = lines[at:at + chance.choice((1, 5, 40))]
    return [*lines[:at], *block * chance.choice((2, 3, 30)), *lines[at:]] if chance.random() < 0.7 else [*lines, *block]


def blank_lines(lines: Lines, chance: random.Random) -> Lines:
    return [piece for line in lines for piece in ((line, chance.choice((b"", b"  ", b"\t", b"\r"))) if chance.random() < 0.2 else (line,))]


def strangers(lines: Lines, chance: random.Random) -> Lines:
    made = list(lines)
    for _ in range(chance.randint(1, 6)):
        made.insert(chance.randint(0, len(made)), chance.choice(STRANGERS))
    return made


def deep_line(lines: Lines, chance: random.Random) -> Lines:
    opened = chance.choice(OPENERS)
    closed = {b"[": b"]", b'{"a":': b"}", b'[{"a":': b"}]"}[opened]
    depth = chance.choice((900, 5_000, DEEP))
    piece = chance.choice((opened * depth, opened * depth + b"1" + closed * depth))
    if lines and chance.random() < 0.7:  # inside a record, in the place of its message or content
        at = at_random(lines, chance)
        for field in (b'"content":', b'"message":', b'"toolUseResult":', b'"input":'):
            if field in lines[at]:
                head, tail = lines[at].split(field, 1)
                return [*lines[:at], head + field + piece + b',"was":' + tail, *lines[at + 1:]]
    return [*lines[: at_random(lines, chance)], piece, *lines[at_random(lines, chance):]]


def long_number(lines: Lines, chance: random.Random) -> Lines:
    at = at_random(lines, chance)
    number = chance.choice((b"9" * LONG_NUMBER, b"1e999", b"-1e999", b"NaN", b"Infinity", b"1" + b"0" * 400, b"0.1e-9999"))
    if not lines or not lines[at].startswith(b"{"):
        return [*lines, b'{"type":"user","n":' + number + b"}"]
    return [*lines[:at], b'{"durationMs":' + number + b"," + lines[at][1:], *lines[at + 1:]]


def twice_the_key(lines: Lines, chance: random.Random) -> Lines:
    at = at_random(lines, chance)
    extra = chance.choice((b'"uuid":3', b'"type":"user"', b'"message":null', b'"parentUuid":"x"', b'"isSidechain":true'))
    if not lines:
        return lines
    bare = lines[at].rstrip(b"}")
    return [*lines[:at], bare + b"," + extra + b"}" * (len(lines[at]) - len(bare)), *lines[at + 1:]]


# ------------------------------------------------------------------------------------------------ the sense: records


def parsed(line: bytes) -> Any:
    """The line's value, or None; also None for what `deep_line` made, which may parse or not, as much stack is left."""
    if any(bracket * 100 in line for bracket in OPENERS):
        return None
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def written(value: object, chance: random.Random) -> bytes:
    """The value as a line, as the client writes it, as Python does, or all in ASCII."""
    style = chance.randrange(3)
    separators = (", ", ": ") if style == 1 else (",", ":")
    try:
        return json.dumps(value, ensure_ascii=style == 2, separators=separators).encode("utf-8")
    except UnicodeEncodeError:  # lone surrogates can only be written as escapes
        return json.dumps(value, separators=separators).encode("ascii")


def odd_value(chance: random.Random) -> Any:
    """One of VALUES, its own copy: the next damage may change what is in it."""
    return copy.deepcopy(chance.choice(VALUES))


def places_of(value: Any) -> list[Place]:
    """Every place below a value that holds another, at any depth."""
    found: list[Place] = []
    queue = [value]
    while queue:
        box = queue.pop()
        if not isinstance(box, (dict, list)):
            continue
        inner: list[Place] = [(box, key) for key in (list(box) if isinstance(box, dict) else range(len(box)))]
        found += inner
        queue += [box[key] for _, key in inner]
    return found


def on_records(change: Callable[[list[Json], random.Random], None]) -> Callable[[Lines, random.Random], Lines]:
    """A damage to lines from a `change` to some of their records in place; what was no record stays as it was."""

    def damage(lines: Lines, chance: random.Random) -> Lines:
        values = [parsed(line) for line in lines]
        share = chance.choice((0.05, 0.3, 1.0))
        chosen = [at for at, value in enumerate(values) if isinstance(value, dict) and value and chance.random() < share]
        if chosen:
            change([values[at] for at in chosen], chance)
        return [written(values[at], chance) if at in set(chosen) else line for at, line in enumerate(lines)] if chosen else lines

    damage.__name__, damage.__doc__ = change.__name__, change.__doc__
    return damage


@on_records
def missing_fields(records: list[Json], chance: random.Random) -> None:
    for record in records:
        box, key = chance.choice(places_of(record))
        del box[key]


@on_records
def wrong_types(records: list[Json], chance: random.Random) -> None:
    for record in records:
        for _ in range(chance.choice((1, 1, 4))):
            box, key = chance.choice(places_of(record))
            box[key] = odd_value(chance)


@on_records
def one_field_everywhere(records: list[Json], chance: random.Random) -> None:
    """The same top field wrong, or gone, in every record: a client that writes it otherwise."""
    key = chance.choice(sorted({key for record in records for key in record}))
    gone, value = chance.random() < 0.3, odd_value(chance)
    for record in records:
        if gone:
            record.pop(key, None)
        elif key in record:
            record[key] = copy.deepcopy(value)


@on_records
def wrong_message(records: list[Json], chance: random.Random) -> None:
    """The fields that readers lean on: message, content, blocks, usage, input, the result's detail."""
    for record in records:
        message = record.get("message")
        target, key = chance.choice((
            (record, "message"), (record, "toolUseResult"), (record, "attachment"), (record, "type"), (record, "compactMetadata"), (record, "origin"),
            *((message, key) for key in ("content", "usage", "model", "id", "role") if isinstance(message, dict)),
            *((block, key) for block in blocks_of(message) for key in block)))
        target[key] = odd_value(chance)


def blocks_of(message: Any) -> list[Json]:
    """A message's blocks, where it has any."""
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


@on_records
def wrong_times(records: list[Json], chance: random.Random) -> None:
    for record in records:
        record["timestamp"] = chance.choice(TIMES)


@on_records
def wrong_links(records: list[Json], chance: random.Random) -> None:
    """Parents that do not exist, stand later, are the record itself, or are no uuid at all."""
    known = [record["uuid"] for record in records if "uuid" in record] or ["nowhere"]
    for record in records:
        record["parentUuid"] = chance.choice((chance.choice(known), record.get("uuid"), None, "00000000-0000-4000-8000-00000000dead", 5, [], ""))


@on_records
def ring(records: list[Json], chance: random.Random) -> None:
    """Each record under the next, the last under the first."""
    chained = [record for record in records if isinstance(record.get("uuid"), str)]
    for record, parent in zip(chained, chained[1:] + chained[:1]):
        record["parentUuid"] = parent["uuid"]


@on_records
def same_ids(records: list[Json], chance: random.Random) -> None:
    """One uuid, one message id or one call id for many records."""
    key = chance.choice(("uuid", "id", "tool_use_id", "sessionId", "promptId"))
    for record in records:
        for box, name in places_of(record):
            if name == key:
                box[key] = "same"


@on_records
def every_flag(records: list[Json], chance: random.Random) -> None:
    """A flag that a few records carry, on many, and not always true or false."""
    flag = chance.choice(("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage"))
    for record in records:
        record[flag] = chance.choice((True, True, False, None, 1, "true"))


@on_records
def other_kinds(records: list[Json], chance: random.Random) -> None:
    """Records that are what they were not: boundaries in odd places, user records that answer, kinds that nobody knows."""
    for record in records:
        own, parent = record.get("uuid"), record.get("parentUuid")
        segment = {"preservedSegment": {"headUuid": own, "anchorUuid": own, "tailUuid": parent}}
        record.update(chance.choice((
            {"type": "system", "subtype": "compact_boundary"},
            {"type": "system", "subtype": "compact_boundary", "parentUuid": None, "compactMetadata": segment},
            {"type": "user", "isCompactSummary": True}, {"type": "assistant"}, {"type": "user"},
            {"type": "attachment", "attachment": {"type": "queued_command", "commandMode": "prompt", "prompt": odd_value(chance)}},
            {"type": "last-prompt", "leafUuid": own, "explicit": True}, {"type": "brand-new-kind"}, {"type": "progress"})))


@on_records
def long_texts(records: list[Json], chance: random.Random) -> None:
    """A text of hundreds of thousands of characters, of a kind that grows when it is escaped."""
    for record in records[:3]:
        texts = [(box, key) for box, key in places_of(record) if isinstance(box[key], str)]
        if texts:
            box, key = chance.choice(texts)
            box[key] = chance.choice(("&", "<", "a", "🙂", "\u0007", "\n", "é ", "\x1b[1m")) * LONG_TEXT


@on_records
def odd_input(records: list[Json], chance: random.Random) -> None:
    """Calls with names and inputs of any shape, results that answer no call, details of the wrong kind."""
    for record in records:
        for block in blocks_of(record.get("message")):
            if block.get("type") == "tool_use":
                block["name"] = chance.choice(TOOLS)
                block["input"] = odd_fields(INPUTS, chance)
        if "toolUseResult" in record:
            record["toolUseResult"] = odd_fields(DETAILS, chance)
            if isinstance(record["toolUseResult"], dict) and chance.random() < 0.5:
                record["toolUseResult"]["gitOperation"] = odd_fields(("commit", "push", "pr"), chance)


def odd_fields(names: Sequence[str], chance: random.Random) -> Any:
    """An object with odd values in these fields, or now and then one odd value instead."""
    return {name: odd_value(chance) for name in names} if chance.random() < 0.7 else odd_value(chance)


def field_names(data: bytes) -> list[str]:
    """The names of all fields at any depth, in order; not keys that are data, such as paths."""
    return sorted({key for line in data.split(b"\n") for _, key in places_of(parsed(line)) if isinstance(key, str) and key.isidentifier()})


def with_field(data: bytes, name: str, value: object) -> bytes:
    """The data with `value` in every field of that name, at any depth."""
    lines = data.split(b"\n")
    for at, line in enumerate(lines):
        if f'"{name}"'.encode() in line and isinstance(record := parsed(line), dict):
            for box, key in places_of(record):
                if key == name and isinstance(key, str):
                    box[key] = value
            lines[at] = json.dumps(record, separators=(",", ":")).encode("ascii")
    return b"\n".join(lines)


ON_BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    cut_end, cut_start, cut_out, flip_bytes, spoil_structure, nul_run, nul_over, no_utf8, odd_characters, escapes, byte_order_mark,
    windows_line_ends, no_last_line_end, nothing,
)
ON_LINES: tuple[Callable[[Lines, random.Random], Lines], ...] = (
    glue_lines, glue_stub, break_line, swap_lines, shuffle_lines, drop_lines, repeat_lines, blank_lines, strangers, deep_line, long_number,
    twice_the_key, missing_fields, wrong_types, one_field_everywhere, wrong_message, wrong_times, wrong_links, ring, same_ids, every_flag,
    other_kinds, long_texts, odd_input,
)
RARE = frozenset((nothing, long_texts, byte_order_mark, shuffle_lines))  # they leave little for other damage to show, or are slow
AGAIN = frozenset((  # these may strike several times
    cut_out, spoil_structure, nul_run, no_utf8, odd_characters, escapes, glue_lines, glue_stub, break_line, wrong_types, missing_fields,
    wrong_message, odd_input,
))


def on_lines(kind: Callable[[Lines, random.Random], Lines], data: bytes, chance: random.Random) -> bytes:
    """The data with its complete lines damaged; a torn last line stays."""
    *lines, tail = data.split(b"\n")
    return b"".join(line + b"\n" for line in kind(lines, chance)) + tail


def corrupted(data: bytes, seed: Union[int, str]) -> Damaged:
    """The data after one to four kinds of damage, chosen and placed by the seed."""
    chance = random.Random(f"corrupt {seed}")
    kinds: tuple[Callable[..., Any], ...] = (*ON_BYTES, *ON_LINES)
    done: list[str] = []
    for kind in chance.choices(kinds, [1 if kind in RARE else 4 for kind in kinds], k=chance.choice((1, 1, 2, 3, 4))):
        for _ in range(chance.choice((1, 1, 3, 8)) if kind in AGAIN else 1):
            data = kind(data, chance) if kind in ON_BYTES else on_lines(kind, data, chance)
            done.append(kind.__name__)
    return Damaged(data, done)


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 3:
        print("usage: corrupt.py SEED SOURCE TARGET", file=sys.stderr)
        return 2
    made = corrupted(Path(arguments[1]).read_bytes(), arguments[0])
    Path(arguments[2]).write_bytes(made.data)
    print(*made.damage)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
