"""What the module takes for live is what the real client was seen to send on --resume (tests/resumed.json; resumed.py says how)."""
from __future__ import annotations

from pathlib import Path

import pytest
import resumed


def test_every_session_is_pinned() -> None:
    assert list(resumed.pinned()) == resumed.names()
    assert len(resumed.sources()) > 50
    assert all(resumed.pinned().values())


@pytest.mark.parametrize("name", resumed.names())
def test_live_is_what_the_client_sends(name: str, tmp_path: Path) -> None:
    assert resumed.live(name, tmp_path) == resumed.pinned()[name]
