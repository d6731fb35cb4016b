"""Resume sessions with the real client, several at a time."""
from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from client import Client, Json, ScriptedModel, binary

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / folder) for folder in ("tests", "scripts")]  # where pytest has not done it

import resumed  # noqa: E402
from resumed import Item  # noqa: E402

CLIENTS = 3  # at a time: a resume takes a second, a part of it waiting; measured on two cores
FOLDER = "-resumed"  # the client finds an id in any folder, so the session's own directory need not exist


class Sent(NamedTuple):
    """What the client sent on resuming a session: every request, the first with tools, and the transcript as it was before."""

    requests: list[Json]
    body: Json
    data: bytes

    def items(self) -> list[Item]:
        return resumed.sent_items(self.body, self.data)


def resume_file(path: Path, prompt: str = "Go on.") -> Sent:
    """Resume a copy of that transcript in an empty configuration, from another directory."""
    data = path.read_bytes()
    with tempfile.TemporaryDirectory(prefix="resume-") as root, ScriptedModel() as model:
        client = Client(binary(), Path(root), model)
        folder = client.config / "projects" / FOLDER
        folder.mkdir(parents=True)
        shutil.copy(path, folder)
        client.ask(prompt, "--resume", path.stem, cwd=Path(tempfile.gettempdir()))  # named in the request, so the same each time
        return Sent(model.requests, model.turns[0], data)


@cache
def resume(name: str) -> Sent:
    """The same of a session named as in resumed.py; one that several tests ask for is resumed once."""
    with tempfile.TemporaryDirectory(prefix="source-") as root:
        return resume_file(Path(root) / f"{resumed.place(name, Path(root))}.jsonl")


@contextmanager
def resuming(names: Iterable[str]) -> Iterator[dict[str, Future[Sent]]]:
    """The sessions by name, being resumed; what has not begun when the block ends never begins."""
    pool = ThreadPoolExecutor(CLIENTS)
    try:
        yield {name: pool.submit(resume, name) for name in names}
    finally:
        pool.shutdown(cancel_futures=True)
