"""What the real client sends when it resumes a session is what `tests/resumed.json` says, for every fixture, every case that is one
file, and every crafted session.

    python3 tests/live/test_resume.py --write        writes that file anew (LIVE_CLIENT names the client; takes a minute)

The file is then the literal that `tests/test_live_chain.py` holds the shared module against, without a client.
"""
from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from client import isolate
from resuming import Sent, resumed, resuming


@pytest.fixture(scope="module")
def sent() -> Iterator[dict[str, Future[Sent]]]:
    with resuming(resumed.written()) as futures:
        yield futures


@pytest.mark.parametrize("name", resumed.written())
def test_client_sends_what_is_pinned(name: str, sent: dict[str, Future[Sent]]) -> None:
    assert sent[name].result().items() == resumed.pinned()[name]


def write() -> None:
    """Resume every session, the random ones too, and write down what the client sent."""
    isolate()
    with resuming(resumed.names()) as futures:
        lines = [f"{json.dumps(name)}: {json.dumps(future.result().items(), ensure_ascii=False)}" for name, future in futures.items()]
    resumed.PINNED.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit(__doc__)
    write()
