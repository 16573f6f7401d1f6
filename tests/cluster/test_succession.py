"""Chiefs that were restarted: who goes on with the model, and who restores or begins again.

A chief that "dies" leaves its session open, and its server is started again; what its process would
have done at a good end is kept back by a fixture.
"""

import contextlib
import shutil
import types
from pathlib import Path

import pytest

import millrace as tf
from millrace.training.sessions import succession

#: What the live model is ahead of the newest checkpoint.
SAVED, LIVE = 3, 8


class Chief:
    """A chief's program: ``a`` on the first ps, ``b`` on the second, and the global step."""

    def __init__(self, cluster, folder, variables=("a", "b")):
        self.cluster = cluster
        self.folder = None if folder is None else str(folder)
        self.graph = tf.Graph()
        setter = tf.train.replica_device_setter(
            cluster=cluster.spec, worker_device="/job:worker/task:0"
        )
        with self.graph.as_default(), tf.device(setter):
            self.model = [tf.get_variable(name, initializer=0) for name in variables]
            self.step = tf.train.get_or_create_global_step()
            self.train = [tf.assign_add(each, 1) for each in (*self.model, self.step)]
            self.reset = tf.assign(self.step, SAVED - 1)
            self.scaffold = tf.train.Scaffold()
        self.session = None

    def begin(self):
        """A session as a MonitoredSession makes its first one."""
        with self.graph.as_default():
            self.creator = tf.train.ChiefSessionCreator(
                self.scaffold, self.cluster.target("worker"), checkpoint_dir=self.folder
            )
            self.session = self.creator.create_session()
        return self

    def go_to(self, step):
        while self.session.run(self.step) < step:
            self.session.run(self.train)
        return self

    def save(self, step=SAVED):
        """A checkpoint at a step."""
        self.go_to(step)
        Path(self.folder).mkdir(exist_ok=True)
        self.scaffold.saver.save(self.session, f"{self.folder}/model.ckpt", step)
        return self

    def die(self):
        """Its process is killed."""
        self.cluster["worker", 0].stop()
        self.cluster.start("worker", 0)

    def found(self):
        """What the session has, which is closed in order."""
        found = self.session.run([*self.model, self.step])
        self.session.close()
        return found


@pytest.fixture(autouse=True)
def at_exit(monkeypatch):
    """What processes would do at a good end."""
    calls = []
    module = types.SimpleNamespace(register=calls.append, unregister=lambda call: None)
    monkeypatch.setattr(succession, "atexit", module)
    return calls


@pytest.fixture
def cluster(make_cluster):
    return make_cluster({"ps": 2, "worker": 2})


@pytest.fixture
def chief(cluster, tmp_path):
    """A chief whose live model is newer than its checkpoint."""
    return Chief(cluster, tmp_path / "model").begin().save().go_to(LIVE)


def successor(chief, folder=None):
    """The same program, started again."""
    return Chief(chief.cluster, folder or chief.folder).begin()


def test_a_restarted_chief_goes_on_with_the_model_as_it_is(chief, caplog):
    caplog.set_level("INFO")
    chief.die()
    assert successor(chief).found() == [LIVE, LIVE, LIVE]
    assert f"at global step {LIVE}: nothing is restored" in caplog.text
    assert f"model.ckpt-{SAVED} is at {SAVED})" in caplog.text


def test_it_knows_which_checkpoints_there_are(chief):
    chief.die()
    restarted = successor(chief)
    kept = restarted.scaffold.saver.last_checkpoints
    assert [name.rpartition("/")[2] for name in kept] == [f"model.ckpt-{SAVED}"]
    restarted.session.close()


def test_chiefs_die_one_after_the_other(chief):
    for step in range(LIVE + 1, LIVE + 4):
        chief.die()
        chief = successor(chief).go_to(step)
    assert chief.found() == [step] * 3


def test_a_training_that_ended_in_order_is_restored(chief):
    chief.session.close()
    assert successor(chief).found() == [SAVED] * 3


def test_a_training_whose_process_ended_in_order_is_restored(chief, at_exit):
    for call in at_exit:
        call()
    chief.die()
    assert successor(chief).found() == [SAVED] * 3


@pytest.mark.parametrize(
    ("error", "step"),
    [(ValueError("the loss is not a number"), SAVED), (tf.errors.AbortedError(0, 0, ""), LIVE)],
    ids=["program", "cluster"],
)
def test_an_exception_of_the_program_may_come_from_the_model_and_one_of_the_cluster_not(
    chief, error, step
):
    with contextlib.suppress(type(error)), chief.session:
        raise error
    chief.session.close()
    assert successor(chief).found() == [step] * 3


def test_a_monitored_session_that_fails_leaves_nothing_to_adopt(chief):
    chief.session.close()
    program = Chief(chief.cluster, chief.folder)
    with (
        program.graph.as_default(),
        pytest.raises(ValueError, match="no number"),
        tf.train.MonitoredTrainingSession(
            chief.cluster.target("worker"), checkpoint_dir=chief.folder, save_checkpoint_steps=1000
        ) as session,
    ):
        for _ in range(4):
            session.run(program.train)
        raise ValueError("no number")
    tf.summary.FileWriterCache.clear()
    assert successor(chief).found() == [SAVED] * 3


def test_another_folder_is_another_training(chief, tmp_path):
    chief.die()
    assert successor(chief, tmp_path / "other").found() == [0, 0, 0]


def test_an_emptied_folder_is_another_training(chief):
    chief.die()
    shutil.rmtree(chief.folder)
    assert successor(chief).found() == [0, 0, 0]


def test_without_a_folder_there_is_no_telling_and_training_begins_again(cluster):
    chief = Chief(cluster, None).begin().go_to(LIVE)
    chief.die()
    assert Chief(cluster, None).begin().found() == [0, 0, 0]


@pytest.mark.parametrize("is_first_deleted", [False, True])
def test_an_older_checkpoint_that_was_made_the_newest_by_hand_is_restored(chief, is_first_deleted):
    first = chief.scaffold.saver.last_checkpoints
    chief.save(LIVE)
    chief.die()
    later = [] if is_first_deleted else chief.scaffold.saver.last_checkpoints[1:]
    tf.train.update_checkpoint_state(chief.folder, first[0], [*first, *later])
    assert successor(chief).found() == [SAVED] * 3


def test_a_checkpoint_that_the_chief_had_no_time_to_note_is_no_obstacle(chief):
    chief.scaffold.saver.after_save = None
    chief.save(LIVE - 1)
    chief.die()
    assert successor(chief).found() == [LIVE] * 3


def test_a_model_that_is_behind_the_newest_checkpoint_is_restored(chief, caplog):
    caplog.set_level("INFO")
    chief.die()
    with tf.Session(chief.cluster.target("worker"), graph=chief.graph) as session:
        session.run(chief.reset)
    assert successor(chief).found() == [SAVED] * 3
    assert f"it is at global step {SAVED - 1}" in caplog.text


@pytest.mark.parametrize("ps", [0, 1])
def test_a_model_of_which_a_ps_has_lost_its_part_is_restored(chief, ps):
    chief.die()
    chief.cluster["ps", ps].stop()
    chief.cluster.start("ps", ps)
    assert successor(chief).found() == [SAVED] * 3


def test_a_program_with_other_variables_restores(chief):
    chief.die()
    assert Chief(chief.cluster, chief.folder, ["a"]).begin().found() == [SAVED] * 2


def test_variables_without_a_value_are_restored(chief):
    chief.die()
    tf.Session.reset(chief.cluster.target("ps", 1))
    assert successor(chief).found() == [SAVED] * 3


@pytest.mark.parametrize("has_folder", [False, True])
@pytest.mark.parametrize("ends_well", [False, True])
def test_a_model_that_another_training_has_overwritten_is_restored(
    chief, tmp_path, has_folder, ends_well
):
    chief.die()
    other = Chief(chief.cluster, tmp_path / "other" if has_folder else None).begin().go_to(2 * LIVE)
    if ends_well:
        other.session.close()
    else:
        other.die()
    assert successor(chief).found() == [SAVED] * 3


def test_a_chief_that_was_replaced_does_not_speak_for_its_successor(chief):
    """It was only stopped, say; when it ends at last, the other one dies."""
    second = successor(chief).go_to(LIVE + 1)
    chief.session.close()
    second.die()
    assert successor(chief).found() == [LIVE + 1] * 3


def test_an_elected_worker_takes_the_training_over(chief):
    worker = Chief(chief.cluster, chief.folder)
    with worker.graph.as_default():
        worker.scaffold.finalize()
        worker.session = tf.Session(chief.cluster.target("worker", 1))
    succession.take_over(worker.session, worker.folder, worker.scaffold.saver)
    chief.session.close()
    worker.save(LIVE)
    worker.go_to(LIVE + 1).die()
    assert successor(chief).found() == [LIVE + 1] * 3
    worker.session.close()


def test_a_model_in_the_chiefs_own_process_ends_with_it(make_cluster, tmp_path):
    cluster = make_cluster({"worker": 1})
    chief = Chief(cluster, tmp_path)
    chief.begin().save().go_to(LIVE).die()
    assert successor(chief).found() == [SAVED] * 3


# -- Supervisors -------------------------------------------------------------------------------


def supervised(chief):
    program = Chief(chief.cluster, chief.folder)
    with program.graph.as_default():
        program.supervisor = tf.train.Supervisor(
            logdir=chief.folder, save_summaries_secs=0, save_model_secs=0
        )
    program.session = program.supervisor.prepare_or_wait_for_session(chief.cluster.target("worker"))
    return program


def test_a_supervisor_goes_on_with_the_model_as_it_is(chief):
    chief.die()
    second = supervised(chief).go_to(LIVE + 1)
    second.die()
    with contextlib.suppress(tf.errors.OpError):
        second.supervisor.stop()
    third = supervised(chief)
    third.supervisor.stop()
    assert third.found() == [LIVE + 1] * 3


def test_a_supervisor_that_ended_in_order_restores(chief):
    chief.session.close()
    second = supervised(chief).go_to(LIVE)
    second.supervisor.stop()
    second.session.close()
    third = supervised(chief)
    third.supervisor.stop()
    assert third.found() == [SAVED] * 3
