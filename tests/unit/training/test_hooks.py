"""The hooks of the library, where the stories of tests/parity do not reach: time, faults, texts."""

import json
import os

import numpy as np
import pytest

import millrace as tf
from millrace.training.hooks.session_run_hook import SessionRunContext, SessionRunValues


@pytest.fixture(autouse=True)
def add(graph):
    """An operation that makes a step."""
    yield tf.assign_add(tf.train.get_or_create_global_step(), 1)
    tf.summary.FileWriterCache.clear()


class CountingSession:
    """A session that counts its runs; its global step is a number."""

    def __init__(self, step=0):
        self.step = step
        self.runs = 0

    def run(self, fetches, feed_dict=None):
        self.runs += 1
        return np.int64(self.step)


class NoSaver:
    """A Saver that notes what it is asked to save."""

    saver_def = None

    def __init__(self):
        self.saved = []

    def save(self, session, path, global_step=None, write_meta_graph=True):
        self.saved.append(int(global_step))


def events(folder):
    tf.summary.FileWriterCache.clear()
    return [
        event
        for name in sorted(os.listdir(folder))
        if "tfevents" in name
        for event in tf.train.summary_iterator(os.path.join(folder, name))
    ]


def step_with(hook, session, makes=1):
    """One step of a training with this hook only; whether it asks to stop."""
    context = SessionRunContext(tf.train.SessionRunArgs("train"), session)
    hook.before_run(context)
    before = np.int64(session.step)
    session.step += makes
    hook.after_run(context, SessionRunValues(before, tf.RunOptions(), tf.RunMetadata()))
    return context.stop_requested


# -- SecondOrStepTimer ---------------------------------------------------------------------


def test_a_timer_of_seconds_triggers_when_they_have_passed(fake_clock):
    timer = tf.train.SecondOrStepTimer(every_secs=2, clock=fake_clock.clock)
    assert timer.should_trigger_for_step(1)
    assert timer.update_last_triggered_step(1) == (None, None)
    fake_clock.time += 1.9
    assert not timer.should_trigger_for_step(2)
    fake_clock.time += 0.1
    assert timer.should_trigger_for_step(2)
    assert not timer.should_trigger_for_step(1)  # Not twice at one step.
    seconds, steps = timer.update_last_triggered_step(6)
    assert (seconds, steps) == (pytest.approx(2), 5)


# -- Hooks with periods of seconds ---------------------------------------------------------


def test_tensors_are_logged_every_so_many_seconds(fake_clock, log_lines, add):
    x = tf.constant(2.0, name="x")
    hook = tf.train.LoggingTensorHook({"x": x}, every_n_secs=10, clock=fake_clock.clock)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        for _ in range(7):
            session.run(add)
            fake_clock.time += 4
    lines = [text for _, text in log_lines if text.startswith("x =")]
    assert lines == ["x = 2.0", "x = 2.0 (12.000 sec)", "x = 2.0 (12.000 sec)"]


def test_steps_per_second_are_measured_every_so_many_seconds(fake_clock, log_lines, tmp_path):
    hook = tf.train.StepCounterHook(
        every_n_steps=None, every_n_secs=10, output_dir=str(tmp_path), clock=fake_clock.clock
    )
    hook.begin()
    session = CountingSession()
    for _ in range(9):
        step_with(hook, session, makes=5)
        fake_clock.time += 4
    assert [text for _, text in log_lines if "/sec" in text] == ["global_step/sec: 1.25"] * 2
    rates = [e for e in events(tmp_path) if e.WhichOneof("what") == "summary"]
    assert [(e.step, e.summary.value[0].simple_value) for e in rates] == [(20, 1.25), (35, 1.25)]


def test_a_measurement_in_no_time_is_no_error(fake_clock, log_lines):
    hook = tf.train.StepCounterHook(every_n_steps=1, clock=fake_clock.clock)
    hook.begin()
    session = CountingSession()
    for _ in range(2):
        step_with(hook, session)
    assert ("INFO", "global_step/sec: inf") in log_lines


def test_the_warning_that_steps_do_not_grow_is_given_five_times(log_lines):
    hook = tf.train.StepCounterHook(every_n_steps=1)
    hook.begin()
    session = CountingSession()
    for _ in range(20):
        step_with(hook, session, makes=0)
    assert len([text for _, text in log_lines if "has not been increased" in text]) == 5


def test_summaries_are_written_every_so_many_seconds(fake_clock, tmp_path, add):
    summary = tf.summary.scalar("one", tf.constant(1.0))
    hook = tf.train.SummarySaverHook(
        save_secs=10, output_dir=str(tmp_path), summary_op=summary, clock=fake_clock.clock
    )
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        for _ in range(6):
            session.run(add)
            fake_clock.time += 4
    written = [e.step for e in events(tmp_path) if e.WhichOneof("what") == "summary"]
    assert written == [1, 4]


def test_traces_are_written_every_so_many_seconds(fake_clock, tmp_path, add):
    hook = tf.train.ProfilerHook(save_secs=10, output_dir=str(tmp_path), clock=fake_clock.clock)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        for _ in range(7):
            session.run(add)
            fake_clock.time += 4
    files = sorted(path.name for path in tmp_path.glob("timeline*"))
    assert files == ["timeline-4.json", "timeline-7.json"]
    trace = json.loads((tmp_path / files[0]).read_text())
    assert trace["traceEvents"]


# -- Checkpoints ---------------------------------------------------------------------------


def test_checkpoints_are_written_every_so_many_seconds(fake_clock, tmp_path):
    saver = NoSaver()
    hook = tf.train.CheckpointSaverHook(
        str(tmp_path), save_secs=10, saver=saver, clock=fake_clock.clock
    )
    hook.begin()
    session = CountingSession(step=3)
    hook.after_create_session(session, None)
    for _ in range(7):
        fake_clock.time += 4
        step_with(hook, session)
    hook.end(session)
    assert saver.saved == [3, 6, 9, 10]


def test_checkpoints_by_steps_do_not_read_the_global_step_again_after_every_run(tmp_path):
    saver = NoSaver()
    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=100, saver=saver)
    hook.begin()
    session = CountingSession()
    hook.after_create_session(session, None)
    session.runs = 0
    for _ in range(400):
        step_with(hook, session)
    assert saver.saved == [0, 100, 200, 300, 400]
    assert session.runs < 25


def test_after_a_pause_the_global_step_is_not_read_after_every_run(tmp_path):
    """The chief stood still while other workers made more steps than lie between two saves."""
    saver = NoSaver()
    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=100, saver=saver)
    hook.begin()
    session = CountingSession()
    hook.after_create_session(session, None)
    for makes in [1] * 20 + [500] + [1] * 20:
        step_with(hook, session, makes=makes)
    session.runs = 0
    for _ in range(400):
        step_with(hook, session)
    assert saver.saved[-4:] == [621, 721, 821, 921]
    assert session.runs < 25


def test_checkpoints_by_steps_keep_up_with_runs_that_come_farther(tmp_path):
    """Other workers make steps too: the pace is learned, and re-learned."""
    saver = NoSaver()
    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=100, saver=saver)
    hook.begin()
    session = CountingSession()
    hook.after_create_session(session, None)
    for makes in [1] * 50 + [7] * 50 + [30] * 10:
        step_with(hook, session, makes=makes)
    assert saver.saved == [0, 106, 211, 316, 430, 550, 670]


def test_the_steps_of_one_run_can_be_told(tmp_path):
    saver = NoSaver()
    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=10, saver=saver)
    hook._set_steps_per_run(5)
    hook.begin()
    session = CountingSession()
    hook.after_create_session(session, None)
    session.runs = 0
    for _ in range(4):
        step_with(hook, session, makes=5)
    assert saver.saved == [0, 10, 20]
    assert session.runs == 2


def test_a_fault_is_followed_by_the_number_of_lost_steps(tmp_path, log_lines):
    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=100, saver=NoSaver())
    hook.begin()
    session = CountingSession()
    hook.after_create_session(session, None)
    assert not [text for _, text in log_lines if "lost" in text]
    for _ in range(238):
        step_with(hook, session)
    hook.after_create_session(CountingSession(step=200), None)
    lost = [text for level, text in log_lines if level == "WARNING"]
    assert len(lost) == 1
    assert lost[0].startswith("37 steps are lost: training had come to global step 237")
    assert "goes on from 200" in lost[0]
    hook.after_create_session(CountingSession(step=200), None)
    assert len([text for _, text in log_lines if "lost" in text]) == 1


def test_a_saver_that_fails_leaves_the_training_with_its_error(tmp_path, add):
    class FullDisk(NoSaver):
        def save(self, *args, **kwargs):
            raise tf.errors.ResourceExhaustedError(None, None, "no space left on device")

    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=1, saver=FullDisk())
    with pytest.raises(tf.errors.ResourceExhaustedError, match="no space left"):
        tf.train.MonitoredSession(hooks=[hook])


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    folder = str(tmp_path / "file" / "folder")
    hook = tf.train.CheckpointSaverHook(folder, save_steps=1)
    with pytest.raises(tf.errors.OpError, match="file"):
        hook.begin()


def test_several_savers_in_the_graph_are_counted(tmp_path, add):
    for _ in range(2):
        tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver())
    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=1)
    with pytest.raises(RuntimeError, match=r"More than one item in collection savers \(2\)"):
        hook._get_saver()


# -- NaN -----------------------------------------------------------------------------------


def test_a_nan_loss_is_reported_with_its_name_and_step(add):
    loss = tf.placeholder(tf.float32, [], name="my_loss")
    with (
        pytest.raises(tf.train.NanLossDuringTrainingError) as raised,
        tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss)]) as session,
    ):
        session.run(add, {loss: 1.0})
        session.run(add, {loss: np.nan})
    text = str(raised.value)
    assert text.startswith("NaN loss during training.")
    assert "my_loss:0 is nan at global step 2" in text
    assert str(tf.train.NanLossDuringTrainingError()) == "NaN loss during training."


def test_a_nan_loss_saves_nothing_over_the_last_good_checkpoint(tmp_path, add):
    loss = tf.placeholder(tf.float32, [], name="loss")
    saver = NoSaver()
    hooks = [
        tf.train.CheckpointSaverHook(str(tmp_path), save_steps=100, saver=saver),
        tf.train.NanTensorHook(loss),
    ]
    with (
        pytest.raises(tf.train.NanLossDuringTrainingError),
        tf.train.MonitoredSession(hooks=hooks) as session,
    ):
        session.run(add, {loss: np.nan})
    assert saver.saved == [0]


# -- Waiting for a step --------------------------------------------------------------------


def test_a_worker_that_waits_for_a_step_says_where_the_training_is(fake_clock, log_lines):
    hook = tf.train.GlobalStepWaiterHook(40, clock=fake_clock.clock)
    hook.begin()
    session = CountingSession()

    def train():
        session.step += 1

    fake_clock.on_sleep = train
    context = SessionRunContext(tf.train.SessionRunArgs("train"), session)
    assert hook.before_run(context) is None
    assert session.step == 40
    assert set(fake_clock.sleeps) == {0.5}
    said = [text for level, text in log_lines if level == "WARNING"]
    assert len(said) == 2
    assert "for global step 40" in said[0]
    assert "it is 9 now" in said[0]
    looks = session.runs
    assert hook.before_run(context) is None
    assert session.runs == looks  # It waits once.


def test_a_worker_that_need_not_wait_does_not_look(fake_clock):
    hook = tf.train.GlobalStepWaiterHook(0, clock=fake_clock.clock)
    hook.begin()
    session = CountingSession()
    assert hook.before_run(SessionRunContext(tf.train.SessionRunArgs("x"), session)) is None
    assert session.runs == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: tf.train.GlobalStepWaiterHook(1),
        lambda folder: tf.train.StopAtStepHook(1),
        lambda folder: tf.train.CheckpointSaverHook(folder, save_steps=1),
    ],
)
def test_hooks_without_a_global_step_say_how_to_make_one(make, tmp_path):
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="get_or_create_global_step"):
        make(str(tmp_path)).begin()


def test_hooks_share_one_tensor_of_the_global_step(graph):
    first, second = tf.train.StopAtStepHook(last_step=1), tf.train.StopAtStepHook(last_step=2)
    first.begin()
    nodes = len(graph.get_operations())
    second.begin()
    assert len(graph.get_operations()) == nodes
    assert first._global_step_tensor.name == "global_step/add:0"
