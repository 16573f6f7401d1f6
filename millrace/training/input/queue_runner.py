"""QueueRunner: threads that keep a queue filled.

Each enqueue operation has a thread that runs it until the queue is closed, the input ends, or the
coordinator stops. When the last of them ends, the queue is closed.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from millrace.client.session import BaseSession
from millrace.core import errors
from millrace.data.messages import declare
from millrace.graph.collection_protos import (
    prepend_name_scope,
    register_proto_function,
    strip_name_scope,
)
from millrace.graph.defaults import (
    add_to_collection,
    get_collection,
    get_default_graph,
    get_default_session,
)
from millrace.graph.keys import GraphKeys
from millrace.platform import logging

QueueRunnerDef = declare(
    "millrace/queue_runner.proto",
    "tensorflow",
    {
        # The last field is an enum of status codes, which is a number on the wire.
        "QueueRunnerDef": """
            string queue_name = 1
            repeated string enqueue_op_name = 2
            string close_op_name = 3
            string cancel_op_name = 4
            repeated int32 queue_closed_exception_types = 5
        """
    },
)["QueueRunnerDef"]


class QueueRunner:
    """Fills a queue from threads of the client.

    Exceptions that mean that the queue was closed end a thread quietly; others are reported to
    the coordinator, or kept in `exceptions_raised` and raised in the thread.
    """

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: tuple[type[errors.OpError], ...] | None = None,
        queue_runner_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        """Makes a runner; its threads come from `create_threads`.

        Args:
          queue: The queue.
          enqueue_ops: Operations that enqueue; one thread each.
          close_op: Closes the queue at the end; `queue.close()` by default.
          cancel_op: Closes it when the coordinator stops; by default with pending enqueues
            cancelled.
          queue_closed_exception_types: Exceptions that mean that there is nothing more to
            enqueue; OutOfRangeError by default.
          queue_runner_def: A QueueRunnerDef to make it from, instead of all this.
          import_scope: Put in front of the names in `queue_runner_def`.
        """
        if queue_runner_def is not None:
            if queue is not None or enqueue_ops:
                raise ValueError("queue_runner_def and queue are mutually exclusive.")
            self._init_from_proto(queue_runner_def, import_scope)
        else:
            self._init_from_args(
                queue, enqueue_ops, close_op, cancel_op, queue_closed_exception_types
            )
        self._lock = threading.Lock()
        #: How many threads of each session still run.
        self._runs_per_session: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._exceptions_raised: list[Exception] = []
        #: Steps of each session that another task repeats.
        self._repeated_steps: weakref.WeakKeyDictionary[Any, weakref.WeakSet[Any]]
        self._repeated_steps = weakref.WeakKeyDictionary()

    def _init_from_args(
        self, queue: Any, enqueue_ops: Any, close_op: Any, cancel_op: Any, types: Any
    ) -> None:
        if not queue or not enqueue_ops:
            raise ValueError("Must provide queue and enqueue_ops.")
        if types is not None and (
            not isinstance(types, tuple)
            or not types
            or not all(issubclass(kind, errors.OpError) for kind in types)
        ):
            raise TypeError(
                "queue_closed_exception_types, when provided, must be a tuple of tf.error types, "
                f"but saw: {types}"
            )
        self._queue = queue
        self._enqueue_ops = list(enqueue_ops)
        self._close_op = queue.close() if close_op is None else close_op
        self._cancel_op = (
            queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
        )
        self._queue_closed_exception_types = types or (errors.OutOfRangeError,)

    def _init_from_proto(self, message: Any, import_scope: str | None) -> None:
        assert isinstance(message, QueueRunnerDef)
        graph = get_default_graph()

        def element(name: str) -> Any:
            return graph.as_graph_element(prepend_name_scope(name, import_scope))

        self._queue = element(message.queue_name)
        self._enqueue_ops = [element(name) for name in message.enqueue_op_name]
        self._close_op = element(message.close_op_name)
        self._cancel_op = element(message.cancel_op_name)
        self._queue_closed_exception_types = tuple(
            errors.exception_type_from_error_code(code)
            for code in message.queue_closed_exception_types
        ) or (errors.OutOfRangeError,)

    @property
    def queue(self) -> Any:
        """The queue."""
        return self._queue

    @property
    def enqueue_ops(self) -> list[Any]:
        """The operations that enqueue."""
        return self._enqueue_ops

    @property
    def close_op(self) -> Any:
        """The operation that closes the queue."""
        return self._close_op

    @property
    def cancel_op(self) -> Any:
        """The operation that closes the queue and cancels its pending enqueues."""
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> tuple[type[errors.OpError], ...]:
        """Exceptions that mean that there is nothing more to enqueue."""
        return self._queue_closed_exception_types

    @property
    def exceptions_raised(self) -> list[Exception]:
        """Exceptions of threads without a coordinator, since the last `create_threads`."""
        return self._exceptions_raised

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self._queue.name  # type: ignore[no-any-return]

    def _run(self, session: Any, enqueue_op: Any, coord: Any = None) -> None:
        """One thread: enqueues until there is a reason to end."""
        is_last = False
        try:
            enqueue, repeated = self._enqueuing(session, enqueue_op)
            if repeated is not None:
                # The task that enqueues does so again and again by itself, until it is told not to.
                enqueue = repeated.run
                self._repeated_steps.setdefault(session, weakref.WeakSet()).add(repeated)
            while not (coord is not None and coord.should_stop()):
                try:
                    enqueue()
                except self._queue_closed_exception_types:
                    is_last = self._count_down(session)
                    if is_last:
                        self._run_quietly(session, self._close_op)
                    return
        except Exception as error:
            self._count_down(session)
            if coord is not None:
                coord.request_stop(error)
                return
            logging.error("Exception in QueueRunner: %s", error)
            with self._lock:
                self._exceptions_raised.append(error)
            raise
        self._count_down(session)

    def _enqueuing(self, session: Any, enqueue_op: Any) -> tuple[Callable[[], Any], Any]:
        """What enqueues once, and what does so again and again by itself, if there is such."""
        if isinstance(session, BaseSession):
            return session._make_repeated(enqueue_op)
        return session.make_callable(enqueue_op), None

    def _count_down(self, session: Any) -> bool:
        """One thread of the session has ended; whether it was the last."""
        with self._lock:
            self._runs_per_session[session] -= 1
            return self._runs_per_session[session] == 0

    def _close_on_stop(self, session: Any, coord: Any) -> None:
        """Another thread: closes the queue when the coordinator stops."""
        coord.wait_for_stop()
        for repeated in list(self._repeated_steps.get(session, ())):
            repeated.end()
        self._run_quietly(session, self._cancel_op)

    def _run_quietly(self, session: Any, operation: Any) -> None:
        try:
            session.run(operation)
        except Exception as error:
            # It may be closed already, and so may the session.
            logging.vlog(1, "Ignored exception: %s", error)

    def create_threads(
        self, sess: Any, coord: Any = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """Threads that fill the queue; none if those of an earlier call still run.

        Args:
          sess: The session to run in.
          coord: Told of exceptions, and able to stop the threads.
          daemon: Whether the process may end while they run.
          start: Whether to start them.
        """
        with self._lock:
            if self._runs_per_session.get(sess, 0) > 0:
                return []
            self._runs_per_session[sess] = len(self._enqueue_ops)
            self._exceptions_raised = []
        threads = [
            threading.Thread(
                target=self._run,
                args=(sess, operation, coord),
                name=f"QueueRunnerThread-{self.name}-{operation.name}",
            )
            for operation in self._enqueue_ops
        ]
        if coord is not None:
            threads.append(
                threading.Thread(
                    target=self._close_on_stop,
                    args=(sess, coord),
                    name=f"QueueRunnerThread-{self.name}-close_on_stop",
                )
            )
        for thread in threads:
            if coord is not None:
                coord.register_thread(thread)
            if daemon:
                thread.daemon = True
            if start:
                thread.start()
        return threads

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The runner as a QueueRunnerDef; None if it is not in the scope."""
        if export_scope is not None and not self.name.startswith(export_scope):
            return None
        return QueueRunnerDef(
            queue_name=strip_name_scope(self.name, export_scope),
            enqueue_op_name=[
                strip_name_scope(operation.name, export_scope) for operation in self._enqueue_ops
            ],
            close_op_name=strip_name_scope(self._close_op.name, export_scope),
            cancel_op_name=strip_name_scope(self._cancel_op.name, export_scope),
            queue_closed_exception_types=[
                errors.error_code_from_exception_type(kind)
                for kind in self._queue_closed_exception_types
            ],
        )

    @staticmethod
    def from_proto(queue_runner_def: Any, import_scope: str | None = None) -> QueueRunner:
        """A runner from a QueueRunnerDef."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


register_proto_function(
    GraphKeys.QUEUE_RUNNERS,
    proto_type=QueueRunnerDef,
    to_proto=QueueRunner.to_proto,
    from_proto=QueueRunner.from_proto,
)


def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Adds a runner to those that `start_queue_runners` starts."""
    add_to_collection(collection, qr)


def start_queue_runners(
    sess: Any = None,
    coord: Any = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Starts the threads of all queue runners of the graph.

    Args:
      sess: The session; the default session when None.
      coord: Coordinates the threads.
      daemon: Whether the process may end while they run.
      start: Whether to start them, or only to make them.
      collection: The collection that the runners are in.

    Raises:
      ValueError: There is no session.
      TypeError: `sess` is not one.
    """
    if sess is None:
        sess = get_default_session()
        if sess is None:
            raise ValueError(
                "Cannot start queue runners: No default session is registered. Use `with "
                "sess.as_default()` or pass an explicit session to "
                "tf.start_queue_runners(sess=sess)"
            )
    if not isinstance(sess, BaseSession):
        if type(sess).__name__ in ("MonitoredSession", "SingularMonitoredSession"):
            # These start the runners themselves.
            return []
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {type(sess)}")
    with sess.graph.as_default():
        runners = get_collection(collection)
        if not runners:
            logging.warning(
                "`tf.train.start_queue_runners()` was called when no queue runners were defined. "
                "You can safely remove the call to this deprecated function."
            )
        return [
            thread
            for runner in runners
            for thread in runner.create_threads(sess, coord=coord, daemon=daemon, start=start)
        ]
