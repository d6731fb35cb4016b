"""Live tests run the real client, and only where it can reach nothing but loopback.

Without LIVE_CLIENT they are skipped; with it, a namespace that has more than loopback stops the run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from client import Client, ScriptedModel, binary, interfaces_up, namespace_command, raise_loopback

HERE = Path(__file__).parent
BY_HAND = " ".join(["LIVE_CLIENT=<the client's binary>", *namespace_command(), "python3 -m pytest tests/live"])
WITHOUT = f"LIVE_CLIENT is not set; .ci/run sets it, by hand: {BY_HAND}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    live = [item for item in items if HERE in item.path.parents]
    if not os.environ.get("LIVE_CLIENT"):
        for item in live:
            item.add_marker(pytest.mark.skip(reason=WITHOUT))
    elif live and not raise_loopback():
        raise pytest.UsageError(f"live tests need a namespace with loopback only, here is {interfaces_up()}; run: {BY_HAND}")


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as scripted:
        yield scripted


@pytest.fixture
def client(tmp_path: Path, model: ScriptedModel) -> Client:
    return Client(binary(), tmp_path, model)


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """An empty project directory."""
    project = tmp_path / "proj"
    project.mkdir()
    return project
