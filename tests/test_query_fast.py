"""The raw test of lines never changes what a search finds, and what it finds is what a plain reading of the records holds.

The plain reading below is written anew, line by line with json.loads, and shares nothing with the script.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional
from xml.etree import ElementTree

import pytest
from conftest import ROOT
from corrupt import corrupted
from planted import planted_session
from test_query import load_query, replied, said, text

import cc_transcript as cc

pytestmark = pytest.mark.deep

TESTS = ROOT / "tests"
SOURCES = sorted(
    path
    for folder in ("fixtures", "cases")
    for path in (TESTS / folder).rglob("*.jsonl")
    if path.name != "history.jsonl" and "subagents" not in path.parts and path.stat().st_size
)
FIXTURES = [path for path in SOURCES if "fixtures" in path.parts]
WORDS = 200  # drawn from the fixtures
SEEDS = 2  # damaged copies of each source

query = load_query()


def report_of(*args: object) -> str:
    """The report of these arguments, or the line of a refusal."""
    parser = query.build_parser()
    try:
        return str(query.report(query.settle(parser, cc.parse_arguments(parser, list(map(str, args))))))
    except cc.Refusal as refusal:
        return f"refused: {refusal}"


def both_ways(monkeypatch: pytest.MonkeyPatch, *args: object) -> tuple[str, str]:
    """The report with the raw test and without; in two processes it is the first, too."""
    quick = report_of(*args)
    with monkeypatch.context() as split:
        for name, value in (("SPLIT_BYTES", 1_000), ("DENSE_BYTES", 5_000), ("CHUNK_BYTES", 3_000), ("LONG_LINE", 500)):
            split.setattr(query, name, value)
        split.setattr(query.cc, "can_split", lambda: hasattr(query.os, "fork"))
        assert report_of(*args) == quick, args
    with monkeypatch.context() as slow:
        slow.setattr(query, "USE_SIEVE", False)
        return quick, report_of(*args)


# ----------------------------------------------------------------------------------------------------- the same either way


def strings(value: object) -> Iterator[str]:
    """All strings in a JSON value."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(inner)


def texts_in(data: bytes) -> list[str]:
    """Strings of the records' own texts, whatever can be parsed."""
    found: list[str] = []
    for line in data.split(b"\n"):
        try:
            row = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            found += strings([row.get("message"), row.get("toolUseResult"), row.get("attachment")])
    return [words for words in found if words.strip()] or ["nothing"]


def drawn_queries(texts: list[str], dice: random.Random) -> Iterator[list[str]]:
    """Searches made from pieces of the texts: words, phrases, patterns, wildcards, in odd cases and spellings."""
    piece = dice.choice(texts)
    start = dice.randrange(len(piece))
    part = piece[start : start + dice.randrange(1, 25)]
    word = dice.choice(piece.split() or ["x"])[:60]
    change = dice.choice((str, str.upper, str.title, str.casefold, lambda given: unicodedata.normalize("NFD", given)))
    phrase = change(part).replace('"', '\\"')
    yield [f'--keyword="{phrase}"'] if part.strip() else ["--keyword=x"]
    yield ["--keyword=" + " ".join(change(given) for given in (word, dice.choice(piece.split() or ["y"])[:60]))]
    yield ["--regexp=" + re.escape(change(part))]
    yield [
        "--regexp="
        + dice.choice(
            (f"{re.escape(word)}|zzz{re.escape(part)}", f"(?:{re.escape(word[:9])})+", f"{re.escape(word[:3])}.{{0,9}}\\w", r"\d{3,}\b", "(?i:K)|ſ|i")
        )
    ]
    yield ["--glob=" + re.sub(r"([*?[])", r"[\1]", word[:8]) + dice.choice(("*", "?", "*e", "*[a-z]"))]
    yield ["--case-sensitive", "--keyword=" + word]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.relative_to(TESTS).parts[1]}-{path.stem[-8:]}")
def test_fixtures_and_cases_whole_and_damaged(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    data = path.read_bytes()
    for seed in range(SEEDS):
        target = tmp_path / path.name
        target.write_bytes(data if seed == 0 else corrupted(data, seed).data)
        dice = random.Random(f"{path.name} {seed}")
        texts = texts_in(target.read_bytes())
        for args in drawn_queries(texts, dice):
            quick, slow = both_ways(monkeypatch, "--file", target, "--limit", "50", "--timeout", "60", *args)
            assert quick == slow, args


def respelled(line: str, dice: random.Random, share: float) -> str:
    """A line of JSON with letters of its strings written as \\u escapes, which mean the same."""
    parts = re.findall(r'"(?:\\.|[^"\\])*"|[^"]+', line)

    def escape(letter: str) -> str:
        return "".join(f"\\u{unit:04x}" if dice.random() < 0.5 else f"\\u{unit:04X}" for unit in memoryview(letter.encode("utf-16-le")).cast("H"))

    return "".join(
        re.sub(
            r"\\u[0-9a-fA-F]{4}|\\.|[^\\]",
            lambda one: escape(one[0]) if len(one[0]) == 1 and one[0] not in '"/' and dice.random() < share else one[0],
            part[1:-1],
        ).join('""')
        if part.startswith('"')
        else part
        for part in parts
    )


ODD_WORDS = [
    "Straße",
    "ﬂuſſ",
    "\u212aelvin",
    "İstanbul",
    "ŉ-kat",
    "ẚb",
    "cafe\u0301",
    "ΣΟΦΟΣ",
    "梨の木",
    "\uf9e2",
    "한국어",
    "😀 smile",
    "a\\u0041b",
    "C:\\new\\table",
    'say "hi"',
    "tab\there",
    "a/b",
    "x<y> & z",
    "two\nlines",
    "K\u0301elvin",
    "naïve",
    "Ωhm",
    "\u2126hm",
    "{not: json}",
    "ı dotless",
]


@pytest.mark.parametrize("seed", range(2))
def test_made_up_sessions_in_odd_spellings(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    dice = random.Random(seed)
    rows: list[dict[str, Any]] = [said(1, None, "begin")]
    for n in range(2, 14):
        words = " ".join(dice.choices(ODD_WORDS, k=3))
        rows.append(dice.choice((lambda n, w: said(n, n - 1, w), lambda n, w: replied(n, n - 1, text(w))))(n, words))
    lines = [json.dumps(row, ensure_ascii=dice.random() < 0.4, separators=dice.choice(((",", ":"), (", ", ": ")))) for row in rows]
    lines = [respelled(line, dice, dice.choice((0.0, 0.05, 0.5))) for line in lines]
    assert [json.loads(line) for line in lines] == rows
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for word in ODD_WORDS:
        plain = unicodedata.normalize("NFD", word.casefold()).replace("\u0307", "")
        for spelled in dict.fromkeys((word, word.upper(), word.casefold(), plain, unicodedata.normalize("NFD", word))):
            phrase = spelled.replace('"', '\\"')
            for args in (["--keyword", f'"{phrase}"'], ["--regexp", re.escape(spelled)], ["--glob", spelled.replace("[", "[[]")]):
                quick, slow = both_ways(monkeypatch, "--file", path, "--limit", "50", *args)
                assert quick == slow, (args, lines)


@pytest.mark.parametrize("said_so, pattern", [("iris", "ır[ıx]s"), ("İstanbul", "istanbul"), ("ılık", "ilik"), ("kİ", "ki")])
def test_turkish_letters_are_one_to_patterns(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said_so: str, pattern: str
) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(said(1, None, said_so), ensure_ascii=False) + "\n", encoding="utf-8")
    quick, slow = both_ways(monkeypatch, "--file", path, "--regexp", pattern)
    assert quick == slow and ElementTree.fromstring(quick).get("matched") == "1"


CODES = ("\x1b[31m", "\x1b[0m", "\x1b[1;38;5;208m", "\x9b0m", "\x1b]8;;https://a.b/c\x1b\\", "\x1b]0;t\x07", "\x1b(B\x1b[m")


@pytest.mark.parametrize("seed", range(3))
def test_words_that_colour_codes_part(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Found as they are shown, however the codes are spelled in the file."""
    dice, path = random.Random(seed), tmp_path / "s.jsonl"
    words = ["Error: no such table", "TS2345", "Straße", "ошибка", "梨の木", 'say "hi"', "src/a.ts:12:5"]
    lines = []
    for n, words_so in enumerate(words, 1):
        coloured = "".join(letter + (dice.choice(CODES) if dice.random() < 0.3 else "") for letter in dice.choice(CODES) + words_so)
        row = json.dumps(said(n, n - 1 or None, coloured), ensure_ascii=n % 2 == 0)
        lines.append(row if dice.random() < 0.5 else row.replace("\\u001b", "\x1b") if dice.random() < 0.5 else respelled(row, dice, 0.2))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for word in words:
        phrase = word.replace('"', '\\"')
        for args in (["--keyword", f'"{phrase}"'], ["--regexp", re.escape(word)], ["--glob", word[0] + "*" + word[2:]], ["--keyword", word[-2:]]):
            quick, slow = both_ways(monkeypatch, "--file", path, *args)
            assert quick == slow and any(word in (match.text or "") for match in ElementTree.fromstring(quick).iter("match")), (args, lines)


def test_a_saved_output_in_colours(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, saved = tmp_path / "s.jsonl", tmp_path / "s/tool-results/x.txt"
    saved.parent.mkdir(parents=True)
    saved.write_text("\x1b[31mErr\x1b[1mor\x1b[0m: no \x1b[4msuch\x1b[24m table\n", encoding="utf-8")
    result = {"type": "tool_result", "tool_use_id": "t", "content": f"<persisted-output>\nOutput saved to: {saved}\n</persisted-output>"}
    path.write_text(json.dumps(said(1, None, [result])) + "\n", encoding="utf-8")
    quick, slow = both_ways(monkeypatch, "--file", path, '"error: no such table"')
    assert quick == slow and "Error: no such table" in quick


def test_a_project_of_many_sessions(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one process, in two, and without the raw test."""
    folder = config / "projects/-home-ada-orchard"
    folder.mkdir(parents=True)
    for seed in range(2):
        session = planted_session(seed, 40)
        (folder / f"{session.id}.jsonl").write_text("".join(f"{line}\n" for line in session.lines), encoding="utf-8")
    for path in FIXTURES[:5]:
        shutil.copy(path, folder)
    texts = [words for path in folder.glob("*.jsonl") for words in texts_in(path.read_bytes())]
    dice = random.Random(7)
    for _ in range(2):
        for args in drawn_queries(texts, dice):
            quick, slow = both_ways(monkeypatch, "--all-projects", *args)
            assert quick == slow, args
            with monkeypatch.context() as split:
                split.setattr(query, "SPLIT_BYTES", 1_000)
                split.setattr(query, "DENSE_BYTES", 5_000)
                split.setattr(query.cc, "can_split", lambda: hasattr(query.os, "fork"))
                assert report_of("--all-projects", *args) == quick, args
                for path in sorted(folder.glob("*.jsonl"))[:2]:
                    two = report_of("--file", path, *args)
                    split.setattr(query.cc, "can_split", lambda: False)
                    assert two == report_of("--file", path, *args)
                    split.setattr(query.cc, "can_split", lambda: hasattr(query.os, "fork"))


@pytest.mark.skipif(not hasattr(query.os, "fork"), reason="one process there")
def test_a_file_that_grows_between_its_two_readers(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the second process alone has seen is a hit all the same, the newest there is."""
    path, read = tmp_path / "s.jsonl", tmp_path / "read"
    rows = [said(1, None, "zircon"), *(replied(n, n - 1, text(f"zircon {n}")) for n in range(2, 12))]
    path.write_text("".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in rows), encoding="utf-8")
    opened, end = query.Reader, query.match_end

    def reader_of(target: Any, start: int = 0) -> Any:
        reader = opened(target, start)
        if not start:
            read.touch()
        return reader

    def search_end(*args: Any) -> Any:
        while not read.exists():
            time.sleep(0.01)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(replied(12, 11, text('zircon 12')), separators=(',', ':'))}\n")
        return end(*args)

    monkeypatch.setattr(query.cc, "can_split", lambda: True)
    for name, value in (("Reader", reader_of), ("match_end", search_end), ("SPLIT_BYTES", 100), ("DENSE_BYTES", 100)):
        monkeypatch.setattr(query, name, value)
    report = ElementTree.fromstring(report_of("--file", path, "--limit", "20", "zircon"))
    assert report.get("matched") == "12" and {result.get("state") for result in report.iter("result")} == {"live"}


def test_every_character_that_folds_to_ascii_is_known() -> None:
    """Over all of Unicode: what the raw test does not look for by its bytes cannot turn into a letter that it looks for."""
    safe = set("".join(chr(code) for code in range(128) if re.fullmatch(query.SAFE_RUN, chr(code))))
    for code in range(128, sys.maxunicode + 1):
        if 0xD800 <= code <= 0xDFFF:
            continue
        for sensitive in (False, True):
            for letter in set(query.fold(chr(code), sensitive)) & safe:
                assert code in query.OTHER_SPELLINGS.get(letter, ()), hex(code)


def test_every_spelling_of_other_letters_is_known() -> None:
    known = {letter: set(query.spellings_of(letter)) for letter in "пσ梨のßωіაжի𐐨😀"}
    unknown = [letter for letter in known if not known[letter]]
    assert all(unicodedata.normalize("NFD", letter) != letter or letter == "ß" or query.fold(letter, False) != letter for letter in unknown)
    looked_for = known.keys() - unknown
    assert len(looked_for) > 8
    for code in range(128, sys.maxunicode + 1):
        if not 0xD800 <= code <= 0xDFFF:
            for letter in looked_for.intersection(query.fold(chr(code), False)):
                assert code in known[letter], hex(code)


@pytest.mark.parametrize("seed", range(300))
def test_folding_as_bytes_is_folding(seed: int) -> None:
    dice = random.Random(seed)
    letters = "aZ \n→—😀éÉßſK\u212a\u0301\u0327\u1112\u1161\u11ab한梨\uf9e2İıΣς\u0345ᾳ\ud800\u2028Ж"
    words = "".join(dice.choices(letters, k=dice.randrange(1, 12)))
    composed = unicodedata.normalize("NFC", words)
    assert query.fold(words, True) == composed
    assert query.fold(words, False) == unicodedata.normalize("NFC", composed.casefold())
    assert query.fold(unicodedata.normalize("NFD", words), False) == query.fold(words, False)


LITERALS = [
    ("abc", ["abc"]),
    ("abc.*de", ["abc"]),
    ("a|bcd", ["a", "bcd"]),
    ("(?:ab|c)?xyz*", ["xy"]),
    ("[0-9]{7}", None),
    ("(foo)+bar", ["foo"]),
    ("x*", None),
    ("(?i:abc)d", ["abc"]),
    ("(?=abc)", None),
    ("a(?:b|)cc", ["cc"]),
    (r"\bword\b", ["word"]),
    ("(?x) a b c", ["abc"]),
    ("(a)\\1bc", ["bc"]),
    ("^", None),
]


@pytest.mark.parametrize("pattern, literals", LITERALS)
def test_the_literals_a_pattern_asks_for(pattern: str, literals: Optional[list[str]]) -> None:
    assert query.asked_by(pattern, re.S | re.I)[0] == literals


# ---------------------------------------------------------------------------------------------------------- a plain reading


def plain_text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return "\n".join(block["text"] for block in blocks if block.get("type") == "text")


HARNESS = re.compile(
    r"\s*<(local-command-\w+|bash-stdout|task-notification|system-reminder|teammate-message|cross-session-message)\b|Caveat: |\[Request interrupted|Stop hook feedback:|\[SYSTEM"
)


def plain_prompt(row: dict[str, Any]) -> Optional[tuple[str, str]]:
    """(kind, text) of what a person said in this record."""
    if row["type"] == "attachment":
        attachment = row["attachment"]
        queued = attachment.get("type") == "queued_command" and attachment.get("commandMode") == "prompt"
        return ("user", plain_text(attachment["prompt"])) if queued else None
    if (
        row.get("isMeta")
        or row.get("isCompactSummary")
        or row.get("isVisibleInTranscriptOnly")
        or row.get("origin", {}).get("kind", "human") != "human"
    ):
        return None
    content = row["message"]["content"]
    parts = [content] if isinstance(content, str) else [block["text"] for block in content if block["type"] == "text"]
    said_so = "\n".join(part for part in parts if not HARNESS.match(part))
    if shell := re.match(r"\s*<bash-input>(.*?)</bash-input>", said_so, re.S):
        return "command", shell[1]
    if command := re.search(r"<command-name>(.*?)</command-name>", said_so):
        given = re.search(r"<command-args>(.*?)</command-args>", said_so, re.S)
        local = command[1] in (
            "/clear",
            "/compact",
            "/rename",
            "/exit",
            "/rewind",
            "/resume",
            "/branch",
            "/context",
            "/cost",
            "/model",
            "/export",
            "/help",
        )
        return None if local or row.get("rowSource") == "local" else ("user", f"{command[1]} {given[1] if given else ''}".strip())
    return ("user", said_so) if said_so.strip() else None


def plain_items(path: Path) -> list[tuple[str, str]]:
    """(kind, text) of every item of a transcript; of outputs only what the block says, and the saved file."""
    rows: dict[str, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").split("\n"):
        row = json.loads(line) if line.strip() else {}
        if row.get("uuid") and row.get("type") in ("user", "assistant", "attachment") and not row.get("isSidechain"):
            rows[row["uuid"]] = row
    found: list[tuple[str, str]] = []
    for row in rows.values():
        content = row["message"]["content"] if row["type"] != "attachment" else ""
        if row["type"] == "assistant":
            synthetic = row.get("isApiErrorMessage") or row["message"].get("model") == "<synthetic>"
            found.append(("output" if synthetic else "agent", plain_text(content)))
            for block in content if isinstance(content, list) else []:
                if block["type"] == "tool_use":
                    kind = (
                        "command"
                        if block["name"] == "Bash"
                        else "file"
                        if block["name"] in ("Read", "Write", "Edit", "MultiEdit", "NotebookEdit")
                        else "tool"
                    )
                    found.append((kind, "\n".join(strings(block["input"]))))
            continue
        if row.get("isCompactSummary"):
            found.append(("summary", plain_text(content)))
        elif prompt := plain_prompt(row):
            found.append(prompt)
        for block in content if isinstance(content, list) else []:
            if block["type"] == "tool_result":
                saved = re.search(r"tool-results/([\w.]+)", plain_text(block["content"]))
                file = path.with_suffix("") / "tool-results" / saved[1] if saved else None
                found.append(("output", file.read_text(encoding="utf-8") if file and file.exists() else plain_text(block["content"])))
    return [(kind, words) for kind, words in found if words.strip()]


def sample_of_words() -> list[tuple[Path, str]]:
    """Words of the fixtures, each with its file; the same ones every time."""
    dice = random.Random(20260501)
    words = {path: sorted({word for _, words in plain_items(path) for word in re.findall(r"\w{3,}", words)}) for path in FIXTURES}
    paths = [path for path in FIXTURES if words[path]]
    return [(path, dice.choice(words[path])) for path in dice.choices(paths, k=WORDS)]


def test_a_sample_of_words_is_found_as_in_a_plain_reading(config: Path) -> None:
    """Every kind by itself. Of outputs at least: the client's detail may hold what the block does not, never the other way round."""
    sample = sample_of_words()
    assert len(sample) == WORDS and len({path for path, _ in sample}) > 15
    for path, word in sample:
        items = plain_items(path)
        for kind in ("user", "agent", "command", "file", "tool", "summary", "output"):
            counted = sum(word.casefold() in words.casefold() for of, words in items if of == kind)
            found = int(ElementTree.fromstring(report_of("--file", path, "--type", kind, "--keyword", word)).get("matched") or 0)
            assert found >= counted if kind in ("output", "tool") else found == counted, (path, word, kind)


def test_the_plain_reading_is_one() -> None:
    kinds = {kind for path in FIXTURES for kind, _ in plain_items(path)}
    assert kinds == {"user", "agent", "command", "file", "tool", "summary", "output"}


def test_a_search_of_damaged_lines_leaves_nothing_out(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt glued behind the stub of a saved request, and one behind a whole one, is found."""
    rows = [json.dumps(said(n, n - 1 if n > 1 else None, f"zircon {n}"), separators=(",", ":")) for n in range(1, 4)]
    blob = '{"type":"api-request-blob","sessionId":"x","message":{"content":"zircon in a request"}}'
    path = tmp_path / "s.jsonl"
    path.write_text(f"{blob}\n{rows[0]}\n{blob[:50]}{rows[1]}\n{blob}{rows[2]}\n", encoding="utf-8")
    quick, slow = both_ways(monkeypatch, "--file", path, "zircon")
    assert quick == slow
    assert [words.text for words in ElementTree.fromstring(quick).iter("match")] == ["zircon 3", "zircon 2", "zircon 1"]
