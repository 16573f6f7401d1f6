"""Scalars, read from event files while they are written."""

from __future__ import annotations

import math
from pathlib import Path

import millrace as tf
from millrace.observe.dashboard.scalars import ScalarFiles


def summary(tag: str, value: float) -> tf.Summary:
    return tf.Summary(value=[tf.Summary.Value(tag=tag, simple_value=value)])


def test_scalars_come_as_they_are_written(tmp_path: Path) -> None:
    writer = tf.summary.FileWriter(str(tmp_path))
    scalars = ScalarFiles()
    scalars.follow([str(tmp_path)])
    assert scalars.points() == {}
    for step in (1, 2):
        writer.add_summary(summary("loss", 1.0 / step), step)
    writer.flush()
    scalars.follow([str(tmp_path)])
    assert scalars.points() == {("", "loss"): [(1, 1.0), (2, 0.5)]}
    writer.add_summary(summary("loss", math.nan), 3)
    writer.close()
    scalars.follow([str(tmp_path)])
    assert [step for step, _ in scalars.points()["", "loss"]] == [1, 2, 3]
    scalars.close()


def test_half_a_record_is_read_when_the_rest_is_there(tmp_path: Path) -> None:
    source, copy = tmp_path / "a", tmp_path / "b"
    writer = tf.summary.FileWriter(str(source))
    for step in range(50):
        writer.add_summary(summary("loss", step), step)
    writer.close()
    (path,) = source.iterdir()
    data = path.read_bytes()
    copy.mkdir()
    scalars = ScalarFiles()
    for end in range(0, len(data) + 1, 7):
        (copy / path.name).write_bytes(data[:end])
        scalars.follow([str(copy)])
    (copy / path.name).write_bytes(data)
    scalars.follow([str(copy)])
    assert scalars.points()["", "loss"] == [(step, step) for step in range(50)]
    scalars.close()


def test_damage_and_what_is_no_event_file_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1").write_bytes(b"nonsense" * 100)
    scalars = ScalarFiles()
    scalars.follow([str(tmp_path), str(tmp_path / "missing")])
    assert scalars.points() == {}
    scalars.close()


def test_folders_are_told_apart_by_the_end_of_their_path(tmp_path: Path) -> None:
    for name in ("train", "eval"):
        with tf.summary.FileWriter(str(tmp_path / name)) as writer:
            writer.add_summary(summary("loss", 1), 1)
    scalars = ScalarFiles()
    scalars.follow([str(tmp_path / "train"), str(tmp_path / "eval")])
    assert {*scalars.points()} == {("train", "loss"), ("eval", "loss")}
    scalars.close()
