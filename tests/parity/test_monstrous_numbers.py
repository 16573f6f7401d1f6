"""Numbers that ask for monstrous outputs, given to every op that takes numbers.

No op is named here. Two sources say what a working call of an op looks like: the graphs that
TensorFlow built for the parity cases, and, for ops whose inputs decide shapes and that no case has,
arguments drawn at random until some work. Then each input of whole numbers is fed with sizes that
no machine has. Whatever the op makes of them (an answer, since they were indices; an error), it
takes little memory, and an error is one that a client can act on.
"""

from __future__ import annotations

import functools
import importlib
import random
import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from parity_kit import figures as stored_figures
from parity_kit.execution import arrays_of
from parity_kit.registry import Case, load_library
from parity_kit.replay import imported

NUMBERS = (2**31 - 1, -(2**31), 2**62)
#: What the task may have for one value, and what an op may take besides.
LIMIT, MORE, SYSTEM = 64 << 20, 256 << 20, 2 << 30
CASES = [case for case in load_library().cases.values() if case.replay is True]
FAMILIES = sorted({case.family for case in CASES})
TRIES = 60
SHAPES = [(), (1,), (2,), (3,), (2, 2), (4, 4), (1, 2, 2, 1)]


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A limit for the task, and one of the system's, should the first one not hold."""
    monkeypatch.setenv("MILLRACE_COMPILE", "never")
    monkeypatch.setenv("MILLRACE_MAX_MEMORY_BYTES", str(LIMIT))
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SYSTEM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


class Found(NamedTuple):
    """A node of a recorded graph."""

    case: Case
    replay: dict[str, Any]
    node: str


@functools.cache
def smallest_graphs() -> dict[str, Found]:
    """For each op type the smallest recorded graph that has a node of it."""
    graph_pb2 = importlib.import_module("tensorboard.compat.proto.graph_pb2")
    sizes: dict[str, int] = {}
    found: dict[str, Found] = {}
    figures = {family: stored_figures.load(family) for family in FAMILIES}
    for case in CASES:
        replay = figures[case.family].get(case.name, {}).get("replay")
        if not replay:
            continue
        graph = graph_pb2.GraphDef.FromString(replay["graph"])
        for node in graph.node:
            if len(graph.node) < sizes.get(node.op, 1 << 30):
                sizes[node.op] = len(graph.node)
                found[node.op] = Found(case, replay, node.name)
    return found


def monstrous(value: np.ndarray) -> Iterator[np.ndarray]:
    """Arrays like this one, with numbers that are no sizes: all of them, or the last one."""
    for number in NUMBERS:
        if np.iinfo(value.dtype).min <= number <= np.iinfo(value.dtype).max:
            yield np.full_like(value, number)
            if value.size > 1:
                one = value.copy()
                one.flat[-1] = number
                yield one


def whole_numbers(op: Any) -> list[Any]:
    """The inputs of an operation that are arrays of whole numbers."""
    return [
        tensor
        for tensor in dict.fromkeys(op.inputs)
        if tensor.dtype.is_integer and not tensor.dtype._is_ref_dtype
    ]


def peak() -> int:
    """The most that this process had since it was last asked, in bytes; and forgets it."""
    status = Path("/proc/self/status").read_text()
    Path("/proc/self/clear_refs").write_text("5")
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def complaints(tf: Any, session: Any, op: Any, feed: dict[Any, Any]) -> list[str]:
    """What is wrong with how an op takes monstrous numbers; nothing else has failed before."""
    found = []
    for tensor in whole_numbers(op):
        value = np.asarray(session.run(tensor, feed))
        for numbers in monstrous(value):
            peak()
            before, said = peak(), "answered"
            try:
                session.run(op.outputs or op, {**feed, tensor: numbers})
            except (tf.errors.InternalError, tf.errors.UnknownError) as error:
                found.append(f"{op.type}, {tensor.name} = {numbers.tolist()}: {error!r}")
            except tf.errors.OpError as error:
                said = repr(error)
                if "Unable to allocate" in said:  # NumPy's words: nobody has asked before.
                    found.append(f"{op.type}, {tensor.name} = {numbers.tolist()}: {said}")
            except Exception as error:
                found.append(f"{op.type}, {tensor.name} = {numbers.tolist()}: {error!r}")
            taken = peak() - before
            if taken > LIMIT + MORE:
                found.append(
                    f"{op.type}, {tensor.name} = {numbers.tolist()}: took {taken:,} bytes; {said}"
                )
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_ops_of_recorded_graphs(family: str) -> None:
    tf, found = importlib.import_module("millrace"), []
    for case, replay, node in smallest_graphs().values():
        if case.family != family:
            continue
        graph = imported(tf, replay["graph"])
        op = graph.get_operation_by_name(node)
        if not whole_numbers(op):
            continue
        feed = {replay["feeds"][name]: array for name, array in arrays_of(case).items()}
        feed = {graph.get_tensor_by_name(n): v for n, v in {**feed, **replay["seeds"]}.items()}
        with tf.Session(graph=graph) as session:
            for target in replay["initializers"]:
                session.run(target)
            try:
                session.run([*whole_numbers(op), *op.outputs], feed)
            except tf.errors.InvalidArgumentError:
                continue  # Nodes of loops have no value outside of them.
            found += complaints(tf, session, op, feed)
    assert not found, "\n".join(found)


def drawn(draw: random.Random, definition: Any) -> tuple[dict[str, Any], Sequence[Any]]:
    """Attributes and types of inputs of an op, by its signature."""
    signature_module = importlib.import_module("millrace.graph.signature")
    dtypes = importlib.import_module("millrace.core.dtypes")
    attrs: dict[str, Any] = {}
    for name, spec in definition.signature.attrs.items():
        if spec.default is not signature_module.MISSING:
            attrs[name] = spec.default
        elif spec.type == "type":
            attrs[name] = draw.choice(spec.allowed or (dtypes.float32, dtypes.int32))
        elif spec.type == "int":
            attrs[name] = max(spec.minimum or 0, 1)
        elif spec.type == "string":
            attrs[name] = draw.choice(spec.allowed or (b"",))
        elif spec.type == "list(int)":
            attrs[name] = [1] * draw.choice((2, 4))
        else:
            raise ValueError(spec.type)
    return attrs, definition.signature.input_types(attrs)


def unrecorded() -> list[Any]:
    """Ops whose inputs decide shapes, and that no recorded graph has."""
    registry = importlib.import_module("millrace.graph.registry")
    return [
        each
        for each in registry.all_definitions()
        if (each.static_rule or each.static_inputs) and each.name not in smallest_graphs()
    ]


def test_ops_whose_inputs_decide_shapes_and_that_no_recorded_graph_has() -> None:
    tf, found, tried = importlib.import_module("millrace"), [], []
    for definition in unrecorded():
        draw = random.Random(definition.name)
        for _ in range(TRIES):
            try:
                attrs, types = drawn(draw, definition)
                arrays = [
                    np.full(draw.choice(SHAPES), draw.choice((0, 1, 2)), each.as_numpy_dtype)
                    for each in types
                ]
            except (ValueError, TypeError, KeyError):
                break  # It takes something else than arrays.
            graph = tf.Graph()
            try:
                with graph.as_default():
                    inputs = [tf.placeholder(array.dtype, array.shape) for array in arrays]
                    outputs = definition.signature.output_types(attrs)
                    op = graph.create_op(definition.name, inputs, outputs, attrs=attrs)
            except ValueError:
                continue
            feed = dict(zip(inputs, arrays, strict=True))
            with tf.Session(graph=graph) as session:
                try:
                    session.run(op.outputs, feed)
                except Exception:
                    continue
                tried.append(definition.name)
                found += complaints(tf, session, op, feed)
            break
    assert not found, "\n".join(found)
    assert len(tried) > 8, tried
