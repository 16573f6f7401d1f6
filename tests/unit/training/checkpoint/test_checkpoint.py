"""tf.train.Checkpoint and CheckpointManager: objects by where they are in the program."""

import os

import pytest

import millrace as tf

pytestmark = pytest.mark.usefixtures("graph")


def variable(name="v", value=1.0, **kwargs):
    return tf.get_variable(name, initializer=tf.constant([value, value]), **kwargs)


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as session:
        yield session


def keys(path):
    return sorted(name.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE") for name, _ in listed(path))


def listed(path):
    return [item for item in tf.train.list_variables(path) if not item[0].startswith("_CHECK")]


def test_values_are_saved_under_the_path_to_them(session, tmp_path):
    v, w, r = variable("v"), variable("w"), variable("r", use_resource=True)
    adam = tf.train.AdamOptimizer(0.1)
    train = adam.minimize(tf.reduce_sum(v * w))
    checkpoint = tf.train.Checkpoint(
        model=v, opt=adam, inner=tf.train.Checkpoint(w=w), many=[r, {"x.y/z": v}]
    )
    session.run(tf.global_variables_initializer())
    session.run(train)
    path = checkpoint.save(str(tmp_path / "c"), session=session)
    assert os.path.basename(path) == "c-1"
    assert keys(path) == [
        "inner/w",
        "inner/w/.OPTIMIZER_SLOT/opt/m",
        "inner/w/.OPTIMIZER_SLOT/opt/v",
        "many/0",
        "model",
        "model/.OPTIMIZER_SLOT/opt/m",
        "model/.OPTIMIZER_SLOT/opt/v",
        "opt/beta1_power",
        "opt/beta2_power",
        "save_counter",
    ]
    assert tf.train.latest_checkpoint(str(tmp_path)) == path


def test_names_with_dots_and_slashes_are_escaped(session, tmp_path):
    checkpoint = tf.train.Checkpoint(items={"x.y/z": variable()})
    session.run(tf.global_variables_initializer())
    assert "items/x..y.Sz" in keys(checkpoint.save(str(tmp_path / "c"), session))


def test_a_model_is_restored_although_its_variables_are_renamed(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        v = variable("before", 7.0)
        adam = tf.train.AdamOptimizer(0.1)
        train = adam.minimize(tf.reduce_sum(v * v))
        session.run(tf.global_variables_initializer())
        session.run(train)
        path = tf.train.Checkpoint(v=v, opt=adam).save(str(tmp_path / "c"), session)
        wanted = session.run([v, adam.get_slot(v, "m")])
    with tf.Graph().as_default(), tf.Session() as session:
        v = variable("after", 0.0)
        adam = tf.train.AdamOptimizer(0.1)
        adam.minimize(tf.reduce_sum(v * v))
        checkpoint = tf.train.Checkpoint(v=v, opt=adam)
        checkpoint.restore(path).assert_consumed().run_restore_ops(session)
        found = session.run([v, adam.get_slot(v, "m")])
    assert [f.tolist() for f in found] == [w.tolist() for w in wanted]


def test_saves_are_numbered_and_the_nodes_made_once(session, graph, tmp_path):
    checkpoint = tf.train.Checkpoint(v=variable())
    session.run(tf.global_variables_initializer())
    with session.as_default():
        paths = [checkpoint.save(str(tmp_path / "deep" / "c")) for _ in range(2)]
        nodes = len(graph.get_operations())
        graph.finalize()
        paths.append(checkpoint.save(str(tmp_path / "deep" / "c")))
    assert [os.path.basename(path) for path in paths] == ["c-1", "c-2", "c-3"]
    assert len(graph.get_operations()) == nodes
    assert session.run(checkpoint.save_counter) == 3


def test_the_numbers_go_on_after_a_restore(tmp_path):
    for number in (1, 2):
        with tf.Graph().as_default(), tf.Session() as session:
            checkpoint = tf.train.Checkpoint(v=variable())
            latest = tf.train.latest_checkpoint(str(tmp_path))
            checkpoint.restore(latest).initialize_or_restore(session)
            path = checkpoint.save(str(tmp_path / "c"), session)
            assert path.endswith(f"c-{number}")


def test_what_is_not_in_the_checkpoint_is_initialised_and_named(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        v = variable("v", 7.0)
        session.run(v.initializer)
        path = tf.train.Checkpoint(v=v).save(str(tmp_path / "c"), session)
    with tf.Graph().as_default(), tf.Session() as session:
        v, extra = variable("v", 0.0), variable("extra", 3.0)
        status = tf.train.Checkpoint(v=v, extra=extra).restore(path)
        with pytest.raises(AssertionError, match="1 Python objects.*extra"):
            status.assert_existing_objects_matched()
        with pytest.raises(AssertionError, match="extra"):
            status.assert_consumed()
        status.expect_partial().assert_nontrivial_match().initialize_or_restore(session)
        assert session.run([v, extra])[0].tolist() == [7, 7]
        assert session.run(extra).tolist() == [3, 3]


def test_what_is_only_in_the_checkpoint_is_named(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        v, w = variable("v"), variable("w")
        session.run(tf.global_variables_initializer())
        path = tf.train.Checkpoint(v=v, w=w).save(str(tmp_path / "c"), session)
    v = variable("v")
    status = tf.train.Checkpoint(v=v).restore(path)
    status.assert_existing_objects_matched()
    with pytest.raises(AssertionError, match=r"Unresolved object.*\(root\)\.w"):
        status.assert_consumed()


def test_objects_may_be_added_after_restore(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        v = variable("v", 7.0)
        session.run(v.initializer)
        path = tf.train.Checkpoint(v=v).save(str(tmp_path / "c"), session)
    with tf.Session() as session:
        checkpoint = tf.train.Checkpoint()
        status = checkpoint.restore(path)
        checkpoint.v = variable("v", 0.0)
        checkpoint.note = "not a part"
        status.assert_consumed().run_restore_ops(session)
        assert session.run(checkpoint.v).tolist() == [7, 7]
        del checkpoint.v
        with pytest.raises(AssertionError, match="Unresolved"):
            status.assert_consumed()


def test_a_value_of_another_shape_is_an_error(session, tmp_path):
    session.run(variable("v").initializer)
    path = tf.train.Checkpoint(v=tf.global_variables()[0]).save(str(tmp_path / "c"), session)
    other = tf.get_variable("other", [3])
    with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)other"):
        tf.train.Checkpoint(v=other).restore(path).run_restore_ops(session)


def test_a_checkpoint_of_a_saver_is_restored_by_name(session, tmp_path):
    v = variable("v", 7.0)
    session.run(v.initializer)
    path = tf.train.Saver([v]).save(session, str(tmp_path / "named"))
    session.run(v.assign([0.0, 0.0]))
    status = tf.train.Checkpoint(anything=v).restore(path)
    status.assert_consumed().assert_nontrivial_match().initialize_or_restore(session)
    assert session.run(v).tolist() == [7, 7]
    status = tf.train.Checkpoint(v=v, w=variable("w")).restore(path)
    with pytest.raises(AssertionError, match="not restored: w"):
        status.assert_existing_objects_matched()
    with pytest.raises(tf.errors.NotFoundError, match="has no w"):
        status.run_restore_ops(session)


def test_without_a_checkpoint_everything_is_initialised(session):
    v = variable("v", 7.0)
    status = tf.train.Checkpoint(v=v).restore(None)
    for check in (
        status.assert_consumed,
        status.assert_existing_objects_matched,
        status.assert_nontrivial_match,
    ):
        with pytest.raises(AssertionError, match="No checkpoint specified"):
            check()
    with pytest.raises(AssertionError, match="no restore ops"):
        status.run_restore_ops(session)
    status.initialize_or_restore(session)
    assert session.run(v).tolist() == [7, 7]


@pytest.mark.parametrize("part", [3, "text", None])
def test_only_objects_with_state_can_be_parts(part):
    with pytest.raises(ValueError, match="was expecting a trackable object.*model="):
        tf.train.Checkpoint(model=part)


def test_who_has_no_session_is_told(tmp_path):
    checkpoint = tf.train.Checkpoint(v=variable())
    for call in (
        lambda: checkpoint.save(str(tmp_path / "c")),
        lambda: checkpoint.restore(None).initialize_or_restore(),
        lambda: tf.train.CheckpointManager(checkpoint, str(tmp_path), 1).save(),
    ):
        with pytest.raises(ValueError, match="needs a session"):
            call()


def test_a_checkpoint_that_is_not_there_is_named(tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match="nowhere"):
        tf.train.Checkpoint(v=variable()).restore(str(tmp_path / "nowhere"))


def test_a_scaffold_takes_a_checkpoint_for_a_saver(tmp_path):
    add = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    for steps in (2, 4):
        objects = tf.train.Checkpoint(step=tf.train.get_global_step())
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path), scaffold=tf.train.Scaffold(saver=objects)
        ) as session:
            session.run(add)
            assert session.run(add) == steps
        assert keys(tf.train.latest_checkpoint(str(tmp_path))) == ["step"]
    tf.summary.FileWriterCache.clear()


# -- CheckpointManager ---------------------------------------------------------------------


@pytest.fixture
def checkpoint(session):
    v = variable()
    session.run(v.initializer)
    with session.as_default():
        yield tf.train.Checkpoint(v=v)


def names(paths):
    return [os.path.basename(path) for path in paths]


def test_a_manager_keeps_the_newest(checkpoint, tmp_path):
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), max_to_keep=2)
    assert (manager.latest_checkpoint, manager.checkpoints) == (None, [])
    for _ in range(4):
        manager.save()
    assert names(manager.checkpoints) == ["ckpt-3", "ckpt-4"]
    assert names([manager.latest_checkpoint]) == ["ckpt-4"]
    assert sorted(p.name for p in tmp_path.glob("*.index")) == ["ckpt-3.index", "ckpt-4.index"]
    again = tf.train.CheckpointManager(checkpoint, str(tmp_path), max_to_keep=2)
    assert again.checkpoints == manager.checkpoints
    again.save()
    assert names(again.checkpoints) == ["ckpt-4", "ckpt-5"]


def test_a_manager_keeps_one_in_so_many_hours(checkpoint, tmp_path, fake_clock):
    manager = tf.train.CheckpointManager(
        checkpoint,
        str(tmp_path),
        max_to_keep=1,
        keep_checkpoint_every_n_hours=2,
        clock=fake_clock.clock,
    )
    for _ in range(6):
        fake_clock.time += 3600
        manager.save()
    assert names(manager.checkpoints) == ["ckpt-6"]
    kept = sorted(path.stem for path in tmp_path.glob("*.index"))
    assert kept == ["ckpt-2", "ckpt-4", "ckpt-6"]


def test_a_manager_that_keeps_all_deletes_nothing(checkpoint, tmp_path):
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), max_to_keep=None)
    for _ in range(3):
        manager.save()
    assert names(manager.checkpoints) == ["ckpt-1", "ckpt-2", "ckpt-3"]


def test_a_manager_numbers_as_it_is_told(checkpoint, session, tmp_path):
    manager = tf.train.CheckpointManager(
        checkpoint, str(tmp_path), max_to_keep=5, checkpoint_name="mine"
    )
    step = tf.constant(33)
    assert names([manager.save(7), manager.save(step), manager.save()]) == [
        "mine-7",
        "mine-33",
        "mine-3",
    ]


def test_a_manager_keeps_its_distance(checkpoint, session, tmp_path):
    step = tf.Variable(0, dtype=tf.int64)
    add = step.assign_add(1)
    session.run(step.initializer)
    manager = tf.train.CheckpointManager(
        checkpoint, str(tmp_path), max_to_keep=9, step_counter=step, checkpoint_interval=2
    )
    saved = []
    for _ in range(5):
        session.run(add)
        saved.append(manager.save() is not None)
    assert saved == [True, False, True, False, True]
    session.run(add)
    assert manager.save(check_interval=False) is not None


def test_a_manager_restores_or_initialises(session, tmp_path):
    v = variable("v", 7.0)
    checkpoint = tf.train.Checkpoint(v=v)
    called = []

    def initialise():
        called.append(1)
        session.run(v.initializer)

    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), 1, init_fn=initialise)
    with session.as_default():
        assert manager.restore_or_initialize() is None
        path = manager.save()
        session.run(v.assign([0.0, 0.0]))
        assert manager.restore_or_initialize() == path
        assert session.run(v).tolist() == [7, 7]
    assert called == [1]


@pytest.mark.parametrize("arguments", [{"max_to_keep": 0}, {"max_to_keep": -2}])
def test_a_manager_must_keep_something(tmp_path, arguments):
    with pytest.raises(ValueError, match="positive integer"):
        tf.train.CheckpointManager(tf.train.Checkpoint(), str(tmp_path), **arguments)
