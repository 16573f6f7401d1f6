"""What Keras keeps between calls: defaults, the learning phase, names given, and the session.

The learning phase, the counters of names and the list of variables belong to a graph; they go
with it.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import millrace as tf


class _Defaults:
    """Settings that all graphs of the process share."""

    floatx = "float32"
    epsilon = 1e-7
    image_data_format = "channels_last"
    manual_initialization = False


class _PerGraph:
    """What Keras notes about one graph."""

    def __init__(self) -> None:
        self.name_counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.uids: dict[str, int] = defaultdict(int)
        self.learning_phase: Any = None
        #: Variables that layers made, which `get_session` initialises.
        self.variables: list[Any] = []


_graphs: weakref.WeakKeyDictionary[Any, _PerGraph] = weakref.WeakKeyDictionary()
#: For each session the variables that are known to be initialised there.
_initialized: weakref.WeakKeyDictionary[Any, set[Any]] = weakref.WeakKeyDictionary()


class _Session(threading.local):
    def __init__(self) -> None:
        self.session: Any = None


_own = _Session()


def of_graph() -> _PerGraph:
    """The notes about the default graph (the outermost, inside a function's body)."""
    graph: Any = tf.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    found = _graphs.get(graph)
    if found is None:
        found = _graphs[graph] = _PerGraph()
    return found


def floatx() -> str:
    """The default type of floating-point values, as a text."""
    return _Defaults.floatx


def set_floatx(value: str) -> None:
    """Sets the default type.

    Raises:
      ValueError: It is not float16, float32 or float64.
    """
    if value not in ("float16", "float32", "float64"):
        raise ValueError(f"Unknown floatx type: {value}")
    _Defaults.floatx = str(value)


def epsilon() -> float:
    """The small number that keeps divisions and logarithms finite."""
    return _Defaults.epsilon


def set_epsilon(value: float) -> None:
    """Sets that small number."""
    _Defaults.epsilon = float(value)


def image_data_format() -> str:
    """``channels_last`` or ``channels_first``."""
    return _Defaults.image_data_format


def set_image_data_format(data_format: str) -> None:
    """Sets the default layout of images.

    Raises:
      ValueError: It is neither.
    """
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(f"Unknown data_format: {data_format}")
    _Defaults.image_data_format = data_format


def manual_variable_initialization(value: bool) -> None:
    """Whether the program initialises variables itself, and not `get_session`."""
    _Defaults.manual_initialization = bool(value)


def learning_phase() -> Any:
    """0 for inference, 1 for training: a number if it was set, else a tensor that is fed."""
    notes = of_graph()
    if notes.learning_phase is None:
        with tf.init_scope():
            notes.learning_phase = tf.placeholder_with_default(
                False, shape=(), name="keras_learning_phase"
            )
    return notes.learning_phase


def set_learning_phase(value: int | bool) -> None:
    """Fixes the learning phase of the graph.

    Raises:
      ValueError: It is neither 0 nor 1.
    """
    if value not in (0, 1):
        raise ValueError("Expected learning phase to be 0 or 1.")
    of_graph().learning_phase = int(value)


@contextlib.contextmanager
def learning_phase_scope(value: int | bool) -> Iterator[None]:
    """Fixes the learning phase for a block."""
    notes = of_graph()
    before = notes.learning_phase
    set_learning_phase(value)
    try:
        yield
    finally:
        notes.learning_phase = before


def get_uid(prefix: str = "") -> int:
    """A number that counts up for each prefix, in each graph."""
    notes = of_graph()
    notes.uids[prefix] += 1
    return notes.uids[prefix]


def reset_uids() -> None:
    """Begins to count names from the start."""
    notes = of_graph()
    notes.uids.clear()
    notes.name_counts.clear()


def unique_object_name(
    name: str,
    avoid: set[str] | None = None,
    namespace: str = "",
    zero_based: bool = False,
) -> str:
    """`name` with a number that makes it unique among the layers of the graph.

    Args:
      name: The name wanted.
      avoid: Names that are taken in the same namespace.
      namespace: Numbers count by namespace.
      zero_based: Whether the first has no number.
    """
    counts = of_graph().name_counts[namespace]
    proposed: str | None = None
    while proposed is None or proposed in (avoid or ()):
        if zero_based:
            proposed = f"{name}_{counts[name]}" if counts[name] else name
            counts[name] += 1
        else:
            counts[name] += 1
            proposed = f"{name}_{counts[name]}"
    return proposed


def track_variable(variable: Any) -> None:
    """Notes a variable, for `get_session` to initialise."""
    of_graph().variables.append(variable)


def get_session(op_input_list: Any = ()) -> Any:
    """The default session, or Keras's own for the default graph; its variables initialised."""
    session = tf.get_default_session()
    graph = tf.get_default_graph()
    if session is None:
        session = _own.session
        if session is None or session.graph is not graph:
            session = _own.session = tf.Session(graph=graph)
    if not _Defaults.manual_initialization:
        with session.graph.as_default():
            _initialize_variables(session)
    return session


def set_session(session: Any) -> None:
    """The session that Keras is to use in this thread."""
    _own.session = session


def clear_session() -> None:
    """Begins with an empty graph, a new session and fresh names."""
    tf.reset_default_graph()
    reset_uids()
    _own.session = None


def _initialize_variables(session: Any) -> None:
    notes = of_graph()
    initialized = _initialized.setdefault(session, set())
    fresh = [
        v
        for v in dict.fromkeys([*notes.variables, *tf.global_variables(), *tf.local_variables()])
        if v not in initialized
    ]
    if not fresh:
        return
    done = session.run([tf.is_variable_initialized(v) for v in fresh])
    missing = [v for v, is_done in zip(fresh, done, strict=True) if not is_done]
    if missing:
        session.run(tf.variables_initializer(missing))
    initialized.update(fresh)
