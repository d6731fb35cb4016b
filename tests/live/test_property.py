"""What the shared module takes for live is what the real client sends on resume, for random sessions.

    LIVE_SEEDS=5000:5200 ...        other seeds, for a hunt; `python3 tests/random_sessions.py 5017` prints the session of one

The seeds of every run are those that `tests/resumed.json` holds, so what is pinned there is seen to be still true.
"""
from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from resuming import Sent, resumed, resuming

FIRST, END = map(int, os.environ.get("LIVE_SEEDS", f"0:{resumed.SEEDS}").split(":"))
NAMES = [f"random/{seed}" for seed in range(FIRST, END)]


@pytest.fixture(scope="module")
def sent() -> Iterator[dict[str, Future[Sent]]]:
    with resuming(NAMES) as futures:
        yield futures


@pytest.mark.parametrize("name", NAMES)
def test_live_is_what_the_client_sends(name: str, sent: dict[str, Future[Sent]], tmp_path: Path) -> None:
    now = sent[name].result().items()
    assert resumed.live(name, tmp_path) == now
    assert resumed.pinned().get(name, now) == now
