"""The search in the real client: typed by a person in manual permission mode, and called again by the model, which asks nobody."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from client import Client, Json, sent
from test_plugin import Person, Turn, installed, repository, root, shared_model, units  # noqa: F401 - fixtures of that module

QUERY = "/cc-query-chat"
ANSWER = re.compile(r"<chat-query .*?</chat-query>", re.S)
ODD = "it's \"odd $(touch made) `touch made` ; & | <b> 🍏"


def answer_in(text: str) -> ET.Element:
    """The report of a search in a message."""
    (found,) = ANSWER.findall(text)
    return ET.fromstring(found)


def first_answer(turn: Turn) -> ET.Element:
    """The report in the one request of this turn: no further round trip, no question."""
    assert len(turn.requests) == 1, turn.screen
    assert not re.search(r"Do you want|requires approval", turn.screen), turn.screen
    role, text = sent(turn.requests[0])[-1]
    assert role == "user"
    return answer_in(text)


def matches(report: ET.Element) -> list[str]:
    return [result.findtext("match") or "" for result in report.iter("result")]


def command_in(turn: Turn, option: str) -> str:
    """The command with that option as the skill's text gives it to the model."""
    text = sent(turn.requests[0])[-1][1]
    (command,) = re.findall(rf"`(python3 [^`]*query_session\.py\" {option} [^`]*)`", text)
    return str(command)


def call(command: str) -> list[Json]:
    return [{"tool": "Bash", "input": {"command": command, "description": "Search again"}}]


def test_what_was_said_in_an_earlier_session_is_in_the_first_request(installed: Client, cwd: Path) -> None:  # noqa: F811
    with Person(installed, cwd) as ada:
        ada.ask(f"Plant the zircon apples, {ODD}", "Planted.")
        earlier = ada.clear()
        report = first_answer(ada.ask(f"{QUERY} zircon {ODD}"))
    assert not (cwd / "made").exists()
    best = next(report.iter("result"))
    assert (best.get("session"), best.get("type"), best.get("state"), best.get("turn")) == (earlier, "user", "live", "1")
    assert best.findtext("match") == f"Plant the zircon apples, {ODD}"
    assert {result.get("session") for result in report.iter("result")} == {earlier}


def test_the_model_searches_again_and_reads_on_without_a_question(installed: Client, cwd: Path) -> None:  # noqa: F811
    with Person(installed, cwd) as ada:
        ada.ask("The zircon pump is number seven.", "Noted, seven.")
        earlier = ada.clear()
        first = ada.ask(f"{QUERY} nothing of the kind")
        again = command_in(first, "--keyword").replace("'rare words'", "'zircon pump'")
        turn = ada.ask(f"{QUERY} nothing of the kind", steps=call(again))
        read_on = command_in(first, "--chat").replace(" ID ", f" {earlier} ").replace(" N", " 1")
        second = ada.ask(f"{QUERY} nothing of the kind", steps=call(read_on))
    for played in (turn, second):
        assert len(played.requests) == 2 and not re.search(r"Do you want|requires approval", played.screen), played.screen
    found = answer_in(sent(turn.requests[-1])[-1][1])
    assert matches(found)[0] == "The zircon pump is number seven."
    exchange = answer_in(sent(second.requests[-1])[-1][1])
    assert [words.text for words in exchange.iter("user")] == ["The zircon pump is number seven."]


def test_what_a_compaction_took_away_is_found_and_nothing_else(installed: Client, cwd: Path) -> None:  # noqa: F811
    with Person(installed, cwd) as ada:
        ada.ask("The zircon pump is number seven.", "Zircon, seven.")
        ada.say("/compact", "Compacted")
        ada.ask("The zircon valve is new.", "Zircon valve.")
        report = first_answer(ada.ask(f"{QUERY} --chat this --only compacted zircon"))
    assert sorted(matches(report))[0] == "The zircon pump is number seven."
    assert [words.startswith("Zircon, seven.") for words in sorted(matches(report))] == [False, True]
    assert {result.get("state") for result in report.iter("result")} == {"compacted"}


def test_a_detail_that_the_compact_report_left_out_is_one_search_away(installed: Client, cwd: Path) -> None:  # noqa: F811
    with Person(installed, cwd) as ada:
        ada.ask("The zircon pump is number seven.", "Noted.")
        cleared = ada.clear()
        command = command_in(ada.ask("/cc-compact"), "--id").replace(" ID ", f" {cleared} ").replace("WORDS", "zircon")
        turn = ada.ask(f"/cc-compact {cleared}", steps=call(command))
    assert len(turn.requests) == 2 and not re.search(r"Do you want|requires approval", turn.screen), turn.screen
    assert matches(answer_in(sent(turn.requests[-1])[-1][1])) == ["The zircon pump is number seven."]


def test_the_bound_is_lowered_to_what_the_client_takes(installed: Client, cwd: Path) -> None:  # noqa: F811
    with Person(installed, cwd) as ada:
        for n in range(3):
            ada.ask(f"Row {n}, please.", "zircon planted, " * 900)
        ada.clear()
        turn = ada.ask(f"{QUERY} --max-chars 60000 --limit 50 --truncate 20000 zircon")
    report = first_answer(turn)
    assert units(ANSWER.findall(sent(turn.requests[0])[-1][1])[0]) <= 29_500
    assert "60000" in (report.findtext("notice") or "") and len(matches(report)) == 3
