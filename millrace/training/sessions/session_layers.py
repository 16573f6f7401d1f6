"""The layers of a monitored session, from the inside out.

    HookedSession        adds the hooks' fetches and feeds to each step
    CoordinatedSession   stops and joins the session's threads; their errors come out of `run`
    RecoverableSession   makes all of the above again after an error in `errors.RECOVERABLE`

Each wraps the next one in, and at the bottom is a `tf.Session`. A closed layer holds nothing. This
module knows neither checkpoints nor graphs: a session creator makes what it wraps.
"""

from __future__ import annotations

import functools
import secrets
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

from millrace.core import errors
from millrace.core.config import RunMetadata, RunOptions
from millrace.platform import logging
from millrace.protocol.step.applied_steps import StepAttempt, StepCounter, StepFunction
from millrace.server.drivers import current_attempt
from millrace.training.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from millrace.training.sessions.coordinator import Coordinator
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock, Wait

#: How long threads of a session that met a fault may take to end by themselves. Those that are
#: blocked in a step end when the session is closed; to wait longer would only delay the recovery.
_FAULT_GRACE_SECONDS = 1.0
#: What threads of a session report when a fault has broken it.
_CONSEQUENCES: tuple[type[errors.OpError], ...] = (*errors.RECOVERABLE, errors.CancelledError)


class StepContext:
    """What a step function of `run_step_fn` works with."""

    def __init__(self, session: Any, run_with_hooks_fn: Callable[..., Any]) -> None:
        """Makes a context.

        Args:
          session: The `tf.Session`.
          run_with_hooks_fn: Runs a step with hooks.
        """
        self._session = session
        self._run_with_hooks_fn = run_with_hooks_fn

    @property
    def session(self) -> Any:
        """The `tf.Session`: what it runs, no hook sees."""
        return self._session

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """As `MonitoredSession.run`."""
        return self._run_with_hooks_fn(*args, **kwargs)

    def request_stop(self) -> None:
        """Ends the training, and the step function.

        Raises:
          StopIteration: Always.
        """
        raise StopIteration("step_fn has requested the iterations to stop.")


class WrappedSession:
    """A session around a session, that knows whether to stop."""

    def __init__(self, sess: Any) -> None:
        """Wraps a `tf.Session` or another layer."""
        self._sess = sess

    @property
    def graph(self) -> Any:
        """The graph."""
        return self._sess.graph

    @property
    def sess_str(self) -> Any:
        """The target."""
        return self._sess.sess_str

    def should_stop(self) -> bool:
        """Whether the session is not to be used any more, because of any layer."""
        if self._check_stop():
            return True
        if self._sess is None:
            return True
        return isinstance(self._sess, WrappedSession) and self._sess.should_stop()

    def _check_stop(self) -> bool:
        """Whether this layer wants to stop."""
        return False

    def close(self) -> None:
        """Closes what is wrapped; that a task cannot be reached is only logged."""
        if self._sess is None:
            return
        try:
            self._sess.close()
        except errors.RECOVERABLE as error:
            logging.error(
                "An error occurred when attempting to close the session. This may be due to a "
                "preemption in a connected worker or parameter server. Error: %s",
                error,
            )
        finally:
            self._sess = None

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Runs a step."""
        return self._sess.run(fetches, feed_dict, options, run_metadata)

    def run_step_fn(
        self, step_fn: Callable[[StepContext], Any], raw_session: Callable[[], Any]
    ) -> Any:
        """Calls a step function with the `tf.Session` of now and this layer's `run`."""
        return step_fn(StepContext(raw_session(), self.run))


#: Where the caller's fetches are among those of the hooks.
_CALLER = "caller"


class HookedSession(WrappedSession):
    """Runs steps with what hooks add to them; with no hooks, just steps."""

    def __init__(self, sess: Any, hooks: Iterable[SessionRunHook]) -> None:
        """Wraps a `tf.Session`."""
        super().__init__(sess)
        self._hooks = list(hooks)
        #: Those that have something to say before, and after, a step: many only begin and end.
        self._before = [hook for hook in self._hooks if _has_own(hook, "before_run")]
        self._after = [hook for hook in self._hooks if _has_own(hook, "after_run")]
        self._should_stop = False

    def _check_stop(self) -> bool:
        return self._should_stop

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Runs a step, with the hooks called before and after.

        Raises:
          RuntimeError: A hook asked to stop earlier, or two feed one tensor.
        """
        session = self._sess
        if self._should_stop or session is None:
            raise RuntimeError("Run called even after should_stop requested.")
        if not self._before and not self._after:
            return session.run(fetches, feed_dict, options, run_metadata)
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict), session)
        step_options = RunOptions()
        if options is not None:
            # A copy: what hooks ask for one step must not stay in the caller's message.
            step_options.CopyFrom(options)
        metadata = RunMetadata() if run_metadata is None else run_metadata
        wanted: dict[Any, Any] = {}
        aside = current_attempt.set_aside()  # What hooks run beside the step is no part of it.
        try:
            feeds, has_options = self._ask_hooks(context, wanted, feed_dict, step_options)
        finally:
            current_attempt.resume(aside)
        # Where nobody asks how the step is run, the session need not look.
        special = has_options or options is not None or run_metadata is not None
        how = (step_options, metadata) if special else ()
        if wanted:
            wanted[_CALLER] = fetches
            found = session.run(wanted, feeds, *how)
            outputs = found[_CALLER]
        else:
            found = wanted
            outputs = session.run(fetches, feeds, *how)
        aside = current_attempt.set_aside()
        try:
            for hook in self._after:
                values = SessionRunValues(found.get(hook), step_options, metadata)
                try:
                    hook.after_run(context, values)
                except Exception as error:
                    _blame(hook, "after_run", error)
                    raise
        finally:
            current_attempt.resume(aside)
        if context.stop_requested:
            self._should_stop = True
        return outputs

    def _ask_hooks(
        self, context: SessionRunContext, fetches: dict[Any, Any], feed_dict: Any, options: Any
    ) -> tuple[Any, bool]:
        """Adds the hooks' fetches and options; the feeds of all, and whether any had options."""
        hook_feeds: dict[Any, Any] = {}
        has_options = False
        for hook in self._before:
            try:
                request = hook.before_run(context)
            except Exception as error:
                _blame(hook, "before_run", error)
                raise
            if request is None:
                continue
            if request.fetches is not None:
                fetches[hook] = request.fetches
            if request.feed_dict:
                _raise_if_fed_twice(
                    hook_feeds, request.feed_dict, "Same tensor is fed by two hooks."
                )
                hook_feeds.update(request.feed_dict)
            if request.options:
                _merge_options(options, request.options)
                has_options = True
        if not hook_feeds:
            return feed_dict, has_options
        if feed_dict:
            _raise_if_fed_twice(
                feed_dict, hook_feeds, "Same tensor is fed by a SessionRunHook and user."
            )
            hook_feeds.update(feed_dict)
        return hook_feeds, has_options


def _has_own(hook: SessionRunHook, method: str) -> bool:
    """Whether a hook does anything in a method."""
    found = getattr(getattr(hook, method, None), "__func__", None)
    return found is not getattr(SessionRunHook, method)


def _blame(hook: SessionRunHook, method: str, error: Exception) -> None:
    """An error keeps its class, and says which hook raised it."""
    error.add_note(f"raised by {method} of {type(hook).__name__} ({hook!r})")


def _raise_if_fed_twice(some: Any, others: Any, message: str) -> None:
    both = set(some) & set(others)
    if both:
        names = ", ".join(sorted(str(getattr(key, "name", key)) for key in both))
        raise RuntimeError(f"{message} Conflict(s): {names}")


def _merge_options(options: Any, more: Any) -> None:
    """Makes `options` ask for all that both ask for; of numbers, the larger counts."""
    for field in ("trace_level", "timeout_in_ms", "inter_op_thread_pool"):
        setattr(options, field, max(getattr(options, field), getattr(more, field)))
    for field in ("output_partition_graphs", "report_tensor_allocations_upon_oom"):
        setattr(options, field, getattr(options, field) or getattr(more, field))
    if more.HasField("debug_options"):
        watches = more.debug_options.debug_tensor_watch_opts
        options.debug_options.debug_tensor_watch_opts.extend(watches)
        if more.debug_options.reset_disk_byte_usage:
            options.debug_options.reset_disk_byte_usage = True


class CoordinatedSession(WrappedSession):
    """Has threads, which end with it; an error in one of them comes out of `run` and `close`."""

    def __init__(
        self, sess: WrappedSession, coord: Coordinator, stop_grace_period_secs: float = 120
    ) -> None:
        """Wraps a HookedSession.

        Args:
          sess: The session.
          coord: The coordinator of its threads.
          stop_grace_period_secs: How long they may take to end.
        """
        super().__init__(sess)
        self._coord = coord
        self._stop_grace_period_secs = stop_grace_period_secs

    def _check_stop(self) -> bool:
        self._coord.raise_requested_exception()
        return self._coord.should_stop()

    def close(self) -> None:
        """Stops the threads, waits for them, and closes the session.

        Raises:
          Exception: What a thread raised.
        """
        self._end(self._stop_grace_period_secs)

    def abandon(self) -> None:
        """Closes after a fault: quickly, and whatever the threads raised because of it."""
        try:
            self._end(min(_FAULT_GRACE_SECONDS, self._stop_grace_period_secs))
        except _CONSEQUENCES as error:
            logging.info("A thread of the session that is given up reported: %s", error)

    def _end(self, grace: float) -> None:
        self._coord.request_stop()
        try:
            self._coord.join(stop_grace_period_secs=grace, ignore_live_threads=True)
        finally:
            try:
                super().close()
            except Exception as error:
                # What matters was raised by the threads, or by the step before.
                logging.info("Closing the session: %s", error)

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Runs a step.

        Raises:
          Exception: What the step raised; or, if a thread met a fault of the cluster, that,
            because it is the cause.
        """
        try:
            return self._sess.run(fetches, feed_dict, options, run_metadata)
        except errors.RECOVERABLE:
            raise
        except Exception as error:
            cause = _fault_of_a_thread(self._coord)
            if cause is None:
                raise
            raise cause from error


def _fault_of_a_thread(coord: Coordinator) -> Exception | None:
    """The recoverable error that a thread reported, or None."""
    try:
        coord.raise_requested_exception()
    except errors.RECOVERABLE as error:
        return error
    except Exception:
        return None
    return None


class CoordinatedSessionCreator(Protocol):
    """Makes the inner layers."""

    def create_session(self) -> CoordinatedSession:
        """A new session."""


class RecoverableSession(WrappedSession):
    """Outlives faults of the cluster: makes a new session and runs the step again.

    The first new session is made at once; if it fails as well, later ones are made at growing
    intervals of at most half a second, and the log says what is wrong.
    """

    def __init__(
        self, sess_creator: CoordinatedSessionCreator, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Makes the first session.

        Args:
          sess_creator: Makes sessions.
          clock: The time.
        """
        self._sess_creator = sess_creator
        self._clock = clock
        #: Numbers the steps, so that each task changes its state once however often one is run.
        self._steps = StepCounter(secrets.randbits(63))
        self._lock = threading.Lock()
        super().__init__(self._create_session())

    def _create_session(self) -> CoordinatedSession:
        wait = Wait(None, clock=self._clock)
        while True:
            try:
                return self._sess_creator.create_session()
            except errors.RECOVERABLE as error:
                logging.info(
                    "An error was raised while a session was being created. This may be due to a "
                    "preemption of a connected worker or parameter server. A new session will be "
                    "created. Error: %s",
                    error,
                )
                wait.pause(functools.partial(_advice, error))

    def _check_stop(self) -> bool:
        if self._sess is None:
            return True
        try:
            return bool(self._sess._check_stop())
        except errors.RECOVERABLE as error:
            self._give_up_session("An error was raised while asking whether to stop.", error)
            self._sess = self._create_session()
            return False
        except Exception:
            # An error of a thread; `close` raises it.
            return True

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Runs a step, as often as faults make it necessary; no task changes its state twice."""
        wait: Wait | None = None
        with self._lock:
            step = self._steps.begin()
        try:
            while True:
                try:
                    session = self._sess
                    if session is None:
                        session = self._sess = self._create_session()
                    with self._lock:
                        current_attempt.put(self._steps.attempt(step))
                    return session.run(fetches, feed_dict, options, run_metadata)
                except errors.RECOVERABLE as error:
                    wait = self._after_fault(error, wait)
        finally:
            current_attempt.put(None)
            with self._lock:
                self._steps.over(step)

    def run_step_fn(
        self, step_fn: Callable[[StepContext], Any], raw_session: Callable[[], Any]
    ) -> Any:
        """Calls a step function, as often as faults make it necessary.

        Each run of it changes no task twice, as long as the function runs the same things again.
        """
        wait: Wait | None = None
        runs = StepFunction(self._steps)

        def numbering(what: Hashable) -> StepAttempt:
            with self._lock:
                return runs.attempt(what)

        try:
            while True:
                try:
                    session = self._sess
                    if session is None:
                        session = self._sess = self._create_session()
                    runs.again()
                    current_attempt.number(numbering)
                    try:
                        return session.run_step_fn(step_fn, raw_session)
                    finally:
                        current_attempt.number(None)
                except errors.RECOVERABLE as error:
                    if runs.forgotten:
                        logging.warning(
                            "The step function is called again from its first line. It has run "
                            "more than is remembered: its first %d runs are applied again.",
                            runs.forgotten,
                        )
                    wait = self._after_fault(error, wait)
        finally:
            with self._lock:
                runs.over()

    def _after_fault(self, error: Exception, wait: Wait | None) -> Wait:
        """Gives the session up; waits before all attempts but the second."""
        self._give_up_session("An error was raised by a step.", error)
        if wait is None:
            return Wait(None, clock=self._clock)
        wait.pause(functools.partial(_advice, error))
        return wait

    def _give_up_session(self, what: str, error: Exception) -> None:
        logging.warning(
            "%s This may be due to a preemption in a connected worker or parameter server. The "
            "current session will be closed and a new session will be created. Error: %s: %s",
            what,
            type(error).__name__,
            error,
        )
        session, self._sess = self._sess, None
        if session is not None:
            session.abandon()


def _advice(error: Exception) -> str:
    return (
        f"for a session that works. The last attempt failed with {type(error).__name__}: {error} "
        "Check that every task of the cluster runs and can be reached at the address that the "
        "ClusterSpec gives it."
    )
