"""Sessions that are prepared by a chief, and waited for by everybody else."""

import numpy as np
import pytest

import millrace as tf

pytestmark = pytest.mark.usefixtures("graph")


class Cluster:
    """Stands for a cluster: which variables are missing, and what goes wrong, at what time."""

    def __init__(self, fake_clock, missing):
        self._clock = fake_clock
        self._missing = missing
        self.open = 0
        self.made = 0
        self.local_inits = []
        #: Errors that looks raise, by number of the look.
        self.faults = {}
        self.looks = 0

    def session(self, target, graph=None, config=None):
        self.made += 1
        self.open += 1
        return Client(self)

    def missing(self):
        return self._missing(self._clock.time - 1000)


class Client:
    def __init__(self, cluster):
        self._cluster = cluster
        self.closed = False

    def run(self, fetches, feed_dict=None, options=None):
        if fetches == "local_init":
            self._cluster.local_inits.append(not self._cluster.missing())
            return None
        self._cluster.looks += 1
        fault = self._cluster.faults.get(self._cluster.looks)
        if fault is not None:
            raise fault
        return np.array([name.encode() for name in self._cluster.missing()], object)

    def close(self):
        assert not self.closed
        self.closed = True
        self._cluster.open -= 1


def manager_of(cluster, fake_clock, **arguments):
    return tf.train.SessionManager(
        ready_op="ready", clock=fake_clock.clock, session_factory=cluster.session, **arguments
    )


def warnings(log_lines):
    return [text for level, text in log_lines if level == "WARNING"]


@pytest.mark.parametrize("initialised_after", [0, 0.3, 1, 29, 31.2])
def test_a_worker_notices_within_a_second_that_the_chief_is_done(fake_clock, initialised_after):
    cluster = Cluster(fake_clock, lambda t: ["w"] if t < initialised_after else [])
    session = manager_of(cluster, fake_clock).wait_for_session("grpc://w1")
    assert not session.closed
    assert 0 <= fake_clock.time - 1000 - initialised_after < 0.6
    assert cluster.made == cluster.open == 1  # One session for all looks.


def test_a_given_interval_is_kept_to(fake_clock):
    cluster = Cluster(fake_clock, lambda t: ["w"] if t < 31 else [])
    manager_of(cluster, fake_clock, recovery_wait_secs=30).wait_for_session("")
    assert fake_clock.time - 1000 == pytest.approx(60)
    assert cluster.looks == 3


def test_who_waits_too_long_is_told_what_is_missing_and_where(fake_clock):
    with tf.device("/job:ps/task:1"):
        tf.get_variable("w", [2])
    cluster = Cluster(fake_clock, lambda t: ["w", "elsewhere"])
    with pytest.raises(tf.errors.DeadlineExceededError) as raised:
        manager_of(cluster, fake_clock).wait_for_session("grpc://w1", max_wait_secs=12)
    text = str(raised.value)
    assert "Session was not ready after waiting 12 secs" in text
    assert "w on /job:ps/task:1" in text
    assert "elsewhere on the default device" in text
    assert "grpc://w1" in text
    assert "Check that the chief" in text
    assert fake_clock.time - 1000 == pytest.approx(12, abs=0.01)
    assert cluster.open == 0


def test_a_wait_says_what_it_waits_for(fake_clock, log_lines):
    with tf.device("/job:ps/task:0"):
        tf.get_variable("w", [2])
    cluster = Cluster(fake_clock, lambda t: ["w"] if t < 26 else [])
    manager_of(cluster, fake_clock).wait_for_session("")
    said = warnings(log_lines)
    assert len(said) == 3
    assert all("w on /job:ps/task:0" in text and "chief" in text for text in said)
    looks = [text for _, text in log_lines if text.startswith("Waiting for model")]
    assert len(looks) == 1  # Not one for each look.


def test_many_missing_variables_are_counted(fake_clock):
    cluster = Cluster(fake_clock, lambda t: [f"w{i}" for i in range(25)])
    with pytest.raises(tf.errors.DeadlineExceededError, match="w9 .*and 15 more"):
        manager_of(cluster, fake_clock).wait_for_session("", max_wait_secs=1)


@pytest.mark.parametrize("kind", [tf.errors.AbortedError, tf.errors.UnavailableError])
def test_a_task_that_restarts_does_not_end_the_wait(fake_clock, kind):
    cluster = Cluster(fake_clock, lambda t: ["w"] if t < 3 else [])
    cluster.faults = {2: kind(None, None, "ps 0 restarted"), 3: kind(None, None, "again")}
    manager_of(cluster, fake_clock).wait_for_session("")
    assert cluster.made == 3
    assert cluster.open == 1


def test_other_errors_end_the_wait_and_leave_no_session(fake_clock):
    cluster = Cluster(fake_clock, lambda t: ["w"])
    cluster.faults = {2: tf.errors.InternalError(None, None, "broken")}
    with pytest.raises(tf.errors.InternalError, match="broken"):
        manager_of(cluster, fake_clock).wait_for_session("")
    assert cluster.open == 0


def test_uninitialised_values_in_the_ready_operation_mean_not_ready(fake_clock, log_lines):
    cluster = Cluster(fake_clock, lambda t: [])
    text = "Attempting to use uninitialized value w"
    cluster.faults = {1: tf.errors.FailedPreconditionError(None, None, text)}
    manager_of(cluster, fake_clock).wait_for_session("")
    assert cluster.looks == 2
    cluster.faults = {3: tf.errors.FailedPreconditionError(None, None, "table is not there")}
    with pytest.raises(tf.errors.FailedPreconditionError, match="table"):
        manager_of(cluster, fake_clock).wait_for_session("")
    assert any("Model not ready : error [table" in text for text in warnings(log_lines))


def test_local_init_has_run_after_the_model_became_ready(fake_clock):
    cluster = Cluster(fake_clock, lambda t: ["w"] if t < 3 else [])
    manager_of(cluster, fake_clock, local_init_op="local_init").wait_for_session("")
    # Once at the first look, as TensorFlow does, and once more with the model there.
    assert cluster.local_inits == [False, True]


def test_local_init_waits_for_what_it_needs(fake_clock):
    cluster = Cluster(fake_clock, lambda t: ["w"] if t < 3 else [])
    manager_of(
        cluster, fake_clock, local_init_op="local_init", ready_for_local_init_op="globals"
    ).wait_for_session("")
    assert cluster.local_inits == [True]


def test_waiting_for_a_checkpoint_ends_when_there_is_one(fake_clock, tmp_path, log_lines):
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    saver = tf.train.Saver()
    seven = v.assign(7.0)
    with tf.Session() as writer:

        def save_after_a_while():
            if fake_clock.time >= 1007 and not (tmp_path / "checkpoint").exists():
                writer.run(seven)
                saver.save(writer, str(tmp_path / "model"))

        fake_clock.on_sleep = save_after_a_while
        manager = tf.train.SessionManager(
            ready_op=tf.report_uninitialized_variables(), clock=fake_clock.clock
        )
        session = manager.prepare_session(
            "", saver=saver, checkpoint_dir=str(tmp_path), wait_for_checkpoint=True
        )
    with session:
        assert session.run(v) == 7
    assert fake_clock.time < 1008
    assert any(str(tmp_path) in text for text in warnings(log_lines))


def test_waiting_for_a_checkpoint_ends_after_max_wait_secs(fake_clock, tmp_path):
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    manager = tf.train.SessionManager(clock=fake_clock.clock)
    session = manager.prepare_session(
        "",
        init_op=tf.global_variables_initializer(),
        saver=tf.train.Saver(),
        checkpoint_dir=str(tmp_path),
        wait_for_checkpoint=True,
        max_wait_secs=9,
    )
    with session:
        assert session.run(v) == 1
    assert fake_clock.time == pytest.approx(1009, abs=0.01)


def test_a_chief_with_nothing_to_initialise_with_says_what_it_looked_at(fake_clock, tmp_path):
    tf.get_variable("v", [])
    cluster = Cluster(fake_clock, lambda t: ["v"])
    with pytest.raises(RuntimeError) as raised:
        manager_of(cluster, fake_clock).prepare_session(
            "", saver=tf.train.Saver(), checkpoint_dir=str(tmp_path)
        )
    assert "no init_op or init_fn or local_init_op was given" in str(raised.value)
    assert f"no checkpoint in {str(tmp_path)!r}" in str(raised.value)
    assert "1 variables need a value" in str(raised.value)
    assert cluster.open == 0


def test_a_chief_that_fails_leaves_no_session(fake_clock):
    cluster = Cluster(fake_clock, lambda t: ["v"])
    with pytest.raises(RuntimeError, match="Init op: init, .*not initialized: v"):
        manager_of(cluster, fake_clock).prepare_session("", init_op=tf.no_op(name="init"))
    assert cluster.open == 0


def test_a_damaged_checkpoint_is_an_error_of_the_chief(fake_clock, tmp_path):
    v = tf.get_variable("v", [1000], initializer=tf.ones_initializer())
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(v.initializer)
        path = saver.save(session, str(tmp_path / "model"))
    data = tmp_path / "model.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-40] + b"x" * 40)
    manager = tf.train.SessionManager(clock=fake_clock.clock)
    with pytest.raises(tf.errors.DataLossError):
        manager.prepare_session("", saver=saver, checkpoint_filename_with_path=path)
