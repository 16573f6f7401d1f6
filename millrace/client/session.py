"""`Session`: runs parts of a graph.

Mapping from feeds and fetches to a prepared run is done once for each combination and
cached; a repeated `run` is a dictionary look-up, the feeds' conversion and the step itself.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from millrace.client.backend import Backend, PreparedRun
from millrace.client.feeds import FeedConverter, converted
from millrace.client.fetches import FetchMapper, cache_key, expand_feed
from millrace.client.local import LocalBackend
from millrace.client.remote import RemoteBackend
from millrace.core import errors
from millrace.core.config import ConfigProto
from millrace.graph import stacks
from millrace.graph.convert import is_tensor_like
from millrace.graph.defaults import get_default_graph
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.observe.observation import OBSERVED
from millrace.server.server import find_running

_MAX_CACHED_RUNS = 1024


class DeviceAttributes(NamedTuple):
    """What `Session.list_devices` tells of a device."""

    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int


class _BoundRun:
    """A run of given fetches and feeds, ready to be repeated."""

    __slots__ = ("converters", "prepared", "rebuild")

    def __init__(
        self, mapper: FetchMapper, converters: list[FeedConverter], prepared: PreparedRun
    ) -> None:
        self.rebuild = mapper.rebuild
        self.converters = converters
        self.prepared = prepared


#: A collection of functions that are told what a session runs for the first time: the session, and
#: what it fetches. A key that is no string keeps it out of MetaGraphs.
NEW_RUNS: Any = ("__new_runs",)


class _PartialRun:
    """A partial run that was set up: the backend's run, and what was not fetched yet."""

    def __init__(self, run: Any, pending: set[Tensor | Operation]) -> None:
        self.run = run
        self.pending = pending
        self.asked_for = frozenset(pending)


class BaseSession:
    """What `Session` and `InteractiveSession` share."""

    def __init__(
        self, target: str | bytes = "", graph: Graph | None = None, config: Any = None
    ) -> None:
        if graph is None:
            graph = get_default_graph()
        elif not isinstance(graph, Graph):
            raise TypeError(f"graph must be a tf.Graph, but got {type(graph)}")
        if not isinstance(target, str | bytes):
            raise TypeError(f"target must be a string, but got {type(target)}")
        if config is not None and not isinstance(config, ConfigProto):
            raise TypeError(f"config must be a tf.ConfigProto, but got {type(config)}")
        self._graph = graph
        self._target = target.encode() if isinstance(target, str) else target
        self._config = config if config is not None else ConfigProto()
        self._closed = False
        self._last_calls: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._runs: dict[Any, _BoundRun] = {}
        #: By the tensors and operations that are fetched, and the tensors that are fed.
        self._steps: dict[Any, PreparedRun] = {}
        self._edit_count = graph._edit_count
        self._partial_runs: dict[str, _PartialRun] = {}
        self._partial_run_count = itertools.count()
        self._backend: Backend = make_backend(self._target.decode(), graph, self._config)

    @property
    def graph(self) -> Graph:
        """The graph that is run."""
        return self._graph

    @property
    def graph_def(self) -> Any:
        """The graph as a GraphDef message."""
        return self._graph.as_graph_def()

    @property
    def sess_str(self) -> bytes:
        """The target that the session connects to."""
        return self._target

    def list_devices(self) -> list[DeviceAttributes]:
        """The devices that operations can be placed on."""
        self._check_usable(empty_graph_ok=True)
        return [
            DeviceAttributes(
                device.name, device.device_type, device.memory_limit, device.incarnation
            )
            for device in self._backend.list_devices()
        ]

    def close(self) -> None:
        """Ends the session and frees what it holds; running steps are cancelled."""
        while self._last_calls and not self._closed:
            self._last_calls.pop()()
        self._end(self._backend.close)

    def _end(self, end_backend: Callable[[], None]) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        end_backend()
        self._runs.clear()
        self._steps.clear()

    def _before_close(self, call: Callable[[], None]) -> None:
        """Calls a function once, when the session is about to be closed."""
        self._last_calls.append(call)

    def _not_before_close(self, call: Callable[[], None]) -> None:
        """Takes back what `_before_close` was given."""
        with contextlib.suppress(ValueError):
            self._last_calls.remove(call)

    def __del__(self) -> None:
        self._last_calls = []
        if sys.is_finalizing():
            return  # No thread can be started any more; who serves the session sees us go.
        with contextlib.suppress(Exception):
            self._end(self._backend.close_soon)

    def as_default(self) -> Any:
        """Makes this the default session inside a ``with`` block; does not close it."""
        return stacks.sessions.push(self)

    def _check_usable(self, empty_graph_ok: bool = False) -> None:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if not empty_graph_ok and not self._graph.version:
            raise RuntimeError(
                "The Session graph is empty. Add operations to the graph before calling run()."
            )

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Runs one step and gives the values of `fetches` in the same structure.

        Args:
          fetches: A tensor, operation, name, variable, SparseTensor, or any nesting of
            lists, tuples, namedtuples and dicts of these.
          feed_dict: Values for tensors, by tensor, name or variable.
          options: A RunOptions message.
          run_metadata: A RunMetadata message that is filled in.

        Raises:
          RuntimeError: The session is closed, or the graph is empty.
          ValueError, TypeError: A fetch or feed is wrong.
          OpError: What an operation raised.
        """
        if self._closed or self._edit_count != self._graph._edit_count:
            self._check_usable()
            self._runs.clear()
            self._steps.clear()
            self._edit_count = self._graph._edit_count
        if feed_dict and type(feed_dict) is not dict:
            feed_dict = _as_dict(feed_dict)
        kind = type(fetches)
        if kind is list or kind is tuple:
            found: Any = (kind, *fetches)
        else:
            found = cache_key(fetches) if kind is dict else fetches
        try:
            bound = self._runs.get((found, *feed_dict) if feed_dict else found)
        except TypeError:  # A structure in a structure, or nothing that can be run.
            bound = None
        if bound is None:
            bound, values = self._bind(fetches, feed_dict)
        else:
            values = converted(bound.converters, feed_dict.values()) if feed_dict else []
        if not OBSERVED.enabled:
            return bound.rebuild(self._backend.run(bound.prepared, values, options, run_metadata))
        start = time.perf_counter()
        results = self._backend.run(bound.prepared, values, options, run_metadata)
        OBSERVED.steps.note(time.perf_counter() - start)
        return bound.rebuild(results)

    def _bind(self, fetches: Any, feed_dict: Any) -> tuple[_BoundRun, list[Any]]:
        """What `run` does not find at once: other structures than lists, and what is new."""
        self._check_usable()
        found = cache_key(fetches)
        key = None
        if found is not None:
            key = (found, *feed_dict) if feed_dict else found
            bound = self._runs.get(key)
            if bound is not None:
                return bound, converted(bound.converters, feed_dict.values()) if feed_dict else []
        pairs = _feed_pairs(self._graph, feed_dict)
        mapper = FetchMapper(self._graph, fetches, self)
        converters = [FeedConverter(tensor) for tensor, _ in pairs]
        values = converted(converters, [value for _, value in pairs])
        bound = _BoundRun(mapper, converters, self._prepared(mapper, [t for t, _ in pairs]))
        # Next time the values are converted as they stand, one for each key.
        simple = not feed_dict or (
            len(pairs) == len(feed_dict)
            and all(isinstance(k, Tensor | str) or is_tensor_like(k) for k in feed_dict)
        )
        if key is not None and simple:
            if len(self._runs) >= _MAX_CACHED_RUNS:
                self._runs.clear()
            self._runs[key] = bound
        return bound, values

    def _prepared(self, mapper: FetchMapper, feeds: list[Tensor]) -> PreparedRun:
        """The step for what fetches and feeds of any structure come down to; prepared once."""
        key = (tuple(mapper.tensors), tuple(mapper.targets), tuple(feeds))
        prepared = self._steps.get(key)
        if prepared is None:
            prepared = self._backend.prepare(mapper.tensors, mapper.targets, feeds)
            if len(self._steps) >= _MAX_CACHED_RUNS:
                self._steps.clear()
            self._steps[key] = prepared
            self._tell_of(mapper)
        return prepared

    def _tell_of(self, mapper: FetchMapper) -> None:
        """Tells those who want to know what is run for the first time."""
        for tell in self._graph.get_collection(NEW_RUNS):
            tell(self, [*mapper.tensors, *mapper.targets])

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> str:
        """Prepares a step whose feeds and fetches come in several parts.

        Args:
          fetches: All that will be fetched.
          feeds: All tensors that will be fed.

        Returns:
          A handle for `partial_run`.
        """
        self._check_usable()
        mapper = FetchMapper(self._graph, fetches, self)
        tensors = [
            tensor for feed in feeds or () for tensor, _ in expand_feed(self._graph, feed, None)
        ]
        if not mapper.tensors and not mapper.targets:
            raise errors.InvalidArgumentError(
                None, None, "Must specify at least one target to fetch or execute."
            )
        run = self._backend.partial_run_setup(mapper.tensors, mapper.targets, tensors)
        with self._lock:
            handle = f"partial_run_{next(self._partial_run_count)}"
            self._partial_runs[handle] = _PartialRun(run, {*mapper.tensors, *mapper.targets})
        return handle

    def partial_run(self, handle: str, fetches: Any, feed_dict: Any = None) -> Any:
        """Continues a step that `partial_run_setup` prepared."""
        self._check_usable()
        partial = self._partial_runs.get(handle)
        if partial is None:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Must run 'setup' before performing partial runs! {handle!r} is no handle of a "
                "partial run that is under way: call partial_run_setup first.",
            )
        mapper = FetchMapper(self._graph, fetches, self)
        asked: list[Tensor | Operation] = [*mapper.tensors, *mapper.targets]
        for element in asked:
            if element not in partial.pending:
                why = (
                    "has already been fetched."
                    if element in partial.asked_for
                    else "was not specified in partial_run_setup."
                )
                raise errors.InvalidArgumentError(None, None, f"The fetch {element.name} {why}")
        pairs = _feed_pairs(self._graph, feed_dict and _as_dict(feed_dict))
        values = {tensor: FeedConverter(tensor)(value) for tensor, value in pairs}
        results = self._backend.partial_run(partial.run, mapper.tensors, mapper.targets, values)
        partial.pending.difference_update(asked)
        if not partial.pending:
            self._partial_runs.pop(handle, None)
        return mapper.rebuild(results)

    def _drop_tensor(self, handle: str) -> None:
        """Forgets a tensor that `tf.get_session_handle` kept; its last TensorHandle is gone."""
        if not self._closed:
            self._backend.drop_tensor(handle)

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False
    ) -> Callable[..., Any]:
        """A function that runs `fetches`; its arguments are the values of `feed_list`.

        Args:
          fetches: As in `run`.
          feed_list: Tensors (or names) that the arguments stand for.
          accept_options: Whether the function takes ``options`` and ``run_metadata``.
        """
        self._check_usable()
        if feed_list is not None and not isinstance(feed_list, list | tuple):
            raise TypeError("Argument `feed_list` must be a list or tuple.")
        tensors: list[Tensor] = []
        for feed in feed_list or ():
            tensors.extend(tensor for tensor, _ in expand_feed(self._graph, feed, None))
        mapper = FetchMapper(self._graph, fetches, self)
        converters = [FeedConverter(tensor) for tensor in tensors]
        prepared = self._backend.prepare(mapper.tensors, mapper.targets, tensors)
        self._tell_of(mapper)

        def call(*args: Any, options: Any = None, run_metadata: Any = None) -> Any:
            if not accept_options and (options is not None or run_metadata is not None):
                raise TypeError("This callable was made without accept_options=True")
            if len(args) != len(converters):
                raise TypeError(f"Expected {len(converters)} feed values, got {len(args)}")
            self._check_usable()
            values = converted(converters, args)
            return mapper.rebuild(self._backend.run(prepared, values, options, run_metadata))

        return call

    def _make_repeated(self, fetches: Any) -> tuple[Callable[[], Any], Any]:
        """A function that runs `fetches`, and a step that repeats them by itself.

        The step (`run`, `rest`) is None where nobody else can repeat it.
        """
        self._check_usable()
        mapper = FetchMapper(self._graph, fetches, self)
        prepared = self._backend.prepare(mapper.tensors, mapper.targets, [])

        def call() -> None:
            self._check_usable()
            self._backend.run(prepared, [], None, None)

        return call, self._backend.repeated_step(prepared)


def _as_dict(feed_dict: Any) -> dict[Any, Any]:
    if not isinstance(feed_dict, Mapping):
        raise TypeError(
            f"feed_dict must be a dictionary of values by tensor, not {type(feed_dict)}"
        )
    return dict(feed_dict)


def _feed_pairs(graph: Graph, feed_dict: dict[Any, Any] | None) -> list[tuple[Tensor, Any]]:
    # A tensor that is fed under two names has the last of the values.
    pairs: dict[Tensor, Any] = {}
    for key, value in (feed_dict or {}).items():
        pairs.update(expand_feed(graph, key, value))
    return list(pairs.items())


class Session(BaseSession):
    """Runs operations of a graph and evaluates tensors.

    As a context manager it is the default session, and its graph the default graph, inside
    the block; leaving the block closes it.
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        super().__init__(target, graph, config)
        self._contexts: list[contextlib.ExitStack] = []

    def __enter__(self) -> Session:
        stack = contextlib.ExitStack()
        stack.enter_context(self._graph.as_default())
        stack.enter_context(self.as_default())
        self._contexts.append(stack)
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self._contexts.pop().__exit__(kind, value, trace)
        self.close()

    @staticmethod
    def reset(target: str, containers: list[str] | None = None, config: Any = None) -> None:
        """Drops the named resource containers (or the default one) on `target`."""
        target = target.decode() if isinstance(target, bytes) else target
        config = config or ConfigProto()
        server = find_running(target)
        if server is not None:
            server.reset(containers, config)
        else:
            make_backend(target, None, config).reset(containers)


class InteractiveSession(BaseSession):
    """A session that makes itself the default when made; for interactive use."""

    _count = 0

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        super().__init__(target, graph, config)
        if InteractiveSession._count:
            warnings.warn(
                "An interactive session is already active. This can cause out-of-memory errors "
                "in some cases. You must explicitly call `InteractiveSession.close()` to release "
                "resources held by the other session(s).",
                stacklevel=2,
            )
        InteractiveSession._count += 1
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(stacks.sessions.push(self, loose=True))
        if graph is not None:
            self._stack.enter_context(stacks.graphs.push(graph, loose=True))

    def _end(self, end_backend: Callable[[], None]) -> None:
        """Ends the session and stops being the default."""
        was_open = not self._closed
        super()._end(end_backend)
        if was_open:
            InteractiveSession._count -= 1
            self._stack.close()


def make_backend(target: str, graph: Graph | None, config: Any) -> Backend:
    """The backend for a session target.

    Raises:
      NotFoundError: Nothing serves such a target.
    """
    if target.startswith("grpc://"):
        server = find_running(target)
        if server is None:
            return RemoteBackend(target, graph, config)
        assert graph is not None
        return server.create_session(graph, config)
    return LocalBackend(target, graph, config)
