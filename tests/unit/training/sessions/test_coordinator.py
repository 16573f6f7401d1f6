"""Threads that stop together."""

import threading
import time

import pytest

import millrace as tf
from millrace.training.sessions import waiting


@pytest.fixture
def coordinator():
    return tf.train.Coordinator()


def started(*targets):
    threads = [threading.Thread(target=target, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    return threads


def test_all_threads_see_a_stop(coordinator):
    threads = started(*[coordinator.wait_for_stop] * 3)
    assert not coordinator.should_stop()
    coordinator.request_stop()
    assert coordinator.should_stop()
    coordinator.join(threads)
    assert coordinator.joined and not any(thread.is_alive() for thread in threads)


def test_join_returns_when_the_threads_end_by_themselves(coordinator):
    coordinator.join(started(lambda: None))
    assert not coordinator.should_stop()


def test_join_waits_for_registered_threads_too(coordinator):
    release = threading.Event()
    for thread in started(release.wait):
        coordinator.register_thread(thread)
    coordinator.request_stop()
    release.set()
    coordinator.join()
    assert not thread.is_alive()


def test_join_raises_the_first_exception(coordinator):
    def fail(number, after):
        def target():
            with coordinator.stop_on_exception():
                if after is not None:
                    coordinator.wait_for_stop()
                raise RuntimeError(f"failure {number}")

        return target

    threads = started(fail(1, None), fail(2, 1))
    with pytest.raises(RuntimeError, match="failure 1") as caught:
        coordinator.join(threads)
    assert caught.value.__traceback__ is not None
    with pytest.raises(RuntimeError, match="failure 1"):
        coordinator.raise_requested_exception()


def test_exceptions_are_reported_as_such_and_as_exc_info(coordinator):
    error = KeyError("gone")
    coordinator.request_stop(error)
    with pytest.raises(KeyError):
        coordinator.join()
    coordinator.clear_stop()
    coordinator.request_stop((KeyError, error, None))
    with pytest.raises(KeyError):
        coordinator.join()


def test_the_end_of_input_is_a_clean_stop(coordinator):
    with coordinator.stop_on_exception():
        raise tf.errors.OutOfRangeError(None, None, "no more")
    assert coordinator.should_stop()
    coordinator.join()
    coordinator.raise_requested_exception()


def test_which_exceptions_are_clean_can_be_said():
    coordinator = tf.train.Coordinator(clean_stop_exception_types=(KeyError,))
    coordinator.request_stop(KeyError("fine"))
    coordinator.join()
    coordinator.clear_stop()
    coordinator.request_stop(tf.errors.OutOfRangeError(None, None, "not fine"))
    with pytest.raises(tf.errors.OutOfRangeError):
        coordinator.join()


def test_threads_that_do_not_end_in_time_are_named(coordinator):
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="the-straggler", daemon=True)
    thread.start()
    coordinator.request_stop()
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="threads still running: the-straggler"):
        coordinator.join([thread], stop_grace_period_secs=0.05)
    assert time.monotonic() - began < 60  # and not the two minutes that it waits otherwise
    coordinator.join([thread], stop_grace_period_secs=0.01, ignore_live_threads=True)
    release.set()
    thread.join()


def test_an_exception_after_the_join_is_raised_at_once(coordinator):
    coordinator.request_stop()
    coordinator.join()
    with pytest.raises(ValueError, match="late"):
        coordinator.request_stop(ValueError("late"))


def test_a_coordinator_can_be_used_again(coordinator):
    coordinator.request_stop(ValueError("first life"))
    with pytest.raises(ValueError):
        coordinator.join()
    coordinator.clear_stop()
    assert not coordinator.should_stop() and not coordinator.joined
    coordinator.join()
    assert not coordinator.wait_for_stop(0.001)


def test_a_looper_calls_its_function_until_the_stop(coordinator):
    calls = []

    def call(value):
        calls.append(value)
        if len(calls) == 3:
            coordinator.request_stop()

    looper = tf.train.LooperThread.loop(coordinator, 0.001, call, args=("x",))
    coordinator.join([looper], stop_grace_period_secs=20)
    assert calls == ["x"] * 3


def test_a_looper_begins_and_ends_its_loop_once(coordinator):
    class Looper(tf.train.LooperThread):
        events: list[str] = []  # noqa: RUF012

        def start_loop(self):
            self.events.append("start")

        def run_loop(self):
            self.events.append("run")
            coordinator.request_stop()

        def stop_loop(self):
            self.events.append("stop")

    looper = Looper(coordinator, None)
    looper.start()
    coordinator.join(stop_grace_period_secs=20)
    assert looper.events == ["start", "run", "stop"]


def test_an_exception_in_a_looper_stops_all(coordinator):
    def fail():
        raise ValueError("in the loop")

    tf.train.LooperThread.loop(coordinator, None, fail)
    with pytest.raises(ValueError, match="in the loop"):
        coordinator.join(stop_grace_period_secs=20)


def test_a_looper_needs_a_coordinator_and_arguments_a_function(coordinator):
    with pytest.raises(ValueError, match="must be a Coordinator"):
        tf.train.LooperThread(None, 1)
    with pytest.raises(ValueError, match="require that you also pass 'target'"):
        tf.train.LooperThread(coordinator, 1, args=(1,))


def test_a_join_says_which_threads_it_waits_for(monkeypatch, log_lines):
    monkeypatch.setattr(waiting, "_FIRST_WORD", 0.0)
    coordinator = tf.train.Coordinator()
    release = threading.Event()
    thread = threading.Thread(target=release.wait, args=(20,), name="stubborn", daemon=True)
    thread.start()
    coordinator.request_stop()
    with pytest.raises(RuntimeError, match="stubborn"):
        coordinator.join([thread], stop_grace_period_secs=0.05)
    release.set()
    thread.join()
    said = [text for level, text in log_lines if level == "WARNING"]
    assert len(said) == 1
    assert "threads to end" in said[0]
    assert "stubborn" in said[0]
