"""Stories of supervisors."""

# ruff: noqa: SIM117 - what an outer block notes of an inner one is the point
from __future__ import annotations

import os

from session_stories.story import checkpoints, event_files, scenario


@scenario
def what_a_supervisor_makes(tf, story):
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    step = tf.Variable(0, name="global_step", trainable=False)
    tf.summary.scalar("v", v)
    supervisor = tf.train.Supervisor(logdir=story.folder, save_summaries_secs=0, save_model_secs=0)
    story.note(
        supervisor.is_chief,
        supervisor.init_op,
        supervisor.ready_op,
        supervisor.ready_for_local_init_op,
        supervisor.summary_op,
        supervisor.global_step,
        type(supervisor.saver).__name__,
        os.path.basename(supervisor.save_path),
        supervisor.save_summaries_secs,
        supervisor.save_model_secs,
        supervisor.init_feed_dict,
    )
    story.note(sorted(tf.get_default_graph().get_all_collection_keys()))
    story.note(tf.get_default_graph().finalized)
    with supervisor.managed_session("") as session:
        story.note(session.run([v, step]), supervisor.should_stop())
    story.note(supervisor.should_stop(), supervisor.coord.joined)
    story.note(event_files(tf, story.folder))
    story.note(sorted(name for name in os.listdir(story.folder) if "tfevents" not in name))


@scenario
def a_supervisor_without_a_folder(tf, story):
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    with story.logs(tf, "Starting"):
        supervisor = tf.train.Supervisor()
        story.note(supervisor.save_path, supervisor.summary_writer)
        session = supervisor.prepare_or_wait_for_session("")
        story.note(session.run(v))
        story.note(supervisor.start_standard_services(session))
    with story.raises():
        supervisor.summary_computed(session, b"")
    supervisor.stop()
    story.note(session.run(v))


@scenario
def a_supervisor_that_is_no_chief(tf, story):
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    with story.raises():
        tf.train.Supervisor(is_chief=False)
    with tf.Graph().as_default():
        with tf.device("/cpu:0"):
            local = tf.Variable(1.0, name="l", collections=[tf.GraphKeys.LOCAL_VARIABLES])
        supervisor = tf.train.Supervisor(is_chief=False, logdir=story.folder)
        story.note(supervisor.summary_writer, supervisor.save_path)
        with supervisor.managed_session("") as session:
            story.note(session.run(local))
            with story.raises():
                supervisor.start_standard_services(session)
        story.note(os.listdir(story.folder))
    del v


@scenario
def the_block_of_a_supervisor_fails(tf, story):
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    supervisor = tf.train.Supervisor(logdir=story.folder)
    with story.raises():
        with supervisor.managed_session("") as session:
            session.run(v)
            raise KeyError("mine")
    story.note(supervisor.should_stop())
    with story.raises():
        session.run(v)
    with supervisor.managed_session("") as session:
        raise tf.errors.OutOfRangeError(None, None, "the end")
    story.note("after the block", supervisor.should_stop())
    with supervisor.managed_session("") as session:
        story.note(supervisor.should_stop())
        supervisor.request_stop()
        story.note(supervisor.should_stop())
    with story.raises():
        with supervisor.managed_session("") as session:
            try:
                raise LookupError("asked for")
            except LookupError as error:
                supervisor.request_stop(error)


@scenario
def a_thread_of_a_supervisor_fails(tf, story):
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    supervisor = tf.train.Supervisor()

    def fail(word):
        raise LookupError(word)

    with story.raises():
        with supervisor.managed_session("") as session:
            supervisor.loop(None, fail, args=("from the loop",))
            supervisor.wait_for_stop()
            session.run(v)


@scenario
def a_supervisor_that_cannot_initialise(tf, story):
    for arguments in ({"init_op": None, "local_init_op": None}, {"init_op": None}):
        with tf.Graph().as_default():
            tf.get_variable("v", [], initializer=tf.ones_initializer())
            supervisor = tf.train.Supervisor(**arguments)
            with story.raises():
                with supervisor.managed_session(""):
                    story.note("not reached")


@scenario
def a_supervisor_writes_summaries_and_checkpoints(tf, story):
    step = tf.Variable(0, name="global_step", trainable=False)
    add = tf.assign_add(step, 1)
    summary = tf.summary.scalar("step", step)
    supervisor = tf.train.Supervisor(
        logdir=story.folder, summary_op=None, save_model_secs=0, save_summaries_secs=0
    )
    with supervisor.managed_session("") as session:
        for _ in range(3):
            session.run(add)
        supervisor.summary_computed(session, session.run(summary))
        supervisor.summary_computed(session, session.run(summary), global_step=30)
        supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)
    story.note(event_files(tf, story.folder), checkpoints(story.folder))
    supervisor = tf.train.Supervisor(
        logdir=story.folder, summary_op=None, save_model_secs=0, save_summaries_secs=0
    )
    with supervisor.managed_session("") as session:
        story.note(session.run(step))


@scenario
def the_first_checkpoint_of_a_supervisor(tf, story):
    step = tf.Variable(0, name="global_step", trainable=False)
    supervisor = tf.train.Supervisor(logdir=story.folder, save_summaries_secs=0)
    with supervisor.managed_session("") as session:
        session.run(step)
        for thread in list(supervisor.coord._registered_threads):
            story.note(type(thread).__name__)
        while not checkpoints(story.folder):
            pass
        supervisor.request_stop()
    story.note(checkpoints(story.folder))


@scenario
def the_queue_runners_of_a_supervisor(tf, story):
    queue = tf.FIFOQueue(2, tf.int32, shapes=[[]])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(5)]))
    item = queue.dequeue()
    supervisor = tf.train.Supervisor()
    with supervisor.managed_session("") as session:
        story.note([session.run(item) for _ in range(4)])
    story.note(supervisor.should_stop())
    session = supervisor.prepare_or_wait_for_session("", start_standard_services=False)
    threads = supervisor.start_queue_runners(session)
    story.note(len(threads))
    story.note(session.run(item))
    supervisor.stop()


@scenario
def a_basic_train_loop(tf, story):
    step = tf.Variable(0, name="global_step", trainable=False)
    add = tf.assign_add(step, 1)
    supervisor = tf.train.Supervisor()
    calls = []

    def train(session, first, second):
        calls.append(1)
        story.note(session.run(add), first, second)
        if len(calls) == 2:
            raise tf.errors.AbortedError(None, None, "a task restarted")
        if len(calls) == 4:
            supervisor.request_stop()

    tf.train.basic_train_loop(supervisor, train, args=["a"], kwargs={"second": "b"})
    story.note(len(calls))

    def fail(session):
        raise LookupError("mine")

    with story.raises():
        tf.train.basic_train_loop(supervisor, fail)
