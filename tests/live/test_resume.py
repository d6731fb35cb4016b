"""What the real client sends when it resumes a session is what `tests/resumed.json` says, for every fixture, case and random seed.

    python3 tests/live/test_resume.py --write        writes that file anew (LIVE_CLIENT names the client)

The file is then the literal that `tests/test_live_chain.py` holds the shared module against, without a client.
"""
from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2] / "scripts")]

import resumed  # noqa: E402
from client import Client, ScriptedModel, binary, isolate  # noqa: E402
from resumed import Item  # noqa: E402

CLIENTS = 3  # at a time: a resume takes a second, a third of it waiting
FOLDER = "-resumed"  # the client finds an id in any folder, so a fixture's own directory need not exist


def resume(name: str) -> list[Item]:
    """The items of the first request of the client that resumes that session, in an empty directory that is not the session's."""
    with tempfile.TemporaryDirectory(prefix="resume-") as root, ScriptedModel() as model:
        client = Client(binary(), Path(root), model)
        folder, cwd = client.config / "projects" / FOLDER, Path(root, "elsewhere")
        folder.mkdir(parents=True)
        cwd.mkdir()
        session = resumed.place(name, folder)
        client.ask("Go on.", "--resume", session, cwd=cwd)
        return resumed.sent_items(model.turns[0], resumed.transcript(name))


@pytest.fixture(scope="session")
def resuming() -> Iterator[dict[str, Future[list[Item]]]]:
    """All sessions by name, being resumed a few at a time."""
    pool = ThreadPoolExecutor(CLIENTS)
    yield {name: pool.submit(resume, name) for name in resumed.names()}
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", resumed.names())
def test_client_sends_what_is_pinned(name: str, resuming: dict[str, Future[list[Item]]]) -> None:
    assert resuming[name].result() == resumed.pinned()[name]


def write() -> None:
    """Resume every session and write down what the client sent."""
    isolate()
    with ThreadPoolExecutor(CLIENTS) as pool:
        sent = dict(zip(resumed.names(), pool.map(resume, resumed.names())))
    lines = [f"{json.dumps(name)}: {json.dumps(items, ensure_ascii=False)}" for name, items in sent.items()]
    resumed.PINNED.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit(__doc__)
    write()
