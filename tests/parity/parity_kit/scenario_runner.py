"""Play a scenario: a session, and a diary of what every step returned or raised.

Invariant: the diary has one entry per call on the Runner, in order, so that two plays of one
scenario, on two modules, can be compared entry by entry.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from parity_kit.execution import GRAPH_SEED, as_array, flatten, initialize
from parity_kit.registry import Scenario

JOIN_SECONDS = 60.0


class Runner:
    """What a scenario calls `run`: `run(fetch, feed)` runs a step and writes down its values."""

    def __init__(self, tf: Any, graph: Any) -> None:
        self.tf = tf
        self.graph = graph
        self.diary: list[dict[str, Any]] = []
        self._session: Any = None

    @property
    def session(self) -> Any:
        """The scenario's session, made when it is first needed."""
        if self._session is None:
            self._session = self.tf.Session(graph=self.graph)
        return self._session

    def __call__(self, fetch: Any, feed: dict[Any, Any] | None = None) -> Any:
        """Run a step and record what it returned."""
        value = self.session.run(fetch, feed)
        self._write("values", fetch, feed, value)
        return value

    def value(self, fetch: Any, feed: dict[Any, Any] | None = None) -> Any:
        """Run a step whose values are not comparable (random numbers); only returns them."""
        value = self.session.run(fetch, feed)
        self._write("unrecorded", fetch, feed, None)
        return value

    def initialize(self) -> None:
        """Run the initializers of all variables and tables that exist by now."""
        names = initialize(self.tf, self.graph, self.session)
        self.diary.append({"kind": "initialize", "targets": names})

    def fails(
        self, error: str, fetch: Any, feed: dict[Any, Any] | None = None, words: Any = ()
    ) -> None:
        """Run a step that must raise this error class, with these words in its message."""
        try:
            self.session.run(fetch, feed)
        except Exception as raised:
            self._check(error, words, raised)
            self._write("error", fetch, feed, None, error)
            return
        raise AssertionError(f"the step was expected to raise {error}, and did not")

    def raises(self, error: str, call: Callable[[], Any], words: Any = ()) -> None:
        """Call something that must raise this error class while the graph is built."""
        try:
            call()
        except Exception as raised:
            self._check(error, words, raised)
            self.diary.append({"kind": "raises", "error": error})
            return
        raise AssertionError(f"the call was expected to raise {error}, and did not")

    def note(self, value: Any) -> None:
        """Record a plain Python value: a name, a static shape, a count."""
        self.diary.append({"kind": "note", "note": _plain(value)})

    def background(self, fetch: Any, feed: dict[Any, Any] | None = None) -> Background:
        """Start a step in a thread (one that blocks until a later step lets it go on)."""
        return Background(self, fetch, feed)

    def close(self) -> None:
        """Close the session, if there was one."""
        if self._session is not None:
            self._session.close()

    def _check(self, error: str, words: Any, raised: BaseException) -> None:
        names = [kind.__name__ for kind in type(raised).__mro__]
        assert error in names, f"expected {error}, got {type(raised).__name__}: {raised}"
        for word in (words,) if isinstance(words, str) else words:
            assert word in str(raised), f"{word!r} is not in the message: {raised}"

    def _write(self, kind: str, fetch: Any, feed: Any, value: Any, error: str = "") -> None:
        element = self.graph.as_graph_element
        entry: dict[str, Any] = {"kind": kind}
        if error:
            entry["error"] = error
        entry["fetch"] = [
            element(leaf, allow_tensor=True, allow_operation=True).name
            for _, leaf in flatten(self.tf, fetch)
        ]
        entry["feed"] = {
            element(leaf).name: as_array(part)
            for key, given in (feed or {}).items()
            for (_, leaf), (_, part) in zip(
                flatten(self.tf, key), _parts(self.tf, key, given), strict=True
            )
        }
        if kind == "values":
            entry["values"] = {path: as_array(v) for path, v in flatten(self.tf, value)}
        self.diary.append(entry)


class Background:
    """A step that runs in a thread."""

    def __init__(self, runner: Runner, fetch: Any, feed: Any) -> None:
        self._runner = runner
        self._fetch, self._feed = fetch, feed
        self._value: Any = None
        self._error: BaseException | None = None
        session = runner.session
        self._thread = threading.Thread(target=self._run, args=(session,), daemon=True)
        self._thread.start()

    def _run(self, session: Any) -> None:
        try:
            self._value = session.run(self._fetch, self._feed)
        except Exception as error:
            self._error = error

    @property
    def waiting(self) -> bool:
        """Whether the step is still running."""
        return self._thread.is_alive()

    def result(self) -> Any:
        """Wait for the step; record and return its value."""
        self._join()
        if self._error is not None:
            raise self._error
        self._runner._write("values", self._fetch, self._feed, self._value)
        return self._value

    def fails(self, error: str, words: Any = ()) -> None:
        """Wait for the step, which must have raised this error class."""
        self._join()
        assert self._error is not None, f"expected {error}, got the value {self._value!r}"
        self._runner._check(error, words, self._error)
        self._runner._write("error", self._fetch, self._feed, None, error)

    def _join(self) -> None:
        self._thread.join(JOIN_SECONDS)
        assert not self._thread.is_alive(), f"still blocked after {JOIN_SECONDS} s: {self._fetch}"


def _parts(tf: Any, key: Any, given: Any) -> list[tuple[str, Any]]:
    """A fed value's parts, beside the parts of what it is fed to."""
    if type(key).__name__ in ("SparseTensor", "IndexedSlices"):
        return flatten(tf, given)
    return [("", np.asarray(given))]


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a note holds plain values only, not {type(value).__name__}: {value!r}")


def play(tf: Any, scenario: Scenario) -> Runner:
    """Play a scenario in a fresh graph; returns the runner with its diary."""
    graph = tf.Graph()
    with graph.as_default():
        graph.seed = GRAPH_SEED
        runner = Runner(tf, graph)
        try:
            scenario.play(runner, tf)
        finally:
            runner.close()
    return runner
