"""scripts/vendor.py on trees of its own: what it writes, what it calls a fault, and what it leaves alone."""
from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import vendor

ORIGINAL = b'"""The shared module."""\r\nNAME = "caf\xc3\xa9"\n\xff'  # a copy is bytes: CRLF and broken UTF-8 go with it


def put(path: Path, data: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project with two skills, one copy right and one missing, and a folder below skills/ that is no skill."""
    root = tmp_path / "project"
    put(root / "scripts/cc_transcript.py", ORIGINAL)
    put(root / "skills/alpha/SKILL.md")
    put(root / "skills/alpha/cc_transcript.py", ORIGINAL)
    put(root / "skills/beta/SKILL.md")
    put(root / "skills/notes/README.md")
    return root


def vendored(root: Path, *args: str) -> int:
    return vendor.main([*args, "--root", str(root)])


def test_copies_where_needed_and_says_what_it_wrote(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (tree / "skills/alpha/cc_transcript.py").stat().st_mtime_ns
    assert vendored(tree) == 0
    assert capsys.readouterr() == ("wrote skills/beta/cc_transcript.py\n", "")
    assert (tree / "skills/beta/cc_transcript.py").read_bytes() == ORIGINAL
    assert (tree / "skills/alpha/cc_transcript.py").stat().st_mtime_ns == before
    assert not (tree / "skills/notes/cc_transcript.py").exists()


def test_a_second_run_has_nothing_to_do(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vendored(tree)
    capsys.readouterr()
    assert vendored(tree) == 0
    assert vendored(tree, "--check") == 0
    assert capsys.readouterr() == ("", "")


def test_check_names_a_missing_copy_and_writes_nothing(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert vendored(tree, "--check") == 1
    assert capsys.readouterr() == ("", "skills/beta/cc_transcript.py: missing; run scripts/vendor.py\n")
    assert not (tree / "skills/beta/cc_transcript.py").exists()


@pytest.mark.parametrize("data", [b"", ORIGINAL + b"\n", ORIGINAL.replace(b"\r\n", b"\n")], ids=["empty", "longer", "other line ends"])
def test_check_names_a_copy_that_differs_by_any_byte(tree: Path, capsys: pytest.CaptureFixture[str], data: bytes) -> None:
    copy = put(tree / "skills/beta/cc_transcript.py", data)
    assert vendored(tree, "--check") == 1
    assert capsys.readouterr().err == "skills/beta/cc_transcript.py: differs from scripts/cc_transcript.py; run scripts/vendor.py\n"
    assert copy.read_bytes() == data
    assert vendored(tree) == 0
    assert copy.read_bytes() == ORIGINAL


@pytest.mark.parametrize("place", [
    "cc_transcript.py", "skills/cc_transcript.py", "skills/notes/cc_transcript.py", "skills/alpha/lib/cc_transcript.py",
    "tests/cc_transcript.py", "scripts/old/cc_transcript.py",
])
def test_a_stray_copy_is_a_fault_but_is_not_removed(tree: Path, capsys: pytest.CaptureFixture[str], place: str) -> None:
    vendored(tree)
    stray = put(tree / place, ORIGINAL)
    capsys.readouterr()
    for args in ([], ["--check"]):
        assert vendored(tree, *args) == 1
        assert capsys.readouterr() == ("", f"{place}: stray copy, no SKILL.md beside it; delete it\n")
    assert stray.exists()


@pytest.mark.parametrize("folder", [
    ".git", ".venv/3.11", ".client/node_modules/x", "skills/alpha/__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache",
])
def test_what_is_no_part_of_the_project_is_not_searched(tree: Path, folder: str) -> None:
    vendored(tree)
    put(tree / folder / "cc_transcript.py", b"something else")
    assert vendored(tree, "--check") == 0


def test_each_fault_has_its_line(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tree / "skills/alpha/cc_transcript.py", b"edited by hand")
    put(tree / "skills/notes/cc_transcript.py", ORIGINAL)
    assert vendored(tree, "--check") == 1
    assert capsys.readouterr().err.splitlines() == [
        "skills/alpha/cc_transcript.py: differs from scripts/cc_transcript.py; run scripts/vendor.py",
        "skills/beta/cc_transcript.py: missing; run scripts/vendor.py",
        "skills/notes/cc_transcript.py: stray copy, no SKILL.md beside it; delete it",
    ]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_link_is_no_copy_and_is_not_written_through(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vendored(tree)
    copy, elsewhere = tree / "skills/beta/cc_transcript.py", put(tree / "other.py", b"other")
    capsys.readouterr()
    for target in ("../../scripts/cc_transcript.py", "../../other.py", "nowhere.py"):
        copy.unlink()
        copy.symlink_to(target)
        assert vendored(tree, "--check") == 1
        assert capsys.readouterr().err == "skills/beta/cc_transcript.py: differs from scripts/cc_transcript.py; run scripts/vendor.py\n"
        assert vendored(tree) == 0
        assert not copy.is_symlink()
        assert copy.read_bytes() == ORIGINAL
        assert capsys.readouterr().out == "wrote skills/beta/cc_transcript.py\n"
    assert elsewhere.read_bytes() == b"other"
    assert (tree / "scripts/cc_transcript.py").read_bytes() == ORIGINAL


def test_a_folder_in_the_place_of_a_copy_is_refused_without_traceback(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "skills/beta/cc_transcript.py").mkdir()
    assert vendored(tree) == 1
    message = capsys.readouterr().err
    assert message == f"{tree / 'skills/beta/cc_transcript.py'}: Is a directory\n"


@pytest.mark.parametrize("args", [[], ["--check"]], ids=["write", "check"])
def test_a_tree_without_the_original_or_without_skills_is_refused(tree: Path, capsys: pytest.CaptureFixture[str], args: list[str]) -> None:
    (tree / "scripts/cc_transcript.py").unlink()
    assert vendored(tree, *args) == 1
    assert capsys.readouterr() == ("", f"scripts/cc_transcript.py: cannot read the original below {tree}: No such file or directory\n")
    put(tree / "scripts/cc_transcript.py", ORIGINAL)
    for name in ("alpha", "beta"):
        (tree / "skills" / name / "SKILL.md").unlink()
    assert vendored(tree, *args) == 1
    assert capsys.readouterr() == ("", f"no skills/*/SKILL.md below {tree}: is this the root of the project?\n")


def test_by_hand_it_serves_the_project_it_stands_in(tree: Path, run_script: Callable[..., subprocess.CompletedProcess[bytes]]) -> None:
    script = put(tree / "scripts/vendor.py", Path(vendor.__file__).read_bytes())
    assert run_script(script, flags=["-I"]).stdout == b"wrote skills/beta/cc_transcript.py\n"
    done = run_script(script, "--check", flags=["-I"])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tree / "skills/beta/cc_transcript.py").read_bytes() == ORIGINAL


def test_wrong_usage_has_status_2(run_script: Callable[..., subprocess.CompletedProcess[bytes]]) -> None:
    done = run_script(vendor.__file__, "--chek-everything")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"unrecognized arguments: --chek-everything" in done.stderr
