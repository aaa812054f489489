"""The live view: a real server, asked over HTTP."""

import json
import shutil
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("vl_convert")

from surefoot.cli import main
from surefoot.cli.watch import live_page, progress_table, version
from surefoot.report.serve import Live, server
from surefoot.runs.folder import RunFolder
from surefoot.studies.archive import read_archive

RESULTS = Path(__file__).parents[2] / "results" / "coupling" / "digits"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that is going on, with a few of the rows of an archived one."""
    source = read_archive(RESULTS)[0]
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({**source.record, "status": "running"}))
    lines = source.content()[0].splitlines(keepends=True)
    (folder / "metrics.jsonl").write_bytes(b"".join(lines[:5]))
    (folder / "later").write_bytes(b"".join(lines[5:]))
    return folder


@pytest.fixture
def address(run: Path) -> Iterator[str]:
    live = Live(version=lambda: version(run), make=lambda: live_page(run))
    serving, address = server(live)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield address
    serving.shutdown()
    serving.server_close()
    thread.join()


def ask(address: str, path: str = "", *, method: str = "GET", host: str | None = None) -> tuple[int, str]:
    parts = urlsplit(address)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    target = path if path.startswith("/") else parts.path + path
    connection.request(method, target, headers={"Host": host or parts.netloc})
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, content


def test_the_page_is_there_for_those_who_know_the_token(address: str) -> None:
    status, page = ask(address)
    assert status == 200
    assert "5 observations" in page
    assert "connect-src 'self'" in page
    assert urlsplit(address).hostname == "127.0.0.1"
    assert len(urlsplit(address).path) > 20
    for path in ("/", "/wrong/", "/wrong/state", "run.json", "../run.json"):
        assert ask(address, path)[0] == 404, path
    assert ask(address, host="evil.example")[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_written(address: str, method: str) -> None:
    assert ask(address, method=method)[0] == 501


def test_it_follows_the_run_over_malformed_lines_to_its_end(address: str, run: Path) -> None:
    before = json.loads(ask(address, "state")[1])["version"]
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 3, "tr\nnot json\n')
    assert json.loads(ask(address, "state")[1])["version"] != before
    assert "5 observations" in ask(address)[1]
    with (run / "metrics.jsonl").open("ab") as file:
        file.write((run / "later").read_bytes())
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text("{")  # seen at a bad moment: the last page stays
    status, page = ask(address)
    assert (status, "5 observations" in page) == (200, True)
    assert "not a run folder" in json.loads(ask(address, "state")[1])["trouble"]
    (run / "run.json").write_text(json.dumps({**record, "status": "done"}))
    page = ask(address)[1]
    more = len((run / "later").read_bytes().splitlines())
    assert f"{5 + more} observations" in page
    assert ", done;" in page
    assert json.loads(ask(address, "state")[1])["trouble"] == ""


def test_a_study_is_watched_from_before_its_first_row(tmp_path: Path) -> None:
    shutil.copy(RESULTS / "study.json", tmp_path / "study.json")
    assert "No run of this study is done yet" in live_page(tmp_path)
    first = read_archive(RESULTS)[0]
    before = version(tmp_path)
    folder = RunFolder(tmp_path / "runs" / first.name)
    folder.path.mkdir(parents=True)
    folder.metrics.write_bytes(first.content()[0])
    folder.write_record(first.record)
    assert version(tmp_path) != before
    assert "1 done" in live_page(tmp_path)


def test_the_terminal_shows_how_far_runs_are(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = progress_table(run).rows
    assert row[1] == "running"
    assert str(row[2]).endswith(" %")
    assert main(["watch", str(run), "--terminal"]) == 0
    assert "running" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "`folder` does not exist: nowhere."),
        (["empty"], "empty is not the folder of a run or a study."),
        (["empty", "--port", "70000"], "`--port` must lie in 0..65535, got 70000."),
    ],
)
def test_bad_requests(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    assert main(["watch", *arguments]) == 2
    assert message in capsys.readouterr().err
