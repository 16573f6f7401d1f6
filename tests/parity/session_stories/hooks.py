"""Stories of the hooks that come with the library."""

# ruff: noqa: SIM117 - what an outer block notes of an inner one is the point
from __future__ import annotations

import os

import numpy as np

from session_stories.story import checkpoints, counter, event_files, recording_hook, scenario


@scenario
def stop_at_step(tf, story):
    _, add = counter(tf)
    for end in ({"last_step": 3}, {"num_steps": 2}, {"last_step": 0}):
        hook = tf.train.StopAtStepHook(**end)
        with tf.train.MonitoredSession(hooks=[hook, recording_hook(tf, story)]) as session:
            while not session.should_stop():
                story.note(end, session.run(add))
    for end in ({}, {"last_step": 1, "num_steps": 1}):
        with story.raises():
            tf.train.StopAtStepHook(**end)


@scenario
def stop_at_step_when_runs_make_several_steps(tf, story):
    step = tf.train.get_or_create_global_step()
    add = tf.assign_add(step, 3)
    hook = tf.train.StopAtStepHook(last_step=7)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        while not session.should_stop():
            story.note(session.run(add))


@scenario
def stop_at_step_does_not_count_runs_without_a_step(tf, story):
    _, add = counter(tf)
    other = tf.constant(1)
    hook = tf.train.StopAtStepHook(last_step=1)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(other)
        session.run(other)
        story.note(session.should_stop())
        session.run(add)
        story.note(session.should_stop())


@scenario
def hooks_that_need_a_global_step_say_so(tf, story):
    tf.constant(1)
    for hook in (
        tf.train.StopAtStepHook(last_step=1),
        tf.train.StepCounterHook(),
        tf.train.SummarySaverHook(save_steps=1, summary_op=tf.constant("")),
        tf.train.CheckpointSaverHook(story.folder, save_steps=1),
        tf.train.ProfilerHook(save_steps=1, output_dir=story.folder),
    ):
        with story.raises():
            hook.begin()


@scenario
def logging_tensors(tf, story):
    _, add = counter(tf)
    x = tf.constant([1.0, 1e-10], name="x")
    for arguments in (
        {"tensors": {"b": x, "a": "x:0"}, "every_n_iter": 2},
        {"tensors": ["x"], "every_n_iter": 10, "at_end": True},
        {"tensors": {"step": "global_step"}, "at_end": True},
        {"tensors": [x], "every_n_iter": 3, "formatter": lambda values: f"{len(values)} values"},
    ):
        story.note("hook")
        hook = tf.train.LoggingTensorHook(**arguments)
        with story.logs(tf, "^b =|^a =|^x =|^step =|values$|^Tensor"):
            with tf.train.MonitoredSession(hooks=[hook]) as session:
                for _ in range(4):
                    session.run(add)
    for arguments in (
        {},
        {"every_n_iter": 0},
        {"every_n_iter": 1, "every_n_secs": 1},
        {"every_n_iter": -1, "at_end": True},
    ):
        with story.raises():
            tf.train.LoggingTensorHook(["x"], **arguments)
    with story.raises():
        tf.train.LoggingTensorHook(["no_such"], every_n_iter=1).begin()
    tf.split(x, 2, name="two")
    with story.raises():
        tf.train.LoggingTensorHook(["two"], every_n_iter=1).begin()
    with story.raises():
        with tf.Graph().as_default():
            tf.train.LoggingTensorHook([x], every_n_iter=1).begin()


@scenario
def a_loss_that_is_no_number(tf, story):
    _, add = counter(tf)
    loss = tf.placeholder(tf.float32, [], name="loss")
    failing = tf.train.NanTensorHook(loss)
    with story.logs(tf, "diverged"):
        with story.raises():
            with tf.train.MonitoredSession(hooks=[failing, recording_hook(tf, story)]) as session:
                session.run(add, {loss: 1.0})
                session.run(add, {loss: np.inf})
                session.run(add, {loss: np.nan})
        stopping = tf.train.NanTensorHook(loss, fail_on_nan_loss=False)
        with tf.train.MonitoredSession(hooks=[stopping, recording_hook(tf, story)]) as session:
            session.run(add, {loss: np.nan})
            story.note(session.should_stop())
    story.note(issubclass(tf.train.NanLossDuringTrainingError, RuntimeError))


@scenario
def counting_steps(tf, story):
    _, add = counter(tf)
    hook = tf.train.StepCounterHook(every_n_steps=2, output_dir=story.folder)
    with story.logs(tf, "/sec"):
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(6):
                session.run(add)
    tf.summary.FileWriterCache.clear()
    story.note(event_files(tf, story.folder))
    for arguments in ({"every_n_steps": None}, {"every_n_secs": 3}):
        with story.raises():
            tf.train.StepCounterHook(**arguments)


@scenario
def a_step_that_does_not_grow(tf, story):
    _step, _ = counter(tf)
    one = tf.constant(1)
    hook = tf.train.StepCounterHook(every_n_steps=2)
    with story.logs(tf, "has not been increased"):
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(3):
                session.run(one)


@scenario
def saving_summaries(tf, story):
    _, add = counter(tf)
    tf.summary.scalar("a", tf.constant(1.0))
    tf.summary.scalar("b", tf.constant(2.0))
    merged = tf.summary.merge_all()
    hooks = [
        tf.train.SummarySaverHook(save_steps=3, output_dir=story.folder, summary_op=merged),
        recording_hook(tf, story),
    ]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        for _ in range(7):
            session.run(add)
    tf.summary.FileWriterCache.clear()
    story.note(event_files(tf, story.folder))
    for arguments in (
        {"save_steps": 1},
        {"save_steps": 1, "summary_op": merged, "scaffold": tf.train.Scaffold()},
        {"summary_op": merged},
        {"save_steps": 1, "save_secs": 1, "summary_op": merged},
    ):
        with story.raises():
            tf.train.SummarySaverHook(**arguments)


@scenario
def saving_a_list_of_summaries(tf, story):
    step, add = counter(tf)
    summaries = [tf.summary.scalar("a", tf.constant(1.0)), tf.summary.scalar("b", step)]
    hook = tf.train.SummarySaverHook(save_steps=2, output_dir=story.folder, summary_op=summaries)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        for _ in range(4):
            session.run(add)
    tf.summary.FileWriterCache.clear()
    story.note(event_files(tf, story.folder))


@scenario
def saving_checkpoints_every_other_step(tf, story):
    _, add = counter(tf)

    class Listener(tf.train.CheckpointSaverListener):
        def begin(self):
            story.note("listener begin")

        def before_save(self, session, global_step_value):
            story.note("before_save", global_step_value, checkpoints(story.folder))

        def after_save(self, session, global_step_value):
            story.note("after_save", global_step_value, checkpoints(story.folder))
            return global_step_value >= 6

        def end(self, session, global_step_value):
            story.note("listener end", global_step_value)

    saver = tf.train.CheckpointSaverHook(
        story.folder, save_steps=2, saver=tf.train.Saver(max_to_keep=2), listeners=[Listener()]
    )
    with story.logs(tf, "checkpoint"):
        with tf.train.MonitoredSession(hooks=[saver, recording_hook(tf, story)]) as session:
            while not session.should_stop():
                story.note("value", session.run(add))
    tf.summary.FileWriterCache.clear()
    story.note(event_files(tf, story.folder))
    story.note(sorted(name for name in os.listdir(story.folder) if "tfevents" not in name))


@scenario
def checkpoints_when_runs_make_several_steps(tf, story):
    step = tf.train.get_or_create_global_step()
    size = tf.placeholder(tf.int64, [], name="size")
    add = tf.assign_add(step, size)
    saver = tf.train.CheckpointSaverHook(
        story.folder, save_steps=5, saver=tf.train.Saver(max_to_keep=None)
    )
    with tf.train.MonitoredSession(hooks=[saver]) as session:
        for number in (1, 3, 3, 3, 0, 2, 7, 1, 1, 1):
            story.note(session.run(add, {size: number}))
    story.note(checkpoints(story.folder))


@scenario
def checkpoints_without_the_graph(tf, story):
    _, add = counter(tf)
    saver = tf.train.CheckpointSaverHook(
        story.folder, save_steps=1, saver=tf.train.Saver(), save_graph_def=False
    )
    with tf.train.MonitoredSession(hooks=[saver]) as session:
        session.run(add)
    story.note(sorted(name for name in os.listdir(story.folder) if "tfevents" not in name))


@scenario
def which_saver_a_hook_uses(tf, story):
    step, add = counter(tf)
    with story.raises():
        tf.train.CheckpointSaverHook(
            story.folder, save_steps=1, saver=tf.train.Saver(), scaffold=tf.train.Scaffold()
        )
    for arguments in ({}, {"save_steps": 1, "save_secs": 1}):
        with story.raises():
            tf.train.CheckpointSaverHook(story.folder, **arguments)
    hook = tf.train.CheckpointSaverHook(story.folder, save_steps=1)
    hook.begin()
    with tf.Session() as session, story.raises():
        session.run(step.initializer)
        hook.after_create_session(session, None)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(add)
    story.note(checkpoints(story.folder))


@scenario
def nothing_is_saved_at_a_bad_end(tf, story):
    _, add = counter(tf)
    saver = tf.train.CheckpointSaverHook(story.folder, save_steps=100, saver=tf.train.Saver())
    with story.raises():
        with tf.train.MonitoredSession(hooks=[saver]) as session:
            for _ in range(3):
                session.run(add)
            raise KeyError("mine")
    story.note(checkpoints(story.folder))


@scenario
def final_operations(tf, story):
    step, add = counter(tf)
    x = tf.placeholder(tf.float32, [], name="x")
    hook = tf.train.FinalOpsHook({"step": step, "twice": x * 2.0}, {x: 4.0})
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(add)
        story.note(hook.final_ops_values)
    story.note(hook.final_ops_values)
    queue = tf.FIFOQueue(1, tf.int32)
    with tf.Session() as session:
        session.run(queue.close())
    ended = tf.train.FinalOpsHook(queue.dequeue())
    close = queue.close()
    with story.logs(tf, "FinalOpsHook", text=False), story.raises(text=False):
        with tf.train.MonitoredSession(hooks=[ended]) as session:
            session.run(close)


@scenario
def feeding_by_a_function(tf, story):
    x = tf.placeholder(tf.float32, [], name="x")
    tenfold = x * 10.0
    values = iter([1.0, 2.0, 3.0])
    hook = tf.train.FeedFnHook(lambda: {x: next(values)})
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        while not session.should_stop():
            story.note(session.run(tenfold))
    story.note("after the block")


@scenario
def profiling(tf, story):
    _, add = counter(tf)
    hook = tf.train.ProfilerHook(save_steps=2, output_dir=story.folder)
    with story.logs(tf, "timeline"):
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(6):
                session.run(add)
    tf.summary.FileWriterCache.clear()
    story.note(sorted(name for name in os.listdir(story.folder) if "tfevents" not in name))
    story.note([event for event in event_files(tf, story.folder)])


@scenario
def waiting_for_a_global_step_that_is_there(tf, story):
    step, add = counter(tf)
    hook = tf.train.GlobalStepWaiterHook(2)
    to_two = step.assign(2)
    scaffold = tf.train.Scaffold(init_fn=lambda scaffold, session: session.run(to_two))
    with story.logs(tf, "global step"):
        creator = tf.train.ChiefSessionCreator(scaffold)
        with tf.train.MonitoredSession(creator, hooks=[hook]) as session:
            story.note(session.run(add))
            story.note(session.run(add))


@scenario
def timers(tf, story):
    timer = tf.train.SecondOrStepTimer(every_steps=3)
    story.note(timer.last_triggered_step())
    for step in (5, 5, 6, 7, 8, 9, 11, 20):
        trigger = timer.should_trigger_for_step(step)
        story.note(step, trigger)
        if trigger:
            seconds, steps = timer.update_last_triggered_step(step)
            story.note(seconds is None, steps, timer.last_triggered_step())
    timer.reset()
    story.note(timer.should_trigger_for_step(20))
    for arguments in ({}, {"every_secs": 1, "every_steps": 1}):
        with story.raises():
            tf.train.SecondOrStepTimer(**arguments)
