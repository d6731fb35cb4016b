#!/usr/bin/env python3
"""Measure the skills' scripts on made-up transcripts: every row of the speed and memory table, each beside its yardstick.

    python3 scripts/bench.py                              all rows: makes 1.4 GB in a temporary folder, takes some minutes
    python3 scripts/bench.py --keep .bench                the same, and the transcripts stay for the next time
    python3 scripts/bench.py --only compact --runs 9      the rows whose names begin so, more precisely
    python3 scripts/bench.py --small                      everything scaled down, to see that it works; nothing is judged

Every figure is a whole process: a command and its yardstick run in turns, and the best of each is compared, since whatever else
the machine does only ever adds. The yardstick y is a process that calls json.loads on every line, as bytes, of the same file;
others are an interpreter that does nothing, and half of the sessions. The peak is the memory of the command's own process.
A query that finds what it should not, or does not find what was planted, is a fault and no figure.

The transcripts have the shapes and shares of client 2.1.332: chain records begin {"parentUuid":, side records {"type":, answers
and attachments name their type after the payload, and saved requests and prompt snapshots repeat the conversation in bulk.
Their words follow Zipf's law over a large vocabulary, so that rare words are rare. The same options give the same bytes.

Exit status: 0 measured, whatever the verdicts; 1 a command failed or was wrong; 2 usage. Needs Linux or macOS (wait4).
"""
from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
import xml.etree.ElementTree as ET
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import IO, Any, NamedTuple, Optional

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = {"compact": "cc-compact/compact_session.py", "query": "cc-query-chat/query_session.py", "fork": "cc-fork/fork_session.py"}
MAKE = 1  # of the transcripts as they are made here; kept ones of another make are made anew
Y = "import json, sys\nwith open(sys.argv[1], 'rb') as file:\n    for line in file:\n        json.loads(line)"
MB = 1_000_000
BULK_SHARE = 0.7  # of the bytes, where the client saves whole requests: 60 to 80 % were seen
START = 1_790_000_000  # of the first session, seconds since 1970
RARE = "quollwort zephyxine"  # planted here and there; the vocabulary has neither q nor x
ABSENT = "vexaquil jaxoquet"  # stands nowhere
COMMON = "the that"  # stands in every block
PATTERN = r"[0-9]{3}[a-z]"  # a regular expression without a literal part; code is full of it
TITLE = "slate harbour rebuild"  # of one session only


class Refusal(Exception):
    """The bench cannot run: one line that says what, where, and what to do next. `main` ends with status 2."""


# ------------------------------------------------------------------------------------------------------------------ words


class Prose:
    """Pieces of text and of source code to put together: made once, since a gigabyte of single words would take minutes."""

    SYLLABLES = "ba co de fi gu la mo ne pi ro sa tu vi wa ly ker min dar sol ten ber gan hol ist"
    FREQUENT = "the and that of to in it is for on with as this be not are from or but all we can has was"

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        syllables = self.SYLLABLES.split()
        made = ("".join(chance.choices(syllables, k=chance.randint(2, 4))) for _ in range(30_000))
        self.words = list(dict.fromkeys((*self.FREQUENT.split(), *made)))
        self.weights = list(accumulate(1 / (rank + 2) for rank in range(len(self.words))))
        self.paragraphs = [self.paragraph() for _ in range(3_000)]
        self.functions = [self.function() for _ in range(800)]

    def some(self, count: int) -> list[str]:
        """That many words, the frequent ones often."""
        return self.random.choices(self.words, cum_weights=self.weights, k=count)

    def paragraph(self) -> str:
        """20 to 80 words; one in ten is not plain ASCII."""
        words = self.some(self.random.randint(20, 80))
        words[0] = words[0].capitalize()
        if self.random.random() < 0.1:
            words.insert(len(words) // 2, self.random.choice(("Größe", "déjà", "→", "“so”", "naïve", "🙂", "河")))
        return " ".join(words) + ".\n"

    def function(self) -> str:
        """Some lines of source code, with quotes, tabs and numbers."""
        name, *rest = self.some(6)
        number = self.random.randint
        body = "".join(f'\tif {word} > {number(100, 999)}px:\n\t\treturn "{word}\\n" + {name}[{number(0, 99)}]\n' for word in rest)
        return f"def {name}({rest[0]}, {rest[1]}=None):\n{body}\n"

    def text(self, chars: int) -> str:
        """Prose of about that length."""
        return "".join(self.random.choices(self.paragraphs, k=max(chars // 300, 1)))[: max(chars, 20)].strip()

    def code(self, chars: int) -> str:
        """Source code of about that length."""
        return "".join(self.random.choices(self.functions, k=chars // 250 + 1))[: max(chars, 20)]


# ------------------------------------------------------------------------------------------------------------ transcripts


class Plan(NamedTuple):
    """One session to be made: its id, directory and title, its size in bytes, the share of it that is saved requests, how
    often the rare words are said in it, and when it began (seconds)."""

    id: str
    directory: str
    title: str
    size: int
    bulk: float
    rare: int
    began: float


class SessionWriter:
    """A transcript while it is written, in the shapes of client 2.1.332. `tip` is the record that the next one hangs under."""

    def __init__(self, file: IO[bytes], plan: Plan, prose: Prose) -> None:
        self.file, self.plan, self.prose, self.random = file, plan, prose, prose.random
        self.tip: Optional[str] = None
        self.now = plan.began
        self.most = max(plan.size // 40, 600)  # characters of any one text, so that a session does not grow far past its size
        self.written = self.saved = self.turns = self.rare_said = 0
        self.context = 14_000
        self.recent: deque[str] = deque(maxlen=30)  # what saved requests say again

    # records

    def write(self, fields: dict[str, Any]) -> int:
        """Write one record; gives its bytes."""
        data = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self.file.write(data)
        self.written += len(data)
        return len(data)

    def side(self, kind: str, **fields: Any) -> None:
        """A record without a uuid."""
        self.write({"type": kind, **fields, "sessionId": self.plan.id})

    def new_uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def hex(self, digits: int) -> str:
        return f"{self.random.getrandbits(4 * digits):0{digits}x}"

    def stamp(self) -> str:
        """The time now, as records write it."""
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.now)) + f".{int(self.now * 1000) % 1000:03d}Z"

    def chain(self, before: dict[str, Any], after: Optional[dict[str, Any]] = None) -> int:
        """A record under the tip, which it becomes: `before` stands before its uuid and time, `after` behind. Gives its bytes."""
        self.now += self.random.uniform(0.5, 20)
        made = self.new_uuid()
        size = self.write({
            "parentUuid": self.tip, "isSidechain": False, **before, "uuid": made, "timestamp": self.stamp(), **(after or {}),
            "userType": "external", "entrypoint": "cli", "cwd": self.plan.directory, "sessionId": self.plan.id, "version": "2.1.332",
            "gitBranch": "main",
        })
        self.tip = made
        return size

    def said(self, text: str) -> str:
        """`text` as it is said: with the rare words where they are due, and noted for the requests that say it again."""
        if self.rare_said < self.plan.rare and self.written > self.plan.size * (self.rare_said + 0.5) / self.plan.rare:
            self.rare_said += 1
            text = f"{text} {RARE} {self.rare_said}"
        self.recent.append(text)
        return text

    # what happens

    def session(self) -> None:
        """Write the whole session: turns until it is as long as planned."""
        self.side("mode", mode="normal")
        self.side("permission-mode", permissionMode="default")
        while self.written < self.plan.size or self.rare_said < self.plan.rare:
            self.turn()
            if self.turns == 1:
                self.side("ai-title", aiTitle=self.prose.text(40))
        self.side("custom-title", customTitle=self.plan.title)
        self.side("last-prompt", lastPrompt="go on", leafUuid=self.tip)

    def turn(self) -> None:
        """A prompt, some calls with their results, an answer."""
        self.turns += 1
        self.now += self.random.choice((20, 60, 400, 4_000))
        snapshot = {"messageId": self.new_uuid(), "trackedFileBackups": {}, "timestamp": self.stamp()}
        self.side("file-history-snapshot", messageId=snapshot["messageId"], snapshot=snapshot, isSnapshotUpdate=False)
        text = self.said(self.prose.text(int(min(self.random.lognormvariate(5, 1), 8_000, self.most))))
        self.chain({"promptId": self.new_uuid(), "type": "user", "message": {"role": "user", "content": text}},
                   {"permissionMode": "default", "origin": {"kind": "human"}, "promptSource": "typed", "turnOrigin": "human",
                    "turnPosition": {"promptIndex": self.turns, "turnIndex": self.turns}})
        for number in range(self.random.randint(1, 12)):
            if number and self.written > self.plan.size:
                break
            self.step()
            if self.random.random() < 0.03:
                self.queued()
        self.answer({"type": "text", "text": self.said(self.prose.text(min(self.random.randint(100, 3_000), self.most)))})
        self.chain({"type": "system", "subtype": "turn_duration", "durationMs": 90_000, "messageCount": self.turns}, {"isMeta": False})
        self.side("last-prompt", lastPrompt=text[:200], leafUuid=self.tip)

    def queued(self) -> None:
        """A message typed while the agent worked."""
        text = self.said(self.prose.text(120))
        self.side("queue-operation", operation="enqueue", timestamp=self.stamp(), content=text)
        self.side("queue-operation", operation="remove", timestamp=self.stamp(), content=text, reason="absorbed_mid_turn")
        self.chain({"attachment": {"type": "queued_command", "prompt": text, "source_uuid": self.new_uuid(), "commandMode": "prompt",
                                   "origin": {"kind": "human"}, "timestamp": self.stamp(), "humanTurn": True}, "type": "attachment"},
                   {"rendered": [{"content": text}], "renderedRole": "system"})

    def answer(self, *blocks: dict[str, Any]) -> None:
        """One answer of the model, a record for each block, and the requests that were saved for it."""
        message, request = f"msg_01{self.hex(22)}", f"req_01{self.hex(22)}"
        self.context += self.random.randint(100, 900)
        usage = {"input_tokens": 7, "cache_creation_input_tokens": 300, "cache_read_input_tokens": self.context % 180_000, "output_tokens": 120,
                 "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0}, "service_tier": "standard",
                 "cache_creation": {"ephemeral_1h_input_tokens": 300, "ephemeral_5m_input_tokens": 0}, "speed": "standard"}
        reason = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
        for index, block in enumerate(blocks):
            self.chain({"message": {"id": message, "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": [block],
                                    "stop_reason": reason, "stop_sequence": None, "usage": usage},
                        "apiBlockIndex": index, "requestId": request, "requestedModel": "claude-opus-5-5", "type": "assistant"},
                       {"effort": "medium", "madeBy": "model", "session_id": self.plan.id})
        while self.saved < self.plan.bulk * self.written:
            self.saved += self.prompt_snapshot() if self.random.random() < 0.15 else self.saved_request()

    def prompt_snapshot(self) -> int:
        """The system prompt as it was sent: a link of the chain that holds no word of the conversation. Gives its bytes."""
        pieces = [self.prose.text(min(6_000, self.most)) for _ in range(6)]
        return self.chain({"attachment": {"type": "prompt_snapshot", "systemPrompt": pieces, "reminderFold": False, "echoWireToolInputs": False,
                                          "contextRendering": "announced"}, "type": "attachment"})

    def saved_request(self) -> int:
        """A request as it was sent, which says again what was said. Gives its bytes."""
        pieces = self.random.sample(self.recent, min(len(self.recent), 12))
        content = [{"type": "text", "text": text} for text in (*pieces, self.prose.text(min(self.random.randint(1_000, 40_000), self.most)))]
        digest = self.hex(64)
        blob = {"type": "api-request-blob", "sessionId": self.plan.id, "hash": digest, "message": {"role": "user", "content": content}}
        request = {"type": "api-request", "sessionId": self.plan.id, "id": self.new_uuid(), "timestamp": self.stamp(), "version": "2.1.332",
                   "querySource": "repl_main_thread", "params": {"model": "claude-opus-5-5", "max_tokens": 128_000}, "tail": [digest]}
        return self.write(blob) + self.write(request)

    def step(self) -> None:
        """A call and its result, which the client keeps twice: as the model got it, and in detail."""
        name = self.random.choices(("Read", "Bash", "Edit", "Grep"), (35, 35, 20, 10))[0]
        call, text, detail = getattr(self, f"call_{name.lower()}")()
        identifier = f"toolu_01{self.hex(22)}"
        blocks: list[dict[str, Any]] = [{"type": "tool_use", "id": identifier, "name": name, "input": call}]
        if self.random.random() < 0.4:
            blocks.insert(0, {"type": "text", "text": self.said(self.prose.text(self.random.randint(40, 400)))})
        if self.random.random() < 0.3:
            blocks.insert(0, {"type": "thinking", "thinking": "", "signature": self.hex(min(self.random.randint(300, 3_000), self.most))})
        self.answer(*blocks)
        asker = self.tip
        self.chain({"promptId": self.new_uuid(), "type": "user", "message": {
            "role": "user", "content": [{"tool_use_id": identifier, "type": "tool_result", "content": text}]}},
            {"toolUseResult": detail, "sourceToolAssistantUUID": asker, "session_id": self.plan.id})

    def output_chars(self) -> int:
        """How long an output is: mostly one or two thousand characters, one in a hundred a great deal more."""
        return min(int(self.random.lognormvariate(12, 0.7) if self.random.random() < 0.01 else self.random.lognormvariate(7.5, 1.1)), self.most)

    def path(self) -> str:
        return f"{self.plan.directory}/src/{self.prose.some(1)[0]}.py"

    def call_read(self) -> tuple[dict[str, Any], str, dict[str, Any]]:
        """(input, result, detail) of a file that was read."""
        path, text = self.path(), self.said(self.prose.code(self.output_chars()))
        lines = text.split("\n")
        detail = {"filePath": path, "content": text, "numLines": len(lines), "startLine": 1, "totalLines": len(lines)}
        return {"file_path": path}, "\n".join(f"{at}\t{line}" for at, line in enumerate(lines, 1)), {"type": "text", "file": detail}

    def call_bash(self) -> tuple[dict[str, Any], str, dict[str, Any]]:
        """(input, result, detail) of a command."""
        text = self.said(self.prose.text(self.output_chars()))
        call = {"command": f"make {' '.join(self.prose.some(3))}", "description": "Run it"}
        return call, text, {"stdout": text, "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False}

    def call_grep(self) -> tuple[dict[str, Any], str, dict[str, Any]]:
        """(input, result, detail) of a search."""
        text = "\n".join(f"{self.path()}:{self.random.randint(1, 900)}: {' '.join(self.prose.some(8))}" for _ in range(self.random.randint(0, 40)))
        call = {"pattern": self.prose.some(1)[0], "output_mode": "content"}
        return call, text, {"mode": "content", "numFiles": 0, "filenames": [], "content": text}

    def call_edit(self) -> tuple[dict[str, Any], str, dict[str, Any]]:
        """(input, result, detail) of an edit; the detail holds the whole file as it was."""
        path, old, new = self.path(), self.prose.code(self.random.randint(50, 900)), self.prose.code(self.random.randint(50, 1_200))
        lines = [*(f"-{line}" for line in old.splitlines()), *(f"+{line}" for line in new.splitlines())]
        detail = {"filePath": path, "oldString": old, "newString": new, "originalFile": self.prose.code(min(self.output_chars() * 4, self.most)),
                  "structuredPatch": [{"oldStart": 9, "oldLines": 9, "newStart": 9, "newLines": 9, "lines": lines}], "userModified": False}
        call = {"replace_all": False, "file_path": path, "old_string": old, "new_string": new}
        return call, f"The file {path} has been updated successfully.", detail


# ---------------------------------------------------------------------------------------------------------------- corpora


class Scale(NamedTuple):
    """How large everything is made: bytes of one long session, sessions of the whole history, their bytes together."""

    one: int
    sessions: int
    all: int


FULL, SMALL = Scale(60 * MB, 3_000, 1_200 * MB), Scale(1 * MB, 30, 3 * MB)
PROJECTS = 20  # folders that the history lies in


class Corpora(NamedTuple):
    """Where the transcripts are: three single ones in a configuration folder of their own, the whole history in another, and
    every second session of it (hard links) in a third."""

    bulk: Path
    plain: Path
    small: Path
    single: Path
    history: Path
    half: Path
    id: str  # of a session of the history; its title is TITLE


def make_id(number: int) -> str:
    return str(uuid.UUID(int=(0xBE7C << 112) | (4 << 76) | (8 << 60) | number))


def transcript_path(config: Path, plan: Plan) -> Path:
    """Where the client would keep it."""
    return config / "projects" / plan.directory.replace("/", "-") / f"{plan.id}.jsonl"


def history_plans(scale: Scale, chance: random.Random) -> Iterator[Plan]:
    """The sessions of a history: many small ones, a few large; half from clients that save requests; one in 250 says the rare words."""
    weights = [chance.lognormvariate(0, 1.4) for _ in range(scale.sessions)]
    for number, weight in enumerate(weights):
        wanted = number == scale.sessions // 2
        directory, title = f"/home/dev/project-{number % PROJECTS:02d}", TITLE if wanted else f"work on part {number}"
        size = 20_000 if wanted else max(int(scale.all * weight / sum(weights)), 3_000)
        yield Plan(make_id(1_000 + number), directory, title, size, BULK_SHARE * (number % 2), int(number % 250 == 8), START + 3_600.0 * number)


def write_transcript(path: Path, plan: Plan, prose: Prose) -> Path:
    """Make one transcript; gives its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb", buffering=1 << 20) as file:
        SessionWriter(file, plan, prose).session()
    return path


def make_corpora(folder: Path, scale: Scale) -> Corpora:
    """Make the transcripts below `folder`, unless the same ones are there already."""
    single, history, half = (folder / name for name in ("single", "history", "half"))
    long = {name: Plan(make_id(at), "/home/dev/orchard", name, scale.one, share, 5, START)
            for at, (name, share) in enumerate((("bulk", BULK_SHARE), ("plain", 0.0)))}
    plans = {**long, "small": Plan(make_id(2), "/home/dev/orchard", "small", 20_000, 0.0, 1, START)}
    paths = {name: transcript_path(single, plan) for name, plan in plans.items()}
    mark, made = folder / "made.json", {"make": MAKE, **scale._asdict()}
    if not mark.is_file() or json.loads(mark.read_bytes()) != made:
        for old in (single, history, half):
            shutil.rmtree(old, ignore_errors=True)
        prose = Prose(random.Random(1))
        for name, plan in plans.items():
            write_transcript(paths[name], plan, prose)
        for number, plan in enumerate(history_plans(scale, random.Random(2))):
            path = write_transcript(transcript_path(history, plan), plan, prose)
            if number // PROJECTS % 2 == 0:
                linked = transcript_path(half, plan)
                linked.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, linked)
        mark.write_text(json.dumps(made), encoding="utf-8")
    return Corpora(paths["bulk"], paths["plain"], paths["small"], single, history, half, make_id(1_000 + scale.sessions // 2))


# ------------------------------------------------------------------------------------------------------------------- rows


class Yardstick(NamedTuple):
    """What a command is measured beside: arguments of the interpreter (empty: nothing, the seconds themselves count), the
    configuration they run in, and how the figure is given ("y", "x" of half the history, "ms" over, "s")."""

    arguments: Sequence[str]
    config: Path
    unit: str


class Row(NamedTuple):
    """One line of the table. `bar` and `aim` are in the yardstick's unit, `memory` is the most in MB (0: no bar), `hits`
    whether a search has to find something (None: it is no search)."""

    name: str
    work: str
    script: str
    arguments: Sequence[str]
    config: Path
    yardstick: Yardstick
    bar: float
    aim: float
    memory: int = 0
    hits: Optional[bool] = None


def all_rows(made: Corpora, skills: Path) -> list[Row]:
    """The table of the spec's section 7, row by row."""
    clock, empty = Yardstick((), made.single, "s"), Yardstick(("-c", "pass"), made.single, "ms")
    found: list[Row] = []
    for kind, path in (("bulk", made.bulk), ("plain", made.plain)):
        y, file, config = Yardstick(("-c", Y, str(path)), made.single, "y"), ("--file", str(path)), made.single
        size = f"{path.stat().st_size // MB} MB {kind}"
        found += [
            Row(f"compact-{kind}", f"compact, {size}", "compact", file, config, y, 0.7, 0.5, 60),
            Row(f"query-rare-{kind}", f"query, {size}, rare words", "query", (*file, "--keyword", RARE), config, y, 0.6, 0.4, 0, True),
            Row(f"query-none-{kind}", f"query, {size}, no match", "query", (*file, "--keyword", ABSENT), config, y, 0.4, 0.4, 0, False),
            Row(f"query-common-{kind}", f"query, {size}, words in every block", "query", (*file, "--keyword", COMMON), config, y, 1.5, 1.0, 0, True),
            Row(f"query-regexp-{kind}", f"query, {size}, regexp, no literal", "query", (*file, "--regexp", PATTERN), config, y, 1.5, 1.0, 0, True),
            Row(f"fork-{kind}", f"fork, {size}, slim", "fork", file, config, y, 2.5, 1.5, 100),
        ]
    everywhere = ("--all-projects", "--keyword", RARE)
    half = Yardstick((str(skills / SCRIPTS["query"]), *everywhere), made.half, "x")
    found += [
        Row("query-all", "query the whole history, rare words", "query", everywhere, made.history, clock, 4.0, 2.0, 150, True),
        Row("query-growth", "the same beside half of it", "query", everywhere, made.history, half, 2.5, 2.1, 150, True),
        Row("list", "list the whole history", "query", ("--all-projects", "--list"), made.history, clock, 1.5, 0.75),
        Row("resolve-id", "resolve an id in it", "compact", ("--id", made.id), made.history, clock, 0.5, 0.25),
        Row("resolve-title", "resolve a title in it", "compact", ("--all-projects", "--title", TITLE), made.history, clock, 1.5, 0.75),
    ]
    for script, more in (("compact", ()), ("query", ("--keyword", RARE)), ("fork", ())):
        found.append(Row(f"small-{script}", f"{script}, a small session", script, ("--file", str(made.small), *more), made.single, empty, 60, 40))
    return found


# ---------------------------------------------------------------------------------------------------------------- measure


class Run(NamedTuple):
    """One process: how long it took (seconds), its peak memory (MB), its exit status, what it printed."""

    seconds: float
    peak: float
    status: int
    out: bytes
    err: bytes


LAUNCHER = """
import os, sys, time
start = time.perf_counter()
child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(child, 0)
os.write(int(sys.argv[1]), b"%.6f %d %d" % (time.perf_counter() - start, used.ru_maxrss, os.waitstatus_to_exitcode(status)))
"""  # a process of its own: what the system counts as a child's peak begins with the memory of the process that starts it


def run(command: Sequence[str], config: Path) -> Run:
    """Run a command as a person at a shell would, in an environment without the caller's sessions."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(config), "CLAUDE_CONFIG_DIR": str(config)}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as figures:
        subprocess.run([command[0], "-I", "-S", "-c", LAUNCHER, str(figures.fileno()), *command], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                       env=environment, cwd=config, check=True, pass_fds=[figures.fileno()])
        for file in (out, err, figures):
            file.seek(0)
        elapsed, peak, status = figures.read().split()
        return Run(float(elapsed), int(peak) * (1 if sys.platform == "darwin" else 1024) / MB, int(status), out.read(), err.read())


class Result(NamedTuple):
    """A row as it was measured: the command's and the yardstick's seconds, run by run, the peak in MB, and what is wrong with it."""

    seconds: list[float]
    beside: list[float]
    peak: float
    fault: str


def fault_of(row: Row, done: Run) -> str:
    """What is wrong with a run, empty where nothing is."""
    if done.status:
        last = done.err.decode("utf-8", "replace").strip().splitlines()[-1:]
        return f"status {done.status}: {''.join(last)[:200]}"
    try:
        root = ET.fromstring(done.out)
    except ET.ParseError as error:
        return f"its report does not parse: {error}"
    if row.hits is not None and (root.get("matched", "0") != "0") is not row.hits:
        return f"matched {root.get('matched')}, where there is {'something' if row.hits else 'nothing'} to find"
    return ""


def run_row(row: Row, command: Sequence[str]) -> Run:
    """Run the row's command, and take away the files it leaves beside the transcripts."""
    folders = list((row.config / "projects").iterdir()) if row.script == "fork" else []
    before = {path for folder in folders for path in folder.iterdir()}
    done = run(command, row.config)
    for path in {path for folder in folders for path in folder.iterdir()} - before:
        path.unlink()
    return done


def measure(row: Row, python: str, skills: Path, runs: int) -> Result:
    """Run the command and its yardstick in turns, after one of each that warms the file and compiles the modules."""
    command = (python, str(skills / SCRIPTS[row.script]), *row.arguments)
    yardstick = (python, *row.yardstick.arguments) if row.yardstick.arguments else ()
    seconds, beside, peak = [], [], 0.0
    for turn in range(runs + 1):
        if yardstick:
            done = run(yardstick, row.yardstick.config)
            if done.status:
                return Result([], [], 0, f"the yardstick failed: {done.err.decode('utf-8', 'replace')[-200:]}")
            beside += [done.seconds] if turn else []
        done = run_row(row, command)
        if fault := fault_of(row, done):
            return Result([], [], 0, fault)
        seconds += [done.seconds] if turn else []
        peak = max(peak, done.peak)
    return Result(seconds, beside, peak, "")


def figure(unit: str, seconds: float, beside: float) -> float:
    """A command's time in the unit of its yardstick."""
    return (seconds - beside) * 1000 if unit == "ms" else seconds if unit == "s" else seconds / beside


def shown(value: float, unit: str) -> str:
    return f"{value:.0f} ms" if unit == "ms" else f"{value:.2f} {unit}"


def table_line(row: Row, result: Result, judged: bool) -> list[str]:
    """A measured row, cell by cell: work, bar, aim, best, median, seconds, peak, verdict."""
    unit = row.yardstick.unit
    limits = [row.name, row.work, shown(row.bar, unit), shown(row.aim, unit)]
    if result.fault:
        return [*limits, "", "", "", "", f"FAULT: {result.fault}"]
    best = figure(unit, min(result.seconds), min(result.beside, default=0.0))
    middle = figure(unit, median(result.seconds), median(result.beside) if result.beside else 0.0)
    verdict = "aim met" if best <= row.aim else "bar met" if best <= row.bar else "MISSED"
    if row.memory and result.peak > row.memory:
        verdict = f"MISSED: {row.memory} MB" if verdict != "MISSED" else "MISSED, memory too"
    peak = f"{result.peak:.0f} MB" + (f" of {row.memory}" if row.memory else "")
    return [*limits, shown(best, unit), shown(middle, unit), f"{min(result.seconds):.3f}", peak, verdict if judged else "not judged"]


HEADINGS = ["row", "work", "bar", "aim", "best", "median", "seconds", "peak", "verdict"]


def laid_out(lines: Sequence[Sequence[str]]) -> str:
    """The table as text."""
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEADINGS) - 1)]
    return "\n".join("  ".join((*(cell.ljust(width) for cell, width in zip(line, widths)), line[-1])) for line in lines)


def yardstick_notes(made: Corpora, python: str, runs: int) -> Iterator[str]:
    """What the interpreter alone costs, and y of each long transcript, as a whole process and without the interpreter."""
    empty = min(run((python, "-c", "pass"), made.single).seconds for _ in range(runs + 3))
    yield f"The empty interpreter (python3 -c pass) takes {empty * 1000:.0f} ms."
    for name, path in (("bulk", made.bulk), ("plain", made.plain)):
        y = min(run((python, "-c", Y, str(path)), made.single).seconds for _ in range(runs + 1))
        yield (f"y of {name}, {path.stat().st_size / MB:.1f} MB: {y:.3f} s as a whole process, which is the yardstick below; "
               f"{y - empty:.3f} s without the interpreter.")


# ---------------------------------------------------------------------------------------------------------------- command


def real_interpreter(named: str) -> str:
    """The interpreter itself where a shim is named, which would cost more than the script. Raises Refusal where it does not start."""
    try:
        done = subprocess.run([named, "-c", "import sys; print(sys.executable)"], capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Refusal(f"--python {named} does not start ({error}); name a Python 3.9 or newer") from error
    return done.stdout.strip()


def bench(options: argparse.Namespace, folder: Path) -> int:
    """Make the transcripts, measure the rows, print the table. Returns the exit status."""
    python, skills = real_interpreter(options.python), options.skills.resolve()
    print(f"Making the transcripts in {folder} ...", file=sys.stderr)
    made = make_corpora(folder, SMALL if options.small else FULL)
    rows = [row for row in all_rows(made, skills) if row.name.startswith(tuple(options.only or [""]))]
    if not rows:
        raise Refusal(f"--only {' '.join(options.only)}: no row begins so; the rows are {', '.join(row.name for row in all_rows(made, skills))}")
    version = subprocess.run([python, "--version"], capture_output=True, check=True, text=True).stdout.strip()
    print(f"{version}, {os.cpu_count()} cores, best and median of {options.runs}, whole processes, warm files.")
    for note in yardstick_notes(made, python, options.runs):
        print(note, flush=True)
    lines, faults = [HEADINGS], 0
    for row in rows:
        print(f"{row.name} ...", file=sys.stderr)
        if not (skills / SCRIPTS[row.script]).is_file():
            lines.append([row.name, row.work, shown(row.bar, row.yardstick.unit), shown(row.aim, row.yardstick.unit), "", "", "", "", "not there"])
            continue
        result = measure(row, python, skills, options.runs)
        faults += bool(result.fault)
        lines.append(table_line(row, result, not options.small))
    print(f"\n{laid_out(lines)}")
    return 1 if faults else 0


def whole(text: str) -> int:
    """A whole number above 0, for argparse."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is no whole number above 0")
    return int(text)


EPILOG = """examples:
  python3 scripts/bench.py --keep .bench
  python3 scripts/bench.py --keep .bench --only compact --runs 9
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.py", description="Measure the skills' scripts on made-up transcripts, each beside its yardstick.",
                                     epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--python", metavar="PATH", default=sys.executable, help="the interpreter to measure with (default: the one that runs this)")
    add("--only", metavar="ROW", action="append", help="only the rows whose names begin so; can be repeated")
    add("--keep", metavar="DIR", type=Path, help="make the transcripts there, use those that are there already (default: a temporary folder)")
    add("--runs", metavar="N", type=whole, default=5, help="how often each command is measured (default %(default)s)")
    add("--small", action="store_true", help="everything scaled down, to see that it works; nothing is judged")
    add("--skills", metavar="DIR", type=Path, default=ROOT / "skills", help="the skills to measure (default: those of this project)")
    return parser


def main(argv: Optional[list[str]] = None) -> int:
    options = build_parser().parse_args(argv)
    try:
        if options.keep:
            return bench(options, options.keep.resolve())
        with tempfile.TemporaryDirectory(prefix="cc-bench-") as folder:
            return bench(options, Path(folder).resolve())
    except (Refusal, OSError) as error:
        print(f"bench.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
