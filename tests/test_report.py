"""The report room: what is cleaned, masked, cut and escaped, how room is shared, and that the bound is a promise."""
from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import cc_transcript as cc
import pytest
from conftest import make_case

CASES = Path(__file__).parent / "cases"
COMPACT = Path(__file__).parent.parent / "skills/cc-compact/compact_session.py"
sys.path.insert(0, str(COMPACT.parent))
import compact_session


def units(text: str) -> int:
    """UTF-16 units, counted without the code under test."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


# ------------------------------------------------------------------------------------------------------------ cleaning


@pytest.mark.parametrize(("text", "cleaned"), [
    ("plain", "plain"),
    ("tab\tline\nreturn\r", "tab\tline\nreturn\r"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b[1;38;5;208mbold\x1b[m", "bold"),
    ("\x9b31mc1\x9b0m", "c1"),
    ("\x1b]0;title\x07after", "after"),
    ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("\x1b[1mtput\x1b(B\x1b[m", "tput"),
    ("\x1b]0;cut off\nshown\x07", "0;cut off\nshown\ufffd"),
    ("\x1b*Bx", "\ufffd*Bx"),
    ("a\0b\x07c\x7fd", "a\ufffdb\ufffdc\ufffdd"),
    ("nel\x85here", "nel\x85here"),
    ("c1\x80\x9f", "c1\ufffd\ufffd"),
    ("lone \ud83d and \udc00", "lone \ufffd and \ufffd"),
    ("\ufffe\uffff\ufdd0\ufdef", "\ufffd\ufffd\ufffd\ufffd"),
    ("\U0001fffe\U0010ffff", "\ufffd\ufffd"),
    ("\U0001F600 \u6587 \u200b\u202e", "\U0001F600 \u6587 \u200b\u202e"),
])
def test_clean(text: str, cleaned: str) -> None:
    assert cc.clean(text) == cleaned


def test_every_character_can_be_quoted_in_text_and_attribute() -> None:
    quote = cc.Quoter()
    everything = "".join(map(chr, (*range(0x3000), *range(0xD7F0, 0xE010), *range(0xFD00, 0x10010), *range(0x1FFF0, 0x20010), *range(0x10FFF0, 0x110000))))
    for start in range(0, len(everything), 250):
        piece = everything[start:start + 250]
        parsed = ElementTree.fromstring(cc.element("x", quote.attributes({"a": "." + piece}), quote.text("." + piece)).encode("utf-8"))
        assert parsed.text == cc.clean("." + piece)
        assert parsed.attrib["a"] == cc.clean("." + piece)


@pytest.mark.parametrize(("text", "xml"), [
    ("a & b < c > d", "a &amp; b &lt; c &gt; d"), ("]]>", "]]&gt;"), ("\"'", "\"'"), ("line\r\n", "line&#13;\n"), ("&amp;", "&amp;amp;")])
def test_text_is_escaped_once(text: str, xml: str) -> None:
    assert cc.Quoter().text(text) == xml


def test_attributes() -> None:
    assert cc.Quoter().attributes({"a": 'x"<&>\n\t', "none": None, "empty": "", "zero": 0}) == ' a="x&quot;&lt;&amp;&gt;&#10;&#9;" zero="0"'


def test_a_long_attribute_is_cut() -> None:
    (value,) = re.findall('"(.*)"', cc.Quoter().attributes({"a": "x" * 5_000}))
    assert units(value) <= 300 and "characters, cut" in value


# ------------------------------------------------------------------------------------------------------------- cutting


def test_cut_keeps_head_and_tail_and_says_how_much() -> None:
    text = "HEAD" + "x" * 992 + "TAIL"
    short = cc.cut(text, 100)
    head, number, tail = re.fullmatch(r"(.*) \[… ([\d,]+) characters, cut …\] (.*)", short).groups()  # type: ignore[union-attr]
    assert short.startswith("HEAD") and short.endswith("TAIL")
    assert units(short) <= 100
    assert len(head) + len(tail) + int(number.replace(",", "")) == 1_000


def test_cut_leaves_what_fits() -> None:
    assert cc.cut("x" * 100, 100) == "x" * 100
    assert cc.cut("\U0001F600" * 50, 100) == "\U0001F600" * 50
    assert cc.cut("", 0) == ""


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 10, 24, 30, 40, 50, 60, 61, 62, 100, 333, 1_000])
@pytest.mark.parametrize("letter", ["x", "\u6587", "\U0001F600", "\U0001F600x", "e\u0301"])
def test_cut_never_exceeds_and_never_halves_a_character(limit: int, letter: str) -> None:
    for length in (1, 2, 11, 12, 13, 50, 51, 200, 5_000, 123_456):
        text = letter * length
        short = cc.cut(text, limit)
        assert units(short) <= max(limit, 1)
        short.encode("utf-8")  # no half of a pair
        assert (short == text) == (units(text) <= limit)


@pytest.mark.parametrize(("text", "limit", "head"), [
    ("abcdef", 3, "abc"), ("abc", 10, "abc"), ("\U0001F600\U0001F600", 3, "\U0001F600"), ("\U0001F600\U0001F600", 4, "\U0001F600\U0001F600"), ("a\U0001F600", 2, "a"),
    ("\u6587\u6863", 1, "\u6587"), ("abc", 0, "")])
def test_within(text: str, limit: int, head: str) -> None:
    assert cc.within(text, limit) == head


@pytest.mark.parametrize(("text", "limit", "line"), [
    ("one\n  two\tthree", 80, "one two three"), ("one two three", 9, "one two…"), ("\U0001F600" * 10, 7, "\U0001F600" * 3 + "…"), ("   ", 5, "")])
def test_shortened(text: str, limit: int, line: str) -> None:
    assert cc.shortened(text, limit) == line


# ------------------------------------------------------------------------------------------------------------- masking

Z = "Zq7" * 20  # put together here so that no scanner trips over this file
HIDDEN = {
    "anthropic": ("sk-" + "ant-api03-" + Z, "[masked: api key]"),
    "openai": ("sk-" + "proj-" + Z, "[masked: api key]"),
    "stripe": ("sk" + "_live_" + Z[:24], "[masked: api key]"),
    "github": ("gh" + "p_" + Z[:36], "[masked: token]"),
    "github fine": ("github" + "_pat_" + Z, "[masked: token]"),
    "gitlab": ("glp" + "at-" + Z[:20], "[masked: token]"),
    "slack": ("xo" + "xb-123456789012-" + Z[:24], "[masked: token]"),
    "npm": ("np" + "m_" + Z[:36], "[masked: token]"),
    "pypi": ("py" + "pi-" + Z, "[masked: token]"),
    "google": ("AI" + "za" + Z[:35], "[masked: token]"),
    "hugging face": ("h" + "f_" + Z[:34], "[masked: token]"),
    "aws id": ("AK" + "IA" + "QWERTYUIOPASDFGH", "[masked: access key id]"),
    "jwt": ("ey" + "JhbGciOiJIUzI1NiJ9." + "ey" + "JzdWIiOiJhZGEifQ." + Z[:43], "[masked: web token]"),
    "pem": ("-----BEGIN " + "RSA PRIVATE KEY-----\n" + Z + "\n" + Z + "\n-----END RSA PRIVATE KEY-----", "[masked: private key]"),
    "aws secret": ("aws_secret_access_key = " + (Z * 2)[:40], "aws_secret_access_key = [masked: secret]"),
    "url": ("postgres://ada:" + "hunter2hunter2" + "@db.example.org/farm", "postgres://ada:[masked: password in URL]@db.example.org/farm"),
    "bearer": ("Authorization: Bearer " + Z[:32], "Authorization: [masked: authorization]"),
    "basic": ('"Authorization": "Basic ' + Z[:32] + '"', '"Authorization": "[masked: authorization]"'),
    "assignment": ("export DEPLOY_TOKEN=" + "hunter2", "export DEPLOY_TOKEN=[masked: secret]"),
    "secret assignment": ("APP_SECRET='" + "swordfish" + "'", "APP_SECRET='[masked: secret]'"),
    "password": ("password: " + "hunter2hunter2", "password: [masked: secret]"),
    "quoted with a blank": ('DB_PASSWORD="' + 'hun ter2"', 'DB_PASSWORD="[masked: secret]"'),
    "url with two at signs": ("postgres://ada:" + "hun@ter2" + "@db.example.org/farm", "postgres://ada:[masked: password in URL]@db.example.org/farm"),
    "key header": ("x-api-key: " + "abcd1234efgh5678", "x-api-key: [masked: secret]"),
    "storage key": ("AccountKey=" + Z, "AccountKey=[masked: secret]"),
    "sendgrid": ("S" + "G." + Z[:22] + "." + Z[:43], "[masked: token]"),
    "pgp": ("-----BEGIN " + "PGP PRIVATE KEY BLOCK-----\n" + Z + "\n-----END PGP PRIVATE KEY BLOCK-----", "[masked: private key]"),
    "before a comma of another script": ("DB_PASSWORD=" + "hunter2hunter2" + "，别提交", "DB_PASSWORD=[masked: secret]，别提交"),
    "before a bracket of another script": ("DB_PASSWORD=" + "hunter2hunter2" + "（别提交）", "DB_PASSWORD=[masked: secret]（别提交）"),
    "in brackets of another script": ("「password: " + "hunter2hunter2" + "」を消す", "「password: [masked: secret]」を消す"),
    "letters only": ("sk" + "_live_" + "abcdefghijklmnopqrstuvwx", "[masked: api key]"),
}


@pytest.mark.parametrize("kind", HIDDEN)
def test_a_credential_is_masked_and_the_sentence_still_reads(kind: str) -> None:
    value, shown = HIDDEN[kind]
    assert cc.mask(f"before {value} after") == f"before {shown} after"
    assert cc.mask(cc.mask(f"before {value} after")) == f"before {shown} after"


@pytest.mark.parametrize("text", [
    "task sk-17 of the list", "commit 3f2a9c1d4b5e6f708192a3b4c5d6e7f801234567", "id 50000000-0000-4000-8000-000000000001", "the password field is empty",
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk", "see https://example.org:8080/path?x=1", "git@github.com:ada/orchard.git",
    "risk-assessment of the task-list-that-is-very-long-indeed", "max_tokens = 1000", "the token expires", "const key = compute_key(value)", "token: str", "sha256:0123456789abcdef0123456789abcdef",
    "Authorization: none", "ssh://git@example.org/x", "monkey-patch", "secretary: Ada Lovelace", "tokens used: 123456",
    "authorization: required", "primary_key=customer_id_2024", "cache_key: user_profile_v2", "TOKEN=$GITHUB_TOKEN", 'TOKEN="${GITHUB_TOKEN}"', "PASSWORD=<your password>",
    "API_TOKEN=********", "sk-learn-is-a-nice-library-for-people", "https://registry.npmjs.org/@babel/core", "http://localhost:8080/@scope/pkg",
])
def test_prose_hashes_and_ids_stay(text: str) -> None:
    assert cc.mask(text) == text


def test_a_secret_at_a_cut_is_never_halved() -> None:
    """Wherever the cut falls, no six characters of the secret in a row are shown."""
    quote = cc.Quoter()
    secret = HIDDEN["anthropic"][0]
    for before in range(0, 200, 3):
        text = "x" * before + " " + secret + " " + "y" * (200 - before)
        for limit in (60, 90, 120, 200):
            assert "Zq7Zq7" not in quote.text(text, limit), (before, limit)


def test_a_secret_at_the_edge_of_the_mask_window() -> None:
    """Of a text larger than the window only head and tail are read; the secret lies across the head's end, and the tail's start."""
    quote = cc.Quoter()
    secret = HIDDEN["anthropic"][0]
    for at in (133_250, 133_280, 133_300, 133_320, 133_333, 266_600, 266_640, 266_660, 266_680, 266_700):
        text = " ".join(("x" * (at - 1), secret, "y" * (400_000 - at)))
        assert "Zq7Zq7" not in quote.text(text, 300), at
        assert "Zq7Zq7" not in quote.text(text, 20_000), at


def test_show_secrets() -> None:
    secret = HIDDEN["github"][0]
    assert cc.Quoter(show_secrets=True).text(secret) == secret


@pytest.mark.parametrize("unit", [
    "a" * 1_000, "-----BEGIN " + "PRIVATE KEY-----\n", "a-token-", "http://a:", "key_" * 100, "eyJabcdefgh.", "Authorization: ", "SECRET", "x_key=", "a.b://", "sk-", "token=", "A_SECRET_", "TOKEN='", "PASSWORD=<", "SG.", "sk-a"])
def test_masking_does_not_run_away(unit: str) -> None:
    """200,000 characters made to send a pattern back and forth; in a process of its own, so that one that hangs can be ended."""
    program = f"import sys; sys.path.insert(0, {str(CASES.parent.parent / 'scripts')!r}); import cc_transcript as cc; cc.mask({unit!r} * {200_000 // len(unit)})"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=20)


# --------------------------------------------------------------------------------------------------------------- room


@pytest.mark.parametrize(("room", "demands", "weights", "granted"), [
    (100, [10, 20], [1, 1], [10, 20]),
    (100, [100, 100], [1, 1], [50, 50]),
    (100, [100, 100], [3, 1], [75, 25]),
    (100, [10, 500, 500], [1, 1, 1], [10, 45, 45]),
    (100, [10, 20, 500], [1, 1, 1], [10, 20, 70]),
    (0, [10, 20], [1, 1], [0, 0]),
    (-5, [10], [1], [0]),
    (10, [], [], []),
])
def test_share_out(room: int, demands: list[int], weights: list[float], granted: list[int]) -> None:
    assert cc.share_out(room, demands, weights) == granted


@pytest.mark.parametrize("seed", range(200))
def test_share_out_never_grants_more_than_there_is_or_is_asked(seed: int) -> None:
    dice = random.Random(seed)
    demands = [dice.choice((0, 1, dice.randrange(50), dice.randrange(5_000))) for _ in range(dice.randrange(1, 14))]
    room = dice.randrange(8_000)
    granted = cc.share_out(room, demands, [dice.choice((1, 2, 3, 4.5, 9)) for _ in demands])
    assert sum(granted) <= room and all(0 <= given <= demand for given, demand in zip(granted, demands))
    assert sum(granted) >= min(room, sum(demands)) - len(demands)  # nothing is left over but for rounding


def text_item(dice: random.Random, rank: float) -> cc.Item:
    """An item that quotes a text of any length and script."""
    letters = dice.choice(("abc def ", "\u68a8\u679c\u5712 ", "\U0001F350 ", "& < > \" ", "x"))
    text = "".join(dice.choice(letters) for _ in range(dice.choice((0, 3, 40, 400, 4_000))))
    return cc.Item(rank, lambda cap: cc.element("item", "", cc.escaped(cc.cut(text, cap))) + "\n")


def random_section(dice: random.Random, needed: bool) -> cc.Section:
    count = dice.choice((1, 2, 5, 30, 200))
    items = [text_item(dice, float(rank)) for rank in dice.sample(range(count), count)]
    if needed:
        items[0] = items[0]._replace(rank=-1.0)
    floor = dice.choice((1, 24, 60, 120))
    return cc.Section(dice.choice(("a", "exchanges", "prompt-timeline")), dice.choice(("", ' section="first"')), items, dice.choice((1, 3, 9)),
                      (floor, floor * dice.choice((1, 2)), floor * dice.choice((1, 4, 40))), count)


@pytest.mark.parametrize("seed", range(150))
def test_fit_never_exceeds_its_room(seed: int) -> None:
    dice = random.Random(seed)
    section = random_section(dice, needed=False)
    for room in (0, 10, 50, 100, 333, 1_000, 5_000, 100_000, 10_000_000):
        fitted = cc.fit(section, room)
        assert units(fitted.xml) <= room
        assert fitted.shown == fitted.xml.count("<item")
        if fitted.xml:
            assert len(ElementTree.fromstring(fitted.xml)) == fitted.shown
    assert fitted.shown == section.total  # everything fits in ten million


@pytest.mark.parametrize("seed", range(150))
def test_lay_out_never_exceeds_its_room(seed: int) -> None:
    dice = random.Random(1_000 + seed)
    sections = [random_section(dice, needed=at == 0) for at in range(dice.randrange(1, 12))]
    for room in (600, 1_500, 5_000, 28_000, 10_000_000):
        fitted = cc.lay_out(sections, room)
        assert sum(units(one.xml) for one in fitted) <= max(room, sections[0].least())
        assert [one.section for one in fitted] == sections
        assert fitted[0].shown >= 1  # what is needed is there
        ElementTree.fromstring("<all>" + "".join(one.xml for one in fitted) + "</all>")


def test_fit_drops_the_last_in_rank_first() -> None:
    items = [cc.Item(rank, lambda cap, rank=rank: f"<i>{rank}</i>") for rank in (2, 0, 1)]  # type: ignore[misc]
    section = cc.Section("s", "", items, 1, (1, 1, 1), 3)
    assert cc.fit(section, 1_000).xml == "<s><i>2</i><i>0</i><i>1</i></s>\n"
    assert cc.fit(section, 8 + 16).xml == "<s><i>0</i><i>1</i></s>\n"
    assert cc.fit(section, 8 + 8).xml == "<s><i>0</i></s>\n"
    assert cc.fit(section, 8 + 7) == cc.Fitted(section, "", 0)


def test_fit_shortens_texts_before_it_drops_items() -> None:
    items = [cc.Item(at, lambda cap: "x" * min(cap, 100)) for at in range(3)]
    section = cc.Section("s", "", items, 1, (10, 10, 100), 3)
    fitted = cc.fit(section, 8 + 3 * 40)
    assert fitted.shown == 3 and 3 * 10 <= len(fitted.xml) - 8 <= 3 * 40


def test_the_room_that_is_granted_in_brief_is_used() -> None:
    items = [cc.Item(0, lambda cap: "x" * min(cap, 1_000)) for _ in range(3)]
    section = cc.Section("s", "", items, 1, (36, 90, 800), 3)
    assert len(cc.fit(section, 8 + 3 * 90).xml) == 8 + 3 * 90


def test_what_one_leaves_goes_to_the_others() -> None:
    small = cc.Section("a", "", [cc.Item(0, lambda cap: "x" * 10)], 9, (1, 1, 1), 1)
    large = cc.Section("b", "", [cc.Item(at, lambda cap: "y" * 10) for at in range(100)], 1, (1, 1, 1), 100)
    fitted = cc.lay_out([small, large], 500)
    assert (fitted[0].shown, fitted[1].shown) == (1, 47)


@pytest.mark.parametrize(("count", "ranks"), [(0, []), (1, [0.0]), (2, [0.0, 0.5]), (4, [0.0, 0.5, 0.25, 0.75])])
def test_evenly(count: int, ranks: list[float]) -> None:
    assert compact_session.evenly(count) == ranks


def test_evenly_keeps_any_number_spread() -> None:
    ranks = compact_session.evenly(64)
    for kept in (4, 8, 16, 32):
        places = sorted(at for at, rank in enumerate(ranks) if rank in sorted(ranks)[:kept])
        assert {after - before for before, after in zip(places, places[1:])} == {64 // kept}


@pytest.mark.parametrize(("stamp", "value"), [
    ("1970-01-01T00:00:10.000Z", 10.0), ("2026-05-01T10:00:00Z", 1_777_629_600.0), ("2026-05-01T12:00:00+02:00", 1_777_629_600.0), ("2026-05-01T10:00:00", 1_777_629_600.0),
    ("", None), ("yesterday", None), ("9999-99-99T00:00:00Z", None)])
def test_seconds(stamp: str, value: object) -> None:
    assert cc.seconds(stamp) == value


@pytest.mark.parametrize(("past", "said"), [(0, "just now"), (59, "just now"), (60, "1 min ago"), (3_599, "59 min ago"), (7_200, "2 h ago"), (86_400, "1 d ago"), (-5, "just now")])
def test_ago(past: int, said: str) -> None:
    assert compact_session.ago(1_000_000.0 - past, 1_000_000.0) == said
    assert compact_session.ago(None, 1_000_000.0) == ""


# ------------------------------------------------------------------------------------------- the bound, on whole reports


def make_session(path: Path, seed: int) -> None:
    """A session of random size and scripts, with calls, edits, failures and long lines."""
    dice = random.Random(seed)
    rows: list[dict[str, object]] = []

    def text() -> str:
        letters = dice.choice(("abc def never ", "\u68a8\u679c\u5712 & ", "\U0001F350 <b> ", "\"' ", "\x1b[3m\0"))
        return "".join(dice.choice(letters) for _ in range(dice.choice((1, 20, 200, 3_000))))

    def add(kind: str, content: object, **more: object) -> None:
        rows.append({"parentUuid": rows[-1]["uuid"] if rows else None, "isSidechain": False, "type": kind, "message": {"role": kind, "content": content, "id": f"m{len(rows)}"},
                     "uuid": f"u{len(rows)}", "timestamp": f"2026-05-01T{len(rows) // 3600:02}:{len(rows) // 60 % 60:02}:{len(rows) % 60:02}.000Z",
                     "cwd": "/home/ada/" + "deep/" * dice.choice((1, 80)), "sessionId": "s", "gitBranch": text()[:200], **more})

    for turn in range(dice.choice((1, 2, 4, 40, 300))):
        add("user", text())
        for call in range(dice.randrange(3)):
            name = dice.choice(("Bash", "Edit", "Write", "Agent", "AskUserQuestion", "TodoWrite", "mcp__x__write"))
            add("assistant", [{"type": "tool_use", "id": f"t{turn}.{call}", "name": name, "input": {
                "command": text(), "file_path": text(), "prompt": text(), "content": text(), "todos": [{"content": text(), "status": "pending"}]}}])
            add("user", [{"type": "tool_result", "tool_use_id": f"t{turn}.{call}", "content": text(), "is_error": dice.random() < 0.3}])
        add("assistant", [{"type": "text", "text": text()}])
    path.write_text("".join(json.dumps(fields) + "\n" for fields in rows))


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(12))
def test_the_bound_holds_for_any_session_and_any_options(run_script: Callable[..., subprocess.CompletedProcess[bytes]], tmp_path: Path, seed: int) -> None:
    path = tmp_path / "session.jsonl"
    make_session(path, seed)
    dice = random.Random(seed)
    for bound in (2_000, dice.randrange(2_000, 4_000), dice.randrange(4_000, 30_000)):
        knobs = ["--first", str(dice.choice((0, 1, 5, 50))), "--last", str(dice.choice((0, 1, 10, 50))), "--middle", str(dice.choice((0, 8, 99))),
                 "--top-files", str(dice.choice((0, 10, 500))), "--maxlen", str(dice.choice((0, 1, 80, 800, 100_000)))]
        done = run_script(COMPACT, "--file", path, "--max-chars", str(bound), *knobs)
        assert (done.returncode, done.stderr) == (0, b"")
        text = done.stdout.decode("utf-8")
        assert units(text) <= bound, knobs
        assert ElementTree.fromstring(text).attrib["chars"] == str(units(text))


@pytest.mark.deep
def test_every_bound_from_2000_on_case_51(tmp_path: Path, config: Path) -> None:
    """In one process, so that many bounds can be tried: each is kept, and the first and the last three prompts stand."""
    path = tmp_path / "session.jsonl"
    make_case("51-budget-cut", path)
    for bound in (*range(2_000, 2_060, 7), *range(2_100, 9_000, 487), *range(9_000, 60_000, 7_919)):
        options = cc.parse_arguments(compact_session.build_parser(), ["--file", str(path), "--max-chars", str(bound)])
        text = compact_session.report(options)
        assert units(text) <= bound
        shown = [prompt.text or "" for prompt in ElementTree.fromstring(text).iter("user")]
        assert [said.split(" ")[1] for said in (shown[0], *shown[-3:])] == ["0", "397", "398", "399"], bound
