"""Records of jobs, and finding them."""

from __future__ import annotations

import os

import pytest

from millrace.observe import job_record, last_status
from millrace.observe.job_record import ENDED, JobRecord, NoJob, TaskRecord


@pytest.fixture(autouse=True)
def registry(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def made(tmp_path, name: str, created: float, **fields) -> JobRecord:
    folder = tmp_path / name
    folder.mkdir()
    tasks = {"ps-0": TaskRecord("localhost:1", 7, "", "ps-0.log", True)}
    record = JobRecord(name, str(folder), "local", ["t.py"], created, tasks=tasks, **fields)
    record.save()
    return record


def test_a_record_is_read_as_it_was_written(tmp_path) -> None:
    record = made(tmp_path, "first", 1.0, pid=os.getpid(), variables={"A": "/b"})
    assert job_record.load(record.path) == record
    assert record.addresses == {"ps-0": "localhost:1"}


def test_a_job_is_found_by_name_by_folder_and_as_the_newest(tmp_path) -> None:
    second, first = made(tmp_path, "second", 2.0), made(tmp_path, "first", 1.0)
    assert job_record.find("first") == first
    assert job_record.find(second.folder) == second
    assert job_record.find() == second


def test_a_job_whose_folder_is_gone_is_forgotten(tmp_path) -> None:
    gone = made(tmp_path, "gone", 2.0)
    made(tmp_path, "kept", 1.0)
    gone.path.unlink()
    assert job_record.find().name == "kept"
    with pytest.raises(NoJob, match="there is no job gone; the newest are kept"):
        job_record.find("gone")


def test_without_any_job_a_sentence_says_what_to_do() -> None:
    with pytest.raises(NoJob, match="name one of its tasks: grpc://host:port"):
        job_record.find()


def test_what_is_no_record_is_told(tmp_path) -> None:
    (tmp_path / "job.json").write_text("[1]")
    with pytest.raises(NoJob, match="is no record of a job"):
        job_record.find(str(tmp_path))


def test_a_job_is_over_when_it_says_so_or_its_launcher_is_gone(tmp_path) -> None:
    assert made(tmp_path, "runs", 1.0, pid=os.getpid()).is_running
    assert not made(tmp_path, "ended", 2.0, pid=os.getpid(), state=ENDED).is_running
    assert not made(tmp_path, "killed", 3.0, pid=2**22 + 1).is_running


def test_a_server_writes_what_it_knew_when_it_was_stopped(tmp_path, monkeypatch) -> None:
    path = tmp_path / "last.json"
    monkeypatch.setenv(last_status.FILE, str(path))
    last_status.write(lambda: {"global_step": 7})
    assert last_status.read(path) == {"global_step": 7}
    last_status.write(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    assert last_status.read(tmp_path / "none.json") == {}
