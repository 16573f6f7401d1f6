"""`tf.test.TestCase`: a unit test with sessions, fresh graphs and repeatable random numbers."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from google.protobuf import text_format

from millrace.client.session import Session
from millrace.core import device_spec, errors
from millrace.core.config import ConfigProto
from millrace.graph import stacks
from millrace.graph.defaults import get_default_graph, get_default_session, reset_default_graph
from millrace.graph.graph import GRAPH_DEF_VERSION, GRAPH_DEF_VERSION_MIN_CONSUMER, Graph
from millrace.platform import logging
from millrace.testing.array_assertions import ArrayAssertions
from millrace.testing.checked_thread import CheckedThread
from millrace.testing.environment import gpu_device_name

_SEED = 87654321


class ErrorLoggingSession(Session):
    """A session that logs what its steps raise."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """As `Session.run`."""
        try:
            return super().run(*args, **kwargs)
        except errors.OutOfRangeError:
            raise  # The end of input is no failure.
        except Exception as error:
            logging.error(str(error))
            raise


class CapturedWrites:
    """What was written to a stream while it was captured."""

    def __init__(self, path: str) -> None:
        self._path = path

    def contents(self) -> str:
        """All of it so far."""
        with open(self._path) as file:
            return file.read()


class TestCase(ArrayAssertions):
    """Base class of tests.

    Each test starts with an empty default graph, whose random seed is fixed.
    """

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        self._threads: list[CheckedThread] = []
        self._tempdir: str | None = None
        self._cached_session: Session | None = None
        self._cached_with: tuple[Any, Any, bool] = (None, None, False)

    def setUp(self) -> None:
        """Resets the default graph and all random seeds."""
        super().setUp()
        self._ClearCachedSession()
        random.seed(_SEED)
        np.random.seed(_SEED)
        # A test that failed inside a ``with`` block may have left defaults behind.
        stacks.graphs.reset()
        reset_default_graph()
        get_default_graph().seed = _SEED

    def tearDown(self) -> None:
        """Closes the cached session; every checked thread must have been joined."""
        try:
            for thread in self._threads:
                thread.check_termination()
        finally:
            self._threads = []
            self._ClearCachedSession()
            super().tearDown()

    def _ClearCachedSession(self) -> None:
        if self._cached_session is not None:
            self._cached_session.close()
            self._cached_session = None

    def get_temp_dir(self) -> str:
        """A folder for this test alone; removed when the test is over."""
        if self._tempdir is None:
            self._tempdir = tempfile.mkdtemp(prefix=f"{type(self).__name__}_")
            self.addCleanup(self._remove_temp_dir)
        return self._tempdir

    def _remove_temp_dir(self) -> None:
        if self._tempdir is not None:
            shutil.rmtree(self._tempdir, ignore_errors=True)
            self._tempdir = None

    # -- Sessions --------------------------------------------------------------------------

    def evaluate(self, tensors: Any) -> Any:
        """The values of a structure of tensors, in the default session or a cached one."""
        session = get_default_session()
        if session is not None:
            return session.run(tensors)
        with self.cached_session() as cached:
            return cached.run(tensors)

    @contextlib.contextmanager
    def session(
        self,
        graph: Graph | None = None,
        config: Any = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Session]:
        """A new session, the default inside the block, closed after it.

        Args:
          graph: The graph to run.
          config: A ConfigProto.
          use_gpu: False puts operations on the CPU.
          force_gpu: True puts operations on the GPU.
        """
        with (
            self._create_session(graph, config, force_gpu) as session,
            self._as_default(session, use_gpu, force_gpu),
        ):
            yield session

    @contextlib.contextmanager
    def cached_session(
        self,
        graph: Graph | None = None,
        config: Any = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Session]:
        """A session that all calls in one test share, so that its variables stay.

        Raises:
          ValueError: The arguments differ from those that it was made with.
        """
        asked = (graph, None if config is None else config.SerializeToString(), force_gpu)
        if self._cached_session is None:
            self._cached_session = self._create_session(graph, config, force_gpu)
            self._cached_with = asked
        else:
            names = ("graph", "config", "force_gpu value")
            for name, now, then in zip(names, asked, self._cached_with, strict=True):
                if now != then:
                    raise ValueError(
                        f"The {name} used to get the cached session is different than the one that "
                        "was used to create the session. Maybe create a new session with "
                        "self.session()"
                    )
        with self._as_default(self._cached_session, use_gpu, force_gpu):
            yield self._cached_session

    @contextlib.contextmanager
    def test_session(
        self,
        graph: Graph | None = None,
        config: Any = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Session]:
        """`cached_session` without a graph, `session` with one. (Not a test, despite its name.)"""
        if self.id().endswith(".test_session"):
            self.skipTest("Not a test.")
        make = self.cached_session if graph is None else self.session
        with make(graph, config, use_gpu, force_gpu) as session:
            yield session

    def _create_session(self, graph: Graph | None, config: Any, force_gpu: bool) -> Session:
        made = ConfigProto()
        if config is not None:
            made.CopyFrom(config)
        else:
            made.allow_soft_placement = not force_gpu
        return ErrorLoggingSession(graph=graph, config=made)

    @contextlib.contextmanager
    def _as_default(self, session: Session, use_gpu: bool, force_gpu: bool) -> Iterator[None]:
        with session.graph.as_default(), session.as_default():
            if force_gpu:
                device: str | None = gpu_device_name() or "/device:GPU:0"
            else:
                device = None if use_gpu else "/device:CPU:0"
            with session.graph.device(device) if device else contextlib.nullcontext():
                yield

    # -- Threads and streams ---------------------------------------------------------------

    def checkedThread(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> CheckedThread:
        """A thread whose exceptions fail this test; it must be joined before the test ends."""
        thread = CheckedThread(self, target, args, kwargs)
        self._threads.append(thread)
        return thread

    @contextlib.contextmanager
    def captureWritesToStream(self, stream: Any) -> Iterator[CapturedWrites]:
        """Captures what the process writes to a stream (``sys.stderr``), Python or not."""
        stream.flush()
        number = stream.fileno()
        kept = os.dup(number)
        path = os.path.join(self.get_temp_dir(), f"captured_{number}")
        with open(path, "w") as file:
            os.dup2(file.fileno(), number)
            try:
                yield CapturedWrites(path)
                stream.flush()
            finally:
                os.dup2(kept, number)
                os.close(kept)

    # -- Messages, errors, devices ---------------------------------------------------------

    def assertProtoEquals(
        self,
        expected_message_maybe_ascii: Any,
        validate_message: Any,
        msg: str | None = None,
        relative_tolerance: float | None = None,
    ) -> None:
        """A message equals another, or one that is given as text.

        Args:
          expected_message_maybe_ascii: The message, or its text.
          validate_message: The message to look at.
          msg: Shown on failure.
          relative_tolerance: Unused; TensorFlow has it.
        """
        expected = expected_message_maybe_ascii
        if isinstance(expected, str | bytes):
            text = expected.decode() if isinstance(expected, bytes) else expected
            expected = text_format.Parse(text, type(validate_message)())
        if type(expected) is not type(validate_message):
            self.fail(
                f"Can't compare protos of type {type(expected)} and {type(validate_message)}."
            )
        if expected != validate_message:
            self.assertMultiLineEqual(  # type: ignore[no-untyped-call]
                str(expected), str(validate_message), msg=msg
            )
            self.fail(self._formatMessage(msg, "The messages differ, though their texts do not."))

    def assertProtoEqualsVersion(
        self,
        expected: str,
        actual: Any,
        producer: int = GRAPH_DEF_VERSION,
        min_consumer: int = GRAPH_DEF_VERSION_MIN_CONSUMER,
        msg: str | None = None,
    ) -> None:
        """`assertProtoEquals` for a GraphDef given as text without its versions."""
        versions = f"versions {{ producer: {producer} min_consumer: {min_consumer} }}\n"
        wanted = text_format.Parse(versions + expected, type(actual)())
        if not min_consumer:
            wanted.versions.ClearField("min_consumer")
        self.assertProtoEquals(wanted, actual, msg=msg)

    def assertStartsWith(self, actual: str, expected_start: str, msg: str | None = None) -> None:
        """The text begins with another."""
        if not actual.startswith(expected_start):
            self.fail(
                self._formatMessage(msg, f"{actual!r} does not start with {expected_start!r}")
            )

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(  # type: ignore[override]
        self, exception_type: Any, expected_err_re_or_predicate: Any
    ) -> Iterator[None]:
        """The block raises such an exception, and its text matches.

        Args:
          exception_type: A class, or several.
          expected_err_re_or_predicate: A regular expression to be found in the message (and in
            the names of the op and those that it was made for), or a function of the exception.
        """
        try:
            yield
        except exception_type as error:
            matches = (
                expected_err_re_or_predicate
                if callable(expected_err_re_or_predicate)
                else _message_matcher(expected_err_re_or_predicate)
            )
            if not matches(error):
                raise AssertionError(
                    f"Exception of type {type(error)} did not match "
                    f"{expected_err_re_or_predicate!r}: {error}"
                ) from error
        else:
            self.fail(f"{exception_type} not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        """The block raises an OpError whose text matches."""
        return self.assertRaisesWithPredicateMatch(errors.OpError, expected_err_re_or_predicate)

    def assertRaisesIncompatibleShapesError(
        self, exception_type: Any = errors.InvalidArgumentError
    ) -> Any:
        """The block raises an error about shapes that do not fit together."""
        return self.assertRaisesWithPredicateMatch(
            exception_type, r"Incompatible shapes|Dimensions must be equal|required broadcastable"
        )

    def assertDeviceEqual(self, device1: Any, device2: Any, msg: str | None = None) -> None:
        """Two device names mean the same."""
        first, second = device_spec.canonical_name(device1), device_spec.canonical_name(device2)
        self.assertEqual(
            first, second, self._formatMessage(msg, f"Devices {first} and {second} are not equal.")
        )

    def assertItemsEqual(self, first: Any, second: Any, msg: str | None = None) -> None:
        """`assertCountEqual`, under its name in Python 2."""
        self.assertCountEqual(first, second, msg)


def _message_matcher(pattern: str) -> Callable[[BaseException], bool]:
    def matches(error: BaseException) -> bool:
        text = error.message if isinstance(error, errors.OpError) else str(error)
        op = getattr(error, "op", None)
        while op is not None:
            text += f"\nCaused by: {op.name}"
            op = getattr(op, "_original_op", None)
        return re.search(pattern, text) is not None

    return matches
