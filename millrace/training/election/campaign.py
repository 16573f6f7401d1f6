"""A campaign: one worker's thread that reads, takes and renews the lease of the chief.

`term` is the truth of the moment, by this process's clock, and may be asked from any thread. Who
must act on a change is told in the campaign's thread, in the order of the changes. A register that
cannot be reached is tried again until it can; a lease that cannot be renewed in the meantime runs
out.
"""

from __future__ import annotations

import functools
import os
import secrets
import socket
import threading
from collections.abc import Callable

from millrace.core import errors
from millrace.observe.events import EVENTS
from millrace.platform import logging
from millrace.protocol.election import Candidate, Sleep
from millrace.training.checkpoint.fence import DeposedError, Term
from millrace.training.election.register import Register
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock, Wait

#: How long the end of a campaign waits for its thread, which may be in a call.
_END_SECONDS = 5.0
#: What a register may say that is worth another try; anything else ends the training.
_PASSING = (
    errors.UnavailableError,
    errors.DeadlineExceededError,
    errors.CancelledError,
    errors.AbortedError,
    errors.ResourceExhaustedError,
    errors.InternalError,
    errors.UnknownError,
)


class Campaign:
    """Tries to be chief from now until `stop`.

    Args:
      register: Where the lease is; closed by `stop`.
      seconds: How long the lease lasts.
      place: Where this worker is, for people.
      head_start: Seconds for which a lease that nobody ever had is left to others.
      latest: The latest term that is known from elsewhere, asked when the register has no memory.
      clock: The time.
    """

    def __init__(
        self,
        register: Register,
        seconds: float,
        place: str = "",
        *,
        head_start: float = 0.0,
        latest: Callable[[], Term | None] = lambda: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._register = register
        self._latest = latest
        self._clock = clock
        self._identity = secrets.token_hex(4)
        where = f"{place} " if place else ""
        self.name = f"{where}on {socket.gethostname()}, process {os.getpid()}, {self._identity}"
        #: Held for moments only, never during a call of the register.
        self._lock = threading.Lock()
        self._candidate = Candidate(self.name, seconds, clock.now(), head_start)
        self._listeners: list[Callable[[Term | None], None]] = []
        #: What the listeners were told last, and the holder that the log names.
        self._told: Term | None = None
        self._logged: str | None = None
        self._failure: BaseException | None = None
        self._changed = threading.Condition(self._lock)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="millrace election", daemon=True)
        self._thread.start()

    def term(self) -> Term | None:
        """The term of which this worker is chief at this moment; None if he is not.

        Raises:
          Exception: The register cannot keep a lease: what is wrong with it.
        """
        if self._failure is not None:
            raise self._failure
        with self._lock:
            token = self._candidate.token(self._clock.now())
        return None if token is None else Term(token, self._identity)

    @property
    def holder(self) -> str | None:
        """Who is chief, as far as is known."""
        with self._lock:
            return self._candidate.holder

    @property
    def has_seen_chief(self) -> bool:
        """Whether another chief was, or may have been, at work since this campaign began."""
        with self._lock:
            return self._candidate.has_seen_chief

    def heard_of(self, term: Term | None) -> None:
        """Makes sure that a term of this worker will be later than this one."""
        if term is not None:
            with self._lock:
                self._candidate.heard_of(term.token)

    def listen(self, listener: Callable[[Term | None], None]) -> None:
        """Calls `listener` when this worker becomes chief or ceases to be it.

        It is told the state of now at once, in this thread, if there is a term.
        """
        with self._lock:
            self._listeners.append(listener)
            told = self._told
        if told is not None:
            listener(told)

    def sleep(self, seconds: float) -> None:
        """Sleeps in a wait for the chief.

        Raises:
          DeposedError: This worker is the chief: a wait for one begins again.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._now() is not None or self._failure is not None, seconds
            )
        if self.term() is not None:
            raise DeposedError("The chief that was waited for has changed: it is this task now.")

    def settle(self) -> Term | None:
        """As `term`; but a lease that ran out, and nobody has taken, is waited for a little."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._now() is not None or self._candidate.holder != self.name,
                _END_SECONDS,
            )
        return self.term()

    def stop(self) -> None:
        """Ends the campaign, and gives the lease up so that others need not wait for its end."""
        self._ending.set()
        self._thread.join(_END_SECONDS)
        if not self._thread.is_alive():
            try:
                self._release()
            except (errors.OpError, ValueError) as error:
                logging.info("The lease of the chief was not given up, and will run out: %s", error)
        self._register.close()
        for listener in self._listeners if self._told is not None else ():
            listener(None)

    # -- The thread ------------------------------------------------------------------------

    def _run(self) -> None:
        self._ask_elsewhere()
        clock = Clock(self._clock.now, lambda s: self._rest(s), self._clock.wall)
        unreachable: Wait | None = None
        while not self._ending.is_set():
            try:
                pause = self._turn()
                unreachable = None
            except _PASSING as error:
                unreachable = unreachable or Wait(None, clock=clock)
                self._announce()
                unreachable.pause(functools.partial(_advice, error.message))
                continue
            except Exception as error:
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                return
            self._announce()
            self._rest(pause)

    def _rest(self, seconds: float) -> None:
        self._ending.wait(seconds)

    def _turn(self) -> float:
        """One turn; how long to rest after it."""
        reading = self._register.read()
        if reading.record is None:
            self._ask_elsewhere()
        with self._lock:
            instruction = self._candidate.on_reading(reading, self._clock.now())
        if isinstance(instruction, Sleep):
            return instruction.seconds
        sent_at = self._clock.now()
        done = self._register.write(instruction.record, instruction.version)
        with self._lock:
            if done:
                self._candidate.on_written(instruction.record, sent_at)
            else:
                self._candidate.on_refused()
        return 0.0

    def _ask_elsewhere(self) -> None:
        try:
            self.heard_of(self._latest())
        except errors.OpError as error:
            logging.warning("Which chiefs there were is not known, for now: %s", error.message)

    def _release(self) -> None:
        write = self._candidate.release(self._register.read())
        if write is not None:
            self._register.write(write.record, write.version)

    def _now(self) -> Term | None:
        """As `term`, for a caller that has the lock."""
        token = self._candidate.token(self._clock.now())
        return None if token is None else Term(token, self._identity)

    def _announce(self) -> None:
        """Tells the listeners and the log what has changed."""
        with self._changed:
            term, holder = self._now(), self._candidate.holder
            listeners = list(self._listeners) if term != self._told else []
            self._told = term
            self._changed.notify_all()
        if holder != self._logged and holder is not None:
            self._logged = holder
            if term is not None:
                logging.info("This task is the chief now, for term %d.", term.token)
                EVENTS.note("elected", f"this task is the chief, for term {term.token}")
            else:
                logging.info("The chief is the task %s.", holder)
        for listener in listeners:
            try:
                listener(term)
            except Exception as error:
                logging.warning("What follows from a change of the chief failed: %s", error)


def _advice(reason: str) -> str:
    return f"for the lease of the chief: {reason}"
