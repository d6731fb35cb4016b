"""scripts/bench.py scaled down: its transcripts have the shapes and shares they should, and a figure stands in every row or a reason why not."""
from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import bench
import pytest

pytestmark = pytest.mark.deep

BENCH = Path(__file__).resolve().parent.parent / "scripts/bench.py"
ROWS = [  # section 7 of the spec: the work of each row, on both long transcripts where it is on one
    "compact-bulk", "query-rare-bulk", "query-none-bulk", "query-common-bulk", "query-regexp-bulk", "fork-bulk",
    "compact-plain", "query-rare-plain", "query-none-plain", "query-common-plain", "query-regexp-plain", "fork-plain",
    "query-all", "query-growth", "list", "resolve-id", "resolve-title", "small-compact", "small-query", "small-fork",
]
STANDING_IN = """import os, sys
sys.stdout.write({answer!r})
open(os.path.join(os.path.dirname(sys.argv[sys.argv.index("--file") + 1]), "left.jsonl"), "w").close()
sys.exit({status})
"""


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> bench.Corpora:
    return bench.make_corpora(tmp_path_factory.mktemp("corpora"), bench.SMALL)


def run_bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(BENCH), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)


def lines_by_row(out: str) -> dict[str, str]:
    """The lines of the table by the names of their rows."""
    return {line.split()[0]: line for line in out.partition("\nrow ")[2].splitlines()[1:]}


def test_the_long_transcripts_have_the_size_and_the_share_of_bulk_that_they_should(corpora: bench.Corpora) -> None:
    for path, low, high in ((corpora.bulk, 0.6, 0.8), (corpora.plain, 0.0, 0.0)):
        lines = path.read_bytes().splitlines(keepends=True)
        records = [json.loads(line) for line in lines]
        bulk = sum(len(line) for line, record in zip(lines, records)
                   if record["type"].startswith("api-request") or record.get("attachment", {}).get("type") == "prompt_snapshot")
        size = path.stat().st_size
        assert 1_000_000 <= size < 1_500_000  # the last turn is not broken off
        assert low <= bulk / size <= high


def test_records_begin_as_the_client_writes_them_and_hang_together(corpora: bench.Corpora) -> None:
    above = None
    for line in corpora.bulk.read_bytes().splitlines():
        record = json.loads(line)
        assert line.startswith(b'{"parentUuid":' if "uuid" in record else b'{"type":"')
        if "uuid" in record:
            assert record["parentUuid"] == above
            above = record["uuid"]


def test_rare_words_are_rare_and_absent_ones_absent(corpora: bench.Corpora) -> None:
    everything = [path.read_text(encoding="utf-8") for path in (corpora.bulk, corpora.plain, *sorted(corpora.history.rglob("*.jsonl")))]
    assert [bench.RARE in text for text in everything].count(True) == 3  # both long ones, one session of thirty
    assert set(re.findall(rf"{bench.RARE} (\d)", everything[1])) == {"1", "2", "3", "4", "5"}
    assert not any(word in text for word in bench.ABSENT.split() for text in everything)


def test_the_history_has_its_sessions_and_every_second_row_of_folders_stands_in_its_half(corpora: bench.Corpora) -> None:
    whole, half = ({path.name: path.stat().st_ino for path in folder.rglob("*.jsonl")} for folder in (corpora.history, corpora.half))
    assert (len(whole), len(half)) == (30, 20)
    assert half.items() <= whole.items()  # the same files, not copies
    assert f"{corpora.id}.jsonl" in whole


def test_every_row_has_a_figure_or_says_that_its_script_is_not_there(corpora: bench.Corpora) -> None:
    done = run_bench("--small", "--runs", 1, "--keep", corpora.single.parent)
    assert done.returncode == 0, done.stderr
    assert "python3 -c pass) takes" in done.stdout
    assert done.stdout.count("s as a whole process") == 2
    rows = lines_by_row(done.stdout)
    assert list(rows) == ROWS
    for name, line in rows.items():
        script = next(script for script in bench.SCRIPTS if script in name or (script == "query" and name == "list") or "resolve" in name)
        there = (bench.ROOT / "skills" / bench.SCRIPTS[script]).is_file()
        assert line.endswith("not judged" if there else "not there"), line


@pytest.mark.parametrize(("answer", "status", "fault"), [
    ('<chat-query matched="3"/>', 0, ""), ('<chat-query matched="0"/>', 0, "matched 0"), ("<chat-query", 0, "does not parse"), ("", 1, "status 1"),
])
def test_a_command_that_is_wrong_gives_a_fault_and_no_figure(corpora: bench.Corpora, tmp_path: Path, answer: str, status: int, fault: str) -> None:
    script = tmp_path / bench.SCRIPTS["query"]
    script.parent.mkdir()
    script.write_text(STANDING_IN.format(answer=answer, status=status), encoding="utf-8")
    row = next(row for row in bench.all_rows(corpora, tmp_path) if row.name == "query-rare-plain")
    result = bench.measure(row._replace(script="query"), sys.executable, tmp_path, 1)
    assert (fault in result.fault) if fault else (not result.fault and len(result.seconds) == len(result.beside) == 1 and result.peak > 1)
    (corpora.single / "projects/-home-dev-orchard/left.jsonl").unlink()


def test_what_a_fork_leaves_is_taken_away(corpora: bench.Corpora, tmp_path: Path) -> None:
    before = sorted(corpora.single.rglob("*"))
    script = tmp_path / bench.SCRIPTS["fork"]
    script.parent.mkdir()
    script.write_text(STANDING_IN.format(answer="<forked-session/>", status=0), encoding="utf-8")
    row = next(row for row in bench.all_rows(corpora, tmp_path) if row.name == "small-fork")
    assert not bench.measure(row, sys.executable, tmp_path, 1).fault
    assert sorted(corpora.single.rglob("*")) == before


def test_the_verdict_weighs_best_against_aim_and_bar_and_the_peak_against_its_own(corpora: bench.Corpora) -> None:
    row = next(row for row in bench.all_rows(corpora, bench.ROOT / "skills") if row.name == "compact-bulk")  # 0.7 y, 0.5 y, 60 MB
    for seconds, peak, verdict in ((0.4, 30, "aim met"), (0.6, 30, "bar met"), (0.8, 30, "MISSED"), (0.4, 61, "MISSED: 60 MB")):
        assert bench.table_line(row, bench.Result([seconds, 9.0], [1.0, 9.0], peak, ""), True)[-1] == verdict


@pytest.mark.parametrize(("arguments", "says"), [
    (("--small", "--only", "nothing"), "no row begins so"), (("--small", "--python", "/nowhere/python3"), "does not start"),
    (("--runs", "0"), "above 0"),
])
def test_what_cannot_be_measured_is_refused_in_one_line(arguments: tuple[str, ...], says: str) -> None:
    done = run_bench(*arguments)
    assert done.returncode == 2
    assert says in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
