"""A Supervisor whose chief is elected.

Its session stays the same under any chief: a thread looks, and begins the services of a chief
when its task was elected. They pause when another one is. What a program does for the chief in its
own code (``if is_chief: ...``) stays where the program wants it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from millrace.core import errors
from millrace.platform import logging
from millrace.training.checkpoint.fence import CheckpointGuard, DeposedError, Fence, Term
from millrace.training.checkpoint.saver import Saver
from millrace.training.checkpoint.state import get_checkpoint_state
from millrace.training.election.campaign import Campaign
from millrace.training.election.register import VARIABLE
from millrace.training.election.session import address_for, start_campaign
from millrace.training.sessions.coordinator import LooperThread
from millrace.training.sessions.succession import take_over
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock

#: Seconds between looks who is chief.
_LOOK_SECONDS = 0.2


def may_elect(is_chief: Any) -> bool:
    """Whether a Supervisor with this argument elects its chief, once it has a cluster."""
    return isinstance(is_chief, str) or bool(os.environ.get(VARIABLE))


class ElectedSupervision:
    """What a Supervisor does about elections.

    Args:
      supervisor: The Supervisor.
    """

    def __init__(self, supervisor: Any) -> None:
        self._supervisor = supervisor
        self._campaign: Campaign | None = None
        #: For waits for the chief, which end when this task is elected.
        self.clock = Clock(SYSTEM_CLOCK.now, self._sleep, SYSTEM_CLOCK.wall)

    @property
    def is_on(self) -> bool:
        """Whether an election is under way."""
        return self._campaign is not None

    @property
    def is_chief(self) -> bool:
        """Whether this task is chief now."""
        return self._campaign is not None and self._campaign.term() is not None

    def begin(self, master: str, is_chief: Any) -> bool:
        """Begins to campaign for a session with this target; False if it needs no election."""
        address = address_for(is_chief, master)
        if address is not None and self._campaign is None:
            logdir = self._supervisor._logdir
            campaign = start_campaign(address, master, is_chief, logdir)
            saver = self._supervisor.saver
            if isinstance(saver, Saver):
                saver.guard = CheckpointGuard(campaign.term, campaign.name)
            self._campaign = campaign
        return address is not None

    def session(
        self,
        prepare: Callable[[], Any],
        wait: Callable[[float | None], Any],
        max_wait_secs: float | None,
    ) -> Any:
        """A session whose model is ready.

        Args:
          prepare: Makes a chief's.
          wait: Waits for one that somebody else made ready, for so many seconds.
          max_wait_secs: How long to wait.
        """
        campaign = self._campaign
        assert campaign is not None
        while True:
            try:
                if campaign.term() is None:
                    return wait(max_wait_secs)
                if campaign.has_seen_chief:
                    try:
                        return wait(0)
                    except errors.DeadlineExceededError:
                        logging.info("The model has no values: the new chief makes it ready.")
                return prepare()
            except DeposedError as error:
                logging.info("%s", error.message)

    def watch(self, sess: Any) -> None:
        """Starts the thread that begins a chief's services when this task is elected."""
        assert self._campaign is not None
        _OfficeThread(self._supervisor, sess, self._campaign).start()

    def end(self) -> None:
        """Ends the campaign."""
        campaign, self._campaign = self._campaign, None
        if campaign is not None:
            campaign.stop()

    def _sleep(self, seconds: float) -> None:
        if self._campaign is None:
            time.sleep(seconds)
        else:
            self._campaign.sleep(seconds)


class _OfficeThread(LooperThread):
    """Begins a chief's services when its task is elected."""

    def __init__(self, supervisor: Any, sess: Any, campaign: Campaign) -> None:
        super().__init__(supervisor.coord, _LOOK_SECONDS)
        self._supervisor = supervisor
        self._sess = sess
        self._campaign = campaign
        self._has_begun = False
        self._term: Term | None = None

    def run_loop(self) -> None:
        """Looks once."""
        term = self._campaign.term()
        if term is None or term == self._term:
            return
        self._term = term
        supervisor = self._supervisor
        logdir = supervisor._logdir
        if logdir:
            self._campaign.heard_of(Fence(logdir).latest())
            state = get_checkpoint_state(logdir)
            if state is not None and isinstance(supervisor.saver, Saver):
                supervisor.saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        take_over(self._sess, logdir, supervisor.saver)
        if not self._has_begun:
            self._has_begun = True
            supervisor.take_office(self._sess)
