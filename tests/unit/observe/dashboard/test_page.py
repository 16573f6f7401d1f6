"""What the page's server answers, and to whom."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.observe.dashboard.page import Dashboard, NeedsToken
from millrace.observe.dashboard.watcher import JobWatcher
from millrace.observe.job_record import JobRecord, TaskRecord
from millrace.observe.web import Question


@pytest.fixture
def watcher(tmp_path: Path) -> JobWatcher:
    log = tmp_path / "worker-0.log"
    log.write_bytes(b"\x1b[31mred\x1b[0m <b>\xff\n")
    tasks = {"worker-0": TaskRecord(log=str(log), state="done")}
    record = JobRecord("mnist", str(tmp_path), "local", ["mnist.py"], tasks=tasks, state="ended")
    return JobWatcher(lambda: record)


@pytest.fixture
def page(watcher: JobWatcher) -> Iterator[Dashboard]:
    found = Dashboard(watcher)
    yield found
    found.close()


@pytest.fixture
def open_page(watcher: JobWatcher) -> Iterator[Dashboard]:
    """One that other machines could reach."""
    found = Dashboard(watcher, "0.0.0.0", 0, "secret")
    yield found
    found.close()


def asked(page: Dashboard, path: str, **headers: str) -> tuple[int, str]:
    port = page.url.rstrip("/").rpartition(":")[2]
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_page_needs_nothing_from_elsewhere(page: Dashboard) -> None:
    for path in ("/", "/page.css", "/page.js"):
        code, text = asked(page, path)
        assert code == 200
        assert "https://" not in text and "//cdn" not in text
        assert [line for line in text.splitlines() if "http://" in line] in (
            [],
            ['const SVG = "http://www.w3.org/2000/svg";'],
        )
        assert "innerHTML" not in text and " style=" not in text


def test_state_and_logs_are_told(page: Dashboard, watcher: JobWatcher) -> None:
    watcher.look()
    state = json.loads(asked(page, "/state.json")[1])
    assert state["job"]["name"] == "mnist" and state["tasks"][0]["task"] == "worker:0"
    assert asked(page, "/log?task=worker:0") == (200, "red <b>�\n")


def test_only_logs_of_tasks_can_be_read(page: Dashboard) -> None:
    for name in ("worker:9", "../../etc/passwd", "/etc/passwd", ""):
        assert asked(page, f"/log?task={name}")[0] == 404
    assert asked(page, "/../page.py")[0] == 404


def test_a_stranger_gets_nothing_but_the_page(open_page: Dashboard) -> None:
    assert asked(open_page, "/")[0] == 200
    for path in ("/state.json", "/log?task=worker:0"):
        assert asked(open_page, path)[0] == 401
        assert asked(open_page, path, Authorization="Bearer wrong")[0] == 401
        assert "mnist" not in asked(open_page, path)[1]
    assert asked(open_page, "/state.json", Authorization="Bearer secret")[0] == 200


def test_another_name_that_leads_to_this_machine_is_refused(page: Dashboard) -> None:
    # A page of evil.example whose name was made to lead to 127.0.0.1 reads nothing here.
    assert asked(page, "/state.json", Host="evil.example:80")[0] == 403
    for name in ("localhost:1", "127.0.0.1", "[::1]:80"):
        assert page.answer(Question("/state.json", host=name)).code == 200


def test_other_machines_are_not_let_in_without_a_token(watcher: JobWatcher) -> None:
    with pytest.raises(NeedsToken, match="no token to ask for"):
        Dashboard(watcher, "0.0.0.0")
