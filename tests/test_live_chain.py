"""What the module takes for live is what the real client was seen to send on --resume (tests/resumed.json; resumed.py says how)."""
from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import cc_transcript
import pytest
import resumed
from resumed import Item

KINDER = {  # sessions of which we deliberately keep more than the client sends, and why
    "26-missing-parent/session": "a gap of more than 5 s is bridged",
}


def live(name: str, folder: Path) -> list[Item]:
    """The items that the module takes for live."""
    session = resumed.place(name, folder)
    return resumed.live_items(cc_transcript.read_conversation(cc_transcript.read_transcript(str(folder / f"{session}.jsonl"))))


def is_within(few: list[Item], many: Iterable[Item]) -> bool:
    """Whether `few` stand in `many`, in that order."""
    rest = iter(many)
    return all(item in rest for item in few)


def test_every_session_is_pinned() -> None:
    assert list(resumed.pinned()) == resumed.names()
    assert len(resumed.sources()) > 40


@pytest.mark.parametrize("name", sorted(set(resumed.names()) - set(KINDER)))
def test_live_is_what_the_client_sends(name: str, tmp_path: Path) -> None:
    assert live(name, tmp_path) == resumed.pinned()[name]


@pytest.mark.parametrize("name", sorted(KINDER))
def test_live_is_more_than_the_client_sends(name: str, tmp_path: Path) -> None:
    ours, sent = live(name, tmp_path), resumed.pinned()[name]
    assert is_within(sent, ours)
    assert ours != sent
