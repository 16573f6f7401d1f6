"""The layers of a monitored session, around sessions that fail on command."""

import threading

import pytest

import millrace as tf
from millrace.core import errors
from millrace.training.sessions import session_layers
from millrace.training.sessions.session_layers import (
    CoordinatedSession,
    HookedSession,
    RecoverableSession,
    WrappedSession,
)

RECOVERABLE = [tf.errors.AbortedError, tf.errors.UnavailableError]


class ScriptedSession:
    """Runs give the next item of a list, or raise it."""

    graph = "graph"
    sess_str = "target"

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.asked = []
        self.closed = 0

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        self.asked.append((fetches, feed_dict, options, run_metadata))
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(fetches, dict):
            return {key: outcome for key in fetches}
        return outcome

    def close(self):
        self.closed += 1


class Maker:
    """Makes coordinated sessions around scripted ones, or fails to."""

    def __init__(self, *scripts):
        self.scripts = list(scripts)
        self.coordinators = []

    def create_session(self):
        script = self.scripts.pop(0)
        if isinstance(script, Exception):
            raise script
        self.coordinators.append(tf.train.Coordinator(clean_stop_exception_types=[]))
        return CoordinatedSession(HookedSession(script, []), self.coordinators[-1], 5)


def test_the_recoverable_errors_are_aborted_and_unavailable():
    assert set(errors.RECOVERABLE) == set(RECOVERABLE)


def test_a_wrapped_session_passes_on():
    inner = ScriptedSession("value")
    session = WrappedSession(inner)
    assert (session.graph, session.sess_str) == ("graph", "target")
    assert session.run("x") == "value"
    assert not session.should_stop()
    session.close()
    session.close()
    assert inner.closed == 1
    assert session.should_stop()


@pytest.mark.parametrize("kind", RECOVERABLE)
def test_a_session_that_cannot_be_closed_because_of_a_fault_is_closed(kind, log_lines):
    class Unclosable(ScriptedSession):
        def close(self):
            raise kind(None, None, "ps 1 is gone")

    session = WrappedSession(Unclosable())
    session.close()
    assert session.should_stop()
    assert "ps 1 is gone" in log_lines[-1][1]


def test_options_of_the_caller_are_not_changed_by_hooks():
    class Traces(tf.train.SessionRunHook):
        def before_run(self, run_context):
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            options.debug_options.reset_disk_byte_usage = True
            return tf.train.SessionRunArgs(None, options=options)

    inner = ScriptedSession(1)
    mine = tf.RunOptions(timeout_in_ms=5)
    HookedSession(inner, [Traces()]).run("x", options=mine)
    assert mine == tf.RunOptions(timeout_in_ms=5)
    used = inner.asked[0][2]
    assert (used.trace_level, used.timeout_in_ms) == (tf.RunOptions.FULL_TRACE, 5)
    assert used.debug_options.reset_disk_byte_usage


def test_hooks_are_called_every_step_whether_they_ask_for_something_or_not():
    told = []

    class Sometimes(tf.train.SessionRunHook):
        def __init__(self, steps):
            self.steps = list(steps)

        def before_run(self, run_context):
            assert run_context.original_args == tf.train.SessionRunArgs("x", None)
            return self.steps.pop(0)

        def after_run(self, run_context, run_values):
            assert isinstance(run_values.options, tf.RunOptions)
            assert isinstance(run_values.run_metadata, tf.RunMetadata)
            told.append(run_values.results)

    nothing, something = tf.train.SessionRunArgs(None), tf.train.SessionRunArgs("y")
    inner = ScriptedSession(1, 2, 3, 4)
    hooks = [Sometimes([None, None, nothing, something]), Sometimes([None, something, None, None])]
    session = HookedSession(inner, hooks)
    assert [session.run("x") for _ in range(4)] == [1, 2, 3, 4]
    assert told == [None, None, None, 2, None, None, 4, None]
    asked = [fetches for fetches, *_ in inner.asked]
    assert asked[0] == asked[2] == "x"
    assert [list(fetches.values()) for fetches in (asked[1], asked[3])] == [["y", "x"]] * 2


def test_a_session_without_hooks_runs_what_it_is_asked_for_and_nothing_else():
    inner = ScriptedSession(1, 2)
    session = HookedSession(inner, [])
    options = tf.RunOptions(timeout_in_ms=5)
    assert session.run("x") == 1
    assert session.run("x", {"y": 1}, options=options) == 2
    assert inner.asked == [("x", None, None, None), ("x", {"y": 1}, options, None)]


def test_hooks_that_do_nothing_around_a_step_do_not_change_how_it_is_run():
    class Watcher(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            seen.append(run_values.results)

    seen = []
    script = ScriptedSession("first", "second")
    assert HookedSession(script, [tf.train.SessionRunHook()]).run("fetch", {"x": 1}) == "first"
    assert HookedSession(script, [tf.train.SessionRunHook(), Watcher()]).run("fetch") == "second"
    assert script.asked == [("fetch", {"x": 1}, None, None), ("fetch", None, None, None)]
    assert seen == [None]


@pytest.mark.parametrize("method", ["before_run", "after_run"])
def test_an_error_of_a_hook_says_which_hook(method):
    class Broken(tf.train.SessionRunHook):
        pass

    def fail(self, *args):
        raise LookupError("mine")

    setattr(Broken, method, fail)
    with pytest.raises(LookupError, match="mine") as raised:
        HookedSession(ScriptedSession(1), [Broken()]).run("x")
    assert any(f"{method} of Broken" in note for note in raised.value.__notes__)


def test_tensors_that_are_fed_twice_are_named():
    class Feeds(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs(None, feed_dict={"x:0": 1})

    with pytest.raises(RuntimeError, match="two hooks.*x:0"):
        HookedSession(ScriptedSession(1), [Feeds(), Feeds()]).run("y")
    with pytest.raises(RuntimeError, match="SessionRunHook and user.*x:0"):
        HookedSession(ScriptedSession(1), [Feeds()]).run("y", feed_dict={"x:0": 2})


# -- Coordination --------------------------------------------------------------------------


def coordinated(*outcomes, grace=5):
    coordinator = tf.train.Coordinator(clean_stop_exception_types=[])
    inner = ScriptedSession(*outcomes)
    return CoordinatedSession(HookedSession(inner, []), coordinator, grace), coordinator, inner


def test_closing_stops_the_threads_and_then_the_session():
    session, coordinator, inner = coordinated()
    seen = []

    def work():
        coordinator.wait_for_stop()
        seen.append(inner.closed)

    thread = threading.Thread(target=work)
    coordinator.register_thread(thread)
    thread.start()
    session.close()
    assert seen == [0]
    assert inner.closed == 1
    assert not thread.is_alive()


def test_the_error_of_a_thread_comes_out_of_close():
    session, coordinator, inner = coordinated()
    coordinator.request_stop(LookupError("in a thread"))
    with pytest.raises(LookupError, match="in a thread"):
        session.should_stop()
    with pytest.raises(LookupError, match="in a thread"):
        session.close()
    assert inner.closed == 1


@pytest.mark.parametrize("kind", RECOVERABLE)
def test_a_fault_in_a_thread_is_the_cause_of_a_failed_step(kind):
    session, coordinator, _ = coordinated(tf.errors.CancelledError(None, None, "queue closed"))
    coordinator.request_stop(kind(None, None, "ps 0 restarted"))
    with pytest.raises(kind, match="ps 0 restarted"):
        session.run("x")


def test_another_error_in_a_thread_does_not_hide_that_of_the_step():
    session, coordinator, _ = coordinated(tf.errors.CancelledError(None, None, "queue closed"))
    coordinator.request_stop(LookupError("in a thread"))
    with pytest.raises(tf.errors.CancelledError, match="queue closed"):
        session.run("x")


# -- Recovery ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", RECOVERABLE)
def test_a_failed_step_is_run_again_in_a_new_session_at_once(kind, fake_clock, log_lines):
    first, second = ScriptedSession(kind(None, None, "ps 0 restarted")), ScriptedSession("value")
    session = RecoverableSession(Maker(first, second), clock=fake_clock.clock)
    assert session.run("x", feed_dict={"y": 1}) == "value"
    assert first.closed == 1
    assert second.asked[0][:2] == ("x", {"y": 1})
    assert fake_clock.sleeps == []
    assert any(level == "WARNING" and "ps 0 restarted" in text for level, text in log_lines)


def test_repeated_faults_are_waited_out(fake_clock, log_lines):
    fault = tf.errors.UnavailableError(None, None, "ps 0 is away")
    scripts = [fault] * 60 + [ScriptedSession("value")]
    session = RecoverableSession(Maker(*scripts), clock=fake_clock.clock)
    assert session.run("x") == "value"
    assert 10 < fake_clock.time - 1000 < 30  # Neither a busy loop nor a long sleep.
    said = [text for level, text in log_lines if level == "WARNING"]
    assert said
    assert all("ps 0 is away" in text and "Check that every task" in text for text in said)


def test_steps_that_fail_in_every_new_session_are_waited_out(fake_clock):
    fault = tf.errors.AbortedError(None, None, "again")
    scripts = [ScriptedSession(fault) for _ in range(20)] + [ScriptedSession("value", "next")]
    session = RecoverableSession(Maker(*scripts), clock=fake_clock.clock)
    assert session.run("x") == "value"
    assert 3 < fake_clock.time - 1000 < 10
    assert session.run("x") == "next"


@pytest.mark.parametrize("kind", RECOVERABLE)
def test_a_fault_in_a_thread_makes_a_new_session(kind, fake_clock):
    maker = Maker(ScriptedSession(), ScriptedSession("value"))
    session = RecoverableSession(maker, clock=fake_clock.clock)
    maker.coordinators[0].request_stop(kind(None, None, "in a queue runner"))
    assert not session.should_stop()
    assert session.run("x") == "value"


def test_another_error_in_a_thread_ends_the_training(fake_clock):
    maker = Maker(ScriptedSession())
    session = RecoverableSession(maker, clock=fake_clock.clock)
    maker.coordinators[0].request_stop(LookupError("in a thread"))
    assert session.should_stop()
    with pytest.raises(LookupError, match="in a thread"):
        session.close()


def test_what_threads_report_because_of_a_fault_does_not_end_the_training(fake_clock):
    maker = Maker(
        ScriptedSession(tf.errors.AbortedError(None, None, "ps 0 restarted")),
        ScriptedSession("value"),
    )
    session = RecoverableSession(maker, clock=fake_clock.clock)
    maker.coordinators[0].request_stop(tf.errors.CancelledError(None, None, "enqueue cancelled"))
    assert session.run("x") == "value"


def test_threads_that_are_blocked_in_the_broken_session_do_not_delay_recovery(
    fake_clock, monkeypatch
):
    """They end when the session is closed, which is not after the whole grace period."""
    assert session_layers._FAULT_GRACE_SECONDS <= 1
    monkeypatch.setattr(session_layers, "_FAULT_GRACE_SECONDS", 0.02)

    class Blocking(ScriptedSession):
        def __init__(self, *outcomes):
            super().__init__(*outcomes)
            self.ended = threading.Event()

        def close(self):
            super().close()
            self.ended.set()

    broken = Blocking(tf.errors.AbortedError(None, None, "ps 0 restarted"))
    maker = Maker(broken, ScriptedSession("value"))
    session = RecoverableSession(maker, clock=fake_clock.clock)
    session._sess._stop_grace_period_secs = 120
    thread = threading.Thread(target=broken.ended.wait, args=(600,), daemon=True)
    maker.coordinators[0].register_thread(thread)
    thread.start()
    assert session.run("x") == "value"
    thread.join(60)
    assert not thread.is_alive()


def test_a_step_function_gets_the_session_of_now(fake_clock):
    first = ScriptedSession(tf.errors.AbortedError(None, None, "ps 0 restarted"))
    second = ScriptedSession("value")
    maker = Maker(first, second)
    session = RecoverableSession(maker, clock=fake_clock.clock)
    current = iter([first, second])
    seen = []

    def step_fn(step_context):
        seen.append(step_context.session)
        return step_context.run_with_hooks("x")

    assert session.run_step_fn(step_fn, lambda: next(current)) == "value"
    assert seen == [first, second]


def test_a_closed_session_should_stop(fake_clock):
    session = RecoverableSession(Maker(ScriptedSession()), clock=fake_clock.clock)
    assert not session.should_stop()
    session.close()
    assert session.should_stop()
