"""A FileWriter with a session writes through the graph, in the session's task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import millrace as tf
from millrace.data.event_file import EventFile


def written(folder: Path) -> list[list[tuple[int, str]]]:
    """What is in each event file of a folder, the oldest first."""
    files = sorted(folder.glob("events*"), key=lambda path: int(path.name.split(".")[-2]))
    return [
        [(event.step, event.WhichOneof("what")) for event in tf.train.summary_iterator(str(path))]
        for path in files
    ]


def test_its_nodes_are_tensorflows(tmp_path: Path, graph: tf.Graph) -> None:
    with tf.Session() as sess:
        tf.summary.FileWriter(str(tmp_path), session=sess).close()
    nodes = [(op.name.removeprefix("filewriter/"), op.type) for op in graph.get_operations()]
    created = [
        ("CreateSummaryFileWriter{}/logdir", "Const"),
        ("CreateSummaryFileWriter{}/max_queue", "Const"),
        ("CreateSummaryFileWriter{}/flush_millis", "Const"),
        ("CreateSummaryFileWriter{}", "CreateSummaryFileWriter"),
    ]
    assert nodes == [
        ("Const", "Const"),
        ("SummaryWriter", "SummaryWriter"),
        *((name.format(""), kind) for name, kind in created),
        ("Const_1", "Const"),
        ("PlaceholderWithDefault", "PlaceholderWithDefault"),
        ("ImportEvent", "ImportEvent"),
        ("FlushSummaryWriter", "FlushSummaryWriter"),
        *((name.format("_1"), kind) for name, kind in created),
        ("FlushSummaryWriter_1", "FlushSummaryWriter"),
        ("FlushSummaryWriter_2", "FlushSummaryWriter"),
        ("CloseSummaryWriter", "CloseSummaryWriter"),
    ]
    assert graph.get_operation_by_name("filewriter/SummaryWriter").get_attr("shared_name") == (
        f"logdir:{tmp_path}".encode()
    )


def test_events_go_into_one_file_until_it_is_closed(tmp_path: Path, graph: tf.Graph) -> None:
    summary = tf.summary.scalar("a", 1.0)
    with tf.Session() as sess:
        writer = tf.summary.FileWriter(str(tmp_path), session=sess)
        other = tf.summary.FileWriter(str(tmp_path), session=sess)
        writer.add_summary(sess.run(summary), 3)
        other.add_graph(graph)
        writer.flush()
        assert written(tmp_path) == [[(0, "file_version"), (3, "summary"), (0, "graph_def")]]
        assert all(path.name.endswith(".v2") for path in tmp_path.iterdir())
        writer.close()
        with pytest.warns(UserWarning, match="closed FileWriter"):
            writer.add_summary(sess.run(summary), 4)
        writer.reopen()
        writer.add_summary(sess.run(summary), 5)
        writer.close()
        assert written(tmp_path)[1] == [(0, "file_version"), (5, "summary")]


def test_the_suffix_and_the_queue_are_as_asked(tmp_path: Path) -> None:
    with tf.Session() as sess:
        writer = tf.summary.FileWriter(
            str(tmp_path / "logs"), max_queue=2, filename_suffix=".mine", session=sess
        )
        for step in range(2):
            writer.add_session_log(tf.summary.SessionLog(), step)
        (events,) = written(tmp_path / "logs")
        assert [step for step, _ in events] == [0, 0, 1]
        assert next((tmp_path / "logs").iterdir()).name.endswith(".mine")
        writer.close()


def test_the_file_is_in_the_task_of_the_session(tmp_path: Path) -> None:
    server: Any = tf.train.Server.create_local_server()
    try:
        with tf.Session(server.target) as sess:
            writer = tf.summary.FileWriter(str(tmp_path), session=sess)
            writer.add_session_log(tf.summary.SessionLog(), 7)
            ((_, name, _),) = server.worker.resources.all_of(EventFile)
            assert name == f"logdir:{tmp_path}"
            writer.close()
            assert server.worker.resources.all_of(EventFile) == []
        assert written(tmp_path) == [[(0, "file_version"), (7, "session_log")]]
    finally:
        server.stop()


def test_an_event_after_another_writer_closed_the_file_is_an_error(tmp_path: Path) -> None:
    with tf.Session() as sess:
        one = tf.summary.FileWriter(str(tmp_path), session=sess)
        two = tf.summary.FileWriter(str(tmp_path), session=sess)
        one.close()
        with pytest.raises(tf.errors.NotFoundError, match="does not exist"):
            two.add_session_log(tf.summary.SessionLog(), 1)


def test_a_finalized_graph_takes_no_writer(tmp_path: Path, graph: tf.Graph) -> None:
    with tf.Session() as sess:
        graph.finalize()
        with pytest.raises(RuntimeError, match="finalized"):
            tf.summary.FileWriter(str(tmp_path), session=sess)
