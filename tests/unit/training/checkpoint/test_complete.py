"""A training never begins at step 0 over checkpoints that are there."""

from pathlib import Path

import pytest

import millrace as tf
from millrace.training.checkpoint.complete import complete_checkpoints, is_complete

GARBLED = {
    "bytes that are no text": b"\xff\xfe\x00garbage",
    "nothing": b"",
    "half of a line": b'model_checkpoint_path: "model.ck',
    "another message": b"node { name: 'x' }",
    "no newest one": b'all_model_checkpoint_paths: "model.ckpt-3"\n',
    "zeros": bytes(64),
}


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the checkpoints of steps 2, 9 and 10."""
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.get_or_create_global_step()
        weight = tf.Variable(0.0, name="weight")
        saver = tf.train.Saver()
        for number in (2, 9, 10):
            session.run([step.assign(number), weight.assign(number * 1.0)])
            saver.save(session, str(tmp_path / "model.ckpt"), global_step=step)
    return tmp_path


def model():
    step = tf.train.get_or_create_global_step()
    weight = tf.Variable(0.0, name="weight")
    return step, weight, tf.group(tf.assign_add(step, 1), tf.assign_add(weight, 1.0))


def step_of_monitored_training(folder: Path) -> int:
    """Where a MonitoredTrainingSession begins; it trains a step and saves."""
    with tf.Graph().as_default():
        step, weight, train = model()
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(folder)) as session:
            begun, value = session.run([step, weight])
            session.run(train)
        assert value == begun
        return int(begun)


def step_of_supervisor(folder: Path) -> int:
    with tf.Graph().as_default():
        step, _, _ = model()
        supervisor = tf.train.Supervisor(logdir=str(folder), save_model_secs=0, summary_op=None)
        with supervisor.managed_session() as session:
            return int(session.run(step))


@pytest.mark.parametrize("kind", GARBLED)
def test_with_a_garbled_checkpoint_file_the_newest_complete_one_is_used(folder, kind, caplog):
    (folder / "checkpoint").write_bytes(GARBLED[kind])
    newest = str(folder / "model.ckpt-10")
    assert tf.train.latest_checkpoint(str(folder)) == newest
    assert newest in caplog.text and str(folder / "checkpoint") in caplog.text
    assert step_of_supervisor(folder) == 10
    (folder / "checkpoint").write_bytes(GARBLED[kind])
    assert step_of_monitored_training(folder) == 10
    # The file is whole again, and all of them are counted.
    state = tf.train.get_checkpoint_state(str(folder))
    assert state.model_checkpoint_path == str(folder / "model.ckpt-11")
    assert str(folder / "model.ckpt-2") in state.all_model_checkpoint_paths


def test_a_checkpoint_file_that_is_a_folder_is_no_empty_state(folder):
    (folder / "checkpoint").unlink()
    (folder / "checkpoint").mkdir()
    assert tf.train.latest_checkpoint(str(folder)) == str(folder / "model.ckpt-10")


def test_without_a_complete_checkpoint_training_stops_and_says_what_to_do(folder):
    (folder / "checkpoint").write_bytes(b"\xff")
    for data in folder.glob("*.data-*"):
        data.unlink()
    for begin in (step_of_monitored_training, step_of_supervisor):
        with pytest.raises(tf.errors.DataLossError, match="move them away to begin at step 0"):
            begin(folder)
    assert len(list(folder.glob("*.index"))) == 3


def test_a_folder_without_checkpoints_is_as_tensorflow_says(tmp_path):
    (tmp_path / "checkpoint").write_bytes(b"\xff")
    assert tf.train.get_checkpoint_state(str(tmp_path)) is None
    (tmp_path / "checkpoint").write_bytes(b"")
    with pytest.raises(ValueError, match="Invalid checkpoint state loaded from"):
        tf.train.latest_checkpoint(str(tmp_path))


def remove_data(folder: Path) -> None:
    next(folder.glob("model.ckpt-10.data-*")).unlink()


def cut_data(folder: Path) -> None:
    name = next(folder.glob("model.ckpt-10.data-*"))
    name.write_bytes(name.read_bytes()[:-1])


def change_data(folder: Path) -> None:
    name = next(folder.glob("model.ckpt-10.data-*"))
    name.write_bytes(bytes(255 - byte for byte in name.read_bytes()))


def cut_index(folder: Path) -> None:
    name = folder / "model.ckpt-10.index"
    name.write_bytes(name.read_bytes()[:-20])


def remove_index(folder: Path) -> None:
    (folder / "model.ckpt-10.index").unlink()


DAMAGES = (remove_data, cut_data, change_data, cut_index, remove_index)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("begin", [step_of_monitored_training, step_of_supervisor])
def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before_it(folder, damage, begin, caplog):
    damage(folder)
    assert begin(folder) == 9
    assert str(folder / "model.ckpt-9") in caplog.text


def test_a_variable_that_no_checkpoint_has_is_no_damage(folder):
    tf.Variable(0.0, name="another")
    model()
    with (
        pytest.raises(tf.errors.NotFoundError, match="another"),
        tf.train.MonitoredTrainingSession(checkpoint_dir=str(folder)),
    ):
        pass


def test_what_counts_as_complete(folder):
    paths = [str(folder / f"model.ckpt-{step}") for step in (2, 9, 10)]
    assert complete_checkpoints(str(folder)) == paths
    cut_data(folder)
    assert complete_checkpoints(str(folder)) == paths[:2]
    assert not is_complete(str(folder / "nothing"))
