#!/usr/bin/env python3
"""Sessions with planted facts: a realistic transcript made from a seed, and what a good report says of it and what it must not say.

    session = planted_session(7)                    lines of a transcript, facts, falsehoods
    session = planted_session(7, prompts=500)       at least 40 prompts
    python3 tests/planted.py SEED FILE [PROMPTS]    writes one, to look at, and prints what is planted in it

The same seed gives the same bytes. The records have the shapes of client 2.1.332 (shared/fixtures): chain records with all their
fields, answers split over records, results with their detail, whole requests and prompt snapshots as bulk, snapshots, pins, titles.

A fact is a nonsense mark (VERMILION-17) in a place that spec section 3 promises to show; no ordinary text holds a mark, and no two
facts share one. A falsehood is a mark that stands in the file, but that a report must not show, or not in these elements: what was
rewound, taken back, refused, repaired or replaced, what the harness wrote in the person's role, what only the saved requests hold.
"""
from __future__ import annotations

import json
import random
import re
import sys
import time
import uuid
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Optional

Json = dict[str, Any]

FEWEST_PROMPTS = 40  # below that there is no room for prompts that say nothing of note
START = 1_793_000_000  # of the first record, seconds since 1970
ZERO = "00000000-0000-0000-0000-000000000000"
ANSWER_TOKENS = 120  # of every answer
PERSON = ("user", "prompt", "decisions")  # elements that hold the person's own words
AGENT = ("agent", "final-agent-message")  # elements that hold the agent's own words
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAADAAAAAwCAIAAADYYG7QAAAQKUlEQVR4nBXYobpFUBCG4V0URVEURVEURVEURVGUryiKoiiKoiiK" * 40

COLOURS = (
    "VERMILION", "HARLEQUIN", "CERULEAN", "OCHRE", "MAGENTA", "VIRIDIAN", "AMARANTH", "CELADON", "GAMBOGE", "HELIOTROPE", "INDIGO",
    "JASPER", "KERMES", "LAPIS", "MALACHITE", "NACARAT", "ORPIMENT", "PORPHYRY", "QUARTZ", "RUSSET", "SAFFRON", "TEAL", "UMBER", "WENGE",
    "XANTHIC", "ZAFFRE", "BISTRE", "CARMINE", "DAMASK", "ECRU", "FUCHSIA", "GRANITE", "ISABELLINE", "MADDER", "SMALT", "WOAD",
)
NOUNS = (
    "tarn", "gauge", "basalt", "ledger", "sluice", "meadow", "lantern", "turbine", "quarry", "harbour", "spindle", "orchard", "pulley", "kiln",
    "weir", "beacon", "hopper", "valve", "compass", "trellis", "furrow", "cistern", "gantry", "buoy", "anvil", "plinth", "rudder", "silo",
    "barge", "culvert", "jetty", "loom", "mast", "pylon", "rafter", "sextant", "tiller", "vane", "winch", "café", "naïveté", "Größe",
)
ADJECTIVES = (
    "drifting", "measured", "shallow", "brittle", "uneven", "northern", "hollow", "spare", "rusty", "quiet", "narrow", "loose", "early", "damp",
    "copper", "painted", "borrowed", "slanted", "doubled", "tidy", "remote", "plain",
)
VERBS = (
    "reads", "feeds", "covers", "shifts", "counts", "carries", "drains", "mirrors", "opens", "lifts", "follows", "weighs", "sorts", "turns", "fills",
    "trims", "drops", "joins",
)
SENTENCES = (
    "the {a} {n} {v} the {n} near the {n}",
    "look at the {n} and say why the {a} {n} {v} it",
    "in `src/{n}.py` the {n} comes before the {a} {n}, and the {n} {v} both",
    "could the {n} <{n}> & the \"{a}\" {n} share one {n}?",
    "there are {d} {n}s, the {a} one {v} the rest",
    "the {n} that {v} the {n} is {a} since the {n} came in",
    "{n} → {n}, then the {a} {n} 🙂",
    "show how the {a} {n} {v} a {n} when the {n} is {a}",
    "the {n} and the {n} look {a} to me, more than the {n}",
    "next comes the {n}, it {v} the {a} {n} by {d} percent",
)
WEAK_CUES = (  # what people also say without setting a rule, correcting or choosing
    "I don't see why the {a} {n} {v} it",
    "it must be the {n} that {v} the {n}",
    "the {a} {n} always {v} on the {d}th",
    "let's go through the {n} once more",
    "the {n} never gets {a} that way, as far as I know",
    "you never know with a {a} {n}",
    "no idea why the {a} {n} {v} it",
    "we must have seen {d} {n}s by now",
    "I always forget where the {n} is",
    "wrong or not, the {n} {v} the {n}",
    "don't you find the {n} {a}?",
    "what is wrong with the {a} {n}?",
    "no rush with the {n}",
    "never mind the {n}",
    "take a look at the {a} {n}",
    "that is not urgent, the {n} {v} it anyway",
)
RULES = (  # the first four in every session
    "never touch the {m} folder",
    "always run the {m} check before a commit",
    "you must keep the {m} header in every file",
    "don't rename the {m} table",
    "from now on never write {m} in upper case",
    "do not add a dependency on {m}",
    "the {m} header must be in every file",
    "the {m} table must not be renamed",
    "please always run {m} first",
    "ok, but never touch {m} without asking",
    "we must keep {m} as it is",
    "I don't want {m} renamed",
    "remember, always close {m} at the end",
    "{m} has to stay backwards compatible",
    "nobody touches {m} without my ok",
    "no new dependencies in {m}",
    "avoid {m} wherever you can",
    "leave the {m} parser alone",
    "{m} can't be changed, customers rely on it",
    "bitte niemals {m} ändern",
)
CORRECTIONS = (  # the first three in every session
    "no, the {m} parser is the right one",
    "that's wrong, use {m} instead",
    "stop, not that one, I meant {m}",
    "no, not like this: {m} goes first",
    "that is not what I asked for, I wanted {m}",
    "wrong file, it is {m}",
    "hm, no. take {m}",
    "that broke {m}, put it back",
    "I said {m}, not the other one",
    "you forgot {m}",
    "undo that, {m} was right",
    "this isn't what I wanted, {m} please",
    "not {m}, the other one",
    "hold on, {m} is not the problem",
    "go back to {m}",
    "why did you change {m}? revert it",
    "nein, {m} kommt zuerst",
)
CHOICES = (  # the first one in every session
    "let's go with {m}",
    "I prefer the {m} variant",
    "option B then, the {m} one",
    "let's use the {m} approach",
    "I'd rather have {m}",
    "ok, we take {m}",
    "take the second one, {m}",
    "yes, go with {m}",
    "I'd go for {m}",
    "{m} sounds good, do it",
    "ok {m} it is",
    "the second option, {m}",
    "prefiero {m}",
)
MENTIONS = (  # a prompt like any other, its mark among the first words
    "look into {m} next",
    "what about {m}",
    "please add {m} to the list",
    "and {m}, how far is it",
    "write a test for {m}",
    "explain {m} to me",
)


HARNESS_TEXTS: tuple[tuple[str, str, Json], ...] = (  # kind, text, fields of the record beside it
    ("notification of a task", "<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\n<summary>Background command \"{m}\" "
     "completed</summary>\n</task-notification>", {"origin": {"kind": "task-notification"}, "turnOrigin": "task_notification"}),
    ("notification with a preamble", "[SYSTEM NOTIFICATION - NOT USER INPUT] A background task finished.\n<task-notification>\n"
     "<task-id>b2</task-id>\n<summary>{m} failed</summary>\n</task-notification>", {}),
    ("system reminder", "<system-reminder>\nYou must always mind {m}.\n</system-reminder>", {}),
    ("marked system reminder", "<system-reminder>\nNever mention {m}.\n</system-reminder>", {"isMeta": True}),
    ("hook feedback", "Stop hook feedback:\n- [check.sh]: you must run {m}", {"isMeta": True}),
    ("message of another session", '<cross-session-message from="west">use {m}</cross-session-message>', {"origin": {"kind": "peer"}}),
    ("message of a teammate", '<teammate-message teammate_id="east">never {m}</teammate-message>', {}),
    ("output of a local command", "<local-command-stdout>Set to {m}</local-command-stdout>", {"rowSource": "local"}),
    ("opened file", "<ide_opened_file>The user opened the file /src/{m} in the IDE.</ide_opened_file>", {}),
)


class Fact(NamedTuple):
    """Something the report should hold: `needle`, inside an element named in `within` (anywhere where that is empty), with `also` beside it.

    Where several wordings are right, `needle` has them all, with " | " between.
    """

    kind: str
    needle: str
    within: tuple[str, ...] = ()
    also: str = ""


class Falsehood(NamedTuple):
    """Something that must not stand inside an element named in `within`, nor anywhere where that is empty."""

    kind: str
    needle: str
    within: tuple[str, ...] = ()


class Session(NamedTuple):
    """A transcript's id and lines (without line ends), and what is true and false of it."""

    id: str
    lines: list[str]
    facts: list[Fact]
    falsehoods: list[Falsehood]


# ------------------------------------------------------------------------------------------------ judging a report


def plain(text: str) -> str:
    """Text without what a report may change: case, blanks, hyphens, separators of thousands."""
    return re.sub(r"[\s-]+", " ", re.sub(r"(?<=\d),(?=\d{3})", "", text)).casefold()


def own_text(element: ET.Element) -> str:
    """The element's attributes and its own text, without its children's."""
    return plain(" \n ".join((*element.attrib.values(), element.text or "", *(child.tail or "" for child in element))))


def subtree_text(element: ET.Element) -> str:
    """All attributes and texts of the element and what stands below it."""
    return " \n ".join(own_text(below) for below in element.iter())


def places(root: ET.Element, needle: str, within: Sequence[str]) -> list[ET.Element]:
    """The elements whose own text holds `needle`, below (or at) one of those named; a word is not found inside a longer one."""
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(re.escape(plain(wording)) for wording in needle.split(' | '))})(?!\w)")
    rooms = [room for name in within for room in root.iter(name)] if within else [root]
    return [element for room in rooms for element in room.iter() if pattern.search(own_text(element))]


def holds(root: ET.Element, fact: Fact) -> bool:
    """True where the report says it."""
    found = places(root, fact.needle, fact.within)
    return any(re.search(rf"(?<![\w.]){re.escape(plain(fact.also))}(?![\w.])", subtree_text(place)) for place in found) if fact.also else bool(found)


def says(root: ET.Element, falsehood: Falsehood) -> bool:
    """True where the report says what it must not."""
    return bool(places(root, falsehood.needle, falsehood.within))


# ------------------------------------------------------------------------------------------------ words


class Prose:
    """Ordinary text of any length, and marks that occur nowhere in it."""

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        numbers = chance.sample(range(10, 100), 60)
        self.marks = [f"{colour}-{number}" for number in numbers[:12] for colour in COLOURS]
        chance.shuffle(self.marks)

    def mark(self) -> str:
        """A mark that no other text of the session holds."""
        return self.marks.pop()

    def file_mark(self) -> str:
        """The name of a file that no other text of the session holds."""
        return self.mark().lower().replace("-", "_") + ".py"

    def sentence(self, cues: float = 0.0) -> str:
        """One sentence; by the chance `cues` it holds a word that often marks a rule, but here does not."""
        chosen = self.random.choice(WEAK_CUES if self.random.random() < cues else SENTENCES)
        pools = {"n": NOUNS, "a": ADJECTIVES, "v": VERBS}
        return re.sub(r"\{(\w)\}", lambda slot: str(self.random.randint(2, 90)) if slot[1] == "d" else self.random.choice(pools[slot[1]]), chosen)

    def text(self, words: int, cues: float = 0.0) -> str:
        """About that many words, in paragraphs and now and then a list."""
        paragraphs: list[str] = []
        while words > 0:
            sentences = [self.sentence(cues) for _ in range(min(self.random.randint(1, 6), words // 10 + 1))]
            words -= sum(len(sentence.split()) for sentence in sentences)
            listed = self.random.random() < 0.15
            paragraphs.append("\n".join(f"- {sentence}" for sentence in sentences) if listed else ". ".join(sentences) + ".")
        return "\n\n".join(paragraphs)

    def length(self) -> int:
        """How many words people and agents use: mostly few, now and then up to 600."""
        low, high = self.random.choices(((10, 40), (40, 120), (120, 300), (300, 600)), (60, 25, 10, 5))[0]
        return self.random.randint(low, high)

    def around(self, phrase: str, words: int, place: str) -> str:
        """A text of about that many words with `phrase` as a sentence at its "head", "middle" or "tail"."""
        sentences = [self.sentence() for _ in range(words // 10)]
        at = {"head": 0, "middle": len(sentences) // 2, "tail": len(sentences)}[place]
        return ". ".join([*sentences[:at], phrase, *sentences[at:]]) + "."

    def anywhere(self) -> str:
        """A place for `around`: half of them the head."""
        return self.random.choices(("head", "middle", "tail"), (2, 1, 1))[0]

    def code(self, lines: int) -> str:
        """A piece of source text."""
        return "".join(f"def {self.random.choice(NOUNS)}_{number}(x):\n    return x {self.random.choice('+-*')} {self.random.randint(1, 99)}\n"
                       for number in range(lines // 2))


# ------------------------------------------------------------------------------------------------ records


class Writer:
    """A transcript while it is written. `tip` is the record that the next one hangs under."""

    def __init__(self, seed: int, chance: random.Random, prose: Prose) -> None:
        self.random, self.prose = chance, prose
        self.id = str(uuid.UUID(int=(0xFAC7 << 112) | (4 << 76) | (8 << 60) | seed))
        self.cwd = f"/home/dev/{prose.mark().lower()}-app"
        self.branch = f"feature/{prose.mark().lower()}"
        self.model = "claude-opus-5-5"
        self.lines: list[str] = []
        self.tip: Optional[str] = None
        self.now = float(START)
        self.prompt_id = self.uuid()
        self.prompts = self.turns = 0
        self.said = ""
        self.context = 14_000
        self.slug = "warm-jumping-pumpkin"
        self.adds_note = False  # to the next refusal: every second one has it

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def hex(self, digits: int) -> str:
        return f"{self.random.getrandbits(4 * digits):0{digits}x}"

    def stamp(self) -> str:
        """The time now, as records write it."""
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.now)) + f".{int(self.now * 1000) % 1000:03d}Z"

    def wait(self, low: float, high: float) -> None:
        self.now += self.random.uniform(low, high)

    def write(self, fields: Json) -> None:
        self.lines.append(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))

    def side(self, kind: str, **fields: Any) -> None:
        """A record without a uuid. The session's id comes first in saved requests, else last."""
        if kind.startswith("api-request"):
            self.write({"type": kind, "sessionId": self.id, **fields})
        else:
            self.write({"type": kind, **fields, "sessionId": self.id})

    def chain(self, before: Json, after: Optional[Json] = None, *, head: Optional[Json] = None, uuid: str = "") -> str:
        """A chain record under the tip, which it becomes: `before` stands before its uuid and time, `after` behind. Gives its uuid."""
        self.wait(0.02, 0.4)
        made = uuid or self.uuid()
        self.write({
            **(head or {"parentUuid": self.tip, "isSidechain": False}), **before, "uuid": made, "timestamp": self.stamp(), **(after or {}),
            "userType": "external", "entrypoint": "cli", "cwd": self.cwd, "sessionId": self.id, "version": "2.1.332", "gitBranch": self.branch,
        })
        self.tip = made
        return made

    # what the person does

    def begin(self) -> str:
        """A new turn a while later, with the snapshot that precedes its prompt. Gives the uuid for the prompt."""
        self.wait(*self.random.choices(((8, 90), (90, 900), (900, 30_000)), (70, 25, 5))[0])
        self.prompts, self.turns, self.prompt_id = self.prompts + 1, self.turns + 1, self.uuid()
        made = self.uuid()
        self.side("file-history-snapshot", messageId=made, snapshot={"messageId": made, "trackedFileBackups": {}, "timestamp": self.stamp()},
                  isSnapshotUpdate=False)
        return made

    def human(self) -> Json:
        """The fields that say that a person typed it."""
        return {"origin": {"kind": "human"}, "turnOrigin": "human", "turnPosition": {"promptIndex": self.prompts, "turnIndex": self.turns}}

    def prompt(self, content: object, source: str = "typed", **more: Any) -> None:
        """What the person typed: a string or blocks."""
        made = self.begin()
        self.said = content if isinstance(content, str) else "[Image #1]"
        human = self.human()
        after = {"permissionMode": "default", "origin": human.pop("origin"), "promptSource": source, **human}
        self.chain({"promptId": self.prompt_id, "type": "user", "message": {"role": "user", "content": content}}, {**more, **after}, uuid=made)

    def shell(self, command: str, output: str) -> None:
        """A command that the person ran, and what it printed."""
        made = self.begin()
        self.said = f"! {command}"
        self.chain({"promptId": self.prompt_id, "type": "user", "message": {"role": "user", "content": f"<bash-input>{command}</bash-input>"}},
                   {"rowSource": "local"}, uuid=made)
        human = self.human()
        human.pop("origin")
        self.harness(f"<bash-stdout>{output}</bash-stdout><bash-stderr></bash-stderr>", {"rowSource": "local", **human})

    def slash(self, name: str, arguments: str, body: str) -> None:
        """A slash command of the person's own, and the body that the client adds."""
        made = self.begin()
        self.said = f"/{name} {arguments}"
        content = f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n<command-args>{arguments}</command-args>"
        self.chain({"promptId": self.prompt_id, "type": "user", "message": {"role": "user", "content": content}}, self.human(), uuid=made)
        self.meta([{"type": "text", "text": body}], {"rowSource": "local"}, companion=True)

    def queued(self, text: str, mode: str = "prompt", kind: str = "human") -> None:
        """A message that arrived while the agent worked: an attachment in the middle of the turn."""
        source, delivery, typed = self.uuid(), self.uuid(), self.stamp()
        self.side("queue-operation", operation="enqueue", timestamp=typed, content=text)
        self.side("queue-operation", operation="remove", timestamp=self.stamp(), content=text, reason="absorbed_mid_turn", commandUuid=source,
                  deliveryId=delivery)
        human: Json = {"humanTurn": True} if mode == "prompt" else {"rowSource": "recorded"}
        self.attachment({"type": "queued_command", "prompt": text, "source_uuid": source, "delivery_id": delivery, "commandMode": mode,
                         "origin": {"kind": kind}, "timestamp": typed, **human}, {"rendered": [{"content": text}], "renderedRole": "system"})

    # what the harness writes

    def harness(self, content: object, after: Optional[Json] = None) -> None:
        """A user record that no person typed and that nothing but its text gives away."""
        self.chain({"promptId": self.prompt_id, "type": "user", "message": {"role": "user", "content": content}}, after or {"rowSource": "harness"})

    def meta(self, content: object, after: Optional[Json] = None, companion: bool = False) -> None:
        """A user record marked as the harness's own."""
        extra = {"turnCompanion": True} if companion else {}
        self.chain({"promptId": self.prompt_id, "type": "user", "message": {"role": "user", "content": content}, "isMeta": True, **extra}, after)

    def attachment(self, payload: Json, after: Optional[Json] = None) -> None:
        self.chain({"attachment": payload, "type": "attachment"}, {**(after or {}), "session_id": self.id})

    def system(self, subtype: str, **fields: Any) -> None:
        self.chain({"type": "system", "subtype": subtype, **fields}, {"isMeta": False})

    def local_command(self, name: str, arguments: str, output: str) -> None:
        """A command that the client carried out by itself."""
        self.system("local_command", content=f"<command-name>/{name}</command-name>\n            <command-message>{name}</command-message>\n"
                                             f"            <command-args>{arguments}</command-args>", level="info")
        self.system("local_command", content=f"<local-command-stdout>{output}</local-command-stdout>", level="info")

    def titled(self, title: str) -> None:
        self.side("custom-title", customTitle=title)
        self.side("agent-name", agentName=title)

    def snapshot(self, text: str) -> None:
        """The system prompt as it was sent, a link of the chain that resume does not need."""
        pieces = [text, *(self.prose.text(self.random.randint(40, 160)) for _ in range(6))]
        self.attachment({"type": "prompt_snapshot", "systemPrompt": pieces, "reminderFold": False, "echoWireToolInputs": False,
                         "contextRendering": "announced"})

    def request(self, text: str) -> str:
        """A request as it was sent, which repeats the conversation. Gives its id."""
        blob, made, digest = self.hex(64), self.uuid(), self.hex(64)
        self.side("api-request-blob", hash=blob, message={"role": "user", "content": [{"type": "text", "text": text}]})
        self.side("api-request", id=made, timestamp=self.stamp(), version="2.1.332", querySource="repl_main_thread", shapeHash=digest,
                  params={"model": self.model, "max_tokens": 128000, "thinking": {"type": "adaptive", "display": "updates"}}, thread={"type": "none"},
                  echoWireToolInputs=False, keep=self.random.randint(0, 60), tail=[blob], requestDigest=self.hex(64))
        return made

    def opening(self) -> None:
        """What the client tells the model of the place before the first answer."""
        self.attachment({"type": "environment", "snapshot": {
            "workingDirectory": self.cwd, "isWorktree": False, "isGitRepo": True, "additionalWorkingDirectories": [], "platform": "linux",
            "shell": "bash", "osVersion": "Linux 6.1.0"}}, {"rendered": [{"content": "placeholder"}], "renderedRole": "system"})
        self.attachment({"type": "model", "identity": {"modelId": self.model, "marketingName": "Opus 5.5", "knowledgeCutoff": "June 2026"},
                         "text": "placeholder"}, {"rendered": [{"content": "placeholder"}], "renderedRole": "system"})
        self.attachment({"type": "date", "date": self.stamp()[:10]}, {"rendered": [{"content": "placeholder"}], "renderedRole": "system"})

    def end_turn(self) -> None:
        """What the client writes when the agent has done."""
        self.system("turn_duration", durationMs=self.random.randint(900, 400_000), messageCount=len(self.lines))
        self.side("last-prompt", lastPrompt=self.said[:200], leafUuid=self.tip)
        self.side("mode", mode="normal")
        self.side("permission-mode", permissionMode="default")

    # what the agent does

    def usage(self) -> Json:
        return {
            "input_tokens": 7, "cache_creation_input_tokens": 300, "cache_read_input_tokens": self.context - 307,
            "output_tokens": ANSWER_TOKENS,
            "output_tokens_details": {"thinking_tokens": 0}, "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "service_tier": "standard", "cache_creation": {"ephemeral_1h_input_tokens": 300, "ephemeral_5m_input_tokens": 0}, "inference_geo": "",
            "iterations": [], "speed": "standard", "fallback_credit": None,
        }

    def answer(self, *blocks: Json) -> list[str]:
        """One answer of the model, a record for each block. Gives their uuids."""
        self.wait(1.5, 25)
        self.context += self.random.randint(200, 600)
        reason = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
        reference = self.request(self.prose.text(self.random.randint(30, 120))) if self.random.random() < 0.5 else self.uuid()
        message, sent = f"msg_01{self.hex(22)}", f"req_01{self.hex(22)}"
        return [self.chain({
            "message": {"id": message, "type": "message", "role": "assistant", "model": self.model, "content": [block], "stop_reason": reason,
                        "stop_sequence": None, "usage": self.usage(), "stop_details": None},
            **({"toolInputStreamMs": 1} if block["type"] == "tool_use" else {}), "apiBlockIndex": index, "requestId": sent, "requestRef": reference,
            "requestedModel": self.model, "promptCacheRequested": "5m", "type": "assistant",
        }, {"effort": "medium", "perTurnEffort": "medium", "madeBy": "model", "session_id": self.id}) for index, block in enumerate(blocks)]

    def synthetic(self, text: str, **more: Any) -> None:
        """The harness in the agent's role."""
        self.chain({"type": "assistant"}, {
            "message": {"id": self.uuid(), "model": "<synthetic>", "role": "assistant", "stop_details": None, "stop_reason": "stop_sequence",
                        "stop_sequence": "", "type": "message", "usage": {"input_tokens": 0, "output_tokens": 0},
                        "content": [{"type": "text", "text": text}], "context_management": None}, **more, "madeBy": "model"})

    def call(self, name: str, given: object) -> Json:
        return {"type": "tool_use", "id": f"toolu_01{self.hex(22)}", "name": name, "input": given}

    def result(self, asker: str, call: Json, content: object, detail: object, error: Optional[bool] = None, **more: Any) -> None:
        """The result of a call, under the record that made it. `error` None leaves the field out, as most tools do."""
        self.wait(0.1, 12)
        block: Json = {"tool_use_id": call["id"], "type": "tool_result", "content": content}
        if error is not None:
            block["is_error"] = error
        self.chain({"promptId": self.prompt_id, "type": "user", "message": {"role": "user", "content": [block]}},
                   {"toolUseResult": detail, **more, "sourceToolAssistantUUID": asker, "session_id": self.id},
                   head={"parentUuid": asker, "isSidechain": False})

    def run(self, name: str, given: object, content: object, detail: object, error: Optional[bool] = None, **more: Any) -> None:
        """An answer with a word and one call, and its result."""
        call = self.call(name, given)
        blocks = [{"type": "text", "text": self.prose.sentence()}] if self.random.random() < 0.4 else []
        self.result(self.answer(*blocks, call)[-1], call, content, detail, error, **more)

    def bash(self, command: str, output: str, **detail: Any) -> None:
        self.run("Bash", {"command": command, "description": "Run it"}, output,
                 {"stdout": output, "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False, **detail}, False)

    def bash_fails(self, command: str, error: str, status: int = 1) -> None:
        text = f"Exit code {status}\n{error}"
        self.run("Bash", {"command": command, "description": "Run it"}, text, f"Error: {text}", True, sandboxed=False)

    def edit(self, path: str, lines: int = 3) -> None:
        """An edit that went through."""
        old, new = self.prose.code(2), self.prose.code(2 + 2 * lines)
        patch = [" ", *(f"-{line}" for line in old.splitlines()), *(f"+{line}" for line in new.splitlines())]
        given = {"replace_all": False, "file_path": path, "old_string": old, "new_string": new}
        self.run("Edit", given, f"The file {path} has been updated successfully.", {
            "filePath": path, "oldString": old, "newString": new, "originalFile": self.prose.code(60),
            "structuredPatch": [{"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3 + lines, "lines": patch}], "userModified": False,
            "replaceAll": False})

    def edit_fails(self, path: str) -> None:
        text = "String to replace not found in file."
        self.run("Edit", {"replace_all": False, "file_path": path, "old_string": "a", "new_string": "b"}, f"<tool_use_error>{text}</tool_use_error>",
                 f"Error: {text}", True)

    def create(self, path: str) -> None:
        text = self.prose.code(20)
        self.run("Write", {"file_path": path, "content": text}, f"File created successfully at: {path}",
                 {"type": "create", "filePath": path, "content": text, "structuredPatch": [], "originalFile": None, "userModified": False})

    def refused(self, name: str, given: object, reason: str) -> None:
        """A call that the person refused, with a word why, in either spelling of the detail."""
        text = ("The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT "
                f"written to the file). To tell you how to proceed, the user said:\n{reason}")
        self.adds_note = not self.adds_note
        if self.adds_note:
            text += "\n\nNote: The user's next message may contain a correction or preference. Pay close attention to it."
        detail = self.random.choice(("User rejected tool use", f"Error: {text}"))
        self.run(name, given, text, detail, True, toolDenialKind="user-rejected")

    def interrupted(self) -> None:
        """A call that the person stopped with Esc, and the note that follows."""
        call = self.call("Bash", {"command": f"make {self.random.choice(NOUNS)}", "description": "Run it"})
        self.result(self.answer(call)[-1], call, "The user doesn't want to proceed with this tool use.", "User rejected tool use", True,
                    toolDenialKind="user-rejected")
        self.harness([{"type": "text", "text": "[Request interrupted by user for tool use]"}])

    def work(self) -> None:
        """An ordinary call or two in one answer."""
        noun = self.random.choice(NOUNS)
        path = f"{self.cwd}/src/{noun}.py"
        choice = self.random.randrange(4)
        if choice == 0:
            self.bash(f"ls src/{noun}", self.prose.text(30))
        elif choice == 1:
            self.run("Grep", {"pattern": noun, "path": self.cwd, "output_mode": "content"}, f"src/{noun}.py:3: {noun}",
                     {"mode": "content", "numFiles": 0, "filenames": [], "content": f"src/{noun}.py:3: {noun}", "numLines": 1})
        elif choice == 2:
            self.read(path, self.prose.code(self.random.randint(10, 120)))
        else:
            self.read_both(path, f"{self.cwd}/docs/{noun}.md")

    def read(self, path: str, text: str) -> None:
        self.run("Read", {"file_path": path}, self.numbered(text), self.read_detail(path, text))

    def read_both(self, *paths: str) -> None:
        """Parallel calls, answered in any order: each result hangs under its own call."""
        calls = [self.call("Read", {"file_path": path}) for path in paths]
        askers = self.answer({"type": "thinking", "thinking": "", "signature": "c2ln" * 80}, *calls)[1:]
        answers = list(zip(askers, calls, paths))
        self.random.shuffle(answers)
        for asker, call, path in answers:
            text = self.prose.text(40)
            self.result(asker, call, self.numbered(text), self.read_detail(path, text))

    @staticmethod
    def numbered(text: str) -> str:
        return "\n".join(f"{number}\t{line}" for number, line in enumerate(text.splitlines(), 1))

    @staticmethod
    def read_detail(path: str, text: str) -> Json:
        count = len(text.splitlines())
        return {"type": "text", "file": {"filePath": path, "content": text, "numLines": count, "startLine": 1, "totalLines": count}}

    def compacted(self, summary: str, keep: Sequence[str]) -> None:
        """What `/compact` leaves: boundary, summary, the command's own records. `keep` are preserved records, oldest first."""
        boundary, made, before = self.uuid(), self.uuid(), self.context
        self.context = 22_000
        metadata: Json = {"trigger": "manual", "preTokens": before, "postTokens": self.context, "cumulativeDroppedTokens": before - self.context,
                          "durationMs": 60_000}
        if keep:
            metadata["preservedSegment"] = {"headUuid": keep[0], "anchorUuid": made, "tailUuid": keep[-1]}
            metadata["preservedMessages"] = {"anchorUuid": made, "uuids": list(keep), "allUuids": list(keep)}
        self.chain({"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "level": "info",
                    "compactMetadata": metadata}, {"slug": self.slug}, uuid=boundary,
                   head={"parentUuid": None, "logicalParentUuid": self.tip, "isSidechain": False})
        self.chain({"promptId": self.prompt_id, "type": "user", "message": {"role": "user", "content": summary},
                    "isVisibleInTranscriptOnly": True, "isCompactSummary": True}, {"rowSource": "local", "slug": self.slug}, uuid=made)
        self.meta("<local-command-caveat>Caveat: The messages below were generated by the user while running local commands."
                  "</local-command-caveat>", {"rowSource": "harness"})
        self.harness("<command-name>/compact</command-name>\n            <command-message>compact</command-message>\n"
                     "            <command-args></command-args>", {"rowSource": "local"})
        self.harness("<local-command-stdout>\x1b[2mCompacted (ctrl+o to see full summary)\x1b[22m</local-command-stdout>", {"rowSource": "local"})


# ------------------------------------------------------------------------------------------------ the plot


class Plot:
    """What happens in which exchange: one opening (what the person says), any number of events (calls), one reply."""

    ENDINGS: ClassVar = {  # as spec section 3 words them, or nearly so
        "awaiting": "awaiting", "interrupted": "interrupted", "error": "api error", "call": "without a result | has no result | without result",
        "prompt": "without an answer | has no answer | without answer"}

    def __init__(self, seed: int, prompts: int) -> None:
        if prompts < FEWEST_PROMPTS:
            raise ValueError(f"{prompts} prompts are too few, the facts alone need {FEWEST_PROMPTS}")
        self.random = random.Random(f"planted {seed} {prompts}")
        self.prose = Prose(self.random)
        self.writer = Writer(seed, self.random, self.prose)
        self.count = prompts
        self.ending = list(self.ENDINGS)[seed % len(self.ENDINGS)]
        self.tasks_by_list = seed % 4 < 2  # TodoWrite, else TaskCreate and TaskUpdate
        self.compaction = int(prompts * self.random.uniform(0.3, 0.7)) if seed % 2 else None
        self.keeps_tail = seed % 4 == 1
        self.facts: list[Fact] = []
        self.falsehoods: list[Falsehood] = []
        self.openings: dict[int, Callable[[], None]] = {}
        self.events: dict[int, list[Callable[[], None]]] = defaultdict(list)
        self.asides: dict[int, list[Callable[[], None]]] = defaultdict(list)  # between this exchange and the next
        self.silent: set[int] = set()  # exchanges without work and reply of their own
        self.replies: dict[int, str] = {}
        self.queued = 0
        self.free = list(range(1, prompts - 3))
        self.random.shuffle(self.free)
        self.plan()

    # where things stand

    def slot(self) -> int:
        """An exchange whose prompt is still free."""
        return self.free.pop()

    def moment(self, low: float = 0.0, high: float = 1.0) -> int:
        """An exchange in that part of the session in which the agent works."""
        last = self.count - 3
        return self.random.choice([index for index in range(int(last * low), max(int(last * high), int(last * low) + 2)) if index not in self.silent])

    def moments(self, count: int, low: float = 0.0, high: float = 1.0) -> list[int]:
        """That many exchanges, in order; some may be the same."""
        return sorted(self.moment(low, high) for _ in range(count))

    def happen(self, at: int, *events: Callable[[], None]) -> None:
        self.events[at] += events

    def true(self, kind: str, needle: str, *within: str, also: str = "") -> None:
        self.facts.append(Fact(kind, needle, within, also))

    def false(self, kind: str, needle: str, *within: str) -> None:
        self.falsehoods.append(Falsehood(kind, needle, within))

    def opens(self, at: int, text: str, source: str = "typed") -> None:
        """The person types this prompt."""
        self.openings[at] = partial(self.writer.prompt, text, source)

    # what is planted

    def plan(self) -> None:
        self.plan_silence()
        self.plan_said()
        self.plan_odd_prompts()
        self.plan_decisions()
        self.plan_tasks()
        self.plan_outcomes()
        self.plan_agents()
        self.plan_failures()
        self.plan_files()
        self.plan_harness()
        self.plan_asides()
        self.plan_place()
        self.plan_end()

    def plan_silence(self) -> None:
        """Exchanges that end without a reply, chosen first so that nothing else is put there."""
        at, mark = self.slot(), self.prose.mark()
        self.opens(at, self.prose.around(f"now try {mark}", 20, "head"))
        self.events[at] = [self.writer.interrupted]
        self.silent.add(at)
        self.true("interrupted exchange", mark)

    def plan_said(self) -> None:
        """What the person said: the intent, rules, corrections, choices, the last prompts, and much else."""
        mark = self.prose.mark()
        self.opens(0, self.prose.around(f"we want to build the {mark} planner", 80, "head"))
        self.true("intent", mark)
        for kind, phrases, fixed, count in (("rule", RULES, 4, 6), ("correction", CORRECTIONS, 3, 4), ("choice", CHOICES, 1, 3)):
            for phrase in (*phrases[:fixed], *self.random.sample(phrases[fixed:], count - fixed)):
                self.plan_pivot(kind, phrase.replace("{m}", self.prose.mark()))
        for _ in range(10):
            mark = self.prose.mark()
            phrase = self.random.choice(MENTIONS).replace("{m}", mark)
            self.opens(self.slot(), self.prose.around(phrase, self.prose.length(), "head"))
            self.true("timeline prompt", mark)
        for at in range(self.count - 3, self.count):
            mark = self.prose.mark()
            self.opens(at, self.prose.around(f"now the {mark} part", self.random.randint(10, 80), self.prose.anywhere()))
            self.true("last prompt", mark)

        mark = self.prose.mark()
        self.replies[self.moment()] = self.prose.around(f"no, I will never use {mark}", 30, "head")
        self.false("the agent's words as the person's", mark, *PERSON)

    def plan_pivot(self, kind: str, phrase: str) -> None:
        """A prompt in which the person steers. A correction comes first in its prompt, the others anywhere."""
        place = "head" if kind == "correction" else self.prose.anywhere()
        self.opens(self.slot(), self.prose.around(phrase[0].upper() + phrase[1:], self.random.randint(0, 80), place))
        self.true(kind, phrase)

    def plan_odd_prompts(self) -> None:
        """Prompts that other records carry than a plain string: shell, slash command, picture, blocks, queued, much changed."""
        writer, prose = self.writer, self.prose
        shell, output, slash, body, picture, blocks, reminder, large, later = (prose.mark() for _ in range(9))
        self.openings[self.slot()] = partial(writer.shell, f"make {shell} && ls", f"built {output}")
        self.true("shell command", shell)
        self.false("output of a shell command", output, "user", "prompt")
        self.openings[self.slot()] = partial(writer.slash, "deploy", f"staging-{slash}",
                                             f"Base directory for this skill: /home/dev/.claude/skills/deploy\n\nAlways deploy {body} first.")
        self.true("slash command", f"/deploy staging-{slash}")
        self.false("body of a skill", body, *PERSON)
        self.openings[self.slot()] = partial(self.picture, f"[Image #1] what is wrong in {picture} here?")
        self.true("picture prompt", picture)
        self.openings[self.slot()] = partial(writer.prompt, [
            {"type": "text", "text": f"<system-reminder>\nNever forget {reminder}.\n</system-reminder>"},
            {"type": "text", "text": prose.around(f"have a look at {blocks}", 30, "head")}])
        self.true("prompt beside a reminder", blocks)
        self.false("reminder beside a prompt", reminder, *PERSON)
        at = self.slot()
        self.opens(at, prose.around(f"rewrite it all for {large}", 20, "tail"))
        self.happen(at, *(partial(writer.edit, f"{writer.cwd}/src/part_{number}.py", 30) for number in range(2)))
        self.true("prompt that changed much", large)
        self.opens(self.slot(), f"use {later} when you are done", "queued")
        self.true("queued prompt, own turn", later)

    def picture(self, text: str) -> None:
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
        self.writer.prompt([{"type": "text", "text": text}, image], imagePasteIds=[1])
        self.writer.meta([{"type": "text", "text": f"[Image: source: {self.writer.cwd}/shot.png]"}], {"rowSource": "local"}, companion=True)

    def plan_decisions(self) -> None:
        """Answers, plans and refusals: the person's words in the results of calls; and messages queued in the middle of a turn."""
        writer, prose = self.writer, self.prose
        answer, own, plan, refused, reason, edit_reason = (prose.mark() for _ in range(6))
        self.happen(self.moment(), partial(self.ask, "Which store?", answer, [answer, "plain file"]))
        self.happen(self.moment(), partial(self.ask, "Which unit?", f"neither, take {own} as it is", ["metre", "foot"]))
        self.true("answer", answer, "decisions")
        self.true("answer in own words", own, "decisions")
        early, late = self.moments(2)
        self.happen(early, partial(writer.refused, "ExitPlanMode", {"plan": f"# Plan\n{prose.text(60)}"}, f"too much at once, leave {refused} out"))
        self.happen(late, partial(self.approve, f"# Plan: move to {plan}\n\n{prose.text(120)}"))
        self.true("refused plan", refused, "decisions")
        self.true("approved plan", plan, "decisions")
        path = prose.file_mark()
        self.happen(self.moment(), partial(writer.refused, "Bash", {"command": "rm -rf build", "description": "Clean"}, f"keep {reason} in there"))
        self.happen(self.moment(), partial(writer.refused, "Edit", {"replace_all": False, "file_path": f"{writer.cwd}/src/{path}", "old_string": "a",
                                                                    "new_string": "b"}, f"not this one, {edit_reason} comes first"))
        self.true("refused call", reason, "decisions")
        self.true("refused edit", edit_reason, "decisions")
        self.false("file of a refused edit", path, "most-edited-files")
        for phrase in ("also check the {m} gate", "and mind {m} while you are there"):
            mark = prose.mark()
            self.happen(self.moment(), writer.work, partial(writer.queued, phrase.replace("{m}", mark)))
            self.true("queued message", mark)
            self.queued += 1

    def ask(self, question: str, answer: str, labels: Sequence[str]) -> None:
        questions = [{"question": question, "header": "Choice", "options": [{"label": label, "description": "one way"} for label in labels],
                      "multiSelect": False}]
        said = f'User has answered your questions: "{question}"="{answer}". You can now continue.'
        self.writer.run("AskUserQuestion", {"questions": questions}, said, {"questions": questions, "answers": {question: answer}, "annotations": {}})

    def approve(self, plan: str) -> None:
        path = f"/home/dev/.claude/plans/{self.writer.slug}.md"
        self.writer.run("ExitPlanMode", {"plan": plan, "planFilePath": path}, "User has approved your plan. You can now start coding.\n\n"
                        f"## Approved Plan:\n{plan}", {"plan": plan, "isAgent": False, "filePath": path})

    def plan_tasks(self) -> None:
        """A list that changes: what was done or replaced goes, what is open at the end is the fact."""
        pending, doing, third, decoy, done = (self.prose.mark() for _ in range(5))
        for mark in (pending, doing, third):
            self.true("open task", mark, "open-tasks")
        self.false("task that was replaced", decoy, "open-tasks")
        if self.tasks_by_list:
            self.plan_todo_list(pending, doing, third, decoy, done)
        else:
            self.plan_task_list(pending, doing, third, decoy, done)

    def plan_todo_list(self, pending: str, doing: str, third: str, decoy: str, done: str) -> None:
        states = ([(decoy, "in_progress"), (done, "pending")], [(done, "in_progress"), (decoy, "pending")],
                  [(done, "completed"), (doing, "in_progress"), (pending, "pending"), (third, "pending")])
        for at, before, after in zip(self.moments(3), ([], *states), states):
            self.happen(at, partial(self.todo, before, after))

    def todo(self, before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]) -> None:
        old, new = ([{"content": f"Finish {mark}", "status": state, "activeForm": f"Finishing {mark}"} for mark, state in todos]
                    for todos in (before, after))
        self.writer.run("TodoWrite", {"todos": new}, "Todos have been modified successfully.", {"oldTodos": old, "newTodos": new})

    def plan_task_list(self, pending: str, doing: str, third: str, decoy: str, done: str) -> None:
        marks = (done, decoy, doing, pending, third)
        steps: list[Callable[[], None]] = [partial(self.task, str(number), mark) for number, mark in enumerate(marks, 1)]
        steps += [partial(self.task_state, "1", "in_progress"), partial(self.task_state, "2", "deleted"), partial(self.task_state, "1", "completed"),
                  partial(self.task_state, "3", "in_progress")]
        for at, step in zip(self.moments(len(steps)), steps):
            self.happen(at, step)

    def task(self, number: str, mark: str) -> None:
        subject = f"Finish {mark}"
        given = {"subject": subject, "description": "as agreed", "activeForm": f"Finishing {number}"}
        self.writer.run("TaskCreate", given, f"Task #{number} created successfully: {subject}",
                        {"task": {"id": number, "subject": subject, "description": "as agreed"}})

    def task_state(self, number: str, state: str) -> None:
        self.writer.run("TaskUpdate", {"taskId": number, "status": state}, f"Updated task #{number} status",
                        {"success": True, "taskId": number, "updatedFields": ["status"], "statusChange": {"from": "pending", "to": state}})

    def plan_outcomes(self) -> None:
        """Commits, a push and a pull request; a commit that a hook refused is none."""
        writer, prose, sha = self.writer, self.prose, self.writer.hex
        for at in self.moments(2, 0.1, 0.9):
            mark, commit = prose.mark(), f"c{sha(5)}7"
            printed = f"[{writer.branch} {commit}] Add {mark}\n 2 files changed"
            done = {"commit": {"sha": commit, "kind": "committed"}}
            self.happen(at, partial(writer.bash, f'git add -A && git commit -m "Add {mark}"', printed, gitOperation=done))
            self.true("commit", commit, "outcomes")
            self.true("commit subject", mark, "outcomes")
        failed, pushed, number = prose.mark(), prose.mark().lower(), self.random.randint(1000, 9999)
        self.happen(self.moment(0.0, 0.9), partial(writer.bash_fails, f'git commit -m "Try {failed}"', "pre-commit hook failed"))
        self.false("commit that failed", failed, "outcomes")
        self.happen(self.moment(0.5), partial(writer.bash, f"git push -u origin {pushed}", f" * [new branch] {pushed} -> {pushed}",
                                              gitOperation={"push": {"branch": pushed}}))
        self.true("push", pushed, "outcomes")
        url = f"https://github.com/example/planner/pull/{number}"
        self.happen(self.moment(0.5), partial(writer.bash, "gh pr create --fill", url,
                                              gitOperation={"pr": {"number": number, "url": url, "action": "created"}}))
        self.true("pull request", f"pull/{number}", "outcomes")

    def plan_agents(self) -> None:
        """Sub-agents that answer at once, and one in the background whose answer comes in a notification."""
        for at in self.moments(2):
            asked, found = self.prose.mark(), self.prose.mark()
            self.happen(at, partial(self.agent, f"Find every use of {asked}", self.prose.around(f"in short, it is {found} that leaks", 150, "tail")))
            self.true("sub-agent asked", asked, "subagents")
            self.true("sub-agent's finding", found, "subagents")
        asked, found, call, agent = self.prose.mark(), self.prose.mark(), self.writer.call("Agent", {}), self.writer.hex(17)
        early, late = self.moments(2, 0.2, 0.9)
        self.happen(early, partial(self.background_agent, call, agent, f"Check {asked} in the background"))
        self.happen(late, self.writer.work, partial(self.agent_reports, call, agent, f"Background report: {found} is fine."))
        self.true("background agent asked", asked, "subagents")
        self.true("background agent's finding", found, "subagents")
        self.false("notification", found, *PERSON)

    def agent(self, prompt: str, report: str) -> None:
        number = self.writer.hex(17)
        given = {"description": prompt[:40], "prompt": f"{prompt}. {self.prose.text(40)}", "subagent_type": "Explore", "run_in_background": False}
        content = [{"type": "text", "text": report}]
        self.writer.run("Agent", given, content, {
            "status": "completed", "prompt": given["prompt"], "agentId": number, "agentType": "Explore", "toolsUsed": ["Bash"], "content": content,
            "resolvedModel": self.writer.model, "totalDurationMs": 60_151, "totalTokens": 6893, "totalToolUseCount": 9, "usage": self.writer.usage(),
            "toolStats": {"readCount": 4, "searchCount": 4, "bashCount": 1, "editFileCount": 0, "linesAdded": 0, "linesRemoved": 0,
                          "otherToolCount": 0},
            "canContinueAgent": True})

    def background_agent(self, call: Json, number: str, prompt: str) -> None:
        call["input"] = {"description": "Check it", "prompt": prompt, "subagent_type": "general-purpose", "run_in_background": True}
        output = f"/tmp/claude-1000/{self.writer.id}/tasks/{number}.output"
        asker = self.writer.answer(call)[-1]
        self.writer.result(asker, call, [{"type": "text", "text": f"Async agent launched.\nagentId: {number}\noutput_file: {output}"}],
                           {"isAsync": True, "status": "async_launched", "agentId": number, "description": "Check it",
                            "resolvedModel": self.writer.model,
                            "prompt": prompt, "outputFile": output, "canReadOutputFile": True, "canContinueAgent": True})

    def agent_reports(self, call: Json, number: str, report: str) -> None:
        self.writer.queued(
            f"<task-notification>\n<task-id>{number}</task-id>\n<tool-use-id>{call['id']}</tool-use-id>\n<output-file>/tmp/x/{number}.output</output-file>\n"
            f"<status>completed</status>\n<summary>Agent \"Check it\" finished</summary>\n<note>Invented note.</note>\n<result>{report}</result>\n"
            "<usage><subagent_tokens>7884</subagent_tokens><tool_uses>1</tool_uses><duration_ms>1185</duration_ms></usage>\n</task-notification>",
            "task-notification", "task-notification")

    def plan_failures(self) -> None:
        """Commands that failed: most passed later, some early ones never ran again, and the last one is what still stands."""
        writer, prose = self.writer, self.prose
        for first, again in (self.moments(2, 0.0, 0.95) for _ in range(3)):
            mark = prose.mark()
            command = f"pytest tests/{mark} -q"
            self.happen(first, partial(writer.bash_fails, command, f"E   assert {self.random.randint(2, 99)} == 1"))
            self.happen(again, partial(writer.bash, command, "12 passed in 0.4s"))
            self.false("command that passed later", mark, "problems")
        for at in self.moments(2, 0.0, 0.6):
            self.happen(at, partial(writer.bash_fails, f"grep -rn {self.random.choice(NOUNS)}_{self.random.randint(10, 99)} lib", "", 1))
        mark, error = prose.mark(), prose.mark()
        printed = f"{prose.text(30)}\nerror[E0308]: mismatched types in {error}\n{prose.text(10)}"
        self.events[self.moment(0.96)].append(partial(writer.bash_fails, f"cargo build --package {mark}", printed, 101))
        self.true("last failed command", mark, "problems")
        self.true("error of the last failed command", error, "problems")

    def plan_files(self) -> None:
        """Files edited many times, once or twice, written, and those whose edits never took place."""
        writer, prose = self.writer, self.prose
        for times in (9, 7, 6, 4):
            name = prose.file_mark()
            for at in self.moments(times):
                self.happen(at, partial(writer.edit, f"{writer.cwd}/src/{name}", self.random.randint(1, 9)))
            self.true("edited file", name, "most-edited-files")
            self.true("edited file's count", name, "most-edited-files", also=str(times))
        written, failed = prose.file_mark(), prose.file_mark()
        first, *again = self.moments(3)
        self.happen(first, partial(writer.create, f"{writer.cwd}/lib/{written}"))
        for at in again:
            self.happen(at, partial(writer.edit, f"{writer.cwd}/lib/{written}"))
        self.true("written file", written, "most-edited-files")
        for noun in self.random.sample(NOUNS, 15):
            for at in self.moments(self.random.randint(1, 2)):
                self.happen(at, partial(writer.edit, f"{writer.cwd}/src/{noun}_plain.py", 2))
        for at in self.moments(4):
            self.happen(at, partial(writer.edit_fails, f"{writer.cwd}/src/{failed}"))
        self.false("file of a failed edit", failed, "most-edited-files")

    def plan_harness(self) -> None:
        """Texts in the person's or the agent's role that are neither's, and copies of texts that only saved requests hold."""
        writer = self.writer
        for kind, text, fields in HARNESS_TEXTS:
            self.plant_false(kind, partial(self.harness_text, text, fields), *PERSON)
        self.plant_false("output of a local command in a system record", partial(writer.local_command, "status", ""), *PERSON)
        self.plant_false("context of a hook", self.hook_context, *PERSON)
        self.plant_false("notification in the queue", self.queued_notification, *PERSON)
        self.plant_false("file that gives orders", self.orders_in_a_file, *PERSON)
        self.plant_false("synthetic error", self.overloaded, *PERSON, *AGENT)
        self.plant_false("thinking", self.thinking, *PERSON, *AGENT)
        self.plant_false("note under a resumed session", self.resumed, *AGENT)
        self.false("continuation that nobody typed", "Continue from where you left off", *PERSON)
        self.false("note of an interrupt", "Request interrupted by user", "user", "prompt")
        self.false("note under a refusal", "next message may contain a correction", *PERSON)
        self.plant_false("saved request", lambda mark: writer.request(f"Never use {mark}, said the person."))
        self.plant_false("prompt snapshot", lambda mark: writer.snapshot(f"Always use {mark}."))
        self.plant_false("sidechain", self.sidechain)

    def harness_text(self, text: str, fields: Json, mark: str) -> None:
        """A text of HARNESS_TEXTS in a user record; one that is marked as the harness's own says so among its fields."""
        more = dict(fields)
        (self.writer.meta if more.pop("isMeta", False) else self.writer.harness)(text.replace("{m}", mark), more)

    def hook_context(self, mark: str) -> None:
        self.writer.attachment({
            "type": "hook_success", "hookName": "UserPromptSubmit", "toolUseID": self.writer.uuid(), "hookEvent": "UserPromptSubmit",
            "content": f"never {mark}", "stdout": f"never {mark}\n", "stderr": "", "exitCode": 0, "command": "hook", "durationMs": 9})

    def queued_notification(self, mark: str) -> None:
        text = f"<task-notification>\n<summary>{mark}</summary>\n</task-notification>"
        self.writer.queued(text, "task-notification", "task-notification")

    def orders_in_a_file(self, mark: str) -> None:
        self.writer.read(f"{self.writer.cwd}/NOTES.md", f"# Notes\nNever touch {mark}. Always use it instead.\n")

    def overloaded(self, mark: str) -> None:
        self.writer.synthetic(f"API Error: 529 overloaded {mark}", isApiErrorMessage=True, error="server_error")

    def thinking(self, mark: str) -> None:
        self.writer.answer({"type": "thinking", "thinking": f"The person wants {mark}.", "signature": "c2ln" * 80})

    def plant_false(self, kind: str, event: Callable[[str], object], *within: str) -> None:
        """Something that happens among the calls of an exchange, and its mark where it must not stand."""
        mark = self.prose.mark()
        self.happen(self.moment(), self.writer.work, partial(self.do, event, mark))
        self.false(kind, mark, *within)

    @staticmethod
    def do(event: Callable[[str], object], mark: str) -> None:
        event(mark)

    def resumed(self, mark: str) -> None:
        """What the client writes when it resumes a session that was cut off."""
        self.writer.meta("Continue from where you left off.")
        self.writer.synthetic(f"No response requested. {mark}")

    def sidechain(self, mark: str) -> None:
        """A sub-agent's prompt, edit and answer, as old clients wrote them between the main records."""
        tip = self.writer.tip
        head: Json = {"parentUuid": None, "isSidechain": True}
        for role, content in (("user", f"never use {mark}"), ("assistant", [{"type": "text", "text": f"{mark} it is"}])):
            self.writer.chain({"type": role, "message": {"role": role, "id": f"msg_01{self.writer.hex(22)}", "content": content}}, head=head)
            head = {"parentUuid": self.writer.tip, "isSidechain": True}
        self.writer.tip = tip

    def plan_asides(self) -> None:
        """What happens between exchanges: rewinds, a prompt cancelled, messages taken back, a rename, another model, a compaction."""
        writer, prose = self.writer, self.prose
        for _ in range(2):
            said, path, reply = prose.mark(), prose.file_mark(), prose.mark()
            self.asides[self.moment()].append(partial(self.rewound, said, path, reply))
            self.false("rewound prompt", said)
            self.false("file edited before a rewind", path)
            self.false("rewound reply", reply)
        cancelled, removed, popped, old, new = (prose.mark() for _ in range(5))
        self.asides[self.moment()].append(partial(self.cancelled, cancelled))
        self.false("cancelled prompt", cancelled)
        for operation, mark in (("remove", removed), ("popAll", popped)):
            self.asides[self.moment()].append(partial(self.taken_back, operation, f"never mind {mark}"))
            self.false(f"message taken back ({operation})", mark)
        early, late = self.moments(2)
        self.asides[early].append(partial(writer.titled, f"work on {old}"))
        self.asides[late].append(partial(writer.titled, f"work on {new}"))
        self.true("title", new)
        self.false("former title", old)
        if self.compaction is not None:
            head, tail = prose.mark(), prose.mark()
            self.asides[self.compaction].append(partial(self.compact, head, tail))
            self.true("compaction summary", head, "compact-summary")
            self.true("end of the compaction summary", tail, "compact-summary")
            self.false("compaction summary as the person's", head, *PERSON)

    def rewound(self, said: str, path: str, reply: str) -> None:
        """An exchange that is then abandoned: the next record hangs where this one began."""
        tip, context, prompts = self.writer.tip, self.writer.context, self.writer.prompts
        self.writer.prompt(f"You must never forget {said}. " + self.prose.text(20))
        for _ in range(3):
            self.writer.edit(f"{self.writer.cwd}/src/{path}")
        self.writer.answer({"type": "text", "text": f"{reply} is done"})
        self.writer.end_turn()
        self.writer.tip, self.writer.context, self.writer.prompts = tip, context, prompts
        self.asides_after_rewind()

    def asides_after_rewind(self) -> None:
        self.writer.side("last-prompt", leafUuid=ZERO, explicit=True)

    def cancelled(self, said: str) -> None:
        """A prompt that the person took back with Esc before any answer."""
        tip, prompts = self.writer.tip, self.writer.prompts
        self.writer.prompt(f"no, always use {said}")
        self.writer.side("last-prompt", lastPrompt=self.writer.said, leafUuid=self.writer.tip)
        self.writer.tip, self.writer.prompts = tip, prompts
        self.asides_after_rewind()

    def taken_back(self, operation: str, text: str) -> None:
        for name in ("enqueue", operation):
            self.writer.side("queue-operation", operation=name, timestamp=self.writer.stamp(), content=text)
            self.writer.wait(1, 5)

    def compact(self, head: str, tail: str) -> None:
        """The client's own compaction, with or without a preserved tail."""
        kept = []
        if self.keeps_tail:
            kept = self.writer.answer({"type": "text", "text": self.prose.text(40)})
            self.writer.system("turn_duration", durationMs=900, messageCount=len(self.writer.lines))
            kept.append(str(self.writer.tip))
        self.writer.compacted(
            "This session is being continued from a previous conversation that ran out of context. The conversation is summarized below:\n\n"
            "Summary:\n"
            f"1. Primary Request and Intent: build it around {head}.\n\n{self.prose.text(350)}\n\n9. Optional Next Step: finish {tail}.", kept)

    def plan_place(self) -> None:
        """Directory, branch and models."""
        writer, other = self.writer, self.prose.mark().lower()
        self.true("project directory", writer.cwd, "session-summary")
        self.true("branch", writer.branch, "session-summary")
        self.true("model", writer.model, "session-summary")
        at = self.slot()
        self.asides[at].append(partial(setattr, writer, "cwd", f"/home/dev/{other}"))
        self.asides[min(at + 2, self.count - 3)].append(partial(setattr, writer, "cwd", writer.cwd))
        self.true("other directory", other, "session-summary")
        if self.random.random() < 0.5:
            self.asides[self.moment(0.2, 0.9)].append(partial(setattr, writer, "model", "claude-sonnet-4-9"))
            self.true("second model", "claude-sonnet-4-9", "session-summary")

    def plan_end(self) -> None:
        """The agent's final message and what comes after it, and the counts that follow from all of it."""
        head, tail = self.prose.mark(), self.prose.mark()
        last = self.count - 1 if self.ending == "awaiting" else self.count - 2
        self.replies[last] = f"All of {head} is in place. {self.prose.text(200)}\n\nLeft to do: {tail}."
        self.true("final message", head, "final-agent-message")
        self.true("end of the final message", tail, "final-agent-message")
        self.true("how it ended", self.ENDINGS[self.ending], "session-summary")
        self.true("count of prompts", str(self.count + self.queued), "session-summary")
        if self.ending != "awaiting":
            self.silent.add(self.count - 1)
            self.events[self.count - 1] = [self.finish]

    def finish(self) -> None:
        """The last exchange where it does not end with the agent's answer."""
        if self.ending == "interrupted":
            self.writer.interrupted()
        elif self.ending == "error":
            mark = self.prose.mark()
            self.false("synthetic error at the end", mark, *PERSON, *AGENT)
            self.writer.synthetic(f"API Error: 400 {mark}", error="unknown", isApiErrorMessage=True, apiErrorStatus=400)
        elif self.ending == "call":
            self.writer.answer(self.writer.call("Bash", {"command": "make all", "description": "Run it"}))

    # the telling

    def tell(self) -> None:
        """Write the whole session."""
        self.writer.side("mode", mode="normal")
        self.writer.side("permission-mode", permissionMode="default")
        for index in range(self.count):
            self.open(index)
            if index not in self.silent:
                self.go_on(index)
            else:
                for event in self.events[index]:
                    event()
            for aside in self.asides[index]:
                aside()
        self.true("context tokens", f"{self.writer.context} | {self.writer.context + ANSWER_TOKENS}", "session-summary")

    def open(self, index: int) -> None:
        """The person's prompt: the planted one, or an ordinary one."""
        opening = self.openings.get(index) or partial(self.writer.prompt, self.prose.text(self.prose.length(), cues=0.015))
        opening()
        if index == 0:
            self.writer.opening()
        if self.random.random() < 0.1:
            self.writer.snapshot(self.prose.text(60))

    def go_on(self, index: int) -> None:
        """What the agent does: calls, planted and ordinary, in any order but the planted ones'; then the reply."""
        events = list(self.events[index])
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 3))):
            events.insert(self.random.randint(0, len(events)), self.writer.work)
        for event in events:
            event()
        self.writer.answer({"type": "text", "text": self.replies.get(index) or self.prose.text(self.prose.length())})
        self.writer.end_turn()


def planted_session(seed: int, prompts: int = 200) -> Session:
    """The session of that seed. Raises ValueError below FEWEST_PROMPTS prompts."""
    plot = Plot(seed, prompts)
    plot.tell()
    return Session(plot.writer.id, plot.writer.lines, plot.facts, plot.falsehoods)


def write_session(session: Session, path: Path) -> Path:
    """Write the transcript to that file; gives the path back."""
    path.write_bytes("".join(f"{line}\n" for line in session.lines).encode("utf-8"))
    return path


def main(arguments: Sequence[str]) -> int:
    if len(arguments) not in (2, 3):
        print("usage: planted.py SEED FILE [PROMPTS]", file=sys.stderr)
        return 2
    session = planted_session(int(arguments[0]), int(arguments[2]) if len(arguments) > 2 else 200)
    write_session(session, Path(arguments[1]))
    for fact in session.facts:
        print(f"fact       {fact.kind}: {fact.needle}{f' with {fact.also}' if fact.also else ''} in {', '.join(fact.within) or 'the report'}")
    for falsehood in session.falsehoods:
        print(f"falsehood  {falsehood.kind}: {falsehood.needle} not in {', '.join(falsehood.within) or 'the report'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
