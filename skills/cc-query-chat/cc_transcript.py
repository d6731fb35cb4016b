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
import errno
import gc
import json
import marshal
import os
import re
import stat
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from io import BytesIO
from operator import attrgetter
from typing import IO, Any, NamedTuple, NoReturn, Optional, TypeVar, Union

VERSION = "0.1.0"

# Patterns that many runs never need are kept as text, which re compiles when it meets them first.
UUID = r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
FOLDER_UNITS = 200  # the client cuts a folder name there and adds a hash of the path
BLOCK_BYTES = 1 << 20  # one read of a transcript, unless a line is longer: a quarter of it or four times as much take as long (measured)
FIRST_BYTES = 1 << 14  # the first read of it, which is all that many need
WHOLE_BYTES = 2 << 20  # of a transcript up to here each line is parsed; of a larger one head and tail of a line, where its shape is known
TAIL_WIDTH = 1 << 14  # of a file's end that is read to list it, at first
EDGE_BYTES = 1 << 16  # of a file's head that is read to list it where only commands stand in it; of a small file at most
TITLE_WITHIN = 200  # a title row is short up to its title: a key that stands farther in a line is no row's own
TITLE_CHARS = 80  # a title made from a first prompt is cut there
MASK_WINDOW = 200_000  # of a longer text only head and tail can be shown, so only they are cleaned and masked
LONGEST_SECRET = 8_000  # a private key of 8,192 bits has 6,400 characters
CLIENT_LIMIT = 29_500  # the client hands the model a 2 KB preview of anything over 30,000 characters
SMALLEST_BOUND = 2_000  # below it not even the first and the last prompts fit with their tags


class Refusal(Exception):
    """The request cannot be met: one line that says what, where, and what to do next. `main` ends with status 1. A job that was stopped
    on its way gives what it has so far as its `report`, which is printed all the same."""

    def __init__(self, message: str, report: str = "") -> None:
        super().__init__(message)
        self.report = report


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
    return os.path.normpath(os.path.join(current_directory(), named if named.isascii() else normalized(named)))


def current_directory() -> str:
    """The directory this runs in; where it is gone, such as a worktree that was removed, the name that the shell still has for it."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.environ.get("PWD") or os.sep


def normalized(text: str) -> str:
    """`text` in Unicode's composed form (NFC)."""
    import unicodedata  # seldom needed, and every import counts in a 40 ms run

    return unicodedata.normalize("NFC", text)


def folded(title: str) -> str:
    """A title as it is compared: without case, and with a letter and its accent as one however they are spelled."""
    return (title if title.isascii() else normalized(title)).casefold()


def projects_roots() -> list[str]:
    """The folders that hold project folders. An empty CLAUDE_CONFIG_DIR makes the client write to ./projects."""
    roots = [os.path.join(config_root(), "projects")]
    if os.environ.get("CLAUDE_CONFIG_DIR") == "":
        roots.append(os.path.join(current_directory(), "projects"))
    return roots


def project_folders(directory: str) -> list[str]:
    """Paths of the folders that may hold sessions of `directory`, the likeliest first; they need not exist."""
    named = os.environ.get("CLAUDE_CODE_PROJECT_DIR_NAME", "")
    if os.environ.get("CLAUDE_CONFIG_DIR") and re.fullmatch(r"[A-Za-z0-9-]+", named):  # only together, and only a plain name
        return [os.path.join(projects_roots()[0], named)]
    spellings = [directory, normalized(directory)]
    if os.name == "nt":  # an editor writes c:, a terminal C:, and the client keeps what it is given
        spellings += [spelling[:1].swapcase() + spelling[1:] for spelling in spellings if spelling[1:2] == ":"]
    names = [folder_name(spelling) for spelling in spellings]
    found = [os.path.join(root, name) for root in projects_roots() for name in names]
    if len(names[0]) > FOLDER_UNITS:  # other clients hash differently: a cwd inside the file has to prove these
        found += [path for path in all_folders() if os.path.basename(path).startswith(names[0][:FOLDER_UNITS])]
    return list(dict.fromkeys(found))


def all_folders() -> list[str]:
    """Paths of all project folders, without links to others of them."""
    paths = [path for root in projects_roots() for name in names_in(root) if os.path.isdir(path := os.path.join(root, name))]
    links = set(filter(os.path.islink, paths))
    real = {os.path.realpath(path) for path in paths if path not in links} if links else set()
    return [path for path in paths if path not in links or os.path.realpath(path) not in real]


def worktrees(directory: str) -> list[str]:
    """Tops of the working trees of the git repository that holds `directory`, its own first, without `directory` itself (no process is run)."""
    top = directory
    while not os.path.exists(os.path.join(top, ".git")):
        top, below = os.path.dirname(top), top
        if top == below:
            return []
    git = os.path.join(top, ".git")
    if os.path.isfile(git):  # "gitdir: PATH"; a linked tree's says where the repository is, a submodule's is one of its own
        git = os.path.join(top, read_small(git).partition("gitdir:")[2].strip())
        git = os.path.normpath(os.path.join(git, read_small(os.path.join(git, "commondir")).strip()))
    found = [top, os.path.dirname(git)] if os.path.basename(git) == ".git" else [top]  # else it is bare
    trees = os.path.join(git, "worktrees")
    for name in names_in(trees):
        if pointer := read_small(os.path.join(trees, name, "gitdir")).strip():  # relative, where git was told so
            found.append(os.path.dirname(os.path.normpath(os.path.join(trees, name, pointer))))
    return [tree for tree in dict.fromkeys(found) if tree and tree != directory]


def names_in(folder: str) -> list[str]:
    """Names of what lies in a folder, none where it cannot be read."""
    with suppress(OSError):
        return sorted(os.listdir(folder))
    return []


def read_small(path: str) -> str:
    """Text of a small file, empty where it cannot be read."""
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read(EDGE_BYTES)
    return ""


def session_files(folders: Iterable[str]) -> Iterator[str]:
    """Paths of the transcripts that lie directly in `folders`; agent-*.jsonl beside them are sub-agents' (old clients)."""
    for folder in folders:
        found: list[str] = []
        with suppress(OSError), os.scandir(folder) as entries:
            named = (entry for entry in entries if entry.name.endswith(".jsonl") and not entry.name.startswith("agent-"))
            # isfile() follows links, and a link in a circle is no error to it; most entries are files and need not be asked
            found = [entry.path for entry in named if entry.is_file(follow_symlinks=False) or os.path.isfile(entry.path)]
        yield from sorted(found)


def own_session() -> str:
    """Id of the session that runs this command, in lower case; empty at a shell."""
    return os.environ.get("CLAUDE_CODE_SESSION_ID", "").lower()


def live_clients() -> dict[str, str]:
    """Session id -> start directory of each client that is open now. The files can be stale after a crash, so the process is asked."""
    folder, found = os.path.join(config_root(), "sessions"), {}
    for name in names_in(folder):
        for state in parse_line(read_small(os.path.join(folder, name)).encode("utf-8", "replace")).objects:
            pid, session = number(state.get("pid")), state.get("sessionId")
            if isinstance(session, str) and is_running(pid, string(state.get("procStart"))):
                found[session.lower()] = string(state.get("cwd"))
    return found


def project_directory(named: str) -> str:
    """Real path of the directory named, else of where the calling client was started (a `cd` of the model is no move), else of the current one."""
    own = own_session()
    started = live_clients().get(own, "") if own and not named else ""
    return os.path.realpath(os.path.join(current_directory(), named or started))


def is_running(pid: int, began: str = "") -> bool:
    """Whether the process with this number runs, and began then where Linux tells: numbers are used again, after a crash above all."""
    if os.name == "nt":  # signal 0 would end it, so the file is believed
        return True
    if not 0 < pid < 1 << 31:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    known = read_small(f"/proc/{pid}/stat").rpartition(")")[2].split()[19:20]
    return not known or not began.isdecimal() or known == [began]


class Typed(NamedTuple):
    """An entry of the prompt history: what a person typed, when (seconds), where, in which session, and what they pasted into it."""

    text: str
    time: float
    project: str
    session: str
    pasted: str = ""


def prompt_history() -> Iterator[Typed]:
    """The prompt history in the order it was typed. It outlives the transcripts."""
    with suppress(OSError), open(os.path.join(config_root(), "history.jsonl"), "rb") as file:
        for _, data in read_lines(file):
            for entry in parse_line(data).objects:
                time, pastes = number(entry.get("timestamp")) / 1000, mapping(entry.get("pastedContents")).values()
                pasted = "\n".join(filter(None, (string(mapping(paste).get("content")) for paste in pastes)))
                yield Typed(string(entry.get("display")), time, string(entry.get("project")), string(entry.get("sessionId")).lower(), pasted)


# -------------------------------------------------------------------------------------------------------------- records


class Parsed(NamedTuple):
    """The JSON objects of one line, and whether some of the line could not be read."""

    objects: list[dict[str, Any]]
    damaged: bool


DECODER = json.JSONDecoder(strict=False)  # raw control characters inside strings are kept, as text
MOST_STUBS = 1_000  # torn pieces of one line that a record is looked for behind: a line nested 600,000 deep took minutes
RECORD_START = r'\{\s*"(?:parentUuid|type)"\s*:'


def read_lines(file: IO[bytes], every: bool = True) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of each line of `file`, which was opened as bytes; split at \\n only, blank lines left out. Without `every` those that
    are idle are left out as well, and not even copied: they are most of a file."""
    # A buffer of our own, read into behind what is left of the last line: a file object's begins 16 bytes into a page, as all large ones
    # do, and what is copied there from pages takes three times as long (measured).
    buffer, filled, offset, ended = bytearray(FIRST_BYTES), 0, file.tell(), False  # `offset` is where in the file the buffer begins
    while not ended:
        with memoryview(buffer) as view:
            got = file.readinto(view[filled:])  # type: ignore[attr-defined]
            start, filled, ended = 0, filled + got, not got
            while start < filled and (end := buffer.find(b"\n", start, filled) + 1 or (ended and filled)):
                if (buffer[start] > 32 or buffer[start:end].strip()) and (every or not is_idle(buffer, start, end)):
                    yield offset + start, view[start:end].tobytes()
                start = end
            offset, filled = offset + start, filled - start
            buffer[:filled] = view[start : start + filled]
        if len(buffer) < max(BLOCK_BYTES, filled * 2):
            buffer.extend(bytes(len(buffer)))


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
    stubs, at = 0, 0
    while at < len(text):
        try:
            value, at = DECODER.raw_decode(text, at)
            objects += [value] if isinstance(value, dict) else []
            at += len(text[at : at + 4096]) - len(text[at : at + 4096].lstrip("\0 \t\r"))
        except (ValueError, RecursionError):
            stubs += 1
            following = re.compile(RECORD_START).search(text, at + 1) if stubs < MOST_STUBS else None
            at = following.start() if following else len(text)
    return Parsed(objects, stubs > 0)


def parse_string(data: bytes) -> str:
    """The text of a JSON string, empty where it is none."""
    try:
        return string(DECODER.decode(data.decode("utf-8", "replace")))
    except ValueError:
        return ""


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
    """A picture or document."""


class Call:
    """A tool call. `input` is an object in all but odd files; of a long line it is read when it is asked for. `result` is known in an
    exchange, None where it never came back."""

    __slots__ = ("id", "name", "record", "given", "result")

    def __init__(self, id: str, name: str, record: Record, given: Any = ...) -> None:
        self.id, self.name, self.record, self.given = id, name, record, given
        self.result: Optional[Result] = None

    @property
    def input(self) -> Any:
        """What the agent gave the tool."""
        if self.given is ...:
            self.given = mapping(self.record.value_behind(CONTENT)).get("input")
        return self.given

    @property
    def denied(self) -> bool:
        """Whether the person refused it."""
        return self.result is not None and self.result.record.denial == "user-rejected"

    @property
    def failed(self) -> bool:
        """Whether it gave an error or was not let through."""
        return self.result is not None and (self.result.is_error or bool(self.result.record.denial))

    def argument(self, *names: str) -> str:
        """The first of these arguments that is given, as text; empty where none is."""
        value = next(filter(None, map(mapping(self.input).get, names)), "")
        return value if isinstance(value, str) else " ".join(value) if all_strings(value) else json.dumps(value, ensure_ascii=False)


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
        blocks = [block for block in map(mapping, array(mapping(fields.get("message")).get("content"))) if block.get("type") == "tool_result"]
        for block in blocks:
            if string(block.get("tool_use_id")) == self.call_id:
                detail = fields.get("toolUseResult")
                return Output(flat_text(block.get("content")), detail if len(blocks) == 1 or block is owner_of(detail, blocks) else None)
        return Output("", None)

    def text(self) -> str:
        """The text alone, also of a line that is damaged behind it."""
        first = mapping(self.record.value_behind(CONTENT))
        return flat_text(first.get("content")) if first.get("tool_use_id") == self.call_id else self.read().text


def owner_of(detail: object, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Which of a row's results its one `toolUseResult` belongs to: the one that says the most of the same, else the first."""
    spelled = detail if isinstance(detail, str) else json.dumps(detail, ensure_ascii=False)

    def shared(block: dict[str, Any]) -> int:
        text = flat_text(block.get("content"))
        within = detail in text if isinstance(detail, str) else False
        return len(text) if within or json.dumps(text, ensure_ascii=False)[1:-1] in spelled else 0

    return max(blocks, key=shared)


def all_strings(value: object) -> bool:
    """Whether `value` is a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def flat_text(content: object) -> str:
    """Text of a result's content: a string, a list of blocks, a block alone, or nothing."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(block_text, [content] if isinstance(content, dict) else array(content))))


def block_text(block: object) -> str:
    """Text of one content block; what is no text is named in brackets."""
    fields = mapping(block)
    kind = string(fields.get("type"))
    if kind == "text":
        return string(fields.get("text"))
    if kind in PICTURES:
        return f"[{media_type(fields)}]"
    return f"[{kind}: {string(fields.get('tool_name'))}]" if kind == "tool_reference" else f"[{kind}]" if kind else ""


def media_type(block: dict[str, Any]) -> str:
    """Media type of a picture or document block."""
    return string(mapping(block.get("source")).get("media_type")) or string(block.get("type"))


class Compaction(NamedTuple):
    """What a compact_boundary says it preserved: the uuids that preservedMessages lists, else the head and tail of preservedSegment; and what
    they are chained under. None and empty where it says nothing."""

    kept: Optional[list[str]] = None
    ends: tuple[str, ...] = ()
    anchor: str = ""


class Usage(NamedTuple):
    """Tokens of one API answer: what it read (the context), and what it wrote."""

    context: int
    output: int


# What the client puts before and after a summary (2.1.332), among it to read the whole transcript, and to go on without a question.
SUMMARY_HEAD = (
    r"\AThis session is being continued from a previous conversation[^\n]{0,200}\n\s*"
    r"(?:<system-reminder>(?s:.*?)</system-reminder>\s*)?(?:Summary:\s*)?"
)
SUMMARY_END = (
    r"If you need specific details from before compaction|(?:Please c|C)ontinue the conversation from where"
    r"|The messages after this summary are|Recent messages are preserved verbatim"
)


class Record:
    """One line of a transcript, narrowed. `uuid` and `parent` are the links of the chain; what a line does not say is empty."""

    logical_parent: Optional[str] = None
    known_blocks: Optional[tuple[Any, ...]] = ()  # None: not read yet
    calls: Sequence[Call] = ()
    results: Sequence[Result] = ()
    meta = summary = local = api_error = queued = waited = False
    session = origin = message_id = model = denial = cwd = branch = entrypoint = subtype = forked_from = ""
    known_tokens: Optional[dict[str, Any]] = {}  # the same
    glued = False  # whether its line holds something else, too
    compaction: Optional[Compaction] = None
    line = 0  # place in the file among the chain records, from 0; of one that is repeated that of its first copy
    last_line = 0  # that of its last copy

    def __init__(
        self, transcript: Transcript, offset: int, size: int, kind: str, uuid: str, parent: Optional[str], sidechain: bool, timestamp: str
    ) -> None:
        self.transcript, self.offset, self.size, self.kind = transcript, offset, size, kind
        self.uuid, self.parent, self.sidechain, self.timestamp = uuid, parent, sidechain, timestamp

    @property
    def blocks(self) -> tuple[Any, ...]:
        """The content blocks: Text, Thinking, Image, Call and Result."""
        if self.known_blocks is None:  # the first block is the only one then
            self.take_blocks([self.value_behind(CONTENT)])
        return self.known_blocks or ()

    @property
    def usage(self) -> Optional[Usage]:
        """The tokens of the answer this row belongs to, None where it says none."""
        if self.known_tokens is None:
            self.known_tokens = mapping(mapping(self.fields().get("message")).get("usage"))
        if not self.known_tokens:
            return None
        context = sum(number(self.known_tokens.get(name)) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"))
        return Usage(context, number(self.known_tokens.get("output_tokens")))

    def fields(self) -> dict[str, Any]:
        """The whole record as the file has it now, read anew; empty where it is gone or cannot be parsed."""
        objects = parse_line(self.transcript.read(self.offset, self.size)).objects
        return next((fields for fields in objects if string(fields.get("uuid")) == self.uuid), {})

    def value_behind(self, mark: bytes, alone: bool = False) -> Any:
        """The value behind the first (`alone`: the only) place of `mark` in its line, read without the rest, which may be a whole file;
        None where that cannot be told: another order of keys, or no JSON."""
        data = b"" if self.glued else self.transcript.read(self.offset, self.size)
        at = data.find(mark)
        if at < 0 or (alone and data.find(mark, at + 1) >= 0):
            return None
        try:
            return DECODER.raw_decode(data[at + len(mark) :].lstrip().decode("utf-8", "replace"))[0]
        except (ValueError, RecursionError):
            return None

    def lone_value(self, key: str) -> Any:
        """The value of a key that stands once in the record, None where that cannot be told."""
        return self.value_behind(f'"{key}":'.encode(), alone=True)

    def take_blocks(self, content: object) -> None:
        """Fill in the content blocks from what the file holds: a string is one Text, a list is taken block by block."""
        if isinstance(content, str):
            self.known_blocks = (Text(content),)
            return
        blocks = [narrowed for block in array(content) if (narrowed := narrow_block(self, block)) is not None]
        self.known_blocks = tuple(blocks)
        kinds = [type(block) for block in blocks]
        if Call in kinds:
            self.calls = [block for block in blocks if isinstance(block, Call)]
        if Result in kinds:
            self.results = [block for block in blocks if isinstance(block, Result)]

    def texts(self) -> list[str]:
        """The texts of its text blocks."""
        return [block.text for block in self.blocks if isinstance(block, Text) and block.text]

    def summary_words(self) -> str:
        """Of a compaction's summary what the model wrote."""
        lines = re.sub(SUMMARY_HEAD, "", "\n".join(self.texts())).split("\n")
        while lines and (not lines[-1].strip() or re.match(SUMMARY_END, lines[-1])):
            lines.pop()
        return "\n".join(lines).strip()


def narrow(transcript: Transcript, offset: int, size: int, fields: dict[str, Any]) -> Record:
    """The typed view of a parsed chain record."""
    get = fields.get
    kind = string(get("type"))
    uuid, parent, timestamp = string(get("uuid")), get("parentUuid"), string(get("timestamp"))
    parent = None if parent in (None, "", 0) else str(parent)  # what is no text names no record, be it an empty list (measured)
    record = Record(transcript, offset, size, kind, uuid, parent, get("isSidechain") is True, timestamp)
    place = [sys.intern(string(get(key))) for key in ("sessionId", "cwd", "gitBranch", "entrypoint")]  # which most records repeat
    record.session, record.cwd, record.branch, record.entrypoint = place
    record.forked_from = string(mapping(get("forkedFrom")).get("sessionId"))
    if kind == "assistant":
        message = mapping(get("message"))
        record.take_blocks(message.get("content"))
        record.message_id, record.model = string(message.get("id")), sys.intern(string(message.get("model")))
        record.known_tokens = mapping(message.get("usage"))
        record.api_error = get("isApiErrorMessage") is True
    elif kind == "user":
        narrow_user(record, fields, mapping(get("message")).get("content"))
    elif kind == "attachment":
        attachment = mapping(get("attachment"))
        record.subtype = sys.intern(string(attachment.get("type")))
        if record.subtype == "queued_command":
            record.queued, record.meta = attachment.get("commandMode") == "prompt", attachment.get("isMeta") is True
            record.origin = string(mapping(attachment.get("origin")).get("kind"))
            record.take_blocks(attachment.get("prompt"))
    elif kind == "system":
        record.subtype = sys.intern(string(get("subtype")))
        record.take_blocks(get("content"))
        record.logical_parent = string(get("logicalParentUuid")) or None
        if record.subtype == "compact_boundary":
            record.compaction = narrow_compaction(mapping(get("compactMetadata")))
    if get("isMeta") is True or get("isVisibleInTranscriptOnly") is True:
        record.meta = True
    return record


def narrow_user(record: Record, fields: dict[str, Any], content: object) -> None:
    """Fill in what a user record alone carries."""
    record.take_blocks(content)
    record.summary = fields.get("isCompactSummary") is True
    record.origin = string(mapping(fields.get("origin")).get("kind")) or (turn if (turn := string(fields.get("turnOrigin"))) in NO_PERSON else "")
    record.local = fields.get("rowSource") == "local" and not record.origin
    record.waited = fields.get("promptSource") == "queued"
    detail = string(fields.get("toolUseResult"))
    record.denial = string(fields.get("toolDenialKind")) or ("user-rejected" if detail.startswith("User rejected") else "")
    if record.denial and mapping(fields.get("permissionDecision")).get("source") in ("config", "hook"):
        record.denial = "permission-rule"  # of what nobody was asked, client 2.1.332 says "user-rejected" as well, without a terminal
    if len(record.results) == 1:
        take_failure(record, record.results[0], detail, array(content))


def take_failure(record: Record, result: Result, detail: str, blocks: list[Any]) -> None:
    """Fill in what a row's one result says of a refusal or a failure in words: its detail and its `is_error` are often missing."""
    block = next(block for block in map(mapping, blocks) if block.get("type") == "tool_result")
    said = string(block.get("content")) or flat_text(array(block.get("content"))[:1])
    if block.get("is_error") is None:
        result.is_error = said.startswith(FAILED) or detail.startswith("Error: ")
    if result.is_error and said.startswith(REFUSED) and not record.denial:
        record.denial = "user-rejected"


def narrow_block(record: Record, block: object) -> Any:
    """One content block of a message: Text, Thinking, Image, Call or Result, None for what is nothing of the kind."""
    fields = mapping(block)
    kind = fields.get("type")
    if kind == "text":
        return Text(string(fields.get("text")))
    if kind == "tool_use":
        return Call(string(fields.get("id")), string(fields.get("name")), record, fields.get("input"))
    if kind == "tool_result":
        return Result(string(fields.get("tool_use_id")), fields.get("is_error") is True, record)
    if kind in ("thinking", "redacted_thinking"):
        return Thinking(string(fields.get("thinking")))
    if kind in PICTURES:
        return Image()
    return None


def narrow_compaction(metadata: dict[str, Any]) -> Compaction:
    """The boundary's metadata. Where it names what was preserved in both ways, the list holds (measured)."""
    listed, segment = metadata.get("preservedMessages"), metadata.get("preservedSegment")
    if isinstance(listed, dict):
        return Compaction([string(uuid) for uuid in array(listed.get("uuids"))], (), string(listed.get("anchorUuid")))
    ends = (string(segment.get("headUuid")), string(segment.get("tailUuid"))) if isinstance(segment, dict) else ()
    return Compaction(None, ends, string(mapping(segment).get("anchorUuid")))


PICTURES = ("image", "document")  # kinds of blocks
FAILED, REFUSED = "<tool_use_error>", "The user doesn't want to proceed with this tool use"  # the client's own words
CHAIN_KINDS = frozenset(("user", "assistant", "attachment", "system", "progress"))
TITLE_KINDS = {"custom-title": "customTitle", "ai-title": "aiTitle", "agent-name": "agentName"}  # the better first
CHAIN_HEAD = re.compile(  # the links, then what begins an attachment, a tool result, or the only block of an answer's row
    rb'\{"parentUuid":(?:null|"([!#-\[\]-~]{1,64})"),"isSidechain":(true|false),(?:"(?!uuid|type)[a-zA-Z]+":"[^"\\]*",)*?'
    rb'(?:"message":\{(?:"model":"([!#-;=-\[\]-~]*)",)?"id":"([!#-\[\]-~]*)","type":"message","role":"assistant",(?:"model":"([!#-;=-\[\]-~]*)",)?"content":'
    rb'\[\{"type":"(?:text"|thinking"|tool_use","id":"([!#-\[\]-~]*)","name":"([!#-\[\]-~]*)")'
    rb'|"type":"user","message":\{"role":"user","content":\[\{(?:"tool_use_id":"([!#-\[\]-~]*)",)?"type":"tool_result",(?:"tool_use_id":"([!#-\[\]-~]*)",)?"content":'
    rb'|"attachment":\{"type":"([a-z_]+)")'
)
LINK_TAIL = re.compile(rb',"uuid":"([!#-\[\]-~]{1,64})","timestamp":"([!#-\[\]-~]{1,40})"')
PLACE_TAIL = re.compile(
    rb',(?:"entrypoint":"([^"\\]*)",)?"cwd":("(?:[^"\\]|\\.)*"),"sessionId":"([^"\\]*)",(?:"version":"[^"\\]*",)?"gitBranch":("(?:[^"\\]|\\.)*")'
    rb'(?:,"[a-zA-Z]+":"[^"\\]*")*'
)
FORK_TAIL = rb',"forkedFrom":\{"sessionId":"([^"\\]*)","messageUuid":"[^"\\]*"\}'
RESULT_END = re.compile(rb'["\]l](?:,"is_error":(true|false))?(?:,"tool_use_id":"([!#-\[\]-~]*)")?\}\]\}\Z')
CONTENT, NEXT_BLOCK = b'"content":[', b'},{"type":"'
GLUED = b'{"parentUuid":'  # within a line: another record, glued to a torn one
BEHIND_TEXT = (b'"type":"',)  # where a result's content is one text, the sign of another block or record behind it
IN_LIST = (NEXT_BLOCK, b'},{"tool_use_id":"', GLUED)  # the same where it is a list of blocks
ANSWER_LINK, ATTACHMENT_LINK = b',"type":"assistant","uuid":"', b',"type":"attachment","uuid":"'
TAIL_BYTES = 1_024  # where a record's place in the world stands, and what a short record glued to a line's end begins with
BLOCK_TAIL = 128  # where a result block's flag and id stand, behind its content
DETAIL = b'"toolUseResult":'
ENTRYPOINT = b',"entrypoint":"'
SIDE_START = b'{"type":"'
READ_KINDS = "|".join((*CHAIN_KINDS, *TITLE_KINDS, "last-prompt"))  # of side records only titles and pins are read
IDLE_HEAD = re.compile(rf'\{{"type":"(?!(?:{READ_KINDS})")[^"\\]{{1,64}}"'.encode())
REQUEST_START = b'{"type":"api-request'
SIDE_TAILS = (b'"gitBranch":', b'"parentUuid":', b'Title":', b'"agentName":', b'"leafUuid":')  # of every record that counts


def is_idle(data: Union[bytes, bytearray], start: int = 0, end: int = sys.maxsize) -> bool:
    """Whether a line, which may stand between two places of `data`, is a side record that nobody needs, written by the client.

    Inside a JSON string a quote is always escaped, so the byte tests only ever meet the structure. A record that was glued to such a
    line, or to a torn one's stub, ends the line and shows there what it is.
    """
    if not IDLE_HEAD.match(data, start, end) or not data.endswith((b"}\n", b"}\r\n"), start, end):
        return False
    end = min(end, len(data))
    short = end - start <= TAIL_BYTES
    if short and data.count(b"{", start, end) == 1:  # nothing can be glued to it
        return True
    tail = start if short else end - TAIL_BYTES
    for sign in SIDE_TAILS:
        if data.rfind(sign, tail, end) >= 0:  # half as long as a search from the left
            return False
    if short:
        return True
    if data.rfind(b'"parentUuid":', start, start + TAIL_BYTES) >= 0:
        return False
    return data.startswith(REQUEST_START, start) or data.find(b'}{"type":"', start, end) < 0  # requests are most of a file, and hold these


def recognise(transcript: Transcript, offset: int, data: bytes) -> Optional[Record]:
    """The Record of a tool result, an attachment or a row of an answer that the client wrote, from its head and tail alone, else None.

    The text and the detail are read when somebody asks. A test proves that whole lines give the same records.
    """
    head = CHAIN_HEAD.match(data, 0, TAIL_BYTES)
    if not head:
        return None
    start = head.end()
    parent, sidechain, model, answer, late_model, call, tool, first, second, attachment = head.groups()
    if answer is not None:
        kind, at = "assistant", data.rfind(ANSWER_LINK, start) + ANSWER_LINK.index(b',"uuid"')
    elif attachment:
        kind, at = "attachment", data.rfind(ATTACHMENT_LINK, start) + ATTACHMENT_LINK.index(b',"uuid"')
    else:
        kind, at = "user", data.find(b']},"uuid":"', start) + 2
    record = linked_record(transcript, offset, data, at, kind, parent, sidechain) if at > start else None
    if not record:
        return None
    if kind == "user":
        return record if take_result(record, data, start, at, first or second) else None
    if data.find(GLUED, start) >= 0:
        return None
    if attachment:
        record.subtype = attachment.decode()
        return record if attachment != b"queued_command" else None  # what a person said is read whole
    record.message_id, record.model = answer.decode(), sys.intern((model or late_model or b"").decode())
    record.known_blocks = record.known_tokens = None
    if tool is not None:
        record.known_blocks = record.calls = (Call(call.decode(), tool.decode(), record),)
    alone = data.find(NEXT_BLOCK, start, at) < 0
    return record if alone and data.find(b'"isApiErrorMessage":true', at) < 0 else None


def linked_record(
    transcript: Transcript, offset: int, data: bytes, at: int, kind: str, parent: Optional[bytes], sidechain: bytes
) -> Optional[Record]:
    """A record with its links, whose uuid stands at `at`, and its place in the world; None where its tail is not the client's."""
    link = LINK_TAIL.match(data, at)
    if not link:
        return None
    uuid, timestamp = link.groups()
    record = Record(transcript, offset, len(data), kind, uuid.decode(), parent.decode() if parent else None, sidechain == b"true", timestamp.decode())
    return record if take_place(record, data, link.end()) else None


def take_result(record: Record, data: bytes, start: int, end: int, call: Optional[bytes]) -> bool:
    """Fill in the one result of a record, whose block ends before `end`; False where it takes a closer look."""
    for sign in IN_LIST if data.startswith(b"[", start) else BEHIND_TEXT:
        if data.find(sign, start, end) >= 0:
            return False
    block_tail = max(start, end - BLOCK_TAIL)
    ending = RESULT_END.search(data, block_tail, end)
    if not ending or (ending[2] is None) == (call is None) or data.count(b'"tool_use_id":"', block_tail, end) != (call is None):
        return False  # no id, two, or an order of keys that is not the client's
    if data.find(GLUED, end) >= 0:
        return False
    failed = ending[1] == b"true"
    tail = end if failed else max(end, len(data) - TAIL_BYTES)  # a refusal is marked as an error, too
    if data.find(b'"toolDenialKind"', tail) >= 0 or data.find(REFUSED.encode() if failed else FAILED.encode(), start, start + BLOCK_TAIL) >= 0:
        return False
    detail = data.find(DETAIL, end) + len(DETAIL)
    if detail > end and data.startswith(b'"User rejected' if ending[1] else (b'"User rejected', b'"Error: '), detail):
        return False
    record.known_blocks = record.results = (Result((ending[2] if call is None else call).decode(), failed, record),)
    return True


def take_place(record: Record, data: bytes, link_end: int) -> bool:
    """Fill in session, cwd, branch and entrypoint from the end of a line, which is the same in most lines; False where it is not the client's."""
    transcript, ending = record.transcript, record.transcript.ending
    if not ending or not data.endswith(ending, link_end):
        tail = max(link_end, len(data) - TAIL_BYTES)
        at = data.rfind(ENTRYPOINT, tail)
        ending = data[at if at >= 0 else data.rfind(b',"cwd":"', tail) :]
        fork = re.search(FORK_TAIL, ending) if b'"forkedFrom"' in ending else None
        if fork:
            record.forked_from = fork[1].decode("utf-8", "replace")
            ending = ending[: fork.start()] + ending[fork.end() :]
        if ending not in transcript.places:
            place = PLACE_TAIL.match(ending)
            if not place or ending[place.end() :] not in (b"}\n", b"}\r\n"):
                return False
            entrypoint, session = (place[1] or b"").decode("utf-8", "replace"), place[3].decode("utf-8", "replace")
            transcript.places[ending] = session, parse_string(place[2]), parse_string(place[4]), entrypoint
        if at >= 0 and not fork:
            transcript.ending = ending
    record.session, record.cwd, record.branch, record.entrypoint = transcript.places[ending]
    return True


def can_split() -> bool:
    """Whether a second process can be forked, and a second core may run it."""
    return hasattr(os, "fork") and (os.cpu_count() or 1) > 1


Given = TypeVar("Given")  # what a job gives
SIGKILL = 9  # the signal module is not imported for that alone


@contextmanager
def second_process(jobs: Sequence[Callable[[], Given]]) -> Iterator[Iterator[Given]]:
    """A forked process does the jobs in turn during the block, which it never outlives; without jobs there is none. Yields what they give
    (anything but bytes), each waited for when it is asked for; a job that fails there is done here."""
    if not jobs:
        yield iter(())
        return
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            send(jobs, writing)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as pipe:
            yield received(jobs, pipe)
    finally:
        os.kill(pid, SIGKILL)  # not yet waited for, so the number is still its own
        os.waitpid(pid, 0)


def send(jobs: Sequence[Callable[[], Any]], writing: int) -> None:
    """Do the jobs and write what they give to a pipe."""
    with os.fdopen(writing, "wb") as pipe:
        for job in jobs:
            given = job()
            try:
                data = marshal.dumps(given)
            except ValueError:  # it holds objects
                import pickle  # takes longer to import than most answers to read

                data = marshal.dumps(pickle.dumps(given, pickle.HIGHEST_PROTOCOL))
            pipe.write(data)
            pipe.flush()


def received(jobs: Sequence[Callable[[], Given]], pipe: IO[bytes]) -> Iterator[Given]:
    """What the jobs give, read from a pipe as far as it comes."""
    for job in jobs:
        try:
            given: Any = marshal.load(pipe)
        except (EOFError, ValueError, TypeError):
            given = job()
        if isinstance(given, bytes):
            import pickle

            given = pickle.loads(given)
        yield given


class Pin(NamedTuple):
    """A last-prompt record: the leaf that the client noted, empty where the person went back to before the first prompt (`explicit` with no
    leaf), and how many chain records stand before it in the file."""

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
        self.places: dict[bytes, tuple[str, str, str, str]] = {}  # session, cwd, branch, entrypoint by the end of a line that tells them
        self.ending = b""  # the latest of these from the entrypoint on, which the next line mostly has, too
        self.titles: dict[str, str] = {}
        self.pin: Optional[Pin] = None
        self.damaged = 0
        self.size = 0

    def release(self) -> list[Record]:
        """The records, no longer held: a reader of thousands of files would keep them all, since nothing collects circles here."""
        records, self.records = self.records, []
        return records

    def described(self) -> str:
        """Its path, whether it is a sub-agent's, and how many of its lines cannot be read: for a refusal."""
        agents = ", a sub-agent's" if self.records and all(record.sidechain for record in self.records) else ""
        spoilt = f", in which {self.damaged} line{'s' * (self.damaged > 1)} cannot be read" if self.damaged else ""
        return self.path + agents + spoilt

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of one line, fewer where the file has shrunk."""
        try:
            if hasattr(os, "pread"):  # not on Windows; it leaves the file's position alone, which a second process shares
                return os.pread(self.file.fileno(), size, offset)
            self.file.seek(offset)
            return self.file.read(size)
        except (OSError, ValueError):
            return b""

    def take_line(self, offset: int, data: bytes, whole: bool = False) -> None:
        """Add what one line holds, by its head and tail where these tell enough, unless it is to be parsed `whole`."""
        if not whole and self.take_edges(offset, data):
            return
        objects, damaged = parse_line(data)
        self.damaged += damaged
        if whole and damaged and self.take_edges(offset, data):  # its inside alone is damaged: it still links the chain
            return
        for fields in objects:
            self.take_object(offset, len(data), fields, damaged or len(objects) > 1)

    def take_edges(self, offset: int, data: bytes) -> bool:
        """Take a line by its head and tail; whether that was enough."""
        if data.startswith(SIDE_START):
            return is_idle(data)
        record = recognise(self, offset, data)
        if record:
            self.add(record)
        return record is not None

    def take_object(self, offset: int, size: int, fields: dict[str, Any], glued: bool = False) -> None:
        """Add one parsed object: a chain record has a uuid, a side record has none. `glued` is whether its line holds more."""
        kind = string(fields.get("type"))
        if kind in TITLE_KINDS:
            self.titles[kind] = string(fields.get(TITLE_KINDS[kind]))
        elif kind == "last-prompt" and (fields.get("leafUuid") or fields.get("explicit") is True):
            leaf, after = string(fields.get("leafUuid")), len(self.records)
            self.pin = Pin(leaf, fields.get("explicit") is True or self.pin == Pin(leaf, True, after), after)  # the same once more takes nothing back
        elif kind in CHAIN_KINDS or ("parentUuid" in fields and string(fields.get("uuid"))):
            record = narrow(self, offset, size, fields)
            record.glued = glued
            self.add(record)

    def add(self, record: Record) -> None:
        """Append a chain record, to the loose ones where it has no uuid. A compaction voids every pin before it (measured)."""
        record.line = record.last_line = len(self.records)
        if record.compaction and record.uuid:
            self.pin = None
        (self.records if record.uuid else self.loose).append(record)


def open_transcript(path: str) -> IO[bytes]:
    """A transcript opened for reading. Raises Refusal where it is no file (a pipe would be waited for) or cannot be read."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode):
            return open(path, "rb", buffering=0)
    except FileNotFoundError:
        raise Refusal(f"{path or 'a file without a name'} does not exist; give the path of a .jsonl file") from None
    except (OSError, ValueError) as error:
        raise Refusal(f"cannot read {path}: {getattr(error, 'strerror', None) or error}; check the path and its permissions") from error
    raise Refusal(f"{path} {'is a directory, not a transcript' if stat.S_ISDIR(mode) else 'is no regular file'}; give the path of a .jsonl file")


def read_transcript(path: str, whole: Optional[bool] = None, start: int = 0) -> Transcript:
    """Read a transcript once, from the line that begins at `start`. The file stays open for what is read later. Raises Refusal where it is none.

    `whole` is whether each line is parsed, so that damage anywhere in it is counted (default: in a file of up to WHOLE_BYTES); else
    most are taken by their ends.
    """
    file = open_transcript(path)
    transcript = Transcript(os.fspath(path), file)
    take = transcript.take_line
    try:
        every = os.fstat(file.fileno()).st_size <= WHOLE_BYTES if whole is None else whole
        file.seek(start)
        for offset, data in read_lines(file, every):
            take(offset, data, every)
        transcript.size = file.tell()
    except OSError as error:
        raise Refusal(f"cannot read {path}: {error.strerror}; nothing was changed") from error
    return transcript


# --------------------------------------------------------------------------------------------------------- conversation


class Prompt(NamedTuple):
    """What a person said: the text as typed, and how: "typed", "queued" (while the agent worked), "command" (/x), "shell" (! x)."""

    text: str
    how: str


ENVELOPE = (
    r"(?s)<(local-command-stdout|local-command-stderr|local-command-caveat|bash-stdout|bash-stderr|bash-exit-code|task-notification|system-reminder"
    r"|teammate-message|cross-session-message|ide_[a-z_]+|[a-z]+(?:-[a-z]+)*-hook)\b[^>]*>.*?</\1>"
)
REMINDER, REMINDER_END = "<system-reminder>", "</system-reminder>"
HARNESS_START = (
    r"Caveat: The messages below|\[Request interrupted by user|\[SYSTEM NOTIFICATION|[A-Z][A-Za-z]+ hook (?:feedback|blocking error from command)\b"
)
LATE_NOTICE = r"(?s)[^\n<]*\n\s*<task-notification>.*</task-notification>\s*\Z"  # a line before it says what it is
NO_PERSON = frozenset(("scheduled", "task_notification", "auto_continuation", "peer", "host_synthetic", "system"))  # turnOrigin, as in the client
COMMAND_NAME = r"<command-name>([^<]*)</command-name>"
COMMAND_ARGS = r"(?s)<command-args>(.*?)</command-args>"
SHELL_INPUT = r"(?s)\s*<bash-input>(.*?)</bash-input>"
SHELL_OUTPUT = r"(?s)<bash-(stdout|stderr)>(.*?)</bash-\1>"
# fmt: off
LOCAL_COMMANDS = frozenset((  # they never reach the model
     "add-dir", "agents", "branch", "clear", "compact", "config", "context", "copy", "cost", "doctor", "effort", "exit", "export", "fast",
     "help", "hooks", "ide", "login", "logout", "mcp", "memory", "model", "output-style", "permissions", "plugin", "quit", "release-notes",
     "rename", "resume", "rewind", "status", "statusline", "tasks", "terminal-setup", "theme", "todos", "upgrade", "usage", "vim",
))
# fmt: on


def strip_envelopes(text: str) -> str:
    """`text` without the harness's envelopes that stand before or after a person's own words."""
    while (envelope := re.match(ENVELOPE, text.lstrip())) is not None:
        text = text.lstrip()[envelope.end() :].lstrip("\n")
    while text.rstrip().endswith(REMINDER_END) and REMINDER in text:
        text = text[: text.rfind(REMINDER)].rstrip()
    return "" if re.match(HARNESS_START, text) else text


def command_line(text: str) -> str:
    """`/x args` of a slash command's record, empty for any other text."""
    name = re.search(COMMAND_NAME, text) if text.lstrip().startswith(("<command-name>", "<command-message>")) else None
    if not name:
        return ""
    args = re.search(COMMAND_ARGS, text)
    return f"/{name[1].strip().lstrip('/')} {args[1].strip() if args else ''}".strip()


def prompt_of(record: Record, loose: bool = False) -> Optional[Prompt]:
    """What the person said in this record, None where nobody did. The one place that knows what a prompt is. `loose` is whether the results
    in it, if any, answer no call: then words beside them are a prompt of their own."""
    if not (record.kind == "user" or record.queued) or record.sidechain or record.meta or record.summary or record.origin not in ("", "human"):
        return None
    if record.results and not loose:
        return None
    parts = [strip_envelopes(text) for text in record.texts() if record.origin or not re.match(LATE_NOTICE, text)]
    text = "\n".join(part for part in parts if part.strip())
    if shell := re.match(SHELL_INPUT, text):
        return Prompt(f"! {shell[1]}", "shell")
    if command := command_line(text):
        return None if record.local or command.split()[0][1:] in LOCAL_COMMANDS else Prompt(command, "command")
    pictures = "[image]" if any(isinstance(block, Image) for block in record.blocks) else ""
    said = "\n".join(part for part in (text, "" if "[image]" in text else pictures) if part.strip())
    return Prompt(said, "queued" if record.queued or record.waited else "typed") if said.strip() else None


def local_command(record: Record) -> str:
    """A slash command that never reached the model (/clear, /model, ...), empty for other records."""
    if record.sidechain or record.kind not in ("user", "system") or prompt_of(record):
        return ""
    return command_line("".join(record.texts()))


def shell_output(text: str) -> str:
    """What a command of the person's own printed, from the text of its record: the client stores it XML-escaped once."""
    printed = "\n".join(part for _, part in re.findall(SHELL_OUTPUT, text) if part)
    return printed.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&#39;", "'").replace("&amp;", "&")


class Exchange:
    """A prompt and what followed until the next one. `n` counts the person's prompts from 1; 0 is what came before any."""

    def __init__(self, n: int, prompt: Prompt, record: Record, live: bool) -> None:
        self.n, self.prompt, self.record, self.live = n, prompt, record, live
        self.answers: list[Record] = []
        self.calls: list[Call] = []
        self.notices: list[str] = []
        self.shell_output = ""
        self.interrupted = False
        self.errors = 0

    @property
    def replies(self) -> list[Text]:
        """What the agent said, text by text; read from the file where it is not known yet."""
        return [block for record in self.answers for block in record.blocks if isinstance(block, Text) and block.text.strip()]


class Conversation:
    """A transcript's records sorted by what became of them.

    live       what the client sends after --resume, in that order
    earlier    what a compaction took away
    abandoned  main-chain records on no path to the leaf: rewound, cancelled, or another client's branch
    happened   earlier and live together, each record once, in the order it happened; `exchanges` is cut from it
    """

    def __init__(self, transcript: Transcript) -> None:
        self.transcript, self.links = transcript, Links(transcript.records)
        self.live: list[Record] = []
        self.earlier: list[Record] = []
        self.happened: list[Record] = []
        self.abandoned: list[Record] = []
        self.exchanges: list[Exchange] = []
        self.summaries: list[Record] = []
        self.commands: list[str] = []
        self.compactions = 0


BRIDGE_SECONDS = 5  # the client bridges a missing parent to a record at most this much older (measured: 5 s yes, 6 s no)
TURNS = frozenset(("user", "assistant"))  # records in which a person, a tool or the agent speaks


def has_turn(path: list[Record]) -> bool:
    """Whether a person or the agent speaks on this path."""
    return any(record.kind in TURNS for record in path)


class Links:
    """The main-chain records of a transcript by uuid, in file order, without old hook progress. Of a uuid that stands there more than once
    the last copy counts, links and content, in the place of the first (measured)."""

    def __init__(self, records: list[Record]) -> None:
        by_uuid = {record.uuid: record for record in records}  # in the order of the first copies
        if len(by_uuid) < len(records):
            first_line: dict[str, int] = {}
            for record in records:
                first_line.setdefault(record.uuid, record.last_line)
            for uuid, record in by_uuid.items():
                record.line = first_line[uuid]
        above: dict[Optional[str], Optional[str]] = {}  # old hook progress -> what it hangs below
        for record in [record for record in records if record.kind == "progress"]:
            above[record.uuid] = above.get(record.parent, record.parent)
        self.below_progress = {record for record in records if record.parent in above} if above else set()
        for record in self.below_progress:  # those rows are no links, as in the client
            record.parent = above[record.parent]
        self.main = [record for record in by_uuid.values() if not record.sidechain and record.kind != "progress"]
        self.lines = [record.line for record in self.main]
        self.by_uuid = {record.uuid: record for record in self.main}
        told = [record for record in self.main if record.subtype]
        self.boundaries = [record for record in told if record.compaction and self.has_summary(record)]
        self.retractions = {record.uuid: record for record in told if record.subtype == "model_refusal_fallback"}

    def between(self, line: int, limit: int) -> list[Record]:
        """The records from `line` of the file to the one before `limit`."""
        return self.main[bisect.bisect_left(self.lines, line) : bisect.bisect_left(self.lines, limit)]

    def has_summary(self, boundary: Record) -> bool:
        """Whether a summary belongs to a boundary; one without is no compaction."""
        following = (self.main[at] for at in range(bisect.bisect_right(self.lines, boundary.line), len(self.main)))
        return next((record.summary for record in following if record.summary or record.compaction), False)


class Walk(dict[str, Record]):
    """The records of a walk by uuid, the leaf first."""

    def __init__(self) -> None:
        super().__init__()
        self.onward: dict[tuple[Optional[str], int], int] = {}  # what a search passed over, and where it got to: else many gaps are quadratic

    def free(self, records: list[Record], end: int, session: Optional[str] = None) -> int:
        """The place of the last of `records` before `end` that is not on the walk, and of that session if one is named; -1 where none is."""
        at, passed = end - 1, []
        while at >= 0 and (records[at].uuid in self or session not in (None, records[at].session)):
            passed.append((session, at))
            at = self.onward.get((session, at), at - 1)
        self.onward.update((place, at) for place in passed)
        return at


class Chain:
    """The links between main-chain records as they are before line `limit` of the file: parents, bridges over gaps, and
    what the last compaction re-parented and took away (measured on the client)."""

    def __init__(self, links: Links, limit: int) -> None:
        self.links, self.limit = links, limit
        self.boundaries = [boundary for boundary in links.boundaries if boundary.line < limit]
        self.boundary = self.boundaries[-1] if self.boundaries else None
        self.paths: dict[tuple[str, bool], list[Record]] = {}  # walks that were made
        preserved = self.preserved(self.boundary) if self.boundary else None
        self.cuts = preserved is not None
        self.kept, anchor = preserved or ([], "")
        since = self.boundary.line if self.boundary and self.cuts else 0
        before = {record for record in map(links.by_uuid.__getitem__, self.kept) if record.line < since}
        self.main = [*sorted(before, key=attrgetter("line")), *links.between(since, limit)]
        self.by_uuid = links.by_uuid if len(self.main) == len(links.main) else {record.uuid: record for record in self.main}
        self.lines = links.lines if len(self.main) == len(links.main) else [record.line for record in self.main]
        self.moved: dict[str, str] = {}  # uuid -> parent after the compaction, "" for a root
        if self.kept:
            self.moved = {record.uuid: self.kept[-1] for record in self.main if record.parent == anchor and anchor}
            self.moved.update(zip(self.kept, [anchor if anchor in self.by_uuid else "", *self.kept]))
        self.times: list[float] = []  # in order, and whose they are, of equals the first in the file last; made when a bridge is needed
        self.timed: list[Record] = []

    def known(self, uuid: str) -> Optional[Record]:
        """The record with this uuid, whatever a compaction took away, None where none stands before the limit."""
        record = self.links.by_uuid.get(uuid)
        return record if record and record.line < self.limit else None

    def preserved(self, boundary: Record) -> Optional[tuple[list[str], str]]:
        """(uuids of what the last boundary kept, the anchor they are chained under), None where the client ignores its metadata as a
        whole, or where metadata was never written in this file: then the links alone decide."""
        kept, ends, anchor = boundary.compaction or Compaction()
        if kept is not None:
            return (kept, anchor) if all(map(self.known, kept)) else None
        if ends:
            kept = self.segment(*ends)
            return (kept, anchor) if kept and self.known(anchor) else None
        return ([], "") if any(earlier.compaction != Compaction() for earlier in self.boundaries) else None

    def segment(self, head: str, tail: str) -> list[str]:
        """Uuids from head to tail along the links as they stand in the file, empty where they do not lead there."""
        path: list[str] = []
        step = self.known(tail)
        while step is not None and len(path) <= len(self.links.main):
            path.append(step.uuid)
            if step.uuid == head:
                return path[::-1]
            step = self.known(step.parent or "")
        return []

    def parent(self, record: Record, path: Walk) -> Optional[Record]:
        """The parent record, None for a root; one that is missing, or on the `path` that led here, is bridged (measured). A turn below
        one that the compaction took away goes on from what was kept."""
        uuid = self.moved.get(record.uuid, record.parent)
        if not uuid:
            return None if record.logical_parent is None or record in self.boundaries else self.by_uuid.get(record.logical_parent)
        known = self.by_uuid.get(uuid)
        if known and uuid not in path:
            return known
        taken = self.cuts and not known and uuid in self.links.by_uuid
        if taken and self.kept and record.kind in TURNS:
            return self.by_uuid[self.kept[-1]]
        above = self.bridge(record, path) or (None if taken else self.before(record, path))
        if above and self.kept and (above is self.boundary or above.uuid == self.moved[self.kept[0]]):
            return self.by_uuid[self.kept[-1]]  # it is below that
        return above

    def bridge(self, record: Record, path: Walk) -> Optional[Record]:
        """The latest record at most 5 s older, of equals the first in the file, but none on the `path` (measured). Where there is none the
        client gives up, and we take the nearest earlier one (our judgment): what was said before a gap was said."""
        then = seconds(record.timestamp)
        if then is None:
            return None
        if not self.times:
            ordered = sorted((when, -at) for at, other in enumerate(self.main) if (when := seconds(other.timestamp)) is not None)
            self.times, self.timed = [when for when, _ in ordered], [self.main[-at] for _, at in ordered]
        at = path.free(self.timed, bisect.bisect_right(self.times, then))
        return self.timed[at] if at >= 0 and self.times[at] >= then - BRIDGE_SECONDS else None

    def beside_progress(self, record: Record, above: Record, path: Walk) -> Record:
        """Where what hung below old hook progress leads: to the newest earlier record below the call `above` that the progress belongs to.
        Those rows hung beside the call's result, and answers on both sides."""
        nearest = self.before(record, path)
        step, seen = nearest, {record.uuid}
        while step and step is not above and step.uuid not in seen and step.line > above.line:
            seen.add(step.uuid)
            step = self.by_uuid.get(step.parent or "")
        return nearest if nearest and step is above else above

    def before(self, record: Record, path: Walk) -> Optional[Record]:
        """The nearest main-chain record of the same session that stands before `record` in the file, but none on the `path`."""
        at = path.free(self.main, bisect.bisect_left(self.lines, record.line), record.session)
        return self.main[at] if at >= 0 else None

    def walk(self, leaf: Record, lenient: bool = False) -> list[Record]:
        """From the root to `leaf`. `lenient` also takes the answers that hang beside old hook progress: they happened, though the client
        does not send them."""
        if (leaf.uuid, lenient) in self.paths:
            return self.paths[leaf.uuid, lenient]
        path = Walk()
        step: Optional[Record] = leaf
        while step is not None and step.uuid not in path:
            path[step.uuid] = step
            above = self.parent(step, path)
            step = self.beside_progress(step, above, path) if lenient and above and step in self.links.below_progress else above
        return self.paths.setdefault((leaf.uuid, lenient), [*reversed(path.values())])

    def end_of(self, record: Record) -> Record:
        """`record`, or where a compaction hung what it kept below it, and nothing was written since, the last of that (measured)."""
        end = self.by_uuid.get(self.kept[-1]) if self.kept else None
        return end if end and any(step is record for step in self.walk(end)) and record.uuid not in self.kept else record

    def newest_below(self, record: Record) -> Record:
        """The newest of a record and what hangs below it, of equals the last in the file: a last line may be an old row, written again. The record
        itself where a compaction lists what it kept (measured)."""
        listed = self.boundary and self.boundary.compaction and self.boundary.compaction.kept is not None
        if listed or not any(child.parent == record.uuid for child in self.main):
            return record
        return max((record, *below(record, self.children(), past_turns=True)), key=lambda one: (seconds(one.timestamp) or 0.0, one.line))

    def children(self) -> dict[str, list[Record]]:
        """What hangs directly below each record, by its uuid."""
        children: dict[str, list[Record]] = {}
        for child in self.main:
            children.setdefault(child.parent or "", []).append(child)
        return children

    def last_spoken(self) -> Optional[Record]:
        """The last line's record with a turn at or above it."""
        silent: set[Record] = set()  # with what is above them
        for record in sorted(self.main, key=attrgetter("last_line"), reverse=True):
            if record not in silent:
                path = self.walk(record)
                if has_turn(path):
                    return record
                silent.update(path)
        return None

    def leaf(self, pin: Optional[Pin]) -> Optional[Record]:
        """The record that a resume continues from: the last line's with a turn at or above it, unless a pin names another branch (measured).

        Without a pin it is the newest below that. A pin on another branch (beyond a gap is another, too) is taken exactly, once a
        compaction has kept records only where it ends that branch; one on the leaf's own only if it is explicit and nothing was written
        after it, and so any such one. None where nothing was said, or nothing since the person went back to the beginning.
        """
        last = self.last_spoken()
        if last is None or pin is None:
            return last and self.newest_below(self.end_of(last))
        last = self.end_of(last)
        final = pin.explicit and last.last_line < pin.after  # nothing was written after it
        pinned = self.by_uuid.get(pin.leaf)
        if pinned is None or not has_turn(self.walk(pinned)):
            return None if final and not pin.leaf else last
        path = self.walk(last)
        start = next((at for at in range(len(path) - 1, 0, -1) if self.moved.get(path[at].uuid, path[at].parent) != path[at - 1].uuid), 0)
        path = path[start:]  # up to a gap
        if pinned in path or (not pin.explicit and pinned in self.with_parallels(path)) or (self.kept and not self.ends_branch(pinned)):
            return pinned if final else last
        return pinned

    def ends_branch(self, record: Record) -> bool:
        """Whether this is the last turn of its branch."""
        children = self.children()
        return record.kind in TURNS and not any(has_turn(children.get(step.uuid, [])) for step in (record, *below(record, children)))

    def history(self, leaf: Record) -> dict[str, Record]:
        """What led to `leaf`, across compactions, each record once, by uuid, in the order it happened."""
        chain: Chain = self
        end: Optional[Record] = leaf
        stages: list[list[Record]] = []  # the newest first
        while end is not None:
            path = chain.walk(end, lenient=True)
            stages.append(chain.with_parallels(path))
            boundary = chain.boundary
            if boundary is None or not (chain.cuts or path[0] is boundary):
                break
            chain = Chain(self.links, boundary.line)
            end = chain.compacted_leaf(boundary)
        happened: dict[str, Record] = {}
        for stage in reversed(stages):
            for record in stage:
                happened.setdefault(record.uuid, record)
        return happened

    def compacted_leaf(self, boundary: Record) -> Optional[Record]:
        """The last record that a later compaction took away: its logical parent, unless that is only an old row written again."""
        named = self.by_uuid.get(boundary.logical_parent or "")
        since = self.boundary.line if self.boundary else -1
        latest = next((record for record in reversed(self.main) if record.line < boundary.line and record.session == boundary.session), None)
        anchor = boundary.compaction.anchor if boundary.compaction else ""
        if named and latest and anchor == boundary.uuid and any(record is named for record in self.walk(latest)):
            return latest  # "summarize from here" names the end of what it kept, and what it took away follows
        if named and (named.line > since or named.last_line < since):
            return named
        return latest

    def with_parallels(self, path: list[Record]) -> list[Record]:
        """`path` and what hangs beside it, in the order the client sends it (measured), but for what a change of the model took back: for each
        answer its rows and the results of its calls in file order, then what is said aside below these and leads nowhere, such as queued
        prompts; at the end what hangs there up to the next turn, which was left behind."""
        on_path = {record.uuid: at for at, record in enumerate(path)}
        rows: dict[str, list[Record]] = {}
        results: dict[str, list[Record]] = {}
        beside: dict[str, list[Record]] = {}
        for record in self.main:
            if record.kind == "assistant":
                rows.setdefault(record.message_id, []).append(record)
            elif record.kind == "user":
                for result in record.results:
                    results.setdefault(result.call_id, []).append(record)
            if record.uuid not in on_path and record.parent:
                beside.setdefault(record.parent, []).append(record)
        found: dict[str, Record] = {}
        calling = False  # whether this belongs to an answer with calls, as its rows, its results and what is said aside behind them do
        for record in path:
            if record.uuid in found:  # it came with its answer
                continue
            sent = [record]
            if record.kind == "assistant":
                sent = in_order(rows[record.message_id], on_path) if record.message_id else sent
                calling = any(row.calls for row in sent)
                answers = [result for row in sent for call in row.calls for result in results.get(call.id, ()) if result.uuid not in found]
                sent += sorted(answers, key=attrgetter("line"))
            elif record.kind == "user" and not (record.results or is_aside(record)):
                calling = False
            for one in sent:
                found.setdefault(one.uuid, one)
            if calling and beside:
                found.update((one.uuid, one) for member in sent for one in said_aside(member, beside, found))
        found.update((record.uuid, record) for record in below(path[-1], beside))
        return self.without_retracted(path, list(found.values())) if self.links.retractions else list(found.values())

    def without_retracted(self, path: list[Record], sent: list[Record]) -> list[Record]:
        """`sent` without what another model was asked to say anew, as the notes of that on the path tell (measured: by the first
        24 characters of a uuid, and never a system record)."""
        notes = [note for record in path if (note := self.links.retractions.get(record.uuid))]
        gone = {string(uuid)[:24] for note in notes for uuid in array(note.fields().get("retractedMessageUuids"))}
        return [record for record in sent if record.kind == "system" or record.uuid[:24] not in gone]


def below(record: Record, children: dict[str, list[Record]], past_turns: bool = False) -> list[Record]:
    """What hangs below a record, up to the next turns or past them, nearest first."""
    found = {record.uuid: record}
    steps = [record]
    for step in steps:
        new = [child for child in children.get(step.uuid, ()) if (past_turns or child.kind not in TURNS) and child.uuid not in found]
        found.update((child.uuid, child) for child in new)
        steps += new
    return steps[1:]


def is_aside(record: Record) -> bool:
    """Whether this only adds to what is said before: an attachment, a word of the system's, what the harness says in the person's role."""
    return not (record.compaction or record.summary or record.results) and (record.kind not in TURNS or (record.meta and record.kind == "user"))


def said_aside(record: Record, children: dict[str, list[Record]], found: Container[str]) -> list[Record]:
    """What is said aside below a record: each row there with what hangs below it, one under the other, but nothing of what branches or leads on
    to anything else (measured)."""
    said: list[Record] = []
    for child in children.get(record.uuid, ()):
        chain: dict[str, Record] = {}
        steps = [] if child.uuid in found else [child]
        while len(steps) == 1 and is_aside(steps[0]) and steps[0].uuid not in chain:
            chain[steps[0].uuid] = steps[0]
            steps = [row for row in children.get(steps[0].uuid, ()) if row.uuid not in found]
        said += [] if steps else chain.values()
    return said


def in_order(rows: list[Record], on_path: dict[str, int]) -> list[Record]:
    """Rows of one answer, given in file order: those on the path in its order, the others set in before the next later row."""
    if len(rows) == 1:
        return rows
    own = sorted((row for row in rows if row.uuid in on_path), key=lambda row: on_path[row.uuid])
    return list(merged(own, [row for row in rows if row.uuid not in on_path]))


def merged(records: list[Record], others: list[Record]) -> Iterator[Record]:
    """`records` with others, which are given in file order, set in by their place in the file."""
    waiting = others[::-1]
    for record in records:
        while waiting and waiting[-1].line <= record.line:
            yield waiting.pop()
        yield record
    yield from reversed(waiting)


def read_conversation(transcript: Transcript) -> Conversation:
    """Sort a transcript's records into live, earlier and abandoned, and cut them into exchanges."""
    conversation = Conversation(transcript)
    chain = Chain(conversation.links, len(transcript.records))
    leaf = chain.leaf(transcript.pin)
    if leaf is None:
        conversation.commands = [command for command in map(local_command, chain.main) if command]
        conversation.abandoned = chain.main if has_turn(chain.main) else []
        return conversation
    live = {record.uuid: record for record in chain.with_parallels(chain.walk(leaf))}
    plain = chain.boundary is None and not chain.links.below_progress
    happened = live if plain else {**chain.history(leaf), **live}
    conversation.live, conversation.happened = list(live.values()), list(happened.values())
    conversation.earlier = [] if plain else [record for record in conversation.happened if record.uuid not in live]
    conversation.abandoned = [record for record in chain.links.main if record.uuid not in happened]
    conversation.compactions = sum(boundary.uuid in happened for boundary in chain.boundaries)
    cut_into_exchanges(conversation, live)
    return conversation


def cut_into_exchanges(conversation: Conversation, live: Container[str]) -> None:
    """Fill in the exchanges: a new one at each prompt, calls joined with their results by id."""
    records = conversation.happened
    results = {result.call_id: result for record in records for result in record.results}
    loose = [record for record in conversation.transcript.loose if prompt_of(record)]
    opened: Optional[Exchange] = None
    for record in merged(records, loose) if loose else records:
        if record.kind == "assistant":
            if opened is None:
                opened = Exchange(0, Prompt("", "none"), record, record.uuid in live)
                conversation.exchanges.append(opened)
            add_answer(opened, record, results)
        elif not record.results:
            if prompt := prompt_of(record):
                lives = record.uuid in live if record.uuid else bool(opened and opened.live)
                opened = Exchange((opened.n if opened else 0) + 1, prompt, record, lives)
                conversation.exchanges.append(opened)
            else:
                note_harness_record(conversation, opened, record)


def add_answer(exchange: Exchange, record: Record, results: dict[str, Result]) -> None:
    """Add one row of an answer to its exchange; what the harness says in the agent's role counts as an error only."""
    if is_synthetic(record):
        exchange.errors += record.api_error
        return
    exchange.answers.append(record)
    for call in record.calls:
        call.result = results.get(call.id)
        exchange.calls.append(call)


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
        exchange.shell_output = shell_output(text)


# --------------------------------------------------------------------------------------------------------------- report


CONTROL = "[0-?]*[ -/]*[@-~]"
ANSI = f"\x1b(?:\\[{CONTROL}|\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)|[@-Z\\\\-_]|[()][0-B])|\x9b{CONTROL}"  # led by characters, which re finds fast
UNFIT = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
NONCHARACTERS = "[" + "".join(map(chr, (plane << 16 | last for plane in range(1, 17) for last in (0xFFFE, 0xFFFF)))) + "]"  # beyond the first plane
XML_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}  # the ampersand first
ATTRIBUTE_ESCAPES = {**XML_ESCAPES, '"': "&quot;", "\n": "&#10;", "\t": "&#9;"}


NO_SECRET = r"(?!\[masked|\$\{?[A-Z][A-Z0-9_]*\b|\$\(|<[^<>\n]{1,60}>|\*{3})"  # masked before, the name of a variable, a place-holder

# fmt: off
# Kinds of credentials: what a text must hold in lower case to be worth a search (most hold none), and the pattern; its group "keep" stays.
SECRETS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("private key", ("private key",),
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"),
    ("authorization", ("authorization",),
        r"(?i)(?P<keep>\bAuthorization[\"']?\s*[:=]\s*[\"']?)(?!\[masked)"
        r"(?:(?:Bearer|Basic|Token|Digest)\s+[^\s\"',;]{6,}"
        r"|(?=[^\s\"',;]{0,200}[0-9]|[^\s\"',;]{16})[^\s\"',;]{6,})"),  # "authorization: required" is prose
    ("bearer token", ("bearer",), r"(?i)(?P<keep>\bBearer\s+)(?!\[masked)(?=[\w.~+/=-]{0,200}[0-9])[\w.~+/=-]{12,}"),
    ("password in URL", ("://",), r"(?i)(?P<keep>\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,100}:)[^\s/\"'<>]{1,200}(?=@)"),
    ("api key", ("sk-", "sk_", "pk-", "pk_", "rk-", "rk_"),
        r"\b(?:sk|pk|rk)[-_](?:(?:ant-|live_|test_|proj-)"
        r"|(?=[A-Za-z0-9_-]{0,200}[0-9]|[A-Za-z]{20}))[A-Za-z0-9_-]{20,}"),  # words and hyphens alone are prose
    ("token", ("gho_", "ghp_", "ghu_", "ghs_", "ghr_", "_pat_", "glpat-", "xox", "npm_", "pypi-", "aiza", "ya29.", "hf_", "sg.", "dop_v1_"),
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}|npm_[A-Za-z0-9]{30,}"
        r"|pypi-[\w-]{40,}|AIza[\w-]{30,}|ya29\.[\w.-]{20,}|hf_[A-Za-z0-9]{30,}|SG\.[\w-]{16,}\.[\w-]{16,}|dop_v1_[0-9a-f]{40,})"),
    ("access key id", ("akia", "asia"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("web token", ("eyj",), r"\beyJ[\w-]{8,}\.[\w-]{8,}\.?[\w-]*"),
    ("secret", ("secret", "token", "passw", "key", "credential"),
        r"(?i)(?P<keep>(?:secret|token|passwd|password|api[-_]?key|(?:access|account|private)_?key|(?<!primary)(?<!foreign)(?<!sort)(?<!cache)_key"
        rf"|credential)s?[\"']?\s*[=:]\s*[\"']?){NO_SECRET}"
        r"(?=[^\s\"',;&，。；、（）「」『』]{0,200}[0-9])[^\s\"',;&，。；、（）「」『』]{12,}"),
    ("secret", ("secret", "token", "passw"),
        rf"(?P<keep>(?:SECRET|TOKEN|PASSWORD|PASSWD)[A-Z0-9_]{{0,40}}=[\"']?){NO_SECRET}"
        r"(?:(?<=\")[^\"\n]{4,200}(?=\")|(?<=')[^'\n]{4,200}(?=')|[^\s\"',;&，。；、（）「」『』]{4,})"),
)
# fmt: on
HINTS = tuple(dict.fromkeys(hint for _, hints, _ in SECRETS for hint in hints))
SHORTEST_SECRET = 10  # units, with what it is assigned to
ASSIGNED = frozenset(("secret", "authorization"))  # of these a colon or an equals sign is part


def mask(text: str) -> str:
    """`text` with credentials replaced by `[masked: kind]`; hashes, UUIDs and prose stay."""
    if len(text) < SHORTEST_SECRET:
        return text
    lowered = text.lower()
    if not any(map(lowered.__contains__, HINTS)):
        return text
    assigns = "=" in text or ":" in text
    for kind, hints, pattern in SECRETS:
        if (assigns or kind not in ASSIGNED) and any(hint in lowered for hint in hints):
            text = re.sub(pattern, lambda found, kind=kind: f"{found.groupdict().get('keep') or ''}[masked: {kind}]", text)  # type: ignore[misc]
    return text


def without_codes(text: str) -> str:
    """`text` without the colour codes of a terminal, which stand within words and phrases."""
    return re.sub(ANSI, "", text) if "\x1b" in text or "\x9b" in text else text


def clean(text: str) -> str:
    """`text` without colour codes, and with everything XML or a terminal cannot take replaced by U+FFFD."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    text = re.sub(UNFIT, "\ufffd", without_codes(text))
    return text if text.isascii() or max(text) <= "\uffff" else re.sub(NONCHARACTERS, "\ufffd", text)


BOTH_ENDS = 60  # units of text, the mark aside, from which head and tail are both kept


def cut(text: str, limit: int, hint: str = "", missing: int = 0) -> str:
    """`text` in at most `limit` UTF-16 units: head, a mark that says how many characters went (`missing` of them before) and `hint`, tail."""
    if len(text) <= limit // 2 or utf16_length(text) <= limit:
        return text
    whole = len(text) + missing
    room = limit - utf16_length(cut_mark(whole, hint))
    if room < BOTH_ENDS:  # both ends would say less than the head alone
        return within(text, max(limit - 1, 0)) + "…"
    head = within(text, room * 2 // 3)
    tail = ending(text, room - room * 2 // 3)
    return f"{head}{cut_mark(whole - len(head) - len(tail), hint)}{tail}"


def cut_mark(left: int, hint: str) -> str:
    """What stands where so many characters were cut out."""
    return f" [… {left:,} characters, cut{hint} …] "


def within(text: str, units: int) -> str:
    """The longest head of `text` that has at most `units` UTF-16 units."""
    head = text[:units]
    return head if head.isascii() else head.encode("utf-16-le", "surrogatepass")[: units * 2].decode("utf-16-le", "ignore")


def ending(text: str, units: int) -> str:
    """The longest tail of `text` that has at most `units` UTF-16 units."""
    return within(text[-units:][::-1], units)[::-1]


def shortened(text: str, limit: int) -> str:
    """The head of `text` on one line, in at most `limit` UTF-16 units."""
    line = " ".join(text[: limit * 20].split())
    return line if utf16_length(line) <= limit else within(line, limit - 1).rstrip() + "…"


def escaped(text: str, escapes: dict[str, str] = XML_ESCAPES) -> str:
    """`text` as the content of an element, or as the value of an attribute. Replaced, not translated, which looks at every character."""
    for character, escape in escapes.items():
        text = text.replace(character, escape)
    return text


class Quotation(NamedTuple):
    """Text that is fit for the report, not yet cut or escaped; `missing` characters of its middle were left out before."""

    text: str
    missing: int

    def cut(self, limit: int) -> str:
        """It in at most `limit` UTF-16 units."""
        return cut(self.text, limit, missing=self.missing)

    def escaped(self, limit: int) -> str:
        """The same as the content of an element."""
        return escaped(self.cut(limit))


class Quoter:
    """Makes text fit for the report: masked (unless told not to) before it is cut, cleaned, cut, escaped. The only way in."""

    def __init__(self, show_secrets: bool = False) -> None:
        self.show_secrets = show_secrets

    def quotation(self, text: str, most: int = MASK_WINDOW, one_line: bool = False) -> Quotation:
        """`text` cleaned and masked, to be shown in at most `most` units: of a far longer one only what can be shown then."""
        window = cut(text, min(most + 2 * LONGEST_SECRET, MASK_WINDOW))  # so much wider that it parts no secret that is shown
        fit_text = clean(window) if self.show_secrets else mask(clean(window))
        return Quotation(" ".join(fit_text.split()) if one_line else fit_text, len(text) - len(window))

    def plain(self, text: str, limit: int = MASK_WINDOW) -> str:
        """`text` cleaned, masked and cut, not yet escaped."""
        return self.quotation(text, limit).cut(limit)

    def text(self, text: str, limit: int = MASK_WINDOW) -> str:
        """`text` as the content of an element."""
        return escaped(self.plain(text, limit))

    def line(self, text: str, limit: int) -> str:
        """`text` as content on one line."""
        return self.quotation(text, limit, one_line=True).escaped(limit)

    def attributes(self, given: dict[str, object]) -> str:
        """` name="value"` for each that is not None or empty; values are cut at 300."""
        told = ((name, str(value) if isinstance(value, int) else self.attribute(value)) for name, value in given.items() if value not in (None, ""))
        return "".join(f' {name}="{value}"' for name, value in told)

    def attribute(self, value: object) -> str:
        """The value of an attribute, cut at 300."""
        return escaped(self.plain(str(value), 300), ATTRIBUTE_ESCAPES)


def element(name: str, attributes: str, content: str) -> str:
    """An element whose attributes and content are escaped already."""
    return f"<{name}{attributes}>{content}</{name}>" if content else f"<{name}{attributes}/>"


class Item(NamedTuple):
    """One entry of a section. `render(cap)` gives its XML with its texts cut at `cap`; the lower `rank`, the longer it stays, below 0
    always, cut as far as it takes."""

    rank: float
    render: Callable[[int], str]


class Section:
    """A part of a report. `items` stand in the order they are shown; `caps` says where their texts are cut in UTF-16 units: at the least,
    in brief (what every section gets before any gets more), and at the most. `weight` is its claim on the room where there is not
    enough for all; `total` is how many entries there are to show."""

    def __init__(self, name: str, attributes: str, items: list[Item], weight: float, caps: tuple[int, int, int], total: int) -> None:
        self.name, self.attributes, self.items, self.weight, self.total = name, attributes, items, weight, total
        floor, self.brief, ceiling = caps[0], caps[1], max(caps)
        self.caps = [ceiling]
        while self.caps[-1] > floor:
            self.caps.append(max(floor, self.caps[-1] * 7 // 10))
        self.caps = sorted({*self.caps, self.brief}, reverse=True)  # room is granted for texts in brief: they have to be a step
        self.needed = [at for at, item in enumerate(items) if item.rank < 0]  # places of the items that are shown whatever lies between
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

    def needed_pieces(self, cap: int) -> list[str]:
        """The items that are needed, with their texts cut at `cap`."""
        return [self.items[at].render(cap) for at in self.needed]

    def least(self) -> int:
        """Units that it takes at least, 0 where it can be left out."""
        return self.wrapper + utf16_length("".join(self.needed_pieces(SMALLEST_CAP))) if self.needed else 0


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
    if section.needed and utf16_length("".join(pieces.values())) > room:  # these share what there is, cut alike
        steps = {step for step in (cap * 2 // 3, cap // 2, cap // 3, cap // 4, 36, 33, 30, 28, 26) if SMALLEST_CAP < step < cap}
        smaller = first_that_fits([cap, *sorted(steps, reverse=True), SMALLEST_CAP], room, section.needed_pieces)
        pieces.update(zip(section.needed, section.needed_pieces(smaller)))
    for at in sorted(pieces, key=lambda at: section.items[at].rank):
        if utf16_length(pieces[at]) <= room:
            kept[at] = pieces[at]
            room -= utf16_length(pieces[at])
    content = "".join(kept[at] for at in sorted(kept))
    return Fitted(section, element(section.name, section.attributes, content) + "\n" if kept else "", len(kept))


def first_that_fits(caps: list[int], room: int, pieces: Callable[[int], list[str]]) -> int:
    """The first cap at which all pieces fit in `room`, else the last (lengths fall with the cap, so it is searched by halves)."""
    low, high, middle = 0, len(caps) - 1, 0  # mostly the very first
    while low < high:
        low, high = (low, middle) if utf16_length("".join(pieces(caps[middle]))) <= room else (middle + 1, high)
        middle = (low + high) // 2
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
    while sum(section.least() for section in sections) > room:  # not even what is needed fits in brief: that of the highest rank goes
        section, at = max(((section, at) for section in sections for at in section.needed), key=lambda place: place[0].items[place[1]].rank)
        section.needed.remove(at)
        section.items[at] = section.items[at]._replace(rank=0)
    granted = [section.least() for section in sections]
    weights = [section.weight for section in sections]
    in_brief = [section.wrapper + utf16_length("".join(section.pieces(section.brief))) for section in sections]
    for wanted in (in_brief, demands):  # first every entry in brief, then longer texts
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


def seconds(timestamp: str) -> Optional[float]:
    """A record's ISO time as seconds since 1970, None where it is none."""
    try:
        when = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
        return (when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def write_report(prog: str, text: str, done: str = "") -> int:
    """Write `text` to standard output as UTF-8. Returns the exit status: a reader who has seen enough is no error. `done` is what the job
    has done already, for who cannot read it there."""
    try:
        if sys.stdout is None:  # closed by the caller
            raise OSError(errno.EBADF, "it is closed")
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except OSError as error:
        if sys.stdout is not None:  # the interpreter must not complain at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            advice = done or "give it a terminal, a pipe or a file with room"
            write_complaint(f"{prog}: cannot write to standard output: {error.strerror}; {advice}\n")
            return 1
    return 0


def write_complaint(line: str) -> None:
    """Write a line to standard error, where there is one: its reader may have closed it. Python escapes what its encoding cannot hold."""
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(line)
            sys.stderr.flush()


def in_quotes(path: str) -> str:
    """A path as a shell's double-quoted word, the spelling that a SKILL.md's rule has."""
    return '"' + re.sub(r'["$`]' if os.sep == "\\" else r'["$`\\]', r"\\\g<0>", path) + '"'


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, and ends with status 2. `unknown_hint` is added where an option is not known.
    `takes_reference`: free words name a session."""

    unknown_hint = ""
    takes_reference = False

    def error(self, message: str) -> NoReturn:
        hint = self.unknown_hint if message.startswith("unrecognized arguments") else ""
        write_complaint(f"{self.prog}: {clean(message)}; see --help{hint}\n")
        sys.exit(2)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """An option's value, also where it is --, which argparse takes away before Python 3.13, and leaves a list."""
        return self._get_value(action, "--") if action.option_strings and arg_strings == ["--"] else super()._get_values(action, arg_strings)

    def _print_message(self, message: str, file: Optional[Any] = None) -> None:
        """Print the help or the version (argparse knows no other way in) as a report is, with the same end where that fails."""
        if status := write_report(self.prog, message):
            sys.exit(status)


REFERENCE = ("REF", "a path, an id, text with an id in it, an id prefix of 4 or more, 'this', or a title")


def build_base_parser(
    prog: str, description: str, epilog: str, default_bound: int, unnamed: str = "the latest of this project", words: tuple[str, str] = REFERENCE
) -> Parser:
    """The options that all skills share. `unnamed` says what is taken where no session is named; `words` are name and help of free words (`ref`)."""
    about = f"{description}\n\nusage: {prog} [{words[0]} ...] [options]"  # what it is for comes first
    layout = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog, argparse.SUPPRESS, about, epilog, formatter_class=layout, allow_abbrev=False, add_help=False)
    parser.takes_reference = words is REFERENCE
    # options outside of groups cost 3 ms: argparse makes a formatter for each
    which = parser.add_argument_group(f"which session (default: {unnamed})")
    which.add_argument("ref", nargs="*", metavar=words[0], help=words[1])
    which.add_argument("--id", metavar="ID", help="this session id")
    which.add_argument("--title", metavar="TITLE", help="the session with this title")
    home = os.path.expanduser  # no shell does it behind a slash command or in --project=~/x
    which.add_argument("--file", metavar="PATH", type=home, help="this transcript file")
    which.add_argument("--latest", action="store_true", help="the latest session of the project (the one just cleared comes first)")
    excluded = f"{'never take this session as the latest' if words is REFERENCE else 'leave this session out'}; can be repeated"
    which.add_argument("--exclude", metavar="ID", action="append", default=[], help=excluded)
    which.add_argument("--project", metavar="DIR", default="", type=home, help="the project's directory (default: the current one)")
    which.add_argument("--all-projects", action="store_true", help="look in all projects")
    how = parser.add_argument_group("how it is printed")
    bound = f"bound of the whole output in UTF-16 units, at least {SMALLEST_BOUND:,} (default {default_bound:,})"
    how.add_argument("--max-chars", metavar="N", type=lambda text: count(text, SMALLEST_BOUND), default=default_bound, help=bound)
    how.add_argument("--show-secrets", action="store_true", help="do not mask credentials")
    how.add_argument("--args-stdin", action="store_true", help="read options and words from standard input, as the slash command does")
    how.add_argument("-h", "--help", action="help", help="print this page")
    how.add_argument("--version", action="version", version=f"{prog} {VERSION}", help="print the version")
    return parser


def count(text: str, least: int = 0) -> int:
    """A whole number, for argparse."""
    if not (text.isdecimal() and len(text) < 10 and int(text) >= least):  # a longer one is no wish, and int() of thousands of digits is refused
        raise argparse.ArgumentTypeError(f"{cut(text, 60)} is no whole number of {least} or more")
    return int(text)


def positive(text: str) -> int:
    """One of 1 or more."""
    return count(text, 1)


def read_standard_input() -> str:
    """All of standard input as text but for NUL, which no path takes; empty where it is closed."""
    return sys.stdin.buffer.read().decode("utf-8", "replace").replace("\0", "") if sys.stdin is not None else ""


WORDS_WITH_HYPHEN = frozenset(("-", "-r", "--resume"))  # standard input, and what a pasted `claude --resume ID` holds


def with_values(parser: Parser, argv: list[str]) -> list[str]:
    """`argv` with each value joined to its option and free words last: argparse takes `--regexp -v` for two options, and no words
    on both sides of an option."""
    takes_value = {name: action.nargs != 0 for action in parser._actions for name in action.option_strings}
    options: list[str] = []
    words: list[str] = []
    for at, word in enumerate(argv):
        if word == "--":
            words += argv[at + 1 :]
            break
        if options and argv[at - 1] == options[-1] and takes_value.get(options[-1]) and word not in takes_value:
            options[-1] += "=" + word
        elif word.startswith("-") and word not in WORDS_WITH_HYPHEN:
            options.append(word)
        else:
            words.append(word)
    return [*options, "--", *words] if words else options


def parse_arguments(parser: Parser, argv: list[str]) -> argparse.Namespace:
    """Parsed arguments. With --args-stdin the text on standard input is added: leading options, then free text, kept as it is."""
    if "--args-stdin" in argv:
        argv = ["--args-stdin", *(word for word in argv if word != "--args-stdin"), *split_arguments(parser, read_standard_input())]
    else:
        argv = with_values(parser, argv)
    arguments = parser.parse_args(argv)
    arguments.done = arguments.lowered = ""  # what a report says of what was done, and of a bound that was lowered
    if arguments.args_stdin and arguments.max_chars > CLIENT_LIMIT:
        arguments.lowered = f" The bound of {arguments.max_chars} was lowered to {CLIENT_LIMIT}: the client cuts longer output."
        arguments.max_chars = CLIENT_LIMIT
    return arguments


LEADING_OPTION = r"\s*(-h|--[A-Za-z][\w-]*)(?:=(\"[^\"]*\"|'[^']*'|\S*))?(?=\s|$)"
ID_FIRST = r"\s*([0-9A-Fa-f][0-9A-Fa-f-]{3,35}(?:\.jsonl)?)\s+(--[\w-]+)"
OPTIONS_END = r"\A\s*--(?:\s|\Z)"  # as on a command line
OPTION_VALUE = r"\s+(\"[^\"]*\"|'[^']*'|\S+)"


def split_arguments(parser: Parser, text: str) -> list[str]:
    """The words of a slash command's arguments: its leading options with their values, then all the rest as one word."""
    takes_value = {name: action.nargs != 0 for action in parser._actions for name in action.option_strings}
    text = re.sub(r"(?:(?<=\s)|^)\\!", "!", text)  # the client escapes a word's leading ! so that it cannot start a skill's command (measured)
    words: list[str] = []
    named = ""
    if parser.takes_reference and (first := re.match(ID_FIRST, text)) and first[2] in takes_value:  # an id with options behind it is no title
        text, named = text[first.end(1) :], first[1]
    while (option := re.match(LEADING_OPTION, text)) is not None:
        words.append(option[1])
        text, value = text[option.end() :], option[2]
        if value is None and takes_value.get(option[1]) and (following := re.match(OPTION_VALUE, text)):
            value, text = following[1], text[following.end() :]
        if value is not None:
            words[-1] += "=" + (value[1:-1] if value[:1] in "\"'" and value[:1] == value[-1:] and len(value) > 1 else value)
    text = f"{named} {re.sub(OPTIONS_END, '', text).strip()}".strip()
    return [*words, "--", text] if text else words


def serve(parser: Parser, job: Callable[[argparse.Namespace], str], argv: Optional[list[str]]) -> int:
    """Run a skill's job and print its report. Returns the exit status: 0 done, 1 refused or interrupted, in one line."""
    unfit = sys.getfilesystemencoding() != "utf-8"  # names and words are UTF-8 to the client, whatever the locale
    if unfit and argv is None and sys.executable and os.name == "posix":  # elsewhere the mode may not help, and execv does not wait
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.argv])
    try:
        options = parse_arguments(parser, sys.argv[1:] if argv is None else argv)
        return write_report(parser.prog, job(options), options.done)
    except Refusal as refusal:
        if not (refusal.report and write_report(parser.prog, refusal.report)):
            write_complaint(f"{parser.prog}: {cut(' '.join(mask(clean(str(refusal))).split()), 1500)}\n")
        return 1
    except KeyboardInterrupt:
        write_complaint(f"{parser.prog}: interrupted, so there is no report; call it again for one\n")
        return 1
    finally:
        gc.freeze()  # else the interpreter would look for circles in all of it once more before it ends


# --------------------------------------------------------------------------------------------------- finding a session


class Card(NamedTuple):
    """A session as a list shows it, read from the head and the tail of its file."""

    path: str
    id: str
    time: float  # of the last conversation record, in seconds; 0: there is none
    directories: tuple[str, ...]  # the cwds seen
    headless: bool  # `claude -p` or an SDK wrote it
    sidechain: bool  # a sub-agent's
    branch: str
    copied: bool  # the last word, results aside, is another session's: a copy that nobody has used yet (what it tells of an open call is its own)

    @property
    def home(self) -> str:
        """The directory it began in."""
        return next(iter(self.directories), "another directory")


def read_head(file: IO[bytes]) -> list[Record]:
    """Records from the start of a transcript to the first prompt that was typed; where only commands stand in EDGE_BYTES, those."""
    holder = Transcript(file.name, file)
    for offset, data in read_lines(file):
        holder.take_line(offset, data)
        last = prompt_of(holder.records[-1]) if holder.records else None
        if (last and last.how != "command") or (offset > EDGE_BYTES and first_spoken(holder.records)):
            break
    return holder.release()


def head_of(path: str) -> list[Record]:
    """The same of the file at a path, none where it cannot be read."""
    with suppress(OSError), open(path, "rb") as file:
        return read_head(file)
    return []


def read_tail(file: IO[bytes]) -> list[Record]:
    """Records from the end of a transcript, as far back as it takes to hold a turn of the conversation (all, where there is none)."""
    records: list[Record] = []
    for start, block in blocks_from_end(file):
        holder = Transcript(file.name, file)
        for offset, data in read_lines(BytesIO(block)):
            holder.take_line(start + offset, data)
        records[:0] = holder.release()
        if any(map(is_conversation, records)):
            break
    return records


def read_card(path: str) -> Optional[Card]:
    """The card of a transcript, None where the file cannot be read."""
    try:
        with open(path, "rb") as file:
            head, tail = read_head(file), read_tail(file)
    except OSError:
        return None
    turns = [record for record in tail if is_conversation(record)]
    conversing = any(prompt_of(record) or record.kind == "assistant" for record in (*head, *tail))
    return Card(
        path,
        os.path.splitext(os.path.basename(path))[0],
        (seconds(turns[-1].timestamp) or 0.0) if turns and conversing else 0.0,
        tuple(dict.fromkeys(record.cwd for record in (*head, *tail) if record.cwd)),
        any(record.entrypoint.startswith("sdk") for record in tail[-20:]),
        bool(head) and all(record.sidechain for record in (*head, *tail)),
        next((record.branch for record in reversed(tail) if record.branch), ""),
        next((bool(record.forked_from) for record in reversed(turns) if not record.results), False),
    )


def first_spoken(records: list[Record]) -> str:
    """What names a session without a title: the first prompt that was typed, else the first command, one that the model got before any."""
    command = ""
    for prompt in filter(None, map(prompt_of, records)):
        if prompt.how != "command":
            return prompt.text
        command = command or prompt.text
    return command or next(filter(None, map(local_command, records)), "")


def is_conversation(record: Record) -> bool:
    """Whether this record is a turn of the conversation, not the harness's bookkeeping."""
    return record.kind in TURNS and not record.sidechain and not record.summary


def read_titles(path: str) -> dict[str, str]:
    """The last title of each kind, wherever in the file it stands. It is searched from its end, and only title rows are parsed."""
    found: dict[str, str] = {}
    with suppress(OSError), open(path, "rb", buffering=0) as file:
        for _, block in blocks_from_end(file):
            for fields in title_rows(block) if any(key in block for key in TITLE_KEYS) else ():
                found.setdefault(fields["type"], string(fields.get(TITLE_KINDS[fields["type"]])).strip())
            if found.get("custom-title"):  # no other counts beside it
                break
    return found


def title_rows(block: bytes) -> Iterator[dict[str, Any]]:
    """The title rows in a block of whole lines, the last first."""
    for line in reversed(block.split(b"\n")):
        if any(key in line[:TITLE_WITHIN] for key in TITLE_KEYS):
            yield from (fields for fields in reversed(parse_line(line).objects) if string(fields.get("type")) in TITLE_KINDS)


def blocks_from_end(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of the file's blocks of whole lines, the last and smallest first. One grows where a line is longer than that."""
    start, rest, width = os.fstat(file.fileno()).st_size, b"", TAIL_WIDTH
    while start:
        end, start = start, max(0, start - width)
        file.seek(start)
        block = file.read(end - start) + rest
        whole = block.find(b"\n") + 1 if start else 0
        if start and not whole:
            rest, width = block, width * 4
            continue
        rest, width = block[:whole], min(width * 4, BLOCK_BYTES)
        yield start + whole, block[whole:]


def current_title(titles: dict[str, str], spoken: str, identifier: str) -> str:
    """The title a session goes by: custom, else automatic, else the agent's, else what was said first, cut, else its id."""
    given = (" ".join(titles.get(kind, "").split()) for kind in TITLE_KINDS)
    return next(filter(None, given), "") or shortened(spoken, TITLE_CHARS) or identifier


def file_title(path: str) -> str:
    """The current title of the session in a file; nothing but title rows is parsed where there are any."""
    titles = read_titles(path)
    spoken = "" if any(titles.values()) else first_spoken(head_of(path))
    return current_title(titles, spoken, os.path.splitext(os.path.basename(path))[0])


def session_title(conversation: Conversation) -> str:
    """The same of a session that has been read."""
    transcript = conversation.transcript
    return current_title(transcript.titles, first_spoken(transcript.records), transcript.id)


class Found(NamedTuple):
    """The session that a reference names, the others it might have meant, and what the reader should know of the choice."""

    path: str
    others: list[str]
    note: str


def belongs(card: Card, directory: str) -> bool:
    """Whether a session is this directory's: folder names collide, so a recorded cwd decides. It may lie inside (the person went deeper),
    or not be recorded at all; but a folder that only shares the long prefix has to prove the very directory."""
    same = {os.path.normcase(normalized(path)) for path in (directory, os.path.realpath(directory))}
    seen = {os.path.normcase(normalized(path)) for path in card.directories}
    folder = os.path.basename(os.path.dirname(card.path))
    if folder[FOLDER_UNITS:] and folder not in {folder_name(path) for path in (directory, *same)}:
        return bool(seen & same)
    return not seen or any(path == own or path.startswith(own.rstrip(os.sep) + os.sep) for path in seen for own in same)


def project_cards(directory: str, everywhere: bool, barred: tuple[str, ...]) -> list[Card]:
    """Cards of the project's sessions, or of all; sub-agents' left out. Its worktrees' where it has none of its own but empty ones and
    those whose id begins with one of `barred`."""
    if everywhere:
        return [card for card in map(read_card, session_files(all_folders())) if card and not card.sidechain]
    cards: list[Card] = []
    for tree in (directory, *worktrees(directory)):
        cards += [card for card in map(read_card, session_files(project_folders(tree))) if card and not card.sidechain and belongs(card, tree)]
        if any(card.time and not card.id.lower().startswith(barred) for card in cards):
            break
    return cards


TITLE_KEYS = tuple(f'"{key}"'.encode() for key in TITLE_KINDS.values())
MOST_NAMED = 5  # sessions in one line for a person to choose from
NEAREST = 3  # sessions that are named where none was found
LOOKED_AT = 40  # files written last that are looked at for that: each costs a read of its head and tail
CLEARS = frozenset(("/clear", "/reset", "/new"))  # as they are typed, with a name for what is cleared or without; in a transcript all are /clear
CLEAR_SECONDS = (-5.0, 1.0)  # the history's /clear against the new file's own record of it (measured: 1 to 15 ms before)


def is_clear(command: str) -> bool:
    """Whether this command ends a session and begins the next."""
    return not CLEARS.isdisjoint(command.split()[:1])


def cleared_session(own: str, directory: str) -> Optional[str]:
    """Id of the session that /clear ended to begin session `own`, None where it did not begin so or the history does not tell.

    The new file's head says when it was cleared; the prompt history says who was cleared then, by any of several clients (measured).
    A session without a file yet has only its place in the history.
    """
    files = {session_id(path): path for path in session_files(all_folders())}
    if own not in files:
        return clear_just_before(own, [entry for entry in prompt_history() if entry.project == directory])
    told = (record for record in head_of(files[own]) if record.kind == "assistant" or prompt_of(record) or is_clear(local_command(record)))
    first, folder = next(told, None), os.path.dirname(files[own])
    began = seconds(first.timestamp) if first and is_clear(local_command(first)) else None
    if began is None:
        return None
    near = [
        (abs(entry.time - began), entry.session)
        for entry in prompt_history()
        if is_clear(entry.text) and entry.session != own and CLEAR_SECONDS[0] <= entry.time - began <= CLEAR_SECONDS[1]
        if entry.project == directory or os.path.dirname(files.get(entry.session, "")) == folder  # /cd moves the file alone (measured)
    ]
    return min(near)[1] if near else None


def clear_just_before(own: str, entries: list[Typed]) -> Optional[str]:
    """The session whose /clear stands just before the first entry of `own`; clients that were there already may type between, but none
    that is new since: it followed that /clear, or has made it an old one, which a client just started is not to be given (measured)."""
    first = next((at for at, entry in enumerate(entries) if entry.session == own), len(entries))
    cleared = next((at for at in reversed(range(first)) if is_clear(entries[at].text)), None)
    if cleared is None:
        return None
    known = {entry.session for entry in entries[: cleared + 1]}
    return entries[cleared].session if all(entry.session in known for entry in entries[cleared:first]) else None


def passed_over(excluded: Iterable[str]) -> tuple[str, ...]:
    """How the ids begin of the sessions that nobody gets unasked: the caller's own, and these."""
    return tuple(session_id(name) for name in (*excluded, own_session()) if name)


def latest_session(directory: str, everywhere: bool, excluded: set[str]) -> Found:
    """The session just cleared where the history knows it, else the newest that a person talked in."""
    own, barred = own_session(), passed_over(excluded)
    cards = project_cards(directory, everywhere, barred)
    known = {card.id.lower(): card for card in cards}
    talked = [card for card in cards if card.time and not card.id.lower().startswith(barred)]
    if own and not everywhere:
        cleared = cleared_session(own, directory)
        for _ in cards:  # what was cleared twice in a row has nothing between: the one before is meant
            if cleared in known and not known[cleared].time:
                cleared = cleared_session(cleared, directory)
        if cleared in known and known[cleared] in talked:
            return found_session(known[cleared].path, [], "the session that /clear ended")
    live = live_clients() if own else {}
    choice = [card for card in talked if card.id.lower() not in live]
    choice = [card for card in choice if not card.copied] or choice  # a copy says nothing new until it is used
    choice = [card for card in choice if not card.headless] or choice
    if not choice:
        raise Refusal(nothing_here(directory, everywhere, excluded, bool(talked)))
    card = max(choice, key=attrgetter("time"))
    note = f"the latest session of {'all projects' if everywhere else 'this project'}"
    if not everywhere and not belongs(card, directory):
        note += f", from {card.home}: {directory} has {'no other' if barred else 'none'}"
    if own and own not in known and own not in map(session_id, session_files(all_folders())):
        note += "; the own session has no file yet"
    return found_session(card.path, [], note)


def nothing_here(directory: str, everywhere: bool, excluded: set[str], all_open: bool) -> str:
    """Why there is no latest session, and which ones may be meant."""
    which = "with a conversation that is not open in a client now" if all_open else "with a conversation"
    where = "any project" if everywhere else directory
    looked = ", ".join(projects_roots() if everywhere else project_folders(directory)[:3])
    more = "" if everywhere else "; elsewhere with --project DIR or --all-projects"
    other, hint = ("other ", "; to go on with this one, /clear it first") if own_session() else ("", "")
    return f"no {other}session {which} in {where} (looked in {looked}{more}){hint}{describe_nearest(directory, (), excluded)}"


def describe_nearest(directory: str, paths: Sequence[str] = (), excluded: Iterable[str] = ()) -> str:
    """For a refusal, what cannot be read and the nearest sessions: those in the files `paths`, else the newest, this directory's own
    first, then those whose directory is gone: it may have been moved to here."""
    here, barred, folders = project_folders(directory), passed_over(excluded), all_folders()
    latest = sorted(session_files(folders), key=lambda path: (os.path.dirname(path) not in here, -modified(path)))
    cards = [card for card in map(read_card, paths or latest[:LOOKED_AT]) if card and (card.time or paths) and not card.sidechain]
    cards = [card for card in cards if not card.id.lower().startswith(barred)]
    cards = sorted(cards, key=lambda card: (not belongs(card, directory), os.path.isdir(card.home), -card.time))[:NEAREST]
    closed = [path for path in (*projects_roots(), *folders) if os.path.isdir(path) and not os.access(path, os.R_OK | os.X_OK)]
    closed += [path for path in latest if not os.access(path, os.R_OK)]
    said = f"; not permitted to read {closed[0]}: check the permissions" if closed else ""
    if cards:
        said += "; nearest: " + ", ".join(described(card) + ("" if belongs(card, directory) else f" in {card.home}") for card in cards)
    return said or ("" if own_session() else "; is CLAUDE_CONFIG_DIR the client's? A file is named with --file PATH")


def found_session(path: str, others: list[Card], note: str) -> Found:
    """A session as the answer. That it is open in another client is said, since what is read of it may be half a turn."""
    live = session_id(path) != own_session() and session_id(path) in live_clients()
    return Found(path, choices(others), "; ".join(filter(None, (note, "open in a live client now" if live else ""))))


def choices(cards: list[Card]) -> list[str]:
    """These sessions for a person to choose from, and how many more there are than can be named."""
    more = len(cards) - MOST_NAMED
    return [*map(described, cards[:MOST_NAMED]), *([f"and {more} more"] if more > 0 else [])]


def described(card: Card) -> str:
    """A session in a few words for a person to choose by: id, title, date."""
    day = datetime.fromtimestamp(card.time, timezone.utc).strftime("%Y-%m-%d %H:%M") if card.time else "no conversation"
    return f'{card.id} "{cut(file_title(card.path), 60)}" {day}'


def find_session(arguments: argparse.Namespace, default: str = "latest") -> Found:
    """The session that the command line names. Raises Refusal with the nearest candidates where it names none."""
    directory = project_directory(arguments.project)
    words = " ".join(arguments.ref) if arguments.ref else None
    named = [value for value in (words, arguments.id, arguments.title, arguments.file, arguments.latest or None) if value is not None]
    if len(named) > 1:
        raise Refusal("more than one session is named; give one of REF, --id, --title, --file, --latest, and put a title with blanks in quotes")
    if arguments.file is not None:
        return found_file(arguments.file)
    if arguments.title is not None:
        return find_title(arguments.title, directory)
    if arguments.latest or (not named and default == "latest"):
        return latest_session(directory, arguments.all_projects, set(arguments.exclude))
    return find_reference((named[0] if named else default).strip(), directory)


def find_reference(reference: str, directory: str) -> Found:
    """What free words name: tried as a path, an id, text with an id in it, `this`, a prefix, a title, in this order."""
    path = os.path.expanduser(reference)
    if not re.search(r"\w", reference):
        raise Refusal(f"no such session: '{reference}' is no name; give a title, an id, a prefix of 4 or more, or a path")
    if reference.endswith(".jsonl") and (os.sep in reference or os.path.isfile(reference)):
        return found_file(path)
    if identifier := re.search(UUID, reference):
        return find_id(identifier[0].lower(), directory)
    if os.sep in reference and os.path.isdir(path):
        advice = f"give the path of a .jsonl file in it, or --project {reference} for its latest session"
        raise Refusal(f"{reference} is a directory, not a transcript; {advice}")
    if reference == "this":
        if not own_session():
            raise Refusal("'this' works only inside Claude Code (CLAUDE_CODE_SESSION_ID is not set); name a session by id or title")
        return find_id(own_session(), directory)
    if agent := re.fullmatch(r"(agent-[\w-]+)(?:\.jsonl)?", reference):
        refuse_agent(agent[1])
    if re.fullmatch(r"[0-9a-fA-F][0-9a-fA-F-]{3,35}", reference) and (found := find_prefix(reference.lower())):
        return found
    return find_title(reference, directory)


def found_file(path: str) -> Found:
    """An explicit path. Raises Refusal where there is no file that can be read."""
    open_transcript(path).close()
    return found_session(path, [], "")


def find_id(identifier: str, directory: str = "") -> Found:
    """The session with this id. Raises Refusal where there is none, with others, those of `directory` first."""
    if found := find_prefix(identifier):
        return found
    looked = f"looked in {len(all_folders())} folders of {', '.join(projects_roots())}"
    hint = describe_nearest(directory)
    if identifier == own_session():
        hint = "; it is this very session, which holds nothing yet; --latest is the one before it" + hint
    elif any(entry.session == identifier for entry in prompt_history()):
        hint = "; its transcript is gone, but a search with --history finds what was typed in it"
    raise Refusal(f"no such session: {identifier} ({looked}){hint}")


def find_prefix(prefix: str) -> Optional[Found]:
    """The session with this id, else the one whose id begins so, None where there is none. Of copies in several folders the one with the
    newest conversation counts. Raises Refusal where several begin so, and where it cannot be read or is a sub-agent's."""
    paths = [path for path in session_files(all_folders()) if session_id(path).startswith(prefix)]
    paths = [path for path in paths if session_id(path) == prefix] or paths
    cards = [card for card in map(read_card, paths) if card]
    if paths and not cards:
        open_transcript(paths[0]).close()  # says why it cannot be read
    sessions = sorted((card for card in cards if not card.sidechain), key=attrgetter("time"), reverse=True)
    if cards and not sessions:
        raise Refusal(f"{session_id(paths[0])} is the transcript of a sub-agent, not a session; name the session that started it")
    if len({card.id.lower() for card in sessions}) > 1:
        raise Refusal(f"{prefix} fits {len(sessions)} sessions: {', '.join(choices(sessions))}; give more of the id")
    return found_session(sessions[0].path, [], "") if sessions else None


def find_title(title: str, directory: str) -> Found:
    """The session with this title, wherever it is: exact before part, this project before others, then the newest."""
    wanted = folded(" ".join(title.split()))
    if wanted[:1] + wanted[1:][-1:] in ('""', "''", "``", "“”"):  # nothing takes quotes off a slash command's words
        wanted = wanted[1:-1].strip()
    if not wanted:
        raise Refusal("an empty title names no session; give a title, an id, or --latest")
    trees = (directory, *worktrees(directory))
    titles = read_titles_in([folder for tree in trees for folder in project_folders(tree)])
    near = set(titles)
    for exact, here in ((True, True), (True, False), (False, True), (False, False)):
        if (exact, here) == (True, False):  # this project's do not have it
            titles.update(read_titles_in(all_folders(), titles))
        paths = [path for path, name in titles.items() if (name == wanted if exact else wanted in name) and (path in near or not here)]
        cards = [card for card in map(read_card, paths) if card and card.time and not card.sidechain]
        if here:
            cards = [card for card in cards if any(belongs(card, tree) for tree in trees)]
        if cards:
            cards.sort(key=attrgetter("time"), reverse=True)
            notes = ("" if exact else "part of the title", "" if here else "from another project")
            others = [card for card in cards if card.id != cards[0].id]  # an old copy in another folder is no other session
            return found_session(cards[0].path, others, ", ".join(filter(None, notes)))
    looked = f"looked at {len(titles)} sessions in {', '.join(projects_roots())}"
    hint = ("; options stand before the words" if " --" in title else "") + describe_nearest(directory, similar(wanted, titles))
    raise Refusal(f"no such session: '{cut(title, 200)}' is neither id nor title ({looked}){hint}")


def read_titles_in(folders: list[str], known: Container[str] = ()) -> dict[str, str]:
    """Path -> title, folded, of the sessions in these folders but the own (its title is carried over by /clear, and nobody means that one)."""
    own = own_session()
    return {path: folded(file_title(path)) for path in session_files(folders) if path not in known and session_id(path) != own}


def similar(wanted: str, titles: dict[str, str]) -> list[str]:
    """Paths of the sessions whose title comes near to the one wanted, or whose old summary holds it: no title, but a person may remember it."""
    import difflib  # only where nothing was found

    near = difflib.get_close_matches(wanted, dict.fromkeys(titles.values()), NEAREST, 0.5)
    summary = rf'"summary": ?"[^"\n]*(?i:{re.escape(wanted)})'  # a row at the head of an old client's file
    return [path for path, name in titles.items() if name in near or re.search(summary, read_small(path))]


def modified(path: str) -> float:
    """When a file was last written, 0 where it is gone. It decides nothing: a touched file is no newer conversation."""
    with suppress(OSError):
        return os.stat(path).st_mtime
    return 0.0


def session_id(path: str) -> str:
    """Id of the session in this file, in lower case."""
    return os.path.splitext(os.path.basename(path))[0].lower()


def refuse_agent(name: str) -> None:
    """Raises Refusal with the session that started it where a sub-agent has this name."""
    import glob  # only where one is named

    places = ((), ("*", "subagents", "**"))  # beside the session (old clients), and below it
    patterns = [os.path.join(glob.escape(root), "*", *place, f"{name}.jsonl") for root in projects_roots() for place in places]
    path = next((path for pattern in patterns for path in glob.iglob(pattern, recursive=True) if os.path.isfile(path)), None)
    if path:
        parent = next((f"session {record.session}" for record in head_of(path) if record.session), "an unknown session")
        raise Refusal(f"{name} is a sub-agent of {parent}; name that session")
