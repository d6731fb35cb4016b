"""What all tests share: the canonical module on the path, an empty client configuration, and a clean way to run a script.

No test may see the sessions of the person who runs it, so the configuration is empty and lies below `tmp_path`, and a script is
started with an environment that holds nothing of the caller's but PATH: under the client, CLAUDE_CODE_SESSION_ID and others are set.
"""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Union

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT_SECONDS = 60  # far above any script on any fixture, so only one that hangs meets it

sys.path.insert(0, str(ROOT / "scripts"))


def make_case(case: str, path: Path) -> Any:
    """Let a case's make.py write its transcript; what it prints, parsed, None where that is nothing."""
    done = subprocess.run([sys.executable, str(ROOT / "tests/cases" / case / "make.py"), str(path)], capture_output=True, check=True)
    return json.loads(done.stdout) if done.stdout else None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "deep: a property tried on very many inputs; .ci/run tries it on one version of Python, the rest on all")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty configuration folder of the client, named by CLAUDE_CONFIG_DIR, in an environment without any other CLAUDE*.

    HOME is another empty folder, so that a reader that forgets the variable finds nothing.
    """
    for name in [name for name in os.environ if name.startswith("CLAUDE")]:
        monkeypatch.delenv(name)
    folder, home = tmp_path / "config", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder))
    monkeypatch.setenv("HOME", str(home))
    return folder


@pytest.fixture
def run_script(config: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """A function that runs a script with the interpreter of the tests and gives back its status and both outputs, as bytes."""

    def run(script_path: Union[str, Path], *args: Union[str, Path], stdin: bytes = b"", env: Optional[Mapping[str, Optional[str]]] = None,
            cwd: Optional[Path] = None, flags: Sequence[str] = ()) -> subprocess.CompletedProcess[bytes]:
        """`env` adds to PATH, HOME and CLAUDE_CONFIG_DIR, and None in it takes away; `flags` go to the interpreter, such as -I."""
        given: dict[str, Optional[str]] = {
            "PATH": os.environ.get("PATH", os.defpath), "HOME": os.environ["HOME"], "CLAUDE_CONFIG_DIR": str(config), **(env or {})}
        return subprocess.run(
            [sys.executable, *flags, str(script_path), *map(str, args)], input=stdin, capture_output=True, check=False,
            env={name: value for name, value in given.items() if value is not None}, cwd=cwd or tmp_path, timeout=SCRIPT_SECONDS)

    return run


@pytest.fixture
def place(config: Path) -> Callable[..., Path]:
    """A function that puts a transcript into a project's folder under the id its records have."""

    def put(data: bytes, folder: str = "-home-ada-orchard") -> Path:
        session = re.search(rb'"sessionId": ?"([0-9a-f-]{36})"', data)
        target = config / "projects" / folder / f"{session[1].decode() if session else 'session'}.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        return target

    return put
