"""Stories of monitored sessions: steps, hooks, faults."""

# ruff: noqa: SIM117 - what an outer block notes of an inner one is the point
from __future__ import annotations

from session_stories.story import checkpoints, counter, recording_hook, scenario


@scenario
def hooks_are_called_in_order(tf, story):
    _, add = counter(tf)
    x = tf.constant(3.0, name="x")
    first = recording_hook(tf, story, "first", fetches={"x": x, "nothing": []})
    second = recording_hook(tf, story, "second", stop_after=2)
    with tf.train.MonitoredSession(hooks=[first, second]) as session:
        story.note("graph", session.graph is tf.get_default_graph())
        while not session.should_stop():
            story.note("value", session.run(add))
        story.note("stopped", session.should_stop())
        with story.raises():
            session.run(add)
    story.note("finalized", tf.get_default_graph().finalized, "closed", session.should_stop())


@scenario
def hooks_of_a_singular_session_are_called_in_order(tf, story):
    step, add = counter(tf)
    hook = recording_hook(tf, story, fetches=tf.constant(7, name="seven"), stop_after=2)
    with tf.train.SingularMonitoredSession(hooks=[hook]) as session:
        while not session.should_stop():
            story.note("value", session.run([add]))
        story.note("raw", session.raw_session().run(step))
    story.note("raw", session.raw_session())


@scenario
def a_finalized_graph_stays_finalized(tf, story):
    _, add = counter(tf)
    scaffold = tf.train.Scaffold()
    scaffold.finalize()
    with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold)) as session:
        session.run(add)
    story.note("finalized", tf.get_default_graph().finalized)


def _failing(tf, story, where):
    _, add = counter(tf)
    before = recording_hook(tf, story, "before")
    failing = recording_hook(tf, story, "failing", raises=where)
    after = recording_hook(tf, story, "after")
    with story.raises():
        with tf.train.MonitoredSession(hooks=[before, failing, after]) as session:
            for _ in range(2):
                story.note("value", session.run(add))


@scenario
def a_hook_fails_in_begin(tf, story):
    _failing(tf, story, "begin")


@scenario
def a_hook_fails_in_after_create_session(tf, story):
    _failing(tf, story, "after_create_session")


@scenario
def a_hook_fails_in_before_run(tf, story):
    _failing(tf, story, "before_run")


@scenario
def a_hook_fails_in_after_run(tf, story):
    _failing(tf, story, "after_run")


@scenario
def the_block_fails(tf, story):
    _, add = counter(tf)
    with story.raises():
        with tf.train.MonitoredSession(hooks=[recording_hook(tf, story)]) as session:
            session.run(add)
            raise KeyError("mine")


@scenario
def the_input_ends(tf, story):
    queue = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    count = tf.Variable(0, name="count", trainable=False)
    enqueue = queue.enqueue(count.count_up_to(3))
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue]))
    item = queue.dequeue()
    with tf.train.MonitoredSession(hooks=[recording_hook(tf, story)]) as session:
        while not session.should_stop():
            story.note("item", session.run(item))
    story.note("after the block")


@scenario
def stop_iteration_ends_the_block_well(tf, story):
    _, add = counter(tf)
    with tf.train.MonitoredSession(hooks=[recording_hook(tf, story)]) as session:
        session.run(add)
        raise StopIteration
    story.note("after the block")


@scenario
def feeds_of_hooks_and_caller(tf, story):
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.placeholder(tf.float32, [], name="y")
    total = x + y
    feeds_x = recording_hook(tf, story, "feeds x", feeds={x: 1.0})
    with tf.train.MonitoredSession(hooks=[feeds_x]) as session:
        story.note("total", session.run(total, feed_dict={y: 2.0}))
        with story.raises():
            session.run(total, feed_dict={x: 5.0, y: 2.0})
    also_x = recording_hook(tf, story, "also x", feeds={x: 3.0})
    with story.raises():
        with tf.train.MonitoredSession(hooks=[feeds_x, also_x]) as session:
            session.run(total, feed_dict={y: 2.0})


@scenario
def options_of_hooks_and_caller_are_merged(tf, story):
    _, add = counter(tf)

    class Traces(tf.train.SessionRunHook):
        def before_run(self, run_context):
            options = tf.RunOptions(
                trace_level=tf.RunOptions.SOFTWARE_TRACE,
                timeout_in_ms=30000,
                output_partition_graphs=False,
            )
            return tf.train.SessionRunArgs(None, options=options)

        def after_run(self, run_context, run_values):
            options = run_values.options
            story.note(options.trace_level, options.timeout_in_ms, options.output_partition_graphs)

    with tf.train.MonitoredSession(hooks=[Traces()]) as session:
        session.run(add)
        session.run(
            add,
            options=tf.RunOptions(
                trace_level=tf.RunOptions.FULL_TRACE,
                timeout_in_ms=20000,
                output_partition_graphs=True,
            ),
        )


@scenario
def step_functions(tf, story):
    x = tf.placeholder(tf.float32, [], name="x")
    plus = x + 4.0
    hook = recording_hook(tf, story)

    def step_fn(step_context):
        story.note("raw", step_context.session.run(plus, {x: 0.5}))
        return step_context.run_with_hooks(plus, feed_dict={x: 1.0})

    def stopping(step_context):
        step_context.request_stop()

    def wrong(context):
        raise AssertionError

    class Program:
        def method(self, step_context):
            return step_context.run_with_hooks(plus, feed_dict={x: 2.0})

    with tf.train.MonitoredSession(hooks=[hook]) as session:
        story.note("result", session.run_step_fn(step_fn))
        story.note("result", session.run_step_fn(Program().method))
        with story.raises():
            session.run_step_fn(wrong)
        with story.raises():
            session.run_step_fn(lambda step_context, other: None)
        story.note(session.should_stop())
        session.run_step_fn(stopping)
        story.note("not reached")
    story.note("after the block")


def _fragile(tf, story, faults, hooks=(), creator=None):
    """A monitored session whose sessions fail in the runs that `faults` names, by session."""

    def make_fragile(session, number):
        run, close, runs = session.run, session.close, []

        def fragile_run(fetches, *args, **kwargs):
            # What the caller fetches is beside what hooks fetch; in Millrace only if there are any.
            if "caller" in fetches if isinstance(fetches, dict) else not hooks:
                runs.append(1)
                fault = faults.get((number, len(runs)))
                if fault is not None:
                    raise fault
            return run(fetches, *args, **kwargs)

        def noted_close():
            # Once: a session that is garbage closes itself as well.
            if ("closed", number) not in faults:
                faults["closed", number] = None
                story.note("session", number, "closed")
            close()

        def run_of_the_hooked_session(
            fetches=None, feed_dict=None, options=None, run_metadata=None
        ):
            return fragile_run(fetches, feed_dict, options, run_metadata)

        session.run, session.close = run_of_the_hooked_session, noted_close
        return session

    class Creator(tf.train.SessionCreator):
        made = 0

        def create_session(self):
            Creator.made += 1
            story.note("session", Creator.made, "asked for")
            fault = faults.get(Creator.made)
            if fault is not None:
                raise fault
            session = (creator or tf.train.ChiefSessionCreator()).create_session()
            return make_fragile(session, Creator.made)

    return tf.train.MonitoredSession(session_creator=Creator(), hooks=list(hooks))


def _error(tf, name):
    return getattr(tf.errors, name)(None, None, "injected")


@scenario
def aborted_and_unavailable_steps_are_run_again(tf, story):
    _, add = counter(tf)
    faults = {(1, 2): _error(tf, "AbortedError"), (2, 1): _error(tf, "UnavailableError")}
    hook = recording_hook(tf, story, fetches=tf.constant(7, name="seven"))
    with _fragile(tf, story, faults, [hook]) as session:
        for _ in range(3):
            story.note("value", session.run(add))


@scenario
def a_session_that_cannot_be_made_is_asked_for_again(tf, story):
    _, add = counter(tf)
    faults = {1: _error(tf, "UnavailableError"), 2: _error(tf, "AbortedError")}
    with _fragile(tf, story, faults, [recording_hook(tf, story)]) as session:
        story.note("value", session.run(add))


@scenario
def other_errors_are_not_recovered_from(tf, story):
    _, add = counter(tf)
    for name in ("InternalError", "CancelledError", "DeadlineExceededError", "UnknownError"):
        with story.raises():
            with _fragile(tf, story, {(1, 2): _error(tf, name)}) as session:
                story.note("value", session.run(add))
                session.run(add)


@scenario
def a_step_function_is_called_again_after_a_fault(tf, story):
    _, add = counter(tf)
    calls = []

    def step_fn(step_context):
        calls.append(1)
        story.note("called", len(calls))
        return step_context.run_with_hooks(add)

    with _fragile(tf, story, {(1, 1): _error(tf, "AbortedError")}) as session:
        story.note("value", session.run_step_fn(step_fn))


@scenario
def a_singular_session_does_not_recover(tf, story):
    _, add = counter(tf)

    class Failing(tf.train.SessionRunHook):
        def before_run(self, run_context):
            raise _error(tf, "AbortedError")

    with story.raises():
        with tf.train.SingularMonitoredSession(hooks=[Failing()]) as session:
            session.run(add)


@scenario
def a_hook_that_raises_aborted_makes_a_new_session(tf, story):
    _, add = counter(tf)
    failed = []

    class Failing(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            if not failed:
                failed.append(1)
                raise _error(tf, "AbortedError")

    with _fragile(tf, story, {}, [recording_hook(tf, story), Failing()]) as session:
        story.note("value", session.run(add))


@scenario
def the_training_goes_on_from_the_newest_checkpoint_after_a_fault(tf, story):
    _, add = counter(tf)
    creator = tf.train.ChiefSessionCreator(checkpoint_dir=story.folder)
    saver = tf.train.CheckpointSaverHook(story.folder, save_steps=2, saver=tf.train.Saver())
    faults = {(1, 4): _error(tf, "AbortedError")}
    with _fragile(tf, story, faults, [saver], creator) as session:
        for _ in range(5):
            story.note("value", session.run(add))
    story.note(checkpoints(story.folder))
