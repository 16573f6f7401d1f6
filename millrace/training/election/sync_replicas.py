"""Synchronous training with an elected chief: the chief of the day closes the rounds.

The chief's operation runs in a session of its own, in a thread of its own. So it begins the moment
that a worker is elected, although that worker's step waits for a token which nobody but a chief
hands out; and it ends with the term, without a word to the step.

A chief that died left a push out. The tokens that a new chief puts into the queue, as every
chief does at its start, let another worker push in its stead. Too many of them do no harm: a push
for a round that is over is dropped, and costs its token. If it died while a round was applied on
some ps tasks and not yet on others, the new one makes its session again, and restores the model.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from millrace.client.session import Session
from millrace.core import errors
from millrace.platform import logging
from millrace.training.checkpoint.fence import Term
from millrace.training.election.session import Office
from millrace.training.hooks.session_run_hook import SessionRunHook
from millrace.training.replicas.sync_replicas_optimizer import (
    Return,
    SyncReplicasHook,
    SyncReplicasOptimizer,
    check_ready,
    drop_old_tokens,
    lead,
    old_tokens_of,
)
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock, Wait

#: How long the end of a term waits for the thread that closes rounds.
_END_SECONDS = 5.0
_HALF_A_ROUND = "The chief before had applied a round on some tasks only: the model is restored."


class ElectedSyncReplicasHook(SessionRunHook):
    """Takes the place of a SyncReplicasHook in an elected session.

    Args:
      hook: What the optimizer made for the chief or for a worker, whichever the program thought.
      office: Says which of the two this worker is.
    """

    def __init__(self, hook: SyncReplicasHook, office: Office) -> None:
        self._optimizer: SyncReplicasOptimizer = hook.sync_optimizer
        self._num_tokens = hook.num_tokens
        self._campaign = office.campaign
        #: Held while rounds begin or end; the campaign's thread and the session's both do that.
        self._lock = threading.Lock()
        self._session: Any = None
        self._coord: Any = None
        self._rounds: _Rounds | None = None
        self._is_over = False

    def begin(self) -> None:
        """Makes the operations of a chief and of a worker."""
        optimizer = self._optimizer
        if not optimizer._gradients_applied:
            raise ValueError(
                "SyncReplicasOptimizer.apply_gradient should be called before using the hook."
            )
        self._old_tokens = old_tokens_of(optimizer)
        self._first_tokens_op = optimizer.get_init_tokens_op(self._num_tokens)
        # At least one: the push that the previous chief did not make.
        needed = self._num_tokens or max(
            1, optimizer._replicas_to_aggregate - optimizer._total_num_replicas
        )
        self._later_tokens_op = optimizer.get_init_tokens_op(needed)
        self._close_op = optimizer.get_clean_up_op()
        self._leave_op = optimizer.get_leave_op()
        self._return = Return(optimizer)
        self._whole_round = optimizer._check_rounds()
        self._campaign.listen(self._on_change)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Prepares this worker's step, and closes rounds if he is chief."""
        lead(session)
        optimizer = self._optimizer
        check_ready(session, optimizer, optimizer.local_step_init_op)
        self._return.announce(session)
        session.run(optimizer.local_step_init_op)
        with self._lock:
            self._end_rounds()
            self._session = None
        # Without the lock: the campaign's thread must be able to go on.
        term = self._campaign.term()
        if term is not None:
            session.run(optimizer.chief_init_op)
            drop_old_tokens(session, self._old_tokens)
            session.run(self._first_tokens_op)
        with self._lock:
            self._session, self._coord = session, coord
            now = self._campaign.term()
            if now is not None:
                self._begin_rounds(now, *(() if now == term else (self._later_tokens_op,)))

    def _on_change(self, term: Term | None) -> None:
        """The chief has changed; called in the campaign's thread."""
        with self._lock:
            if self._session is None or self._is_over:
                return
            if self._rounds is not None and self._rounds.term == term:
                return
            self._end_rounds()
            if term is not None:
                self._begin_rounds(term, self._later_tokens_op)

    def _begin_rounds(self, term: Term, *first: Any) -> None:
        session, coord = self._session, self._coord
        make_session = functools.partial(
            Session, session.sess_str, graph=session.graph, config=session._config
        )

        def check(own: Any) -> None:
            # Rounds that this chief began itself are whole.
            if first and not self._whole_round(own):
                # The worker's step waits for a token: nothing but this ends it.
                coord.request_stop(errors.AbortedError(None, None, _HALF_A_ROUND))
                session.close()
                raise errors.CancelledError(None, None, _HALF_A_ROUND)

        self._rounds = _Rounds(term, make_session, check, first, self._optimizer._sync_op)

    def _end_rounds(self) -> None:
        if self._rounds is not None:
            self._rounds.end()
            self._rounds = None

    def end(self, session: Any) -> None:
        """Hands this worker's part over to the others; the chief ends the training."""
        with self._lock:
            self._is_over = True
            is_chief = self._rounds is not None and self._campaign.term() is not None
            self._end_rounds()
        try:
            session.run(self._close_op if is_chief else self._leave_op)
        except (errors.OpError, RuntimeError) as error:
            logging.info("Left synchronous training without a word: %s", error)


class _Rounds:
    """A thread that closes rounds, for one term and one session of the worker."""

    def __init__(
        self,
        term: Term,
        make_session: Callable[[], Any],
        check: Callable[[Any], None],
        first: tuple[Any, ...],
        close: Any,
    ) -> None:
        self.term = term
        self._make_session = make_session
        self._check = check
        self._first = list(first)
        self._close = close
        self._lock = threading.Lock()
        self._session: Any = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="millrace rounds", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ends the thread, and the round that it waits for."""
        self._ending.set()
        with self._lock:
            session = self._session
        if session is not None:
            session.close()
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        clock = Clock(SYSTEM_CLOCK.now, lambda s: _wait(self._ending, s), SYSTEM_CLOCK.wall)
        wait = Wait(None, clock=clock)
        while not self._ending.is_set():
            try:
                self._close_rounds()
            except errors.OutOfRangeError:
                return  # The queue is closed: the training is over.
            except Exception as error:
                if self._ending.is_set():
                    return
                if isinstance(error, errors.CancelledError):
                    logging.info("The chief closes no more rounds: %s", error)
                    return
                # A task is away. The worker's own session finds that, too, and rebuilds.
                wait.pause(functools.partial(_advice, error))

    def _close_rounds(self) -> None:
        session = self._make_session()
        with self._lock:
            self._session = session
        try:
            self._check(session)
            while self._first and not self._ending.is_set():
                session.run(self._first[0])
                self._first.pop(0)
            close, repeated = session._make_repeated(self._close)
            if repeated is not None:
                close = repeated.run  # until the session is closed
            while not self._ending.is_set():
                close()
        finally:
            session.close()


def _wait(ending: threading.Event, seconds: float) -> None:
    ending.wait(seconds)


def _advice(error: Exception) -> str:
    return f"to close rounds of synchronous training. {type(error).__name__}: {error}"
