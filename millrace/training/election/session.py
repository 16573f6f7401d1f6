"""Sessions and hooks whose chief is elected.

Every worker has all hooks of a chief; those of the elected one are at work. A worker that becomes
chief keeps its session and the model as it is on the ps tasks: nothing is restored, no step is
lost, the first thing that happens is a checkpoint. Only where the model is not what it was (at the
beginning, or after a ps task died) it is restored or initialised. A chief that another one
replaced keeps its session too, as a worker.

Nothing here decides who is chief: `Campaign.term` does.
"""

from __future__ import annotations

import os
from typing import Any

from millrace.core import errors
from millrace.graph.defaults import get_default_graph
from millrace.platform import logging
from millrace.training.checkpoint.fence import CheckpointGuard, DeposedError, Fence, Term
from millrace.training.checkpoint.saver import Saver
from millrace.training.checkpoint.state import get_checkpoint_state
from millrace.training.election.backends import open_register
from millrace.training.election.campaign import Campaign
from millrace.training.election.register import VARIABLE, Address
from millrace.training.hooks.checkpoint_saver import CheckpointSaverHook
from millrace.training.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from millrace.training.hooks.timer import global_step_for
from millrace.training.sessions.live_model import LiveModel
from millrace.training.sessions.scaffold import Scaffold
from millrace.training.sessions.session_creators import (
    ChiefSessionCreator,
    SessionCreator,
    WorkerSessionCreator,
)
from millrace.training.sessions.succession import take_over
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock

#: For the argument `is_chief`: an election where the variable says, or the built-in one.
ELECT = "elect"


def address_for(is_chief: Any, master: str) -> Address | None:
    """Where the chief of a session is elected; None if it is not, and `is_chief` is the truth.

    Args:
      is_chief: Whether the program takes this worker for the chief; or ``"elect"``, or the address
        of an election.
      master: The session's target. A session without a cluster has nobody to elect, unless the
        program asks for it.

    Raises:
      ValueError: The address is none.
    """
    everywhere = os.environ.get(VARIABLE, "")
    if isinstance(is_chief, str):
        return Address.parse((everywhere or "builtin") if is_chief == ELECT else is_chief)
    return Address.parse(everywhere) if everywhere and master else None


def start_campaign(
    address: Address, master: str, is_chief: Any, checkpoint_dir: str | None
) -> Campaign:
    """Lets this worker campaign.

    Args:
      address: Where.
      master: The session's target.
      is_chief: As the program says; a worker that it does not take for the chief lets the one
        that it does begin.
      checkpoint_dir: Knows which terms there were.
    """
    return Campaign(
        open_register(address, master),
        address.seconds,
        master,
        head_start=0.0 if is_chief else address.seconds,
        latest=Fence(checkpoint_dir).latest if checkpoint_dir else lambda: None,
    )


class Office(SessionRunHook):
    """The first hook of an elected session: whether this worker is chief in the step of now.

    Args:
      campaign: Decides.
      checkpoint_dir: Where the chief writes checkpoints, if it does.
      scaffold: Has the Saver.
    """

    def __init__(self, campaign: Campaign, checkpoint_dir: str | None, scaffold: Scaffold) -> None:
        self.campaign = campaign
        #: The term of which this worker is chief, as of the last look; None if he is not.
        self.term: Term | None = None
        #: Of the session of now.
        self.coord: Any = None
        self.guard = CheckpointGuard(campaign.term, campaign.name)
        self._checkpoint_dir = checkpoint_dir
        self._scaffold = scaffold

    def begin(self) -> None:
        """Keeps the graph, for hooks that begin when their worker becomes chief."""
        self.graph = get_default_graph()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Looks who is chief as a session begins."""
        self.coord = coord
        self.look(session)

    def before_run(self, run_context: SessionRunContext) -> None:
        """Looks who is chief before each step."""
        self.look(run_context.session)

    def look(self, session: Any) -> None:
        """Finds out who is chief now."""
        term = self.campaign.term()
        if term != self.term:
            self.term = term
            if term is not None:
                self._enter(session)

    def _enter(self, session: Any) -> None:
        """What a new chief must know: which checkpoints there are, to delete old ones in time.

        And what others must: that the model is this chief's from now on.
        """
        take_over(session, self._checkpoint_dir, self._scaffold.saver)
        saver = self._scaffold.saver
        if isinstance(saver, Saver):
            saver.guard = self.guard
            state = get_checkpoint_state(self._checkpoint_dir) if self._checkpoint_dir else None
            if state is not None:
                saver.recover_last_checkpoints(state.all_model_checkpoint_paths)

    def deposed(self, error: DeposedError) -> None:
        """A write was refused: the folder knows of a later term."""
        logging.warning("%s", error.message)
        if self._checkpoint_dir:
            self.campaign.heard_of(Fence(self._checkpoint_dir).latest())


class ChiefOnly(SessionRunHook):
    """A hook that is at work while its worker is chief.

    Its `after_create_session` is called when that begins, in the session that there is then.

    Args:
      office: Says when.
      hook: The hook.
      late: Whether its `begin`, which opens an event file, waits until then, too; for hooks that
        add nothing to the graph but the global step.
    """

    def __init__(self, office: Office, hook: SessionRunHook, late: bool = False) -> None:
        self._office = office
        self._hook = hook
        self._is_late = late
        #: The term for which it is at work in this session; whether it takes part in this step.
        self._term: Term | None = None
        self._acts = False

    def begin(self) -> None:
        """Lets the hook add to the graph."""
        if self._is_late:
            global_step_for(self._hook)
        else:
            self._hook.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Begins in a new session."""
        self._term = None
        self._begin_work(session)

    def _begin_work(self, session: Any) -> bool:
        """Whether the hook is at work, from now on if it was not."""
        office = self._office
        if office.term is None or office.term == self._term:
            return office.term is not None
        with office.graph.as_default():
            if self._is_late:
                self._is_late = False
                self._hook.begin()
            if isinstance(self._hook, CheckpointSaverHook):
                saver = self._hook._get_saver()
                if isinstance(saver, Saver):
                    saver.guard = office.guard
            try:
                self._hook.after_create_session(session, office.coord)
            except DeposedError as error:
                office.deposed(error)
                return False
        self._term = office.term
        return True

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """As of the hook, while this worker is chief."""
        self._acts = self._begin_work(run_context.session)
        return self._hook.before_run(run_context) if self._acts else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """As of the hook, while this worker is chief; a refused checkpoint ends that."""
        if not self._acts:
            return
        try:
            self._hook.after_run(run_context, run_values)
        except DeposedError as error:
            self._office.deposed(error)

    def end(self, session: Any) -> None:
        """As of the hook, if this worker was chief to the end."""
        # The last checkpoint is worth a moment.
        if self._term is None or self._office.campaign.settle() != self._term:
            return
        try:
            self._hook.end(session)
        except DeposedError as error:
            self._office.deposed(error)

    def __repr__(self) -> str:
        return f"ChiefOnly({self._hook!r})"


class ElectedSessionCreator(SessionCreator):
    """Makes sessions for a worker that may be chief.

    Args:
      campaign: Decides.
      master: The target.
      config: A ConfigProto.
      scaffold: Has the operations.
      checkpoint_dir: The folder with checkpoints to restore from.
      max_wait_secs: How long a worker waits for the chief.
    """

    def __init__(
        self,
        campaign: Campaign,
        master: str,
        config: Any,
        scaffold: Scaffold,
        checkpoint_dir: str | None,
        max_wait_secs: float | None,
    ) -> None:
        self._campaign = campaign
        self._master = master
        self._checkpoint_dir = checkpoint_dir
        #: The model of this worker's last session; None before the first one.
        self._model: LiveModel | None = None
        self._chief = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
        self._adopting = WorkerSessionCreator(scaffold, master, config, max_wait_secs=0)
        # A wait for the chief ends when this worker becomes it.
        clock = Clock(SYSTEM_CLOCK.now, campaign.sleep, SYSTEM_CLOCK.wall)
        self._worker = WorkerSessionCreator(scaffold, master, config, max_wait_secs, clock=clock)

    def create_session(self) -> Any:
        """A session with the model that there is; a chief makes one if there is none.

        Raises:
          DeposedError: The chief has changed in the meantime; try again.
          DeadlineExceededError: The chief took too long.
        """
        term = self._campaign.term()
        self._leave_out_idle_tasks()
        if term is None:
            session = self._worker.create_session()
        else:
            session = self._chief_session()
            # On a machine that is so busy that a lease runs out while a session is made, the next
            # one would not be made any sooner: as long as nobody took the lease, it is ours.
            if self._campaign.settle() != term:
                session.close()
                raise DeposedError("The chief has changed while it made a session.")
        if self._master:
            self._model = self._model or LiveModel(get_default_graph())
            self._model.remember(session)
        return session

    def _leave_out_idle_tasks(self) -> None:
        """Lets sessions do without the tasks that the graph does not use.

        A session waits for every task of its cluster, unless its configuration leaves some out;
        and the worker that died may have been the chief.
        """
        for creator in (self._chief, self._adopting, self._worker):
            creator.leave_out_idle_tasks()

    def _chief_session(self) -> Any:
        if self._model is not None:
            adopted = self._chief.adopt(self._model)
            if adopted is not None:
                return adopted
        elif self._campaign.has_seen_chief and not self._chief.has_checkpoint():
            # Others may have trained what cannot be restored. (What servers that outlive jobs
            # hold at the beginning of one is not its model: there was no chief.)
            try:
                return self._adopting.create_session()
            except errors.DeadlineExceededError:
                logging.info("The model has no values: the new chief initialises it.")
        return self._chief.create_session()
