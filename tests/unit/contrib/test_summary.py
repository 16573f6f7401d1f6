"""`tf.contrib.summary`: ops that write into event files."""

from pathlib import Path
from typing import Any

import millrace as tf


def _events(folder: Path) -> list[tuple[int, str]]:
    found = []
    for path in sorted(folder.iterdir()):
        for event in tf.train.summary_iterator(str(path)):
            found.extend((event.step, value.tag) for value in event.summary.value)
    return found


def test_summaries_are_written_in_every_second_step(tmp_path: Path) -> None:
    step = tf.train.get_or_create_global_step()
    count = tf.assign_add(step, 1)
    writer: Any = tf.contrib.summary.create_file_writer(str(tmp_path), flush_millis=10)
    with writer.as_default():
        with tf.contrib.summary.record_summaries_every_n_global_steps(2):
            tf.contrib.summary.scalar("loss", 3.0)
        with tf.contrib.summary.always_record_summaries():
            tf.contrib.summary.histogram("weights", tf.zeros([4]), family="layer")
        with tf.contrib.summary.never_record_summaries():
            tf.contrib.summary.scalar("never", 3.0)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            tf.contrib.summary.initialize(session=session)
            for _ in range(4):
                session.run(tf.contrib.summary.all_summary_ops())
                session.run(count)
            session.run(writer.flush())
            session.run(writer.close())
    found = _events(tmp_path)
    assert [s for s, tag in found if tag == "loss"] == [0, 2]
    assert [s for s, tag in found if tag == "layer/weights"] == [0, 1, 2, 3]
    assert not [tag for _, tag in found if "never" in tag]


def test_without_a_writer_nothing_is_written() -> None:
    with tf.contrib.summary.always_record_summaries():
        tf.contrib.summary.scalar("loss", 3.0)
    assert tf.contrib.summary.all_summary_ops() == []
