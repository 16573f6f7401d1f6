"""Stories of MonitoredTrainingSession, scaffolds and session managers."""

# ruff: noqa: SIM117 - what an outer block notes of an inner one is the point
from __future__ import annotations

import os

from session_stories.story import (
    checkpoints,
    counter,
    event_files,
    first_sentence,
    recording_hook,
    scenario,
)


@scenario
def a_whole_training_and_its_continuation(tf, story):
    for last_step in (5, 8):
        with tf.Graph().as_default():
            step, add = counter(tf)
            tf.summary.scalar("step", step)
            with story.logs(tf, "Create|Graph was|local_init_op|checkpoint|Restor"):
                with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=story.folder,
                    hooks=[
                        tf.train.StopAtStepHook(last_step=last_step),
                        recording_hook(tf, story, "for all"),
                    ],
                    chief_only_hooks=[recording_hook(tf, story, "for the chief")],
                    save_checkpoint_steps=2,
                    save_summaries_steps=3,
                    log_step_count_steps=2,
                ) as session:
                    while not session.should_stop():
                        story.note("value", session.run(add))
        tf.summary.FileWriterCache.clear()
        for event in event_files(tf, story.folder, remove=True):
            story.note(event)
    story.note(checkpoints(story.folder))


@scenario
def a_training_without_a_folder(tf, story):
    _, add = counter(tf)
    before = sorted(os.listdir("."))
    with tf.train.MonitoredTrainingSession(hooks=[recording_hook(tf, story)]) as session:
        story.note(session.run(add))
    story.note(sorted(os.listdir(".")) == before)


@scenario
def a_training_with_another_folder_for_summaries(tf, story):
    step, add = counter(tf)
    tf.summary.scalar("step", step)
    first, second = os.path.join(story.folder, "first"), os.path.join(story.folder, "second")
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=first, summary_dir=second, save_summaries_steps=1, log_step_count_steps=0
    ) as session:
        session.run(add)
        session.run(add)
    tf.summary.FileWriterCache.clear()
    story.note(event_files(tf, first), event_files(tf, second), checkpoints(first))


@scenario
def a_training_that_saves_nothing(tf, story):
    step, add = counter(tf)
    tf.summary.scalar("step", step)
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=story.folder,
        save_checkpoint_secs=None,
        save_summaries_steps=None,
        save_summaries_secs=None,
        log_step_count_steps=None,
    ) as session:
        session.run(add)
    story.note(os.listdir(story.folder))


@scenario
def the_default_periods(tf, story):
    """Which hooks MonitoredTrainingSession makes, seen in the event file of two steps."""
    step, add = counter(tf)
    tf.summary.scalar("step", step)
    with tf.train.MonitoredTrainingSession(checkpoint_dir=story.folder) as session:
        session.run(add)
        session.run(add)
    tf.summary.FileWriterCache.clear()
    story.note(event_files(tf, story.folder), checkpoints(story.folder))


@scenario
def what_a_scaffold_makes(tf, story):
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    tf.Variable(1.0, name="local", collections=[tf.GraphKeys.LOCAL_VARIABLES])
    tf.summary.scalar("v", v)
    scaffold = tf.train.Scaffold()
    story.note(scaffold.init_op, scaffold.ready_op, scaffold.saver, scaffold.init_fn)
    story.note(scaffold.finalize() is scaffold)
    story.note(
        scaffold.init_op,
        scaffold.ready_op,
        scaffold.ready_for_local_init_op,
        scaffold.local_init_op,
        scaffold.summary_op,
        scaffold.init_feed_dict,
        scaffold.local_init_feed_dict,
        type(scaffold.saver).__name__,
    )
    story.note(sorted(tf.get_default_graph().get_all_collection_keys()))
    with tf.Session() as session:
        story.note(session.run(scaffold.ready_op))
        story.note(session.run(scaffold.ready_for_local_init_op))
        session.run(scaffold.init_op)
        story.note(session.run(scaffold.ready_op))
        story.note(session.run(scaffold.ready_for_local_init_op))
        session.run(scaffold.local_init_op)
        story.note(session.run(scaffold.ready_op))
    again = tf.train.Scaffold().finalize()
    story.note(again.init_op is scaffold.init_op, again.saver is scaffold.saver)


@scenario
def a_scaffold_of_a_scaffold(tf, story):
    a, b = tf.no_op("a"), tf.no_op("b")
    first = tf.train.Scaffold(
        init_op=a, init_fn=lambda scaffold, session: story.note(scaffold is second)
    )
    second = tf.train.Scaffold(local_init_op=b, copy_from_scaffold=first)
    story.note(second.init_op, second.local_init_op)
    second.init_fn(None)
    with story.raises():
        tf.train.Scaffold(copy_from_scaffold="no scaffold")


@scenario
def several_of_what_a_scaffold_needs_one_of(tf, story):
    tf.get_variable("v", [])
    tf.add_to_collection(tf.GraphKeys.INIT_OP, tf.no_op())
    tf.add_to_collection(tf.GraphKeys.INIT_OP, tf.no_op())
    try:
        tf.train.Scaffold().finalize()
    except RuntimeError as error:
        story.note(type(error).__name__)


@scenario
def init_function_and_feeds(tf, story):
    x = tf.placeholder(tf.float32, [], name="x")
    v = tf.Variable(x, name="v", trainable=False)
    w = tf.Variable(0.0, name="w", collections=[tf.GraphKeys.LOCAL_VARIABLES])
    y = tf.placeholder(tf.float32, [], name="y")
    to_y = w.assign(y)

    def init_fn(scaffold, session):
        story.note("init_fn", session.run(v))

    scaffold = tf.train.Scaffold(
        init_feed_dict={x: 3.0},
        init_fn=init_fn,
        local_init_op=to_y.op,
        local_init_feed_dict={y: 5.0},
    )
    creator = tf.train.ChiefSessionCreator(scaffold)
    with tf.train.MonitoredSession(creator) as session:
        story.note(session.run([v, w]))


@scenario
def a_model_that_is_not_ready(tf, story):
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    creator = tf.train.ChiefSessionCreator(tf.train.Scaffold(init_op=v.initializer))
    try:
        tf.train.MonitoredSession(creator)
    except RuntimeError as error:
        story.note("RuntimeError", "w" in str(error), first_sentence(error))
    del w


@scenario
def session_creators_must_create(tf, story):
    class Empty(tf.train.SessionCreator):
        pass

    with story.raises():
        Empty()


@scenario
def preparing_a_session(tf, story):
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    ready = tf.report_uninitialized_variables()
    init = tf.global_variables_initializer()
    manager = tf.train.SessionManager(ready_op=ready)
    session = manager.prepare_session("", init_op=init)
    story.note(session.run(v))
    with story.raises():
        manager.prepare_session("")
    with story.raises():
        manager.prepare_session("", init_op=tf.no_op(name="nothing"))
    called = manager.prepare_session("", init_fn=lambda session: session.run(init))
    story.note(called.run(v))
    with story.raises():
        tf.train.SessionManager(ready_for_local_init_op=ready)
    with story.raises():
        manager.prepare_session(
            "",
            init_op=init,
            saver=tf.train.Saver(),
            checkpoint_dir="a",
            checkpoint_filename_with_path="b",
        )


@scenario
def preparing_from_a_checkpoint(tf, story):
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    ready = tf.report_uninitialized_variables()
    init = tf.global_variables_initializer()
    saver = tf.train.Saver()
    manager = tf.train.SessionManager(ready_op=ready)
    session = manager.prepare_session("", init_op=init, saver=saver, checkpoint_dir=story.folder)
    story.note(session.run(v))
    session.run(v.assign(7.0))
    path = saver.save(session, os.path.join(story.folder, "model"))
    for arguments in (
        {"checkpoint_dir": story.folder},
        {"checkpoint_filename_with_path": path},
    ):
        session = manager.prepare_session("", init_op=init, saver=saver, **arguments)
        story.note(session.run(v))
        session, restored = manager.recover_session("", saver=saver, **arguments)
        story.note(restored, session.run(v))
    empty = os.path.join(story.folder, "empty")
    with story.logs(tf, "model"):
        _, restored = manager.recover_session("", saver=saver, checkpoint_dir=empty)
        story.note(restored)
        _, restored = manager.recover_session(
            "",
            saver=saver,
            checkpoint_dir=empty,
            wait_for_checkpoint=True,
            max_wait_secs=0,
        )
        story.note(restored)


@scenario
def recovering_a_model_that_is_not_whole(tf, story):
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    w = tf.get_variable("w", [], initializer=tf.ones_initializer())
    ready = tf.report_uninitialized_variables()
    saver = tf.train.Saver({"v": v})
    with tf.Session() as session:
        session.run([v.initializer, w.initializer])
        saver.save(session, os.path.join(story.folder, "model"))
    with story.logs(tf, "Restor"):
        manager = tf.train.SessionManager(ready_op=ready)
        session, restored = manager.recover_session("", saver=saver, checkpoint_dir=story.folder)
        story.note(restored, session.run(v))
        manager = tf.train.SessionManager(
            ready_op=ready, ready_for_local_init_op=ready, local_init_op=tf.no_op()
        )
        session, restored = manager.recover_session("", saver=saver, checkpoint_dir=story.folder)
        story.note(restored)
        with story.raises():
            manager.prepare_session("", saver=saver, checkpoint_dir=story.folder)


@scenario
def waiting_for_a_session_that_is_ready(tf, story):
    local = tf.Variable(1.0, name="local", collections=[tf.GraphKeys.LOCAL_VARIABLES])
    manager = tf.train.SessionManager(
        ready_op=tf.report_uninitialized_variables(), local_init_op=local.initializer
    )
    with story.logs(tf, "local_init_op"):
        session = manager.wait_for_session("", max_wait_secs=3)
    story.note(session.run(local))


@scenario
def waiting_for_a_session_that_never_is(tf, story):
    tf.get_variable("v", [])
    manager = tf.train.SessionManager(
        ready_op=tf.report_uninitialized_variables(), recovery_wait_secs=0.2
    )
    with story.raises():
        manager.wait_for_session("", max_wait_secs=0)


@scenario
def waiting_with_a_ready_operation_that_fails(tf, story):
    v = tf.get_variable("v", [], dtype=tf.string, initializer=tf.zeros_initializer())
    manager = tf.train.SessionManager(ready_op=v.read_value(), recovery_wait_secs=0.2)
    with story.raises():
        manager.wait_for_session("", max_wait_secs=0)
    manager = tf.train.SessionManager(ready_op=tf.constant([1, 2], tf.int32))
    story.note(manager.wait_for_session("", max_wait_secs=1).run("Const:0"))
