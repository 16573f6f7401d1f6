"""Incremental checkpoints: what they hold, what they need, and who reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.cli import main
from millrace.data import delta_bundle
from millrace.data.tensor_bundle import BundleReader
from millrace.training.checkpoint import complete
from millrace.training.sessions import session_manager

ROWS, COLUMNS = 4000, 8


class Model:
    """A table and a vector, and a Saver of them."""

    def __init__(self, parts: int = 1, **options: Any) -> None:
        partitioner = tf.fixed_size_partitioner(parts) if parts > 1 else None
        self.table = tf.get_variable(
            "table",
            [ROWS, COLUMNS],
            initializer=tf.random_normal_initializer(seed=1),
            partitioner=partitioner,
        )
        self.vector = tf.get_variable("vector", initializer=tf.zeros([3]))
        self.pieces = list(self.table) if parts > 1 else [self.table]
        self.saver = tf.train.Saver(keep_delta=True, **options)
        self.initialize = tf.global_variables_initializer()

    def change(self, sess: tf.Session, count: int = 40) -> None:
        """Adds one to the first rows of each part, and to the vector."""
        for piece in self.pieces:
            sess.run(tf.scatter_add(piece, tf.range(count), tf.ones([count, COLUMNS])))
        sess.run(self.vector.assign_add(tf.ones([3])))

    def values(self, sess: tf.Session) -> tuple[Any, Any]:
        return sess.run([tf.convert_to_tensor(self.table), self.vector])


def size(prefix: str) -> int:
    return delta_bundle.data_bytes(prefix) + os.path.getsize(f"{prefix}.index")


def same(left: tuple[Any, Any], right: tuple[Any, Any]) -> bool:
    return all(np.array_equal(*pair) for pair in zip(left, right, strict=True))


@pytest.fixture
def sess() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


@pytest.fixture(params=["reference", "resource"])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    with tf.variable_scope("", use_resource=request.param == "resource"):
        yield request.param


def test_a_delta_has_the_rows_that_changed_and_restores_everything(
    sess: tf.Session, kind: str, tmp_path: Path
) -> None:
    model = Model()
    sess.run(model.initialize)
    full = model.saver.save(sess, str(tmp_path / "model"), 0)
    model.change(sess)
    delta = model.saver.save(sess, str(tmp_path / "model"), 1)
    wanted = model.values(sess)
    assert size(delta) <= 0.03 * size(full)  # One row in a hundred changed.
    sess.run(model.initialize)
    model.saver.restore(sess, delta)
    assert same(model.values(sess), wanted)


@pytest.mark.parametrize("read_in", [1, 2, 3])
@pytest.mark.parametrize("sharded", [False, True])
def test_a_table_in_parts_is_restored_in_other_parts(
    read_in: int, sharded: bool, tmp_path: Path
) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        model = Model(parts=3, sharded=sharded)
        sess.run(model.initialize)
        full = model.saver.save(sess, str(tmp_path / "model"), 0)
        model.change(sess)
        delta = model.saver.save(sess, str(tmp_path / "model"), 1)
        wanted = model.values(sess)
    assert size(delta) < 0.1 * size(full)
    with tf.Graph().as_default(), tf.Session() as sess:
        model = Model(parts=read_in)
        model.saver.restore(sess, delta)
        assert same(model.values(sess), wanted)


def test_parts_by_columns_are_saved_whole(sess: tf.Session, tmp_path: Path) -> None:
    tf.get_variable("table", [4, 4000], partitioner=tf.fixed_size_partitioner(2, axis=1))
    saver = tf.train.Saver(keep_delta=True)
    sess.run(tf.global_variables_initializer())
    saver.save(sess, str(tmp_path / "model"), 0)
    delta = saver.save(sess, str(tmp_path / "model"), 1)
    wanted = sess.run(tf.global_variables())
    sess.run(tf.global_variables_initializer())
    saver.restore(sess, delta)
    assert all(map(np.array_equal, sess.run(tf.global_variables()), wanted))


def test_a_sign_of_zero_is_a_change(sess: tf.Session, tmp_path: Path) -> None:
    model = Model()
    sess.run(model.initialize)
    sess.run(model.table.assign(tf.zeros([ROWS, COLUMNS])))
    model.saver.save(sess, str(tmp_path / "model"), 0)
    sess.run(tf.scatter_update(model.table, [7], -tf.zeros([1, COLUMNS])))
    delta = model.saver.save(sess, str(tmp_path / "model"), 1)
    sess.run(model.initialize)
    model.saver.restore(sess, delta)
    assert np.flatnonzero(np.signbit(sess.run(model.table)).any(axis=1)).tolist() == [7]


def test_after_a_large_delta_the_next_save_is_full(sess: tf.Session, tmp_path: Path) -> None:
    model = Model()
    sess.run(model.initialize)
    counts = [10, 10, ROWS, 10, 10]
    bases = []
    for step, count in enumerate(counts):
        bases.append(delta_bundle.base_of(model.saver.save(sess, str(tmp_path / "model"), step)))
        model.change(sess, count)
    first, fourth = str(tmp_path / "model-0"), str(tmp_path / "model-4")
    # What the third change did is in the delta of step 3, which is as large as a full checkpoint.
    assert bases == [None, first, first, first, None]
    assert delta_bundle.base_of(model.saver.save(sess, str(tmp_path / "model"), 5)) == fourth


def test_a_base_is_kept_as_long_as_a_delta_needs_it(sess: tf.Session, tmp_path: Path) -> None:
    model = Model(max_to_keep=2)
    sess.run(model.initialize)
    for step in range(4):
        model.saver.save(sess, str(tmp_path / "model"), step)
    assert [Path(path).name for path in model.saver.last_checkpoints] == [
        "model-0",
        "model-2",
        "model-3",
    ]
    assert {path.stem for path in tmp_path.glob("*.index")} == {"model-0", "model-2", "model-3"}
    # Another run, which writes full ones, learns from the files what is needed.
    state = tf.train.get_checkpoint_state(str(tmp_path))
    plain = tf.train.Saver(max_to_keep=2)
    plain.recover_last_checkpoints(state.all_model_checkpoint_paths)
    plain.save(sess, str(tmp_path / "model"), 4)
    assert {path.stem for path in tmp_path.glob("*.index")} == {"model-0", "model-3", "model-4"}
    plain.save(sess, str(tmp_path / "model"), 5)
    assert {path.stem for path in tmp_path.glob("*.index")} == {"model-4", "model-5"}


def lose(folder: Path) -> None:
    for path in folder.glob("model-0.*"):
        path.unlink()


def write_over(folder: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.get_variable("other", [2])
        sess.run(tf.global_variables_initializer())
        tf.train.Saver().save(sess, str(folder / "model"), 0, write_state=False)


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [(lose, "which is missing. Copy the files"), (write_over, "which was written over since then")],
)
def test_a_delta_without_its_base_says_so(
    harm: Callable[[Path], None],
    sentence: str,
    sess: tf.Session,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = Model()
    sess.run(model.initialize)
    model.saver.save(sess, str(tmp_path / "model"), 0)
    delta = model.saver.save(sess, str(tmp_path / "model"), 1)
    assert complete.is_complete(delta)
    harm(tmp_path)
    assert not complete.is_complete(delta)
    with pytest.raises(tf.errors.DataLossError, match=f"model-0, {sentence}"):
        model.saver.restore(sess, delta)
    assert main.main(["checkpoint", "compact", delta]) == 1
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_a_base_that_is_damaged_is_replaced_by_a_full_checkpoint(
    sess: tf.Session, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model()
    sess.run(model.initialize)
    model.saver.save(sess, str(tmp_path / "model"), 0)
    flip(tmp_path / "model-0.data-00000-of-00001", 1000)
    saved = model.saver.save(sess, str(tmp_path / "model"), 1)
    assert delta_bundle.base_of(saved) is None
    assert "Checksum does not match" in caplog.text and "A full one is written" in caplog.text
    wanted = model.values(sess)
    sess.run(model.initialize)
    model.saver.restore(sess, saved)
    assert same(model.values(sess), wanted)


def test_a_training_goes_on_from_the_checkpoint_before_a_damaged_delta(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def train(steps: int) -> tuple[int, Any]:
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            model = Model(max_to_keep=None)
            rows = tf.scatter_add(model.table, [0], tf.ones([1, COLUMNS]))
            add = tf.group(rows, tf.assign_add(step, 1))
            scaffold = tf.train.Scaffold(saver=model.saver)
            hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=1, scaffold=scaffold)
            creator = tf.train.ChiefSessionCreator(scaffold, checkpoint_dir=str(tmp_path))
            with tf.train.MonitoredSession(creator, hooks=[hook]) as session:
                first = session.run(step)
                table = session.run(model.table)
                for _ in range(steps):
                    session.run(add)
        return int(first), table

    train(3)
    newest = tf.train.latest_checkpoint(str(tmp_path))
    assert delta_bundle.base_of(newest) is not None
    data = Path(f"{newest}.data-00000-of-00001")
    flip(data, data.stat().st_size - 20)  # in a row of the table
    wanted = tf.train.load_variable(str(tmp_path / "model.ckpt-2"), "table")
    first, table = train(0)
    assert first == 2 and np.array_equal(table, wanted)
    assert f"{data}: tensor" in caplog.text and "Checksum does not match" in caplog.text


def test_of_an_error_of_another_task_the_log_has_the_file_and_the_checksum() -> None:
    told = (
        "From /job:ps/replica:0/task:1:\nmodel-3.data: tensor t: Checksum does not match: 1 vs. 2"
    )
    error = tf.errors.DataLossError(None, None, told)
    sentence = session_manager._sentence_of(error)
    assert sentence == "model-3.data: tensor t: Checksum does not match: 1 vs. 2"


def test_compact_makes_a_full_checkpoint_of_the_newest(
    sess: tf.Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Model(parts=2)
    sess.run(model.initialize)
    model.saver.save(sess, str(tmp_path / "model"), 0)
    model.change(sess)
    delta = model.saver.save(sess, str(tmp_path / "model"), 1)
    names = tf.train.list_variables(delta)
    assert main.main(["checkpoint", "compact", str(tmp_path)]) == 0
    assert "is a full checkpoint now" in capsys.readouterr().out
    lose(tmp_path)
    with BundleReader(delta) as reader:
        assert list(reader.names()) == ["table", "vector"]
    assert tf.train.list_variables(delta) == names
    wanted = model.values(sess)
    sess.run(model.initialize)
    model.saver.restore(sess, delta)
    assert same(model.values(sess), wanted)
    assert main.main(["checkpoint", "compact", str(tmp_path)]) == 0
    assert "already" in capsys.readouterr().out


def test_compact_says_what_it_does_not_find(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["checkpoint", "compact", str(tmp_path)]) == 1
    assert "there is no checkpoint in" in capsys.readouterr().err
    assert main.main(["checkpoint", "compact", str(tmp_path / "model-7")]) == 1
    assert "model-7" in capsys.readouterr().err


def test_what_cannot_be_is_refused(sess: tf.Session) -> None:
    tf.get_variable("v", [2])
    with pytest.raises(ValueError, match="keep_delta=True needs checkpoints of the V2 format"):
        tf.train.Saver(keep_delta=True, write_version=tf.train.SaverDef.V1)
    saver_def = tf.train.Saver().as_saver_def()
    with pytest.raises(ValueError, match="not a saver_def"):
        tf.train.Saver(saver_def=saver_def, keep_delta=True)


def test_the_exported_graph_has_only_tensorflows_ops(sess: tf.Session) -> None:
    model = Model()
    exported = model.saver.export_meta_graph()
    assert not {node.op for node in exported.graph_def.node} & {"_SaveDelta"}
    with tf.Graph().as_default():
        assert isinstance(tf.train.import_meta_graph(exported), tf.train.Saver)


@pytest.mark.parametrize("name", [b"../model-0", b"", b"model-0/x"])
def test_a_base_elsewhere_is_damage(name: bytes, tmp_path: Path) -> None:
    writer = delta_bundle.BundleWriter(str(tmp_path / "model-1"))
    stated = np.array([name, b"1"], object)
    writer.add(delta_bundle.DELTA_BASE_KEY, stated, tf.string)
    writer.finish()
    with pytest.raises(tf.errors.DataLossError):
        delta_bundle.open_bundle(str(tmp_path / "model-1"))
