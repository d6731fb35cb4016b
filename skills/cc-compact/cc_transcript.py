"""Read Claude Code transcripts: where they are, what they hold, what of it lives, and a bounded report of it.

This is the one module that the skills of cc-carryover share. The original is scripts/cc_transcript.py; the copies beside
the skills' scripts are made by scripts/vendor.py and never edited. Standard library only, Python 3.9 or newer.

Data flows one way through four rooms, in this order:

    place         config root, folder names, worktrees, live clients, prompt history
    records       a transcript as a stream of lines, each line narrowed once into a typed Record
    conversation  which records live, what the person said, exchanges, calls joined with their results
    report        clean, mask, cut, escape; sections that share one bound; the command line

and `find_session` stands at the end, where all four are known. Nothing here writes, and nothing here knows a skill.
"Measured" in a comment means: seen on client 2.1.332 and 2.1.197 on Linux.
"""

from __future__ import annotations

import argparse
import bisect
import gc
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from functools import lru_cache
from typing import IO, Any, NamedTuple, NoReturn, Optional

VERSION = "0.1.0"

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I)
FOLDER_UNITS = 200  # the client cuts a folder name there and adds a hash of the path
BLOCK_BYTES = 1 << 18  # one read of a transcript; larger blocks cost memory and gain nothing
EAGER_BYTES = 2_048  # a shorter line is parsed at once, a longer one by its head and tail where its shape is known
EDGE_BYTES = 1 << 16  # how much of a file's head and tail is read to list it, at first
TITLE_CHARS = 80  # a title made from a first prompt is cut there
MASK_WINDOW = 200_000  # of a longer text only head and tail can be shown, so only they are cleaned and masked
CLIENT_LIMIT = 29_500  # the client hands the model a 2 KB preview of anything over 30,000 characters
SMALLEST_BOUND = 2_000  # below it not even the first and the last prompts fit with their tags


class Refusal(Exception):
    """The request cannot be met: one line that says what, where, and what to do next. `main` ends with status 1."""


# ---------------------------------------------------------------------------------------------------------------- place


def utf16_length(text: str) -> int:
    """Length of `text` in UTF-16 units, the way JavaScript, and so the client's limits, count it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def path_hash(path: str) -> str:
    """The client's hash of a long path: h = 31*h + unit over its UTF-16 units, signed 32 bits, absolute, in base 36."""
    raw, value = path.encode("utf-16-le", "surrogatepass"), 0
    for low, high in zip(raw[::2], raw[1::2]):
        value = (value * 31 + low + 256 * high) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value & 0x80000000 else value)
    digits = ""
    while value or not digits:
        value, rest = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits


def folder_name(directory: str) -> str:
    """Name of the folder below `projects` that holds the sessions of `directory` (not reversible)."""
    name = re.sub(r"[^A-Za-z0-9]", lambda unit: "-" if unit[0] <= "\uffff" else "--", directory)
    return name if len(name) <= FOLDER_UNITS else f"{name[:FOLDER_UNITS]}-{path_hash(directory)}"


def config_root() -> str:
    """Absolute path of the client's configuration folder. The variable is taken as it is: no ~, relative to the cwd."""
    named = os.environ.get("CLAUDE_CONFIG_DIR")
    if not named:
        return os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.abspath(named if named.isascii() else normalized(named))


def normalized(text: str) -> str:
    """`text` in Unicode's composed form (NFC)."""
    import unicodedata  # seldom needed, and every import counts in a 40 ms run

    return unicodedata.normalize("NFC", text)


def projects_roots() -> list[str]:
    """The folders that hold project folders. An empty CLAUDE_CONFIG_DIR makes the client write to ./projects."""
    roots = [os.path.join(config_root(), "projects")]
    if os.environ.get("CLAUDE_CONFIG_DIR") == "":
        roots.append(os.path.abspath("projects"))
    return roots


def project_folders(directory: str) -> list[str]:
    """Paths of the folders that may hold sessions of `directory`, the likeliest first; they need not exist.

    CLAUDE_CODE_PROJECT_DIR_NAME replaces the name, only together with CLAUDE_CONFIG_DIR and only if it is a plain one.
    """
    named = os.environ.get("CLAUDE_CODE_PROJECT_DIR_NAME", "")
    if os.environ.get("CLAUDE_CONFIG_DIR") and re.fullmatch(r"[A-Za-z0-9-]+", named):
        return [os.path.join(projects_roots()[0], named)]
    spellings = [directory, normalized(directory)]
    if os.name == "nt":  # an editor writes c:, a terminal C:, and the client keeps what it is given
        spellings += [spelling[:1].swapcase() + spelling[1:] for spelling in spellings if spelling[1:2] == ":"]
    names = [folder_name(spelling) for spelling in dict.fromkeys(spellings)]
    found = [os.path.join(root, name) for root in projects_roots() for name in dict.fromkeys(names)]
    if len(names[0]) > FOLDER_UNITS:  # other clients hash differently: a cwd inside the file has to prove these
        found += [path for path in all_folders() if os.path.basename(path).startswith(names[0][:FOLDER_UNITS])]
    return list(dict.fromkeys(found))


def all_folders() -> list[str]:
    """Paths of all project folders."""
    found = []
    for root in projects_roots():
        try:
            with os.scandir(root) as entries:
                found += sorted(entry.path for entry in entries if entry.is_dir())
        except OSError:
            continue
    return found


def worktrees(directory: str) -> list[str]:
    """Other working trees of the git repository that holds `directory`, read from git's own files (no process)."""
    top = directory
    while not os.path.exists(os.path.join(top, ".git")):
        top, below = os.path.dirname(top), top
        if top == below:
            return []
    git = os.path.join(top, ".git")
    if os.path.isfile(git):  # a linked tree: "gitdir: <main>/.git/worktrees/<name>"
        pointer = read_small(git).partition("gitdir:")[2].strip()
        git = os.path.dirname(os.path.dirname(os.path.join(top, pointer))) if pointer else git
    found = [os.path.dirname(git)]
    trees = os.path.join(git, "worktrees")
    for name in sorted(os.listdir(trees)) if os.path.isdir(trees) else []:
        found.append(os.path.dirname(read_small(os.path.join(trees, name, "gitdir")).strip()))
    return [tree for tree in dict.fromkeys(found) if tree and tree != top]


def read_small(path: str) -> str:
    """Text of a small file, empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(EDGE_BYTES)
    except OSError:
        return ""


def session_files(folders: Iterable[str]) -> Iterator[str]:
    """Paths of the transcripts that lie directly in `folders`; agent-*.jsonl beside them are sub-agents' (old clients)."""
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if entry.name.endswith(".jsonl") and not entry.name.startswith("agent-") and entry.is_file()]
        except OSError:
            continue
        for name in sorted(names):
            yield os.path.join(folder, name)


def own_session() -> Optional[str]:
    """Id of the session that runs this command, None at a shell."""
    return os.environ.get("CLAUDE_CODE_SESSION_ID") or None


def live_clients() -> dict[str, str]:
    """Session id -> start directory of each client that is open now. The files can be stale after a crash, so the process is asked."""
    folder, found = os.path.join(config_root(), "sessions"), {}
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        for state in parse_line(read_small(os.path.join(folder, name)).encode("utf-8", "replace")).objects:
            pid, session = state.get("pid"), state.get("sessionId")
            if isinstance(pid, int) and isinstance(session, str) and is_running(pid):
                found[session.lower()] = string(state.get("cwd"))
    return found


def project_directory(named: str) -> str:
    """Real path of the project's directory: the one named, else where the calling client was started (a `cd` of the model
    moves the script, not the project), else the current one."""
    own = own_session()
    started = live_clients().get(own.lower(), "") if own and not named else ""
    return os.path.realpath(named or started or ".")


def is_running(pid: int) -> bool:
    """Whether a process has this number. On Windows, where signal 0 would end it, the file is believed."""
    if os.name == "nt" or not 0 < pid < 1 << 31:
        return os.name == "nt"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


class Typed(NamedTuple):
    """One entry of the client's prompt history: what a person typed, when (seconds), where, in which session."""

    text: str
    time: float
    project: str
    session: str


def prompt_history() -> Iterator[Typed]:
    """The prompt history in the order it was typed. It outlives the transcripts."""
    try:
        file = open(os.path.join(config_root(), "history.jsonl"), "rb")
    except OSError:
        return
    with file:
        for _, data in read_lines(file):
            for entry in parse_line(data).objects:
                stamp = entry.get("timestamp")
                yield Typed(
                    string(entry.get("display")),
                    stamp / 1000 if isinstance(stamp, (int, float)) else 0.0,
                    string(entry.get("project")),
                    string(entry.get("sessionId")).lower(),
                )


# -------------------------------------------------------------------------------------------------------------- records


class Parsed(NamedTuple):
    """The JSON objects of one line, and whether some of the line could not be read."""

    objects: list[dict[str, Any]]
    damaged: bool


DECODER = json.JSONDecoder(strict=False)  # raw control characters inside strings are kept, as text
RECORD_START = re.compile(r'\{\s*"(?:parentUuid|type)"\s*:')


def read_lines(file: IO[bytes], end: Optional[int] = None) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of each line of `file`, which was opened as bytes; split at \\n only, blank lines left out."""
    offset = file.tell()
    for data in file:
        if len(data) > 2 or data.strip():
            yield offset, data
        offset += len(data)
        if end is not None and offset >= end:
            return


def parse_line(data: bytes) -> Parsed:
    """What one line holds: usually one object; two where a write was glued to the next; none of a torn one's stub."""
    text = data.decode("utf-8", "replace")
    if text.startswith("{"):  # one object and a line end, as nearly always
        try:
            value, end = DECODER.raw_decode(text)
            if text[end:] in ("\n", "", "\r\n"):
                return Parsed([value], False)
        except (ValueError, RecursionError):
            pass  # read piece by piece below
    text = text.strip("\ufeff\0 \t\r\n")
    objects: list[dict[str, Any]] = []
    damaged, at = False, 0
    while at < len(text):
        try:
            value, at = DECODER.raw_decode(text, at)
            objects += [value] if isinstance(value, dict) else []
            at += len(text[at : at + 4096]) - len(text[at : at + 4096].lstrip("\0 \t\r"))
        except (ValueError, RecursionError):
            damaged = True
            following = RECORD_START.search(text, at + 1)
            at = following.start() if following else len(text)
    return Parsed(objects, damaged)


@lru_cache(maxsize=1024)
def parse_string(data: bytes) -> str:
    """The text of a JSON string that most records repeat, empty where it is none."""
    try:
        return intern_string(DECODER.decode(data.decode("utf-8", "replace")))
    except ValueError:
        return ""


@lru_cache(maxsize=1024)
def intern_bytes(data: bytes) -> str:
    """A text that most records repeat, kept once."""
    return intern_string(data.decode("utf-8", "replace"))


def string(value: object) -> str:
    """`value` if it is text, else the empty string."""
    return value if isinstance(value, str) else ""


def mapping(value: object) -> dict[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def array(value: object) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def number(value: object) -> int:
    """`value` if it is a whole number, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


class Text(NamedTuple):
    """A text block."""

    text: str


class Thinking(NamedTuple):
    """A thinking block; its text is mostly empty."""

    text: str


class Image(NamedTuple):
    """A picture or document: its media type and the length of its data in bytes."""

    media_type: str
    size: int


class Call(NamedTuple):
    """A tool call. `input` is an object in all but odd files."""

    id: str
    name: str
    input: Any

    def argument(self, *names: str) -> str:
        """The first of these arguments that is given, as text; empty where none is."""
        given = mapping(self.input)
        for name in names:
            value = given.get(name)
            if value:
                return value if isinstance(value, str) else " ".join(value) if all_strings(value) else json.dumps(value, ensure_ascii=False)
        return ""


class Output(NamedTuple):
    """What a call gave back: the result block's text, and the client's own detail of it (its shape depends on the tool)."""

    text: str
    detail: Any


class Result:
    """A tool result. What it says is read from the file when it is asked for: results are most of a transcript."""

    __slots__ = ("call_id", "is_error", "record")

    def __init__(self, call_id: str, is_error: bool, record: Record) -> None:
        self.call_id, self.is_error, self.record = call_id, is_error, record

    def read(self) -> Output:
        """The text and the detail, empty where the line can no longer be read."""
        fields = self.record.fields()
        for block in array(mapping(fields.get("message")).get("content")):
            if mapping(block).get("type") == "tool_result" and string(block.get("tool_use_id")) == self.call_id:
                return Output(flat_text(block.get("content")), fields.get("toolUseResult"))
        return Output("", None)


def all_strings(value: object) -> bool:
    """Whether `value` is a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def flat_text(content: object) -> str:
    """Text of a result's content: a string, a list of blocks, or nothing."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (block_text(block) for block in array(content))))


def block_text(block: object) -> str:
    """Text of one content block; what is no text is named in brackets."""
    if isinstance(block, str):
        return block
    fields = mapping(block)
    kind = string(fields.get("type"))
    if kind == "text":
        return string(fields.get("text"))
    if kind in ("image", "document"):
        return f"[{media_type(fields)}]"
    return f"[{kind}: {string(fields.get('tool_name'))}]" if kind == "tool_reference" else f"[{kind}]" if kind else ""


def media_type(block: dict[str, Any]) -> str:
    """Media type of a picture or document block."""
    return string(mapping(block.get("source")).get("media_type")) or string(block.get("type"))


class Compaction(NamedTuple):
    """What a compact_boundary says of the records it preserved; None where it does not say.

    `kept` are the uuids of preservedMessages under `kept_anchor`; head, anchor and tail those of preservedSegment.
    """

    kept: Optional[list[str]]
    kept_anchor: str
    segment: Optional[tuple[str, str, str]]


class Usage(NamedTuple):
    """Tokens of one API answer: what it read (the context), and what it wrote."""

    context: int
    output: int


class Record:
    """One line of a transcript, narrowed. `uuid` and `parent` are the links of the chain; what a line does not say is empty."""

    logical_parent: Optional[str] = None
    blocks: tuple[Any, ...] = ()
    meta = summary = local = api_error = queued = False
    session = origin = message_id = model = denial = cwd = branch = entrypoint = subtype = source_call = forked_from = ""
    tokens: Optional[dict[str, Any]] = None
    compaction: Optional[Compaction] = None
    line = 0

    def __init__(
        self, transcript: Transcript, offset: int, size: int, kind: str, uuid: str, parent: Optional[str], sidechain: bool, timestamp: str
    ) -> None:
        self.transcript, self.offset, self.size, self.kind = transcript, offset, size, kind
        self.uuid, self.parent, self.sidechain, self.timestamp = uuid, parent, sidechain, timestamp

    @property
    def usage(self) -> Optional[Usage]:
        """The tokens of the answer this row belongs to, None where it says none."""
        if not self.tokens:
            return None
        context = sum(number(self.tokens.get(name)) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"))
        return Usage(context, number(self.tokens.get("output_tokens")))

    def fields(self) -> dict[str, Any]:
        """The whole record as the file has it now, read anew; empty where it is gone or cannot be parsed."""
        for fields in parse_line(self.transcript.read(self.offset, self.size)).objects:
            if string(fields.get("uuid")) == self.uuid:
                return fields
        return {}

    def texts(self) -> list[str]:
        """The texts of its text blocks."""
        return [block.text for block in self.blocks if isinstance(block, Text) and block.text]

    def calls(self) -> list[Call]:
        """Its tool calls."""
        return [block for block in self.blocks if isinstance(block, Call)]

    def results(self) -> list[Result]:
        """Its tool results."""
        return [block for block in self.blocks if isinstance(block, Result)]


def narrow(transcript: Transcript, offset: int, size: int, fields: dict[str, Any]) -> Record:
    """The typed view of a parsed chain record."""
    get = fields.get
    kind = string(get("type"))
    record = Record(
        transcript, offset, size, kind, string(get("uuid")), optional(get("parentUuid")), get("isSidechain") is True, string(get("timestamp"))
    )
    record.session = intern_string(get("sessionId"))
    record.cwd, record.branch, record.entrypoint = intern_string(get("cwd")), intern_string(get("gitBranch")), intern_string(get("entrypoint"))
    if "forkedFrom" in fields:
        record.forked_from = string(mapping(get("forkedFrom")).get("sessionId"))
    if get("isMeta") is True or get("isVisibleInTranscriptOnly") is True:
        record.meta = True
    if kind in ("user", "assistant"):
        narrow_message(record, fields)
    elif kind == "attachment":
        attachment = mapping(get("attachment"))
        record.subtype = intern_string(attachment.get("type"))
        if record.subtype == "queued_command":
            record.queued = attachment.get("commandMode") == "prompt"
            record.origin = string(mapping(attachment.get("origin")).get("kind"))
            record.blocks = narrow_blocks(record, attachment.get("prompt"))
    elif kind == "system":
        record.subtype = intern_string(get("subtype"))
        record.blocks = narrow_blocks(record, get("content"))
        record.logical_parent = optional(get("logicalParentUuid"))
        if record.subtype == "compact_boundary":
            record.compaction = narrow_compaction(mapping(get("compactMetadata")))
    return record


def narrow_message(record: Record, fields: dict[str, Any]) -> None:
    """Fill in what user and assistant records alone carry."""
    message = mapping(fields.get("message"))
    record.blocks = narrow_blocks(record, message.get("content"))
    if record.kind == "assistant":
        record.message_id, record.model = string(message.get("id")), intern_string(message.get("model"))
        record.api_error = fields.get("isApiErrorMessage") is True
        record.tokens = mapping(message.get("usage"))
        return
    record.summary = fields.get("isCompactSummary") is True
    record.origin = string(mapping(fields.get("origin")).get("kind"))
    record.local = fields.get("rowSource") == "local" and not record.origin
    record.source_call = string(fields.get("sourceToolUseID"))
    rejected = string(fields.get("toolUseResult")).startswith("User rejected")
    record.denial = string(fields.get("toolDenialKind")) or ("user-rejected" if rejected else "")


def intern_string(value: object) -> str:
    """A text that most records repeat, kept once."""
    return sys.intern(value) if type(value) is str else ""


def narrow_blocks(record: Record, content: object) -> tuple[Any, ...]:
    """Content blocks of a message: Text, Thinking, Image, Call and Result; unknown kinds become a Text that names them."""
    if isinstance(content, str):
        return (Text(content),)
    found: list[Any] = []
    for block in array(content):
        fields = mapping(block)
        kind = string(fields.get("type"))
        if kind == "tool_result":
            found.append(Result(string(fields.get("tool_use_id")), fields.get("is_error") is True, record))
        elif kind == "tool_use":
            found.append(Call(string(fields.get("id")), string(fields.get("name")), fields.get("input")))
        elif kind in ("thinking", "redacted_thinking"):
            found.append(Thinking(string(fields.get("thinking"))))
        elif kind in ("image", "document"):
            found.append(Image(media_type(fields), len(string(mapping(fields.get("source")).get("data"))) * 3 // 4))
        elif kind == "text":
            found.append(Text(block_text(block)))
    return tuple(found)


def narrow_compaction(metadata: dict[str, Any]) -> Compaction:
    """The boundary's metadata. Both ways to name what was preserved are kept; the chain decides which holds."""
    listed, segment = metadata.get("preservedMessages"), metadata.get("preservedSegment")
    kept = [string(uuid) for uuid in array(listed.get("uuids"))] if isinstance(listed, dict) else None
    ends = (
        (string(segment.get("headUuid")), string(segment.get("anchorUuid")), string(segment.get("tailUuid"))) if isinstance(segment, dict) else None
    )
    return Compaction(kept, string(mapping(listed).get("anchorUuid")), ends)


def optional(value: object) -> Optional[str]:
    """`value` if it is a text that is not empty, else None."""
    return value if isinstance(value, str) and value else None


CHAIN_KINDS = frozenset(("user", "assistant", "attachment", "system", "progress"))
TITLE_KINDS = {"custom-title": "customTitle", "ai-title": "aiTitle", "agent-name": "agentName"}  # the better first
SIDE_KINDS = frozenset((*TITLE_KINDS, "last-prompt"))  # the only side records that are read
CHAIN_HEAD = re.compile(
    rb'\{"parentUuid":(?:null|"([^"\\]{1,64})"),"isSidechain":(true|false),(?:"[a-zA-Z]+":"[^"\\]*",)*?'
    rb'(?:"type":"(user)","message":\{"role":"user","content":\[\{(?:"type":"tool_result"|"tool_use_id":")|"attachment":\{"type":"([a-z_]+)")'
)
LINK_TAIL = re.compile(rb',"uuid":"([^"\\]{1,64})","timestamp":"([^"\\]{1,40})"')
PLACE_TAIL = re.compile(
    rb',(?:"entrypoint":"([^"\\]*)",)?"cwd":("(?:[^"\\]|\\.)*"),"sessionId":"([^"\\]*)",(?:"version":"[^"\\]*",)?"gitBranch":("(?:[^"\\]|\\.)*")'
)
CALL_ID = re.compile(rb'"tool_use_id":"([^"\\]*)"')


def kind_of_side_record(data: bytes) -> Optional[str]:
    """Type of a line that is one whole side record written by the client, None for any other line.

    The byte tests are sound: inside a JSON string a quote is always escaped, so they only ever meet the structure.
    """
    if not data.startswith(b'{"type":"') or not data.endswith((b"}\n", b"}\r\n")):
        return None
    kind = data[9 : data.find(b'"', 9, 64)].decode("latin-1")
    if "\\" in kind or kind in CHAIN_KINDS or kind in SIDE_KINDS:
        return None
    tail = len(data) - 1024  # of a chain record that a stub was glued to, the end is there
    glued = data.find(b'}{"type":"') >= 0 or data.find(b'"gitBranch":', tail) >= 0 or data.find(b'"parentUuid":', tail) >= 0
    return None if glued or data.find(b'"parentUuid":', 0, 1024) >= 0 else kind


def recognise(transcript: Transcript, offset: int, data: bytes) -> Optional[Record]:
    """The Record of a long tool result or attachment that the client wrote, from its head and tail alone, else None.

    What it does not hold (the text, the detail) is read by `fields()` when somebody asks. A test proves that the
    reading of whole lines gives the same records.
    """
    head = CHAIN_HEAD.match(data, 0, 1024)
    if not head or not data.endswith((b'"}\n', b'"}\r\n')):
        return None
    if data.find(b'{"parentUuid":', 1) >= 0:  # a stub with another record glued to it
        return None
    parent, attachment = head[1], head[4]
    if attachment:
        at = data.rfind(b',"type":"attachment","uuid":"') + len(b',"type":"attachment"')
        if attachment == b"queued_command" or at < head.end():
            return None
    else:
        at = data.find(b']},"uuid":"', head.end()) + 2
        if data.find(b'{"', head.end(), at) >= 0:  # another block, or structure inside the result
            return None
    link = LINK_TAIL.match(data, at) if at > 2 else None
    if not link:
        return None
    record = Record(
        transcript,
        offset,
        len(data),
        "attachment" if attachment else "user",
        link[1].decode("utf-8", "replace"),
        parent.decode("utf-8", "replace") if parent else None,
        head[2] == b"true",
        link[2].decode("utf-8", "replace"),
    )
    tail = max(at, len(data) - 1024)
    entry = data.rfind(b',"entrypoint":"', tail)
    place = PLACE_TAIL.match(data, entry if entry >= 0 else data.rfind(b',"cwd":"', tail))
    if not place or data.find(b'}{"', place.end()) >= 0:
        return None
    record.entrypoint, record.session = intern_bytes(place[1] or b""), intern_bytes(place[3])
    record.cwd, record.branch = parse_string(place[2]), parse_string(place[4])
    if attachment:
        record.subtype = attachment.decode("latin-1")
        return record
    if data.count(b'"tool_use_id":"', 0, at) != 1 or data.find(b'"toolDenialKind"', at) >= 0 or data.find(b'"toolUseResult":"User rejected', at) >= 0:
        return None
    call = CALL_ID.search(data, 0, at)
    if not call:
        return None
    record.blocks = (Result(call[1].decode("utf-8", "replace"), data.find(b'"is_error":true', head.end(), at) >= 0, record),)
    return record


class Pin(NamedTuple):
    """A last-prompt record: the leaf that the client noted, and how many chain records stand before it in the file."""

    leaf: str
    explicit: bool
    after: int


class Transcript:
    """A session's file, read once: its chain records in file order, its titles and pins, and how much was damaged."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        self.path, self.file = path, file
        self.id = os.path.splitext(os.path.basename(path))[0]
        self.records: list[Record] = []
        self.loose: list[Record] = []  # chain kinds without a uuid: they have a place in the file but no link
        self.titles: dict[str, str] = {}
        self.pin: Optional[Pin] = None
        self.damaged = 0
        self.size = 0

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of one line, fewer where the file has shrunk."""
        try:
            self.file.seek(offset)
            return self.file.read(size)
        except (OSError, ValueError):
            return b""

    def take_line(self, offset: int, data: bytes, whole: bool) -> None:
        """Add what one line holds; `whole` reads it all even where head and tail would do."""
        if not whole:
            if len(data) > EAGER_BYTES and (record := recognise(self, offset, data)):
                self.add(record)
                return
            if kind_of_side_record(data):
                return
        objects, damaged = parse_line(data)
        if damaged and not objects:  # only its inside is damaged: its head and tail still link the chain
            if len(data) > EAGER_BYTES and (record := recognise(self, offset, data)):
                self.add(record)
                return
            if kind_of_side_record(data):
                return
        self.damaged += damaged
        for fields in objects:
            self.take_object(offset, len(data), fields)

    def take_object(self, offset: int, size: int, fields: dict[str, Any]) -> None:
        """Add one parsed object: a chain record has a uuid, a side record has none."""
        kind = string(fields.get("type"))
        if kind in TITLE_KINDS:
            self.titles[kind] = string(fields.get(TITLE_KINDS[kind]))
        elif kind == "last-prompt" and isinstance(fields.get("leafUuid"), str):
            self.pin = Pin(fields["leafUuid"], fields.get("explicit") is True, len(self.records))
        elif string(fields.get("uuid")) and (kind in CHAIN_KINDS or "parentUuid" in fields):
            self.add(narrow(self, offset, size, fields))
        elif kind in CHAIN_KINDS:
            loose = narrow(self, offset, size, fields)
            loose.line = len(self.records)
            self.loose.append(loose)

    def add(self, record: Record) -> None:
        """Append a chain record. A compaction voids every pin before it (measured)."""
        record.line = len(self.records)
        if record.compaction:
            self.pin = None
        self.records.append(record)


def read_transcript(path: str, whole: bool = False) -> Transcript:
    """Read a transcript once, up to its last complete line. `whole` parses every line (the slow path, for proof).

    The file stays open for `Record.fields`. Raises Refusal where it is no readable file.
    """
    try:
        if not os.path.isfile(path):
            what = "is a directory, not a transcript" if os.path.isdir(path) else "is no regular file" if os.path.exists(path) else "does not exist"
            raise Refusal(f"{path} {what}; give the path of a .jsonl file")
        file = open(path, "rb", buffering=BLOCK_BYTES)
    except (OSError, ValueError) as error:
        raise Refusal(f"cannot read {path}: {getattr(error, 'strerror', None) or error}; check the path and its permissions") from error
    transcript = Transcript(os.fspath(path), file)
    take = transcript.take_line
    try:
        for offset, data in read_lines(file):
            take(offset, data, whole)
            transcript.size = offset + len(data)
    except OSError as error:
        raise Refusal(f"cannot read {path}: {error.strerror}; nothing was changed") from error
    return transcript


# --------------------------------------------------------------------------------------------------------- conversation


class Prompt(NamedTuple):
    """What a person said: the text as typed, and how: "typed", "queued" (while the agent worked), "command" (/x), "shell" (! x)."""

    text: str
    how: str


ENVELOPE = re.compile(
    r"<(local-command-stdout|local-command-stderr|local-command-caveat|bash-stdout|bash-stderr|task-notification|system-reminder|teammate-message"
    r"|cross-session-message|ide_opened_file|ide_selection|user-prompt-submit-hook|session-start-hook)\b[^>]*>.*?</\1>",
    re.S,
)
HARNESS_STARTS = ("Caveat: The messages below", "[Request interrupted by user", "Stop hook feedback:", "[SYSTEM NOTIFICATION")
COMMAND_NAME = re.compile(r"<command-name>\s*(/?[^<]*?)\s*</command-name>")
COMMAND_ARGS = re.compile(r"<command-args>(.*?)</command-args>", re.S)
SHELL_INPUT = re.compile(r"\s*<bash-input>(.*?)</bash-input>", re.S)
SHELL_OUTPUT = re.compile(r"<bash-(stdout|stderr)>(.*?)</bash-\1>", re.S)
LOCAL_COMMANDS = re.compile(  # they never reach the model
    r"/(add-dir|agents|branch|clear|compact|config|context|copy|cost|doctor|effort|exit|export|fast|help|hooks|ide|login|logout|mcp|memory|model"
    r"|output-style|permissions|plugin|quit|release-notes|rename|resume|rewind|status|statusline|tasks|terminal-setup|theme|todos|upgrade|usage|vim)"
)


def strip_envelopes(text: str) -> str:
    """`text` without the harness's envelopes that stand before or after a person's own words."""
    while (envelope := ENVELOPE.match(text.lstrip())) is not None:
        text = text.lstrip()[envelope.end() :]
    return "" if text.startswith(HARNESS_STARTS) else text


def command_line(text: str) -> str:
    """`/x args` of a slash command's record, empty for any other text."""
    name = COMMAND_NAME.search(text) if text.lstrip().startswith(("<command-name>", "<command-message>")) else None
    if not name:
        return ""
    args = COMMAND_ARGS.search(text)
    return f"/{name[1].lstrip('/')} {args[1].strip() if args else ''}".strip()


def prompt_of(record: Record) -> Optional[Prompt]:
    """What the person said in this record, None where nobody did. The one place that knows what a prompt is (format.md 3)."""
    if not (record.kind == "user" or record.queued) or record.sidechain or record.meta or record.summary or record.origin not in ("", "human"):
        return None
    if any(isinstance(block, Result) for block in record.blocks):
        return None
    parts = [strip_envelopes(text) for text in record.texts()]
    text = "\n".join(part for part in parts if part.strip())
    if shell := SHELL_INPUT.match(text):
        return Prompt(f"! {shell[1]}", "shell")
    if command := command_line(text):
        return None if record.local or LOCAL_COMMANDS.fullmatch(command.split()[0]) else Prompt(command, "command")
    pictures = "[image]" if any(isinstance(block, Image) for block in record.blocks) else ""
    said = "\n".join(part for part in (text, "" if "[image]" in text else pictures) if part.strip())
    return Prompt(said, "queued" if record.queued else "typed") if said.strip() else None


def local_command(record: Record) -> str:
    """A slash command that never reached the model (/clear, /model, ...), empty for other records."""
    if record.sidechain or record.kind not in ("user", "system") or prompt_of(record):
        return ""
    return command_line("".join(record.texts()))


def unescaped(text: str) -> str:
    """Shell output as it was: the client stores it XML-escaped once."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&#39;", "'").replace("&amp;", "&")


class JoinedCall(NamedTuple):
    """A call with the record it stands in, and its result, None where it never came back."""

    call: Call
    record: Record
    result: Optional[Result]

    @property
    def denied(self) -> bool:
        """Whether the person refused it."""
        return self.result is not None and self.result.record.denial == "user-rejected"

    @property
    def failed(self) -> bool:
        """Whether it gave an error or was not let through."""
        return self.result is not None and (self.result.is_error or bool(self.result.record.denial))


class Exchange:
    """A prompt and what followed until the next one. `n` counts the person's prompts from 1; 0 is what came before any."""

    __slots__ = ("n", "prompt", "record", "live", "replies", "calls", "notices", "shell_output", "interrupted", "errors", "last")

    def __init__(self, n: int, prompt: Prompt, record: Record, live: bool) -> None:
        self.n, self.prompt, self.record, self.live = n, prompt, record, live
        self.replies: list[Text] = []
        self.calls: list[JoinedCall] = []
        self.notices: list[str] = []
        self.shell_output = ""
        self.interrupted = False
        self.errors = 0
        self.last = record


class Conversation:
    """A transcript's records sorted by what became of them.

    live       what the client sends after --resume, in that order
    earlier    what a compaction took away
    abandoned  main-chain records on no path to the leaf: rewound, cancelled, or another client's branch
    happened   earlier and live together, each record once, in the order it happened; `exchanges` is cut from it
    """

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.live: list[Record] = []
        self.earlier: list[Record] = []
        self.happened: list[Record] = []
        self.abandoned: list[Record] = []
        self.exchanges: list[Exchange] = []
        self.summaries: list[Record] = []
        self.commands: list[str] = []
        self.compactions = 0
        self.links = Links([])


BRIDGE_SECONDS = 5  # the client bridges a missing parent to a record at most this much older (measured: 5 s yes, 6 s no)


def has_turn(path: list[Record]) -> bool:
    """Whether a person or the agent speaks on this path."""
    return any(record.kind in ("user", "assistant") for record in path)


def kept_prefix(boundary: Record) -> bool:
    """Whether a compaction kept what stands before it and took what follows: the anchor is the boundary itself."""
    kept, anchor, segment = boundary.compaction or Compaction(None, "", None)
    return boundary.uuid in (anchor if kept is not None else "", segment[1] if segment else "")


class Links:
    """All records of a transcript by uuid. Of a uuid that stands in the file more than once the last copy counts, links and
    content, in the place of the first (measured)."""

    def __init__(self, records: list[Record]) -> None:
        first_line: dict[str, int] = {}
        for record in records:
            first_line.setdefault(record.uuid, record.line)
        self.last_line = {record.uuid: record.line for record in records}
        self.by_uuid = {record.uuid: record for record in records}
        for uuid, record in self.by_uuid.items():
            record.line = first_line[uuid]
        self.main = sorted((record for record in self.by_uuid.values() if not record.sidechain), key=lambda record: record.line)
        self.boundaries = [record for record in self.main if record.compaction and self.has_summary(record)]

    def has_summary(self, boundary: Record) -> bool:
        """Whether a summary belongs to a boundary; one without is no compaction."""
        return next((record.summary for record in self.main if record.line > boundary.line and (record.summary or record.compaction)), False)


class Chain:
    """The links between main-chain records as they are before line `limit` of the file: parents, bridges over gaps, and
    what the last compaction re-parented and took away (measured on the client)."""

    def __init__(self, links: Links, limit: int) -> None:
        self.links, self.last_line = links, links.last_line
        self.boundaries = [boundary for boundary in links.boundaries if boundary.line < limit]
        self.boundary = self.boundaries[-1] if self.boundaries else None
        self.main = [record for record in links.main if record.line < limit]
        self.by_uuid = {record.uuid: record for record in self.main}
        self.moved: dict[str, str] = {}  # uuid -> parent after the compaction, "" for a root
        self.kept: list[str] = []
        self.cuts = False
        if self.boundary:
            self.compact(self.boundary)
        self.lines = [record.line for record in self.main]
        self.times: list[tuple[float, int]] = []  # (seconds, place in main), made when a bridge is needed

    def compact(self, boundary: Record) -> None:
        """Apply the last boundary: chain what it kept under its anchor, drop what stands before it."""
        kept, anchor, segment = boundary.compaction or Compaction(None, "", None)
        if kept is not None:
            if not all(uuid in self.by_uuid for uuid in kept):
                return  # the client then ignores the metadata as a whole
        elif segment is not None:
            kept, anchor = self.segment(*segment), segment[1]
            if not kept or anchor not in self.by_uuid:
                return
        elif not any(earlier.compaction and (earlier.compaction.kept is not None or earlier.compaction.segment) for earlier in self.boundaries[:-1]):
            return  # metadata was never written in this file: the links alone decide
        else:
            kept = []
        self.kept, self.cuts = kept, True
        staying = set(kept)
        self.main = [record for record in self.main if self.last_line[record.uuid] >= boundary.line or record.uuid in staying]
        self.by_uuid = {record.uuid: record for record in self.main}
        if kept:
            self.moved = {record.uuid: kept[-1] for record in self.main if record.parent == anchor and anchor}
            self.moved.update(zip(kept, [anchor if anchor in self.by_uuid else "", *kept]))

    def segment(self, head: str, anchor: str, tail: str) -> list[str]:
        """Uuids from head to tail along the links as they stand in the file, empty where they do not lead there."""
        path: list[str] = []
        step = self.by_uuid.get(tail)
        while step is not None and step.uuid not in path[-1:] and len(path) <= len(self.main):
            path.append(step.uuid)
            if step.uuid == head:
                return path[::-1] if step.kind != "progress" else []
            step = self.by_uuid.get(step.parent or "")
        return []

    def parent(self, record: Record) -> Optional[Record]:
        """The parent record, None for a root; a missing one is bridged."""
        uuid = self.moved.get(record.uuid, record.parent)
        if not uuid:
            return None if record.logical_parent is None or record in self.boundaries else self.by_uuid.get(record.logical_parent)
        known = self.by_uuid.get(uuid)
        if known:
            return known
        if self.cuts and uuid in self.links.by_uuid and not self.links.by_uuid[uuid].sidechain:  # it was taken away
            return self.by_uuid[self.kept[-1]] if self.kept else None
        return self.bridge(record)

    def bridge(self, record: Record) -> Optional[Record]:
        """Where a missing parent leads: to the latest record at most 5 s older, as in the client; it gives up beyond that.

        We go on to the nearest earlier record of the same session's main chain, whatever its age (our judgment): what
        was said before a gap was said.
        """
        then = seconds(record.timestamp)
        if then is None:
            return self.before(record)
        if not self.times:
            self.times = sorted((when, at) for at, other in enumerate(self.main) if (when := seconds(other.timestamp)) is not None)
        last = bisect.bisect_right(self.times, (then, len(self.main))) - 1
        for when, at in self.times[max(last - 1, 0) : last + 1][::-1]:
            if self.main[at] is not record and then - when <= BRIDGE_SECONDS:
                return self.main[at]
        return self.before(record)

    def beside_progress(self, record: Record, progress: Record) -> Record:
        """Where a link through old hook progress leads: those rows hang beside a call's result, and answers hang on both sides.

        The parent is the newest earlier record below the call that the progress belongs to, so that nothing is lost.
        """
        call, seen = progress, {record.uuid}
        while call.kind == "progress" and call.uuid not in seen and call.parent in self.by_uuid:
            seen.add(call.uuid)
            call = self.by_uuid[call.parent or ""]
        nearest = self.before(record, skip="progress")
        above = nearest
        while above and above is not call and above.uuid not in seen and above.line > call.line:
            seen.add(above.uuid)
            above = self.by_uuid.get(above.parent or "")
        return nearest if nearest and above is call else progress

    def before(self, record: Record, skip: str = "") -> Optional[Record]:
        """The nearest main-chain record of the same session that stands before `record` in the file, not of kind `skip`."""
        for at in range(bisect.bisect_left(self.lines, record.line) - 1, -1, -1):
            if self.main[at].session == record.session and self.main[at].kind != skip:
                return self.main[at]
        return None

    def walk(self, leaf: Record, lenient: bool = False) -> list[Record]:
        """From the root to `leaf`. In a cycle the file's order is the best there is.

        `lenient` also takes the answers that hang beside old hook progress: they happened, though the client does not send them.
        """
        path: list[Record] = []
        seen: set[str] = set()
        step: Optional[Record] = leaf
        while step is not None:
            if step.uuid in seen:
                return self.main
            seen.add(step.uuid)
            path.append(step)
            above = self.parent(step)
            step = self.beside_progress(step, above) if lenient and above and above.kind == "progress" else above
        return path[::-1]

    def leaf(self, pin: Optional[Pin]) -> Optional[Record]:
        """The record that a resume continues from: the last line's, unless a pin names another branch (measured).

        A record with no turn at or above it is none. A pin on another branch (beyond a gap is another, too) is taken
        exactly; one on the leaf's own has an effect only if it is explicit and nothing was written after it. None in an
        empty conversation.
        """
        candidates = (record for record in sorted(self.main, key=lambda record: -self.last_line[record.uuid]) if record.kind != "progress")
        path: list[Record] = []
        last = next((record for record in candidates if has_turn(path := self.walk(record))), None)
        pinned = self.by_uuid.get(pin.leaf) if pin else None
        if last is None or pin is None or pinned is None or pinned.kind == "progress":
            return last
        unbridged = next((at for at in range(len(path) - 1, 0, -1) if self.moved.get(path[at].uuid, path[at].parent) != path[at - 1].uuid), 0)
        own = path[unbridged:] if pin.explicit else self.with_parallels(path[unbridged:])
        if any(record.uuid == pinned.uuid for record in own):
            return pinned if pin.explicit and self.last_line[last.uuid] < pin.after else last
        return pinned if has_turn(self.walk(pinned)) else last

    def history(self, leaf: Record) -> list[Record]:
        """What led to `leaf`, across compactions, each record once, in the order it happened."""
        path = self.walk(leaf, lenient=True)
        boundary = self.boundary
        if boundary is None or not (self.cuts or path[0] is boundary):
            return self.with_parallels(path)
        older = Chain(self.links, boundary.line)
        before = older.compacted_leaf(boundary)
        happened = older.history(before) if before else []
        known = {record.uuid for record in happened}
        return happened + [record for record in self.with_parallels(path) if record.uuid not in known]

    def compacted_leaf(self, boundary: Record) -> Optional[Record]:
        """The last record that a later compaction took away: its logical parent, unless that is only an old row written again."""
        named = self.by_uuid.get(boundary.logical_parent or "")
        since = self.boundary.line if self.boundary else -1
        latest = next((record for record in reversed(self.main) if record.line < boundary.line and record.session == boundary.session), None)
        if named and latest and kept_prefix(boundary) and any(record is named for record in self.walk(latest)):
            return latest  # "summarize from here" names the end of what it kept, and what it took away follows
        if named and (named.line > since or self.last_line[named.uuid] < since):
            return named
        return latest

    def with_parallels(self, path: list[Record]) -> list[Record]:
        """`path` and what hangs beside it, in the order the client sends it (measured).

        For each answer on the path: its rows (those on the path in its order, the others set in by their place in the
        file), the results of its calls in file order, then attachments that hang there beside the path and lead nowhere, such as queued prompts.
        """
        on_path = {record.uuid: at for at, record in enumerate(path)}
        rows: dict[str, list[Record]] = {}
        results: dict[str, list[Record]] = {}
        beside: dict[str, list[Record]] = {}
        for record in self.main:
            if record.kind == "assistant" and record.message_id:
                rows.setdefault(record.message_id, []).append(record)
            elif record.kind == "user":
                for result in record.results():
                    results.setdefault(result.call_id, []).append(record)
            if record.uuid not in on_path and record.parent:
                beside.setdefault(record.parent, []).append(record)
        found: list[Record] = []
        placed: set[str] = set()
        for record in path:
            if record.uuid in placed:
                continue
            group = [record]
            if record.kind == "assistant" and record.message_id:
                group = in_order(rows[record.message_id], on_path)
            answers = [result for row in group for call in row.calls() for result in results.get(call.id, ())] if record.kind == "assistant" else []
            group = [*group, *sorted(answers, key=lambda result: result.line)]
            if beside and record.kind == "assistant":
                group += [loose for member in group for loose in self.loose_ends(member, beside)]
            for item in group:
                if item.uuid not in placed:
                    placed.add(item.uuid)
                    found.append(item)
        return found

    def loose_ends(self, record: Record, beside: dict[str, list[Record]]) -> list[Record]:
        """Attachments and system records below `record` that no user or assistant record follows."""
        found: list[Record] = []
        seen = {record.uuid}
        for child in beside.get(record.uuid, ()):
            branch, ends = [child], child.kind in ("attachment", "system")
            for step in branch if ends else ():
                below = [other for other in beside.get(step.uuid, ()) if other.uuid not in seen]
                seen.update(other.uuid for other in below)
                ends = ends and all(other.kind in ("attachment", "system") for other in below)
                branch += below
            found += branch if ends else ()
        return found


def in_order(rows: list[Record], on_path: dict[str, int]) -> list[Record]:
    """Rows of one answer, given in file order: those on the path in its order, the others set in before the next later row."""
    own = sorted((row for row in rows if row.uuid in on_path), key=lambda row: on_path[row.uuid])
    others = [row for row in rows if row.uuid not in on_path]
    found: list[Record] = []
    for row in own:
        found += [other for other in others if other.line < row.line]
        others = [other for other in others if other.line > row.line]
        found.append(row)
    return found + others


def read_conversation(transcript: Transcript) -> Conversation:
    """Sort a transcript's records into live, earlier and abandoned, and cut them into exchanges."""
    conversation = Conversation(transcript)
    conversation.links = Links(transcript.records)
    chain = Chain(conversation.links, len(transcript.records))
    leaf = chain.leaf(transcript.pin)
    if leaf is None:
        return conversation
    path = chain.walk(leaf)
    conversation.live = chain.with_parallels(path)
    live = {record.uuid for record in conversation.live}
    plain = chain.boundary is None and not any(record.kind == "progress" for record in path)
    happened = conversation.live if plain else chain.history(leaf)
    known = {record.uuid for record in happened}
    conversation.happened = [*happened, *(record for record in conversation.live if record.uuid not in known)]
    conversation.earlier = [record for record in happened if record.uuid not in live]
    conversation.abandoned = [record for record in chain.links.main if record.uuid not in known and record.uuid not in live]
    conversation.compactions = sum(boundary.uuid in known for boundary in chain.boundaries)
    cut_into_exchanges(conversation, live)
    return conversation


def live_records(transcript: Transcript) -> list[Record]:
    """What the client would send after --resume, and nothing else of the conversation."""
    chain = Chain(Links(transcript.records), len(transcript.records))
    leaf = chain.leaf(transcript.pin)
    return chain.with_parallels(chain.walk(leaf)) if leaf else []


def live_at(conversation: Conversation, leaf: Record, limit: int) -> list[Record]:
    """What the client would have sent when `leaf` was the last word and the file ended before its line `limit`."""
    chain = Chain(conversation.links, limit)
    return chain.with_parallels(chain.walk(leaf))


def cut_into_exchanges(conversation: Conversation, live: set[str]) -> None:
    """Fill in the exchanges: a new one at each prompt, calls joined with their results by id."""
    records = conversation.happened
    results = {result.call_id: result for record in records for result in record.results()}
    loose = [record for record in conversation.transcript.loose if prompt_of(record)]
    opened: Optional[Exchange] = None
    for record in merged(records, loose):
        prompt = prompt_of(record)
        if prompt or opened is None:
            if not prompt and record.kind != "assistant":
                note_harness_record(conversation, opened, record)
                continue
            number_of = (opened.n if opened else 0) + bool(prompt)
            lives = record.uuid in live if record.uuid else bool(opened and opened.live)
            opened = Exchange(number_of, prompt or Prompt("", "none"), record, lives)
            conversation.exchanges.append(opened)
        if record.kind == "assistant":
            add_answer(opened, record, results)
        elif not prompt:
            note_harness_record(conversation, opened, record)


def merged(records: list[Record], loose: list[Record]) -> Iterator[Record]:
    """`records` with those that have no link set in by their place in the file."""
    waiting = list(loose)
    for record in records:
        while waiting and waiting[0].line <= record.line:
            yield waiting.pop(0)
        yield record
    yield from waiting


def add_answer(exchange: Exchange, record: Record, results: dict[str, Result]) -> None:
    """Add one row of an answer to its exchange; what the harness says in the agent's role counts as an error only."""
    if is_synthetic(record):
        exchange.errors += record.api_error
        return
    exchange.replies += [Text(text) for text in record.texts() if text.strip()]
    exchange.calls += [JoinedCall(call, record, results.get(call.id)) for call in record.calls()]
    exchange.last = record


def is_synthetic(record: Record) -> bool:
    """Whether the harness speaks in the agent's role: an API error, "No response requested."."""
    return record.api_error or record.model == "<synthetic>"


def note_harness_record(conversation: Conversation, exchange: Optional[Exchange], record: Record) -> None:
    """Keep what matters of a record that is neither prompt nor answer: summaries, notices, interruptions, shell output."""
    if record.summary:
        conversation.summaries.append(record)
        return
    if command := local_command(record):
        conversation.commands.append(command)
    text = "\n".join(record.texts())
    if exchange is None or not text:
        return
    if text.startswith("[Request interrupted by user"):
        exchange.interrupted = True
    elif "<task-notification>" in text and not record.meta:
        exchange.notices.append(text)
    elif text.startswith("<bash-std"):
        exchange.shell_output = unescaped("\n".join(part for _, part in SHELL_OUTPUT.findall(text) if part))


# --------------------------------------------------------------------------------------------------------------- report


ANSI = re.compile("(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b[@-Z\\\\-_]")
UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
XML_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("\r"): "&#13;"}
ATTRIBUTE_ESCAPES = {**XML_ESCAPES, ord('"'): "&quot;", ord("\n"): "&#10;", ord("\t"): "&#9;"}
SECRET_HINTS = (
    "key",
    "://",
    "authorization",
    "sk-",
    "sk_",
    "pk-",
    "pk_",
    "rk-",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "pat_",
    "pat-",
    "xox",
    "npm_",
    "pypi-",
    "aiza",
    "ya29",
    "hf_",
    "akia",
    "asia",
    "eyj",
    "secret",
    "token",
    "passw",
    "credential",
)
SECRETS = (  # (kind, pattern); where a pattern has a group "keep", that much of the text stays. Each needs one of the hints
    ("private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S)),
    (
        "authorization",
        re.compile(r"(?P<keep>\bAuthorization[\"']?\s*[:=]\s*[\"']?)(?!\[masked)(?:(?:Bearer|Basic|Token|Digest)\s+)?[^\s\"',;]{6,}", re.I),
    ),
    ("password in URL", re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,100}:)[^\s/@]{1,200}(?=@)", re.I)),
    ("api key", re.compile(r"\b(?:sk|pk|rk)[-_](?:ant-|live_|test_|proj-)?[A-Za-z0-9_-]{20,}")),
    (
        "token",
        re.compile(
            r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}|AIza[\w-]{30,}|ya29\.[\w.-]{20,}|hf_[A-Za-z0-9]{30,})"
        ),
    ),
    ("access key id", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("web token", re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.?[\w-]*")),
    (
        "secret",
        re.compile(
            r"(?P<keep>(?:secret|token|passwd|password|api_?key|access_?key|private_?key|_key|credential)s?[\"']?\s*[=:]\s*[\"']?)"
            r"(?!\[masked)(?=[^\s\"',;&]{0,200}[0-9])[^\s\"',;&]{12,}",
            re.I,
        ),
    ),
    ("secret", re.compile(r"(?P<keep>(?:SECRET|TOKEN|PASSWORD|PASSWD)[A-Z0-9_]{0,40}=[\"']?)(?!\[masked)[^\s\"',;&]{4,}")),
)


def mask(text: str) -> str:
    """`text` with credentials replaced by `[masked: kind]`; hashes, UUIDs and prose stay."""
    lowered = text.lower()
    if not any(hint in lowered for hint in SECRET_HINTS):
        return text
    for kind, pattern in SECRETS:
        text = pattern.sub(lambda found, kind=kind: f"{found.groupdict().get('keep') or ''}[masked: {kind}]", text)  # type: ignore[misc]
    return text


def clean(text: str) -> str:
    """`text` without colour codes, and with everything XML or a terminal cannot take replaced by U+FFFD."""
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text or "\x9b" in text:
        text = ANSI.sub("", text)
    text = UNFIT.sub("\ufffd", text)
    return text if text.isascii() else "".join("\ufffd" if ord(c) & 0xFFFE == 0xFFFE else c for c in text) if max(text) > "\uffff" else text


BOTH_ENDS = 60  # units of text, the mark aside, from which head and tail are both kept


def cut(text: str, limit: int, hint: str = "") -> str:
    """`text` in at most `limit` UTF-16 units, its head and tail kept and the number of characters left out said between.

    `hint` follows in the mark: how to see the whole.
    """
    if len(text) <= limit // 2 or utf16_length(text) <= limit:
        return text
    mark = f" [… {len(text):,} characters, cut{hint} …] "
    room = limit - utf16_length(mark)
    if room < BOTH_ENDS:  # both ends would say less than the head alone
        return within(text, max(limit - 1, 0)) + "…"
    head = within(text, room * 2 // 3)
    tail = within(text[-(room - room * 2 // 3) :][::-1], room - room * 2 // 3)[::-1]
    return f"{head}{mark}{tail}" if (left := len(text) - len(head) - len(tail)) <= 0 else f"{head}{mark.replace(f'{len(text):,}', f'{left:,}')}{tail}"


def within(text: str, units: int) -> str:
    """The longest head of `text` that has at most `units` UTF-16 units."""
    head = text[:units]
    return head if head.isascii() else head.encode("utf-16-le", "surrogatepass")[: units * 2].decode("utf-16-le", "ignore")


def shortened(text: str, limit: int) -> str:
    """The head of `text` on one line, in at most `limit` UTF-16 units."""
    line = " ".join(text[: limit * 20].split())
    return line if utf16_length(line) <= limit else within(line, limit - 1).rstrip() + "…"


class Quoter:
    """Makes text fit for the report: masked (unless told not to) before it is cut, cleaned, cut, escaped. The only way in."""

    def __init__(self, show_secrets: bool = False) -> None:
        self.show_secrets = show_secrets

    def plain(self, text: str, limit: int = MASK_WINDOW) -> str:
        """`text` cleaned, masked and cut, not yet escaped."""
        if len(text) > MASK_WINDOW:  # the window is far wider than any cut, so no secret is parted by it
            text = cut(text, MASK_WINDOW)
        text = clean(text)
        return cut(text if self.show_secrets else mask(text), limit)

    def text(self, text: str, limit: int = MASK_WINDOW) -> str:
        """`text` as the content of an element."""
        return self.plain(text, limit).translate(XML_ESCAPES)

    def line(self, text: str, limit: int) -> str:
        """`text` as content on one line."""
        return cut(" ".join(self.plain(text).split()), limit).translate(XML_ESCAPES)

    def attributes(self, given: dict[str, object]) -> str:
        """` name="value"` for each that is not None or empty; values are cut at 300."""
        return "".join(
            f' {name}="{self.plain(str(value), 300).translate(ATTRIBUTE_ESCAPES)}"' for name, value in given.items() if value not in (None, "")
        )


def element(name: str, attributes: str, content: str) -> str:
    """An element whose attributes and content are escaped already."""
    return f"<{name}{attributes}>{content}</{name}>" if content else f"<{name}{attributes}/>"


class Item(NamedTuple):
    """One entry of a section. `render(cap)` gives its XML with its texts cut at `cap`; the lower `rank`, the longer it stays.

    An item of rank below 0 is shown whatever lies between, cut as far as it takes.
    """

    rank: float
    render: Callable[[int], str]


class Section:
    """A part of a report. `items` stand in the order they are shown; `caps` says where their texts are cut in UTF-16
    units: at the least, in brief (what every section gets before any gets more), and at the most.

    `weight` is its claim on the room where there is not enough for all; `total` is how many entries there are to show.
    """

    __slots__ = ("name", "attributes", "items", "weight", "caps", "brief", "total", "rendered")

    def __init__(self, name: str, attributes: str, items: list[Item], weight: float, caps: tuple[int, int, int], total: int) -> None:
        self.name, self.attributes, self.items, self.weight, self.total = name, attributes, items, weight, total
        floor, self.brief, ceiling = caps[0], caps[1], max(caps)
        self.caps = [ceiling]
        while self.caps[-1] > floor:
            self.caps.append(max(floor, self.caps[-1] * 7 // 10))
        self.rendered: dict[int, list[str]] = {}

    def pieces(self, cap: int) -> list[str]:
        """All items with their texts cut at `cap`; asked for again and again while the room is shared out."""
        if cap not in self.rendered:
            self.rendered[cap] = [item.render(cap) for item in self.items]
        return self.rendered[cap]

    @property
    def wrapper(self) -> int:
        """Units that the section's own tags take."""
        return len(self.name) * 2 + len("<></>\n") + utf16_length(self.attributes)

    @property
    def needed(self) -> list[int]:
        """Places of the items that are shown whatever lies between."""
        return [at for at, item in enumerate(self.items) if item.rank < 0]

    def needed_pieces(self, cap: int) -> list[str]:
        """Those items with their texts cut at `cap`."""
        return [self.items[at].render(cap) for at in self.needed]

    def least(self) -> int:
        """Units that it takes at least, 0 where it can be left out."""
        return self.wrapper + sum(map(utf16_length, self.needed_pieces(SMALLEST_CAP))) if self.needed else 0

    def in_brief(self) -> int:
        """Units of all its items with their texts cut at `brief`."""
        return self.wrapper + sum(map(utf16_length, self.pieces(self.brief)))


class Fitted(NamedTuple):
    """A section as it was laid out: its XML and how many entries it shows."""

    section: Section
    xml: str
    shown: int


SMALLEST_CAP = 24  # a text cut shorter says nothing


def fit(section: Section, room: int) -> Fitted:
    """Lay out a section in `room` units: all items with texts as long as possible; at the floor the last in rank go first."""
    room -= section.wrapper
    cap = first_that_fits(section.caps, room, section.pieces)
    pieces = dict(enumerate(section.pieces(cap)))
    kept: dict[int, str] = {}
    if section.needed and sum(map(utf16_length, pieces.values())) > room:  # these share what there is, cut alike
        smaller = first_that_fits([cap, cap * 2 // 3, cap // 2, cap // 3, cap // 4, SMALLEST_CAP], room, section.needed_pieces)
        pieces.update(zip(section.needed, section.needed_pieces(smaller)))
    for at in sorted(pieces, key=lambda at: section.items[at].rank):
        if utf16_length(pieces[at]) <= room:
            kept[at] = pieces[at]
            room -= utf16_length(pieces[at])
    if not kept:
        return Fitted(section, "", 0)
    return Fitted(section, element(section.name, section.attributes, "".join(kept[at] for at in sorted(kept))) + "\n", len(kept))


def first_that_fits(caps: list[int], room: int, pieces: Callable[[int], list[str]]) -> int:
    """The first cap at which all pieces fit in `room`, else the last (lengths fall with the cap, so it is searched by halves)."""
    low, high = 0, len(caps) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if sum(map(utf16_length, pieces(caps[middle]))) <= room else (middle + 1, high)
    return caps[low]


def share_out(room: int, demands: list[int], weights: list[float]) -> list[int]:
    """Split `room` by weight; who needs less than its share leaves the rest to the others."""
    granted, wanting = [0] * len(demands), set(range(len(demands)))
    while wanting and room > 0:
        unit = room / sum(weights[at] for at in wanting)
        modest = {at for at in wanting if demands[at] <= unit * weights[at]}
        for at in modest or wanting:
            granted[at] = demands[at] if modest else int(unit * weights[at])
        room -= sum(granted[at] for at in modest)
        wanting = wanting - modest if modest else set()
    return granted


def lay_out(sections: list[Section], room: int) -> list[Fitted]:
    """Lay out the sections in `room` units together: to each what it takes at least, then room for all its entries in brief,
    then for longer texts, always by weight; what the pieces leave over goes to the weightiest first."""
    full = [fit(section, 1 << 40) for section in sections]
    demands = [utf16_length(fitted.xml) for fitted in full]
    if sum(demands) <= room:
        return full
    release(sections, room)
    granted = [section.least() for section in sections]
    weights = [section.weight for section in sections]
    for wanted in ([section.in_brief() for section in sections], demands):  # first every entry in brief, then longer texts
        shares = share_out(room - sum(granted), [max(want - got, 0) for want, got in zip(wanted, granted)], weights)
        granted = [got + share for got, share in zip(granted, shares)]
    fitted: list[Fitted] = [full[at] if demands[at] <= granted[at] else fit(section, granted[at]) for at, section in enumerate(sections)]
    spare = room - sum(utf16_length(one.xml) for one in fitted)
    for at in sorted(range(len(sections)), key=lambda at: -sections[at].weight):
        section = sections[at]
        used = utf16_length(fitted[at].xml)
        if used < demands[at] and spare > SMALLEST_CAP:
            better = full[at] if demands[at] <= used + spare else fit(section, used + spare)
            if utf16_length(better.xml) <= used + spare:
                spare += used - utf16_length(better.xml)
                fitted[at] = better
    return fitted


def release(sections: list[Section], room: int) -> None:
    """Where not even the needed items fit in brief, let those of the highest rank go, one by one: the bound rules over all."""
    while sum(section.least() for section in sections) > room:
        section, at = max(
            ((section, at) for section in sections for at in section.needed),
            key=lambda place: place[0].items[place[1]].rank,
        )
        section.items[at] = section.items[at]._replace(rank=0)


def evenly(count: int) -> list[float]:
    """Ranks 0..1 for `count` places such that any number of the lowest ones lies evenly spread (bit-reversed order)."""
    width = max(count - 1, 1).bit_length()
    return [int(f"{at:0{width}b}"[::-1], 2) / (1 << width) for at in range(count)]


def seconds(timestamp: str) -> Optional[float]:
    """A record's ISO time as seconds since 1970, None where it is none."""
    try:
        when = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
        return (when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def ago(then: Optional[float], now: float) -> str:
    """How long ago in words, such as "3 h ago"; empty where the time is not known."""
    if then is None:
        return ""
    past = max(now - then, 0)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if past >= size:
            return f"{int(past // size)} {unit} ago"
    return "just now"


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, and ends with status 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {clean(message)}; see --help\n")


def build_base_parser(prog: str, description: str, epilog: str, default_bound: int) -> Parser:
    """The options that all skills share: which session, how much, masking, where the arguments come from."""
    parser = Parser(prog=prog, description=description, epilog=epilog, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_argument_group("which session (default: the latest of this project)")
    which.add_argument("ref", nargs="*", metavar="REF", help="a path, an id, text with an id in it, an id prefix of 4 or more, 'this', or a title")
    which.add_argument("--id", metavar="ID", help="this session id")
    which.add_argument("--title", metavar="TITLE", help="the session with this title")
    which.add_argument("--file", metavar="PATH", help="this transcript file")
    which.add_argument("--latest", action="store_true", help="the latest session of the project (the one just cleared comes first)")
    which.add_argument("--exclude", metavar="ID", action="append", default=[], help="never take this session as the latest; can be repeated")
    which.add_argument("--project", metavar="DIR", default="", help="the project's directory (default: the current one)")
    which.add_argument("--all-projects", action="store_true", help="look in all projects")
    parser.add_argument(
        "--max-chars",
        metavar="N",
        type=int,
        default=default_bound,
        help=f"bound of the whole output in UTF-16 units, at least {SMALLEST_BOUND:,} (default {default_bound:,})",
    )
    parser.add_argument("--show-secrets", action="store_true", help="do not mask credentials")
    parser.add_argument("--args-stdin", action="store_true", help="read options and words from standard input, as the slash command does")
    parser.add_argument("--version", action="version", version=f"{prog} {VERSION}")
    return parser


def parse_arguments(parser: Parser, argv: list[str]) -> argparse.Namespace:
    """Parsed arguments. With --args-stdin the text on standard input is added: leading options, then free text, kept as it is."""
    if "--args-stdin" in argv:
        argv = [word for word in argv if word != "--args-stdin"] + split_arguments(parser, sys.stdin.buffer.read().decode("utf-8", "replace"))
        arguments = parser.parse_args(argv)
        arguments.args_stdin = True
    else:
        arguments = parser.parse_args(argv)
    if arguments.max_chars < SMALLEST_BOUND:
        parser.error(f"--max-chars must be at least {SMALLEST_BOUND}")
    arguments.asked_chars = arguments.max_chars
    if arguments.args_stdin:
        arguments.max_chars = min(arguments.max_chars, CLIENT_LIMIT)
    return arguments


LEADING_OPTION = re.compile(r"\s*(--[A-Za-z][\w-]*)(?:=(\"[^\"]*\"|'[^']*'|\S*))?(?=\s|$)")
OPTION_VALUE = re.compile(r"\s+(\"[^\"]*\"|'[^']*'|\S+)")


def split_arguments(parser: Parser, text: str) -> list[str]:
    """The words of a slash command's arguments: its leading options with their values, then all the rest as one word."""
    takes_value = {name for action in parser._actions if action.nargs != 0 for name in action.option_strings}
    text = re.sub(r"(?:(?<=\s)|^)\\!", "!", text)  # the client escapes a word's leading ! so that it cannot start a skill's command (measured)
    words: list[str] = []
    while (option := LEADING_OPTION.match(text)) is not None:
        words.append(option[1])
        text, value = text[option.end() :], option[2]
        if value is None and option[1] in takes_value and (following := OPTION_VALUE.match(text)):
            value, text = following[1], text[following.end() :]
        if value is not None:
            words[-1] += "=" + (value[1:-1] if value[:1] in "\"'" and value[:1] == value[-1:] and len(value) > 1 else value)
    text = text.strip()
    return [*words, "--", text] if text else words


def serve(parser: Parser, job: Callable[[argparse.Namespace], str], argv: Optional[list[str]]) -> int:
    """Run a skill's job and print its report. Returns the exit status: 0 done, 1 refused in one line."""
    gc.disable()  # one short run that makes few cycles: collecting costs a tenth of it and frees nothing
    try:
        report = job(parse_arguments(parser, sys.argv[1:] if argv is None else argv))
    except Refusal as refusal:
        print(f"{parser.prog}: {cut(' '.join(clean(str(refusal)).split()), 1500)}".encode("ascii", "backslashreplace").decode(), file=sys.stderr)
        return 1
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(report.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # the reader has seen enough; the interpreter must not complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"{parser.prog}: cannot write the report to standard output: {error.strerror}; nothing else was changed", file=sys.stderr)
        return 1
    return 0


# --------------------------------------------------------------------------------------------------- finding a session


class Card(NamedTuple):
    """A session as a list shows it, read from the head and the tail of its file.

    `time` is that of the last conversation record in seconds (0: none); `prompt` the first thing the person said;
    `directories` the cwds seen; `headless` whether `claude -p` or an SDK wrote it; `sidechain` whether a sub-agent did.
    """

    path: str
    id: str
    time: float
    prompt: str
    directories: tuple[str, ...]
    headless: bool
    sidechain: bool
    branch: str
    copied: bool  # the last word is another session's: a copy that nobody has used yet


def read_card(path: str) -> Optional[Card]:
    """The card of a transcript, None where the file cannot be read."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            holder = Transcript(path, file)
            for offset, data in read_lines(file):
                holder.take_line(offset, data, False)
                if offset > EDGE_BYTES and first_words([prompt for prompt in map(prompt_of, holder.records) if prompt], []):
                    break
            head = list(holder.records)
            tail, width = head, EDGE_BYTES
            while file.tell() < size and (tail is head or not any(is_conversation(record) for record in tail) and width < 2 * size):
                width *= 4
                file.seek(max(0, size - width))
                if size > width:
                    file.readline()
                ending = Transcript(path, file)
                for offset, data in read_lines(file):
                    ending.take_line(offset, data, False)
                tail = ending.records
    except OSError:
        return None
    spoken = [prompt for prompt in map(prompt_of, head) if prompt]
    times = [seconds(record.timestamp) or 0.0 for record in tail if is_conversation(record)]
    first = first_words(spoken, [command for command in map(local_command, head) if command])
    conversing = bool(spoken) or any(record.kind == "assistant" for record in (*head, *tail))
    return Card(
        path,
        holder.id,
        times[-1] if times and conversing else 0.0,
        first,
        tuple(dict.fromkeys(record.cwd for record in (*head, *tail) if record.cwd)),
        any(record.entrypoint.startswith("sdk") for record in tail[-20:]),
        bool(head) and all(record.sidechain for record in (*head, *tail)),
        next((record.branch for record in reversed(tail) if record.branch), ""),
        next((bool(record.forked_from) for record in reversed(tail) if is_conversation(record)), False),
    )


def first_words(prompts: list[Prompt], commands: list[str]) -> str:
    """What names a session without a title: the first prompt that was typed, else the first command."""
    typed = next((prompt.text for prompt in prompts if prompt.how != "command"), "")
    return typed or next((prompt.text for prompt in prompts), "") or next(iter(commands), "")


def is_conversation(record: Record) -> bool:
    """Whether this record is a turn of the conversation, not the harness's bookkeeping."""
    return record.kind in ("user", "assistant") and not record.sidechain and not record.summary


class Titles(NamedTuple):
    """The title rows of a file, the last of each kind; a summary's text only ever serves as a suggestion."""

    custom: str
    auto: str
    agent: str


def read_titles(path: str) -> Titles:
    """The current titles, wherever in the file they stand. Blocks are searched, only title rows are parsed."""
    found = dict.fromkeys(TITLE_KINDS, "")
    try:
        with open(path, "rb", buffering=0) as file:
            rest = b""
            while block := file.read(1 << 20):
                block = rest + block
                end = block.rfind(b"\n") + 1
                note_titles(block[:end] if end else b"", found)
                rest = block[end:]
            note_titles(rest, found)
    except OSError:
        pass
    return Titles(*found.values())


def note_titles(block: bytes, found: dict[str, str]) -> None:
    """Put the title rows of a block of whole lines into `found`."""
    for key in (b"Title", b"agentName"):
        at = block.find(key)
        while at >= 0:
            start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
            if at - start < 200:
                for fields in parse_line(block[start : end if end >= 0 else len(block)]).objects:
                    if (kind := fields.get("type")) in TITLE_KINDS:
                        found[kind] = string(fields.get(TITLE_KINDS[kind]))
            at = block.find(key, at + 1)


def card_title(card: Card, titles: Titles) -> str:
    """The title a session goes by: custom, else automatic, else the agent's, else its first prompt, cut, else its id."""
    return " ".join((titles.custom or titles.auto or titles.agent or shortened(card.prompt, TITLE_CHARS) or card.id).split())


def session_title(conversation: Conversation) -> str:
    """The same for a session that has been read."""
    transcript = conversation.transcript
    said = first_words([exchange.prompt for exchange in conversation.exchanges if exchange.n], conversation.commands)
    titles = Titles(*(transcript.titles.get(kind, "") for kind in TITLE_KINDS))
    return card_title(Card(transcript.path, transcript.id, 0.0, said, (), False, False, "", False), titles)


class Found(NamedTuple):
    """The session that a reference names, the others it might have meant, and what the reader should know of the choice."""

    path: str
    others: list[str]
    note: str


def belongs(card: Card, directory: str) -> bool:
    """Whether a session is this directory's: folder names collide, so a recorded cwd decides.

    In the folder of the directory's own name it may also lie inside (the person went deeper), or not be recorded at all; a
    folder that only shares the long prefix has to prove the very directory.
    """
    same = {os.path.normcase(normalized(path)) for path in (directory, os.path.realpath(directory))}
    seen = {os.path.normcase(normalized(path)) for path in card.directories}
    folder = os.path.basename(os.path.dirname(card.path))
    if folder[FOLDER_UNITS:] and folder not in {folder_name(path) for path in (directory, *same)}:
        return bool(seen & same)
    return not seen or any(path == own or path.startswith(own.rstrip(os.sep) + os.sep) for path in seen for own in same)


def project_cards(directory: str, everywhere: bool) -> list[Card]:
    """Cards of the project's sessions (its own, else its worktrees'), or of all; sub-agents' left out."""
    if everywhere:
        return [card for card in map(read_card, session_files(all_folders())) if card and not card.sidechain]
    for tree in (directory, *worktrees(directory)):
        cards = [card for card in map(read_card, session_files(project_folders(tree))) if card and not card.sidechain and belongs(card, tree)]
        if cards:
            return cards
    return []


CLEAR_SECONDS = (-5.0, 1.0)  # the history's /clear against the new file's own record of it (measured: 1 to 15 ms before)


def cleared_session(own: str, directory: str) -> Optional[str]:
    """Id of the session that /clear ended to begin session `own`, None where it did not begin so or the history does not tell.

    The new file's head says when it was cleared; the prompt history says who was cleared then. Other clients' entries may
    stand between (measured with two clients that both cleared). A session without a file yet has only its place in the history.
    """
    files = {os.path.splitext(os.path.basename(path))[0].lower(): path for path in session_files(all_folders())}
    entries = [entry for entry in prompt_history() if entry.project == directory]
    clears = [entry for entry in entries if entry.text.split()[:1] == ["/clear"] and entry.session != own]
    if own not in files:
        return clear_just_before(own, entries)
    began = begun_by_clear(files[own])
    near = [(abs(entry.time - began), entry.session) for entry in clears if began and CLEAR_SECONDS[0] <= entry.time - began <= CLEAR_SECONDS[1]]
    return min(near)[1] if near else None


def clear_just_before(own: str, entries: list[Typed]) -> Optional[str]:
    """The session whose /clear stands just before the first entry of `own`; clients that were there already may type between.

    A session that is new since then has followed that /clear, or has made it an old one: a client that is only just started
    has no file either, and is not to be given what somebody cleared long ago (measured).
    """
    first = next((at for at, entry in enumerate(entries) if entry.session == own), len(entries))
    cleared = next((at for at in reversed(range(first)) if entries[at].text.split()[:1] == ["/clear"]), None)
    if cleared is None:
        return None
    known = {entry.session for entry in entries[: cleared + 1]}
    return entries[cleared].session if all(entry.session in known for entry in entries[cleared:first]) else None


def begun_by_clear(path: str) -> Optional[float]:
    """When /clear began this session, in seconds, None where something else did."""
    try:
        with open(path, "rb") as file:
            holder = Transcript(path, file)
            for offset, data in read_lines(file):
                holder.take_line(offset, data, False)
                last = holder.records[-1] if holder.records else None
                if last and local_command(last) == "/clear":
                    return seconds(last.timestamp)
                if offset > EDGE_BYTES or (last and (prompt_of(last) or last.kind == "assistant")):
                    return None
    except OSError:
        pass
    return None


def latest_session(directory: str, everywhere: bool, excluded: set[str]) -> Found:
    """The session just cleared where the history knows it, else the newest that a person talked in."""
    own = own_session()
    cards = project_cards(directory, everywhere)
    live = live_clients()
    barred = {name.lower() for name in excluded} | ({own.lower()} if own else set())
    if own and not everywhere:
        cleared = cleared_session(own.lower(), directory)
        for card in cards:
            if card.id.lower() == cleared and card.time and cleared not in barred:
                return found_card(card, [], "the session that /clear ended")
    fit_cards = [card for card in cards if card.time and card.id.lower() not in barred and not (own and card.id.lower() in live)]
    fit_cards = [card for card in fit_cards if not card.copied] or fit_cards  # a copy says nothing new until it is used
    choice = [card for card in fit_cards if not card.headless] or fit_cards
    if not choice:
        where = "any project" if everywhere else directory
        near = describe_neighbours(directory, barred)
        raise Refusal(
            f"no session with a conversation in {where} (looked in {', '.join(project_folders(directory)[:3])}){near}; "
            "name one by id or title, or add --all-projects"
        )
    card = max(choice, key=lambda card: card.time)
    notes = ["open in a live client now"] if card.id.lower() in live else []
    if own and not any(card.id.lower() == own.lower() for card in cards):
        notes.append("the own session has no file yet")
    return found_card(card, [], "; ".join([f"the latest session of {'all projects' if everywhere else 'this project'}", *notes]))


def describe_neighbours(directory: str, barred: set[str]) -> str:
    """Sessions of other directories that share this project's folder, for a refusal."""
    cards = [
        card
        for card in map(read_card, session_files(project_folders(directory)))
        if card and card.time and card.id.lower() not in barred and not belongs(card, directory)
    ]
    if not cards:
        return ""
    return "; sessions of other directories share that folder: " + ", ".join(
        f"{card.id} ({card.directories[0]})" for card in sorted(cards, key=lambda card: -card.time)[:3]
    )


def found_card(card: Card, others: list[Card], note: str) -> Found:
    """A card as the answer."""
    return Found(card.path, [described(other) for other in others[:5]], note)


def described(card: Card) -> str:
    """A session in a few words for a person to choose by: id, title, date."""
    day = datetime.fromtimestamp(card.time, timezone.utc).strftime("%Y-%m-%d %H:%M") if card.time else "no conversation"
    return f'{card.id} "{cut(card_title(card, read_titles(card.path)), 60)}" {day}'


def find_session(arguments: argparse.Namespace, default: str = "latest") -> Found:
    """The session that the command line names. Raises Refusal with the nearest candidates where it names none.

    A reference is tried as a path, an id, text with an id in it, `this`, a prefix, a title, in this order.
    """
    directory = project_directory(arguments.project)
    reference = " ".join(arguments.ref).strip()
    named = [value for value in (arguments.id, arguments.title, arguments.file, arguments.latest or None) if value is not None]
    if len(named) + bool(arguments.ref) > 1:
        raise Refusal("more than one session is named; give one of REF, --id, --title, --file, --latest")
    if arguments.file is not None:
        return found_file(arguments.file)
    if arguments.id is not None:
        given = UUID.search(arguments.id)
        return find_id(given[0].lower()) if given else find_reference(arguments.id, directory, arguments.all_projects)
    if arguments.title is not None:
        return find_title(arguments.title, directory, arguments.all_projects)
    if not arguments.ref and (arguments.latest or default == "latest"):
        return latest_session(directory, arguments.all_projects, set(arguments.exclude))
    return find_reference(reference if arguments.ref else default, directory, arguments.all_projects)


def find_reference(reference: str, directory: str, everywhere: bool) -> Found:
    """What free words name."""
    if not re.search(r"\w", reference):
        raise Refusal(f"no such session: '{reference}' is no name; give a title, an id, a prefix of 4 or more, or a path")
    if reference.endswith(".jsonl") and (os.sep in reference or os.path.isfile(reference)):
        return found_file(os.path.expanduser(reference))
    if identifier := UUID.search(reference):
        return find_id(identifier[0].lower())
    if reference == "this":
        own = own_session()
        if not own:
            raise Refusal("'this' works only inside Claude Code (CLAUDE_CODE_SESSION_ID is not set); name a session by id or title")
        return find_id(own.lower())
    if agent := re.fullmatch(r"(agent-[\w-]+)(?:\.jsonl)?", reference):
        raise Refusal(describe_agent(agent[1]))
    if re.fullmatch(r"[0-9a-fA-F][0-9a-fA-F-]{3,35}", reference) and (found := find_prefix(reference.lower())):
        return found
    return find_title(reference, directory, everywhere)


def found_file(path: str) -> Found:
    """An explicit path; whether it can be read is seen when it is."""
    card = read_card(path) if os.path.isfile(path) else None
    return found_card(card, [], "") if card else Found(path, [], "")


def find_id(identifier: str) -> Found:
    """The transcript with this id. Of copies in several folders the one with the newest conversation counts."""
    paths = [path for path in session_files(all_folders()) if os.path.splitext(os.path.basename(path))[0].lower() == identifier]
    cards = [card for card in map(read_card, paths) if card]
    if not cards:
        raise Refusal(f"no such session: {identifier} (looked in {len(all_folders())} folders of {', '.join(projects_roots())}){newest_hint()}")
    card = max(cards, key=lambda card: card.time)
    if card.sidechain:
        raise Refusal(f"{identifier} is the transcript of a sub-agent, not a session; name the session that started it")
    return found_card(card, [], "")


def find_prefix(prefix: str) -> Optional[Found]:
    """The one session whose id begins so, None where none does. Raises Refusal where several do."""
    paths = [path for path in session_files(all_folders()) if os.path.basename(path).lower().startswith(prefix)]
    cards = [card for card in map(read_card, paths) if card and not card.sidechain]
    if len({card.id.lower() for card in cards}) > 1:
        raise Refusal(f"{prefix} fits {len(cards)} sessions: {', '.join(described(card) for card in cards[:5])}; give more of the id")
    return find_id(cards[0].id.lower()) if cards else None


def find_title(title: str, directory: str, everywhere: bool) -> Found:
    """The session with this title: exact before part, this project before others, then the newest."""
    wanted = " ".join(title.split()).casefold()
    if not wanted:
        raise Refusal("an empty title names no session; give a title, an id, or --latest")
    own = (own_session() or "").lower()  # a title is carried over by /clear, and nobody means the session they are in
    here = [(card, card_title(card, read_titles(card.path))) for card in project_cards(directory, everywhere) if card.time and card.id.lower() != own]
    exact = [card for card, name in here if name.casefold() == wanted]
    elsewhere: list[tuple[Card, str]] = []
    if not exact and not everywhere:
        known = {card.path for card, _ in here}
        elsewhere = [
            (card, card_title(card, read_titles(card.path)))
            for card in project_cards(directory, True)
            if card.path not in known and card.time and card.id.lower() != own
        ]
    for cards, note in (
        (exact, ""),
        ([card for card, name in elsewhere if name.casefold() == wanted], "from another project"),
        ([card for card, name in here if wanted in name.casefold()], "part of the title"),
        ([card for card, name in elsewhere if wanted in name.casefold()], "part of the title, from another project"),
    ):
        if cards:
            newest, *others = sorted(cards, key=lambda card: -card.time)
            return found_card(newest, others, note)
    raise Refusal(
        f"no such session: '{cut(title, 200)}' is neither id nor title "
        f"(looked at {len(here) + len(elsewhere)} sessions in {', '.join(projects_roots())})"
        f"{title_hint(wanted, here + elsewhere)}"
    )


def title_hint(wanted: str, cards: list[tuple[Card, str]]) -> str:
    """The sessions whose titles come nearest, for a refusal."""
    import difflib  # only where nothing was found

    by_name = {name.casefold(): card for card, name in cards}
    near = [card for card, _ in cards if wanted in read_summary(card.path).casefold()][:3]
    near = near or [by_name[name] for name in difflib.get_close_matches(wanted, by_name, 3, 0.5)]
    near = near or [card for card, _ in sorted(cards, key=lambda pair: -pair[0].time)[:3]]
    return "; nearest: " + ", ".join(described(card) for card in near) if near else ""


def read_summary(path: str) -> str:
    """The text of an old client's summary row at the head of a file: no title, but a person may remember it."""
    rows = [row for line in read_small(path).split("\n") if '"summary"' in line[:40] for row in parse_line(line.encode("utf-8", "replace")).objects]
    return next((string(row.get("summary")) for row in rows if row.get("type") == "summary"), "")


def newest_hint() -> str:
    """The newest sessions of this project, for a refusal."""
    cards = sorted((card for card in project_cards(project_directory(""), False) if card.time), key=lambda card: -card.time)
    return "; newest here: " + ", ".join(described(card) for card in cards[:3]) if cards else "; see --help for the ways to name one"


def describe_agent(name: str) -> str:
    """Why a sub-agent's name is refused, and which session it belongs to."""
    for folder in all_folders():
        for session in sorted(os.listdir(folder)):
            if os.path.exists(os.path.join(folder, session, "subagents", f"{name}.jsonl")):
                return f"{name} is a sub-agent of session {session}; name that session"
        path = os.path.join(folder, f"{name}.jsonl")
        if os.path.isfile(path):
            with open(path, "rb") as file:
                parents = {string(fields.get("sessionId")) for _, data in read_lines(file) for fields in parse_line(data).objects}
            return f"{name} is a sub-agent of session {', '.join(sorted(filter(None, parents)))}; name that session"
    return f"no such session: {name} would be a sub-agent's transcript, and there is none of that name in {', '.join(projects_roots())}"
