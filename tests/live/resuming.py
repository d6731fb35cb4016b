"""Resume sessions with the real client, several at a time."""
from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from client import Client, ScriptedModel, binary

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / folder) for folder in ("tests", "scripts")]  # where pytest has not done it

import resumed  # noqa: E402
from resumed import Item  # noqa: E402

CLIENTS = 3  # at a time: a resume takes a second, a part of it waiting; measured on two cores
FOLDER = "-resumed"  # the client finds an id in any folder, so the session's own directory need not exist


def resume(name: str) -> list[Item]:
    """The items of the client's first request when it resumes that session (named as in resumed.py) from another directory."""
    with tempfile.TemporaryDirectory(prefix="resume-") as root, ScriptedModel() as model:
        client = Client(binary(), Path(root), model)
        folder, cwd = client.config / "projects" / FOLDER, Path(root, "elsewhere")
        folder.mkdir(parents=True)
        cwd.mkdir()
        session = resumed.place(name, folder)
        client.ask("Go on.", "--resume", session, cwd=cwd)
        return resumed.sent_items(model.turns[0], resumed.transcript(name))


@contextmanager
def resuming(names: Iterable[str]) -> Iterator[dict[str, Future[list[Item]]]]:
    """The sessions by name, being resumed; what has not begun when the block ends never begins."""
    pool = ThreadPoolExecutor(CLIENTS)
    try:
        yield {name: pool.submit(resume, name) for name in names}
    finally:
        pool.shutdown(cancel_futures=True)
