"""Supervisor: the older way to train, a session with services in threads.

A chief's supervisor initialises or restores the model and has threads that write summaries, the
speed, and checkpoints; the others wait for it. All threads belong to one coordinator and end with
it. Nothing is written by a supervisor that is no chief.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from millrace.core import dtypes
from millrace.core.config import SessionLog
from millrace.graph import meta_graph
from millrace.graph.defaults import add_to_collection, get_collection, get_default_graph
from millrace.graph.graph import Graph
from millrace.graph.keys import GraphKeys
from millrace.ops.control_flow import control_flow
from millrace.ops.lookup import tables as lookup
from millrace.ops.state import variables
from millrace.platform import logging
from millrace.summary import builders
from millrace.summary.writer import FileWriter
from millrace.training.checkpoint.saver import Saver
from millrace.training.election.supervision import ElectedSupervision, may_elect
from millrace.training.global_step import global_step as global_step_value
from millrace.training.replicas.departure import leave_at_exit
from millrace.training.replicas.sync_replicas_optimizer import leave_at_end
from millrace.training.sessions.coordinator import Coordinator, LooperThread
from millrace.training.sessions.session_manager import SessionManager
from millrace.training.sessions.supervisor_threads import (
    SVStepCounterThread,
    SVSummaryThread,
    SVTimerCheckpointThread,
)
from millrace.training.sessions.waiting import SYSTEM_CLOCK
from millrace.training.sessions.write_graph import write_graph


class Supervisor:
    """Makes sessions for training, keeps checkpoints and summaries, and ends all together.

    Attributes:
      USE_DEFAULT: For arguments where None means "none at all".
    """

    USE_DEFAULT: Any = 0

    def __init__(
        self,
        graph: Graph | None = None,
        ready_op: Any = USE_DEFAULT,
        ready_for_local_init_op: Any = USE_DEFAULT,
        is_chief: bool | str = True,
        init_op: Any = USE_DEFAULT,
        init_feed_dict: Any = None,
        local_init_op: Any = USE_DEFAULT,
        logdir: str | None = None,
        summary_op: Any = USE_DEFAULT,
        saver: Any = USE_DEFAULT,
        global_step: Any = USE_DEFAULT,
        save_summaries_secs: float = 120,
        save_model_secs: float = 600,
        recovery_wait_secs: float | None = None,
        stop_grace_secs: float = 120,
        checkpoint_basename: str = "model.ckpt",
        session_manager: SessionManager | None = None,
        summary_writer: Any = USE_DEFAULT,
        init_fn: Callable[[Any], Any] | None = None,
        local_init_run_options: Any = None,
    ) -> None:
        """Makes a supervisor, adds to the graph what is missing, and finalizes it.

        Args:
          graph: The graph; the default graph when None.
          ready_op: Gives the names of variables without a value.
          ready_for_local_init_op: The same, asked before `local_init_op`; none by default.
          is_chief: Whether this task initialises, restores and saves the model; ``"elect"`` if the
            workers elect who does (see docs/election.md).
          init_op: Initialises the model.
          init_feed_dict: Feeds for `init_op`.
          local_init_op: Initialises local variables and tables.
          logdir: Where a chief's checkpoints and events go.
          summary_op: Gives all summaries as one.
          saver: The Saver.
          global_step: Counts steps.
          save_summaries_secs: Seconds between summaries; 0 for none.
          save_model_secs: Seconds between checkpoints; 0 for none.
          recovery_wait_secs: Seconds between looks whether the chief is done. None looks often
            (TensorFlow: 30).
          stop_grace_secs: How long threads may take to end.
          checkpoint_basename: The start of the checkpoints' names.
          session_manager: Makes the sessions; one made of these arguments when None.
          summary_writer: Where summaries go; a FileWriter for `logdir` by default.
          init_fn: Called with the session after `init_op`.
          local_init_run_options: A RunOptions message for `local_init_op`.

        Raises:
          ValueError: This is no chief, and a variable has no device.
        """
        self._graph = get_default_graph() if graph is None else graph
        with self._graph.as_default():
            self._ready_op = _given_or_first(
                ready_op, GraphKeys.READY_OP, variables.report_uninitialized_variables
            )
            self._ready_for_local_init_op = _given_or_first(
                ready_for_local_init_op, GraphKeys.READY_FOR_LOCAL_INIT_OP, lambda: None
            )
            self._init_op = _given_or_first(
                init_op, GraphKeys.INIT_OP, variables.global_variables_initializer
            )
            self._local_init_op = _given_or_first(
                local_init_op, GraphKeys.LOCAL_INIT_OP, _default_local_init_op
            )
            self._saver = _given_or_first(saver, GraphKeys.SAVERS, _default_saver)
            self._summary_op = _given_or_first(summary_op, GraphKeys.SUMMARY_OP, builders.merge_all)
            self._global_step = _given_or_first(
                global_step, GraphKeys.GLOBAL_STEP, _default_global_step
            )
        self._init_feed_dict = init_feed_dict
        self._init_fn = init_fn
        self._said_is_chief = is_chief
        self._is_chief = bool(is_chief) and not isinstance(is_chief, str)
        #: There if the chief is elected, which it is where sessions have a cluster.
        self._election = ElectedSupervision(self) if may_elect(is_chief) else None
        self._coord = Coordinator()
        self._stop_grace_secs = stop_grace_secs
        # Only a chief writes.
        self._logdir: str | None = None
        self._save_path: str | None = None
        self._save_summaries_secs: float | None = None
        self._save_model_secs: float | None = None
        self._summary_writer: Any = None
        self._graph_added_to_summary = False
        if self._is_chief or self._election is not None:
            self._logdir = logdir
            self._save_summaries_secs = save_summaries_secs
            self._save_model_secs = save_model_secs
            if logdir:
                self._save_path = os.path.join(logdir, checkpoint_basename)
            if summary_writer is not Supervisor.USE_DEFAULT:
                self._summary_writer = summary_writer
            elif logdir and self._is_chief:
                self._summary_writer = FileWriter(logdir)
        self._session_manager = session_manager or SessionManager(
            local_init_op=self._local_init_op,
            ready_op=self._ready_op,
            ready_for_local_init_op=self._ready_for_local_init_op,
            graph=self._graph,
            recovery_wait_secs=recovery_wait_secs,
            local_init_run_options=local_init_run_options,
            clock=SYSTEM_CLOCK if self._election is None else self._election.clock,
        )
        self._verify_setup()
        self._graph.finalize()

    def _verify_setup(self) -> None:
        """Checks that variables of a replica have a device: the chief's and ours must be one."""
        if self._is_chief:
            return
        without = [
            op.name
            for op in self._graph.get_operations()
            if op.type in ("Variable", "VariableV2") and not op.device
        ]
        if without:
            raise ValueError(
                "When using replicas, all Variables must have their device set: "
                f"{', '.join(without)}. Build the model under "
                "tf.device(tf.train.replica_device_setter(cluster=...))."
            )

    @property
    def is_chief(self) -> bool:
        """Whether this task initialises, restores and saves the model, as things are now."""
        if self._election is not None and self._election.is_on:
            return self._election.is_chief
        return self._is_chief

    @property
    def session_manager(self) -> SessionManager:
        """Makes the sessions."""
        return self._session_manager

    @property
    def coord(self) -> Coordinator:
        """Coordinates all threads."""
        return self._coord

    @property
    def init_op(self) -> Any:
        """Initialises the model; None if nothing does."""
        return self._init_op

    @property
    def init_feed_dict(self) -> Any:
        """Feeds for `init_op`."""
        return self._init_feed_dict

    @property
    def ready_op(self) -> Any:
        """Gives the names of variables without a value."""
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        """The same, asked before the local init operation."""
        return self._ready_for_local_init_op

    @property
    def summary_writer(self) -> Any:
        """Where summaries go; None if nowhere."""
        return self._summary_writer

    @property
    def summary_op(self) -> Any:
        """Gives all summaries as one; None if there are none."""
        return self._summary_op

    @property
    def save_summaries_secs(self) -> float | None:
        """Seconds between summaries."""
        return self._save_summaries_secs

    @property
    def global_step(self) -> Any:
        """Counts steps; None if nothing does."""
        return self._global_step

    @property
    def saver(self) -> Any:
        """The Saver; None if nothing is saved."""
        return self._saver

    @property
    def save_model_secs(self) -> float | None:
        """Seconds between checkpoints."""
        return self._save_model_secs

    @property
    def save_path(self) -> str | None:
        """The start of the checkpoints' paths; None if nothing is saved."""
        return self._save_path

    def prepare_or_wait_for_session(
        self,
        master: str = "",
        config: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float | None = 7200,
        start_standard_services: bool = True,
    ) -> Any:
        """A session whose model is ready: the chief prepares it, the others wait for that.

        Args:
          master: The target.
          config: A ConfigProto.
          wait_for_checkpoint: Whether a chief waits until there is a checkpoint.
          max_wait_secs: How long to wait.
          start_standard_services: Whether to start the services and the queue runners.

        Raises:
          RuntimeError: The chief could not make the model ready.
          DeadlineExceededError: The chief was not done in time.
        """
        # A supervisor may be used again after a stop.
        self._coord.clear_stop()
        if self._summary_writer:
            self._summary_writer.reopen()
        if self._election is not None and self._election.begin(master, self._said_is_chief):
            sess = self._election.session(
                functools.partial(
                    self._prepare, master, config, wait_for_checkpoint, max_wait_secs
                ),
                functools.partial(self._session_manager.wait_for_session, master, config),
                max_wait_secs,
            )
            if start_standard_services:
                self._election.watch(sess)
        elif self.is_chief:
            sess = self._prepare(master, config, wait_for_checkpoint, max_wait_secs)
            self._write_graph()
            if start_standard_services:
                logging.info("Starting standard services.")
                self.start_standard_services(sess)
        else:
            sess = self._session_manager.wait_for_session(
                master, config=config, max_wait_secs=max_wait_secs
            )
        if not self._said_is_chief:
            # The program's chief closes the rounds, and its end is the end for all.
            leave_at_end(sess)
        if start_standard_services:
            logging.info("Starting queue runners.")
            self.start_queue_runners(sess)
        return sess

    def _prepare(
        self, master: str, config: Any, wait_for_checkpoint: bool, max_wait_secs: float | None
    ) -> Any:
        """A chief's session."""
        return self._session_manager.prepare_session(
            master,
            init_op=self._init_op,
            saver=self._saver,
            checkpoint_dir=self._logdir,
            wait_for_checkpoint=wait_for_checkpoint,
            max_wait_secs=max_wait_secs,
            config=config,
            init_feed_dict=self._init_feed_dict,
            init_fn=self._init_fn,
        )

    def take_office(self, sess: Any) -> None:
        """Begins to write, when this task was elected: the graph, and what the threads write."""
        if self._summary_writer is None and self._logdir:
            self._summary_writer = FileWriter(self._logdir)
        self._write_graph()
        self.start_standard_services(sess)

    def _write_graph(self) -> None:
        """Writes the graph for people and for TensorBoard."""
        graph_def = self._graph.as_graph_def(add_shapes=True)
        if self._logdir:
            write_graph(graph_def, self._logdir, "graph.pbtxt")
        if self._summary_writer and not self._graph_added_to_summary:
            self._summary_writer.add_graph(self._graph)
            saver_def = self._saver.saver_def if self._saver else None
            self._summary_writer.add_meta_graph(
                meta_graph.create_meta_graph_def(
                    graph_def=graph_def, saver_def=saver_def, graph=self._graph
                )
            )
            self._graph_added_to_summary = True

    def start_standard_services(self, sess: Any) -> list[threading.Thread] | None:
        """Starts the threads that write summaries, the speed and checkpoints.

        Returns:
          The threads; None without a `logdir`.

        Raises:
          RuntimeError: This is no chief.
        """
        if not self.is_chief:
            raise RuntimeError(
                "Only chief supervisor can start standard services. Because only chief "
                "supervisors can write events."
            )
        if not self._logdir:
            logging.warning("Standard services need a 'logdir' passed to the Supervisor")
            return None
        if self._global_step is not None and self._summary_writer:
            # TensorBoard drops the events of an earlier run from this step on.
            self._summary_writer.add_session_log(
                SessionLog(status=SessionLog.START), global_step_value(sess, self._global_step)
            )
        threads: list[threading.Thread] = []
        if self._save_summaries_secs and self._summary_writer:
            if self._summary_op is not None:
                threads.append(SVSummaryThread(self, sess))
            if self._global_step is not None:
                threads.append(SVStepCounterThread(self, sess))
        if self._saver and self._save_model_secs:
            threads.append(SVTimerCheckpointThread(self, sess))
        for thread in threads:
            thread.start()
        return threads

    def start_queue_runners(
        self, sess: Any, queue_runners: Sequence[Any] | None = None
    ) -> list[threading.Thread]:
        """Starts queue runners.

        Args:
          sess: The session.
          queue_runners: The runners; those in the graph's collection when None.

        Returns:
          Their threads.
        """
        if queue_runners is None:
            queue_runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS)
        return [
            thread
            for runner in queue_runners
            for thread in runner.create_threads(sess, coord=self._coord, daemon=True, start=True)
        ]

    def loop(
        self,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> LooperThread:
        """Starts a thread that calls something until the supervisor stops.

        Args:
          timer_interval_secs: Seconds from one call to the next; None for no pause.
          target: What to call.
          args: Its positional arguments.
          kwargs: Its keyword arguments.

        Returns:
          The thread.
        """
        return LooperThread.loop(self._coord, timer_interval_secs, target, args, kwargs)

    def stop(
        self,
        threads: Sequence[threading.Thread] | None = None,
        close_summary_writer: bool = True,
        ignore_live_threads: bool = False,
    ) -> None:
        """Stops all threads and waits for them; does not close the session.

        Args:
          threads: Threads to wait for besides the supervisor's own.
          close_summary_writer: Whether to close the event file.
          ignore_live_threads: Whether it is no error if some do not end in time.

        Raises:
          RuntimeError: Threads still run after `stop_grace_secs`; it names them.
          Exception: What was given to `request_stop`, or raised in a thread.
        """
        self._coord.request_stop()
        try:
            self._coord.join(
                threads,
                stop_grace_period_secs=self._stop_grace_secs,
                ignore_live_threads=ignore_live_threads,
            )
        finally:
            # Last, because threads write to it.
            if close_summary_writer and self._summary_writer:
                self._summary_writer.add_session_log(SessionLog(status=SessionLog.STOP))
                self._summary_writer.close()
                self._graph_added_to_summary = False
            if self._election is not None:
                self._election.end()

    def request_stop(self, ex: Any = None) -> None:
        """Asks all threads to stop; `stop` raises `ex`, if it is the first."""
        self._coord.request_stop(ex=ex)

    def should_stop(self) -> bool:
        """Whether a stop was asked for."""
        return self._coord.should_stop()

    def stop_on_exception(self) -> contextlib.AbstractContextManager[None]:
        """A ``with`` block; an exception in it asks for a stop."""
        return self._coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        """Waits until a stop is asked for."""
        self._coord.wait_for_stop()

    def summary_computed(self, sess: Any, summary: Any, global_step: int | None = None) -> None:
        """Writes a summary.

        Args:
          sess: The session, to read the global step from.
          summary: The summary: a message, or what a summary operation gives.
          global_step: The step; read when None.

        Raises:
          RuntimeError: There is nowhere to write to.
        """
        if not self._summary_writer:
            raise RuntimeError(
                "Writing a summary requires a summary writer. A chief's Supervisor has one when "
                f"it has a logdir (is_chief={self.is_chief}, logdir={self._logdir!r})."
            )
        if global_step is None and self._global_step is not None:
            global_step = global_step_value(sess, self._global_step)
        self._summary_writer.add_summary(summary, global_step)

    @contextlib.contextmanager
    def managed_session(
        self,
        master: str = "",
        config: Any = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> Iterator[Any]:
        """A ``with`` block that has a session; leaving it stops the threads and closes it.

        An exception of the block or of a thread leaves the block after that; the end of the
        input (OutOfRangeError) is none.

        Args:
          master: The target.
          config: A ConfigProto.
          start_standard_services: Whether to start the services and the queue runners.
          close_summary_writer: Whether to close the event file at the end.
        """
        sess: Any = None
        try:
            sess = self.prepare_or_wait_for_session(
                master=master, config=config, start_standard_services=start_standard_services
            )
            yield sess
        except Exception as error:
            self.request_stop(error)
            if sess is None:
                # There is no block that could end well, not even when the input ended.
                raise
        finally:
            try:
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                # Also frees threads that are blocked in a step.
                if sess is not None:
                    with contextlib.suppress(Exception):
                        sess.close()
        leave_at_exit(master)

    # The names of TensorFlow 0.x.
    PrepareSession = prepare_or_wait_for_session
    StartQueueRunners = start_queue_runners
    StartStandardServices = start_standard_services
    Stop = stop
    RequestStop = request_stop
    Loop = loop
    ShouldStop = should_stop
    StopOnException = stop_on_exception
    WaitForStop = wait_for_stop
    SummaryComputed = summary_computed


def _given_or_first(given: Any, collection: str, make: Callable[[], Any]) -> Any:
    """What was given; by default the first of a collection, made and added when there is none."""
    if given is not Supervisor.USE_DEFAULT:
        return given
    found = get_collection(collection)
    if len(found) > 1:
        logging.info("Found %d %s operations. Returning the first one.", len(found), collection)
    if found:
        return found[0]
    made = make()
    if made is not None:
        add_to_collection(collection, made)
    return made


def _default_local_init_op() -> Any:
    return control_flow.group(variables.local_variables_initializer(), lookup.tables_initializer())


def _default_saver() -> Any:
    return Saver() if variables.global_variables() else None


def _default_global_step() -> Any:
    try:
        step = get_default_graph().get_tensor_by_name("global_step:0")
    except KeyError:
        return None
    if step.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
        logging.warning("Found 'global_step' is not an int type: %s", step.dtype)
        return None
    return step
