"""Run the graphs that TensorFlow itself built for a case or scenario on another module.

What Millrace builds for `tf.foo` need not be what TensorFlow builds. A stock client sends the
latter, gradient ops and control flow included: these graphs show that its kernels exist and agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parity_kit.comparison import differences
from parity_kit.execution import Built, arrays_of, as_array, flatten, is_symbolic
from parity_kit.registry import Case, Scenario


def replay_of_case(built: Built, case: Case) -> dict[str, Any]:
    """What has to be stored so that a case's graph can be run elsewhere."""
    fetches: dict[str, dict[str, str]] = {
        "outputs": {path: leaf.name for path, leaf in built.outputs if is_symbolic(leaf)},
        "gradients": {n: t.name for n, (_, t) in built.gradients.items() if t is not None},
        "second": {n: t.name for n, (_, t) in built.second.items() if t is not None},
    }
    return {
        "graph": serialized(built.graph),
        "feeds": {name: tensor.name for name, tensor in built.feeds.items()},
        "seeds": {placeholder.name: seed for placeholder, seed in built.seeds.values()},
        "fetches": fetches,
        "initializers": built.initializers,
    }


def serialized(graph: Any) -> bytes:
    """A graph as bytes, without what only tools read."""
    definition = graph.as_graph_def()
    for node in definition.node:
        node.ClearField("experimental_debug_info")
        if "_output_shapes" in node.attr:
            del node.attr["_output_shapes"]
    text = definition.SerializeToString(deterministic=True)
    assert isinstance(text, bytes)
    return text


def imported(tf: Any, graph_bytes: bytes) -> Any:
    """A new graph of the module, filled from a serialized GraphDef."""
    graph = tf.Graph()
    definition = tf.GraphDef()
    definition.ParseFromString(graph_bytes)
    with graph.as_default():
        tf.import_graph_def(definition, name="")
    return graph


def replay_case(tf: Any, case: Case, figures: dict[str, Any]) -> list[str]:
    """Run a case's TensorFlow graph on a module; returns the differences."""
    stored = figures["replay"]
    graph = imported(tf, stored["graph"])
    arrays = arrays_of(case)
    feed: dict[str, Any] = {stored["feeds"][name]: array for name, array in arrays.items()}
    feed.update(stored["seeds"])
    with tf.Session(graph=graph) as session:
        for target in stored["initializers"]:
            session.run(target)
        values = session.run(stored["fetches"], feed)
    found = []
    for section, part in values.items():
        for key, value in part.items():
            expected = figures[section][key]
            found += differences(
                f"{section} {key}", expected, as_array(value), case.rtol, case.atol
            )
    return found


def replay_scenario(tf: Any, scenario: Scenario, figures: dict[str, Any]) -> list[str]:
    """Run a scenario's steps again on TensorFlow's graph; returns the differences."""
    graph = imported(tf, figures["graph"])
    found: list[str] = []
    with tf.Session(graph=graph) as session:
        for number, entry in enumerate(figures["diary"]):
            if entry["kind"] == "initialize":
                for target in entry["targets"]:
                    session.run(target)
            elif entry["kind"] in ("values", "unrecorded", "error"):
                found += _replay_step(tf, session, number, entry, scenario)
    return found


def _replay_step(
    tf: Any, session: Any, number: int, entry: dict[str, Any], scenario: Scenario
) -> list[str]:
    try:
        values = session.run(entry["fetch"], entry["feed"])
    except Exception as error:
        names = [kind.__name__ for kind in type(error).__mro__]
        if entry["kind"] == "error" and entry["error"] in names:
            return []
        if entry["kind"] == "error":
            return [f"step {number}: raised {type(error).__name__}, not {entry['error']}: {error}"]
        raise
    if entry["kind"] == "error":
        return [f"step {number}: expected {entry['error']}, got {values!r}"]
    if entry["kind"] == "unrecorded":
        return []
    found = []
    leaves = flatten(tf, values)
    for (path, expected), (_, value) in zip(entry["values"].items(), leaves, strict=True):
        array: np.ndarray | None = as_array(value)
        found += differences(f"step {number}{path}", expected, array, scenario.rtol, scenario.atol)
    return found
