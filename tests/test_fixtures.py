"""What was said in the real client's transcripts, read off by hand and kept in fixtures/said.json: prompts, last answers, calls.

Each session there: its title, compactions, local commands, rewound prompts, and the exchanges as [prompt, last words of the answer, calls].
An exchange with an empty prompt is what a fork or a compaction kept of an answer whose prompt it left behind.
"""
from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import cc_transcript as cc
import pytest

FIXTURES = Path(__file__).parent / "fixtures"
COMPACT = Path(__file__).parent.parent / "skills/cc-compact/compact_session.py"
SAID: dict[str, dict[str, Any]] = json.loads((FIXTURES / "said.json").read_text("utf-8"))
SESSIONS = {f"{path.relative_to(FIXTURES).parts[0]}/{path.name[:8]}": path for path in sorted(FIXTURES.glob("*/projects/*/*.jsonl"))}
AGENTS = sorted(FIXTURES.glob("*/projects/*/*/subagents/*.jsonl"))


def test_every_session_is_pinned() -> None:
    assert len(SESSIONS) == 34
    assert sorted(SAID) == sorted(SESSIONS)
    assert len(AGENTS) == 6


@pytest.fixture(params=SESSIONS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_was_said(name: str) -> None:
    conversation = cc.read_conversation(cc.read_transcript(str(SESSIONS[name])))
    assert [[exchange.prompt.text, exchange.replies[-1].text if exchange.replies else None, [call.name for call in exchange.calls]]
            for exchange in conversation.exchanges] == SAID[name]["exchanges"]
    assert conversation.commands == SAID[name]["commands"]


def test_compactions_and_rewound_prompts(name: str) -> None:
    conversation = cc.read_conversation(cc.read_transcript(str(SESSIONS[name])))
    assert conversation.compactions == SAID[name]["compactions"]
    assert [prompt.text for prompt in map(cc.prompt_of, conversation.abandoned) if prompt] == SAID[name]["rewound"]


def test_each_record_has_one_place(name: str) -> None:
    transcript = cc.read_transcript(str(SESSIONS[name]))
    conversation = cc.read_conversation(transcript)
    live, earlier, abandoned = ([record.uuid for record in part] for part in (conversation.live, conversation.earlier, conversation.abandoned))
    for part in (live, earlier, abandoned):
        assert len(part) == len(set(part))
    assert not set(live) & set(earlier) and not set(live) & set(abandoned) and not set(earlier) & set(abandoned)
    assert {*live, *earlier, *abandoned} == {record.uuid for record in transcript.records if not record.sidechain}
    assert transcript.damaged == 0


def test_title(name: str) -> None:
    path = str(SESSIONS[name])
    card = cc.read_card(path)
    assert card is not None
    assert cc.file_title(card.path) == SAID[name]["title"]
    assert cc.session_title(cc.read_conversation(cc.read_transcript(path))) == SAID[name]["title"]


def test_the_report_holds_every_prompt(name: str, run_script: Callable[..., subprocess.CompletedProcess[bytes]]) -> None:
    done = run_script(COMPACT, "--file", SESSIONS[name], "--first", "40")
    assert (done.returncode, done.stderr) == (0, b"")
    report = ElementTree.fromstring(done.stdout.decode("utf-8"))
    said = SAID[name]["exchanges"]
    prompts = [re.sub(r"^\[Image #\d+\] ", "", " ".join(prompt.split())) for prompt, _, _ in said if prompt]
    shown = [prompt.text or "" for prompt in report.iter("prompt")]
    assert [line.partition("…")[0] for line in shown] == [prompt[:len(line.partition("…")[0])] for prompt, line in zip(prompts, shown)]
    assert len(shown) == len(prompts)
    assert [exchange.findtext("user", "") for exchange in report.iter("exchange") if exchange.find("user") is not None] == [
        cc.clean(prompt) for prompt, _, _ in said if prompt]
    (counts,) = report.iter("counts")
    assert (counts.attrib["prompts"], counts.attrib["calls"]) == (str(len(prompts)), str(sum(len(calls) for _, _, calls in said)))
    assert counts.attrib.get("rewound-prompts", "0") == str(len(SAID[name]["rewound"]))
    assert counts.attrib.get("compactions", "0") == str(SAID[name]["compactions"])
    answers = [answer for _, answer, _ in said if answer]
    assert report.findtext(".//final-agent-message") == (answers[-1] if answers else None)


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_a_sub_agents_file_is_no_session(path: Path, config: Path) -> None:
    shutil.copytree(path.parents[4], config, dirs_exist_ok=True)
    card = cc.read_card(str(path))
    assert card is not None and card.sidechain
    parser = cc.build_base_parser("find.py", "", "", 28_000)
    with pytest.raises(cc.Refusal, match=f"^{path.stem} is a sub-agent of session {path.parents[1].name}; name that session$"):
        cc.find_session(cc.parse_arguments(parser, [path.stem]))


def test_an_output_that_the_client_saved_beside_the_session_is_not_needed(run_script: Callable[..., subprocess.CompletedProcess[bytes]], tmp_path: Path) -> None:
    """It stands in the transcript as a preview; the report is the same where the saved file is gone."""
    session = SESSIONS["v332_print_multiturn/25a10431"]
    assert list(session.with_suffix("").glob("tool-results/*.txt"))
    texts = []
    for path in (session, shutil.copy(session, tmp_path)):
        report = ElementTree.fromstring(run_script(COMPACT, "--file", path).stdout.decode("utf-8"))
        texts.append([element.text for element in report.iter() if element.tag != "file"])
    assert texts[0] == texts[1] and len(texts[0]) > 20
