"""Build and run one case on a module (`tensorflow.compat.v1` or `millrace`), and say what came out.

A case is built in a graph of its own, once per static-shape variant:

* known: every placeholder has its input's shape;
* partial: the first dimension (or what the input asks for) is unknown;
* unknown: not even the rank is known; only built, to see what shape inference still finds.

Must not compare anything: that is `comparison`'s work.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parity_kit.inputs import draw, generator
from parity_kit.registry import Case

GRAPH_SEED = 87654321


@dataclass
class Built:
    """A case's graph: what to feed, what to fetch."""

    graph: Any
    feeds: dict[str, Any]
    outputs: list[tuple[str, Any]]
    gradients: dict[str, tuple[str, Any]] = field(default_factory=dict)
    second: dict[str, tuple[str, Any]] = field(default_factory=dict)
    # Placeholders of the incoming gradients, with the arrays that feed them.
    seeds: dict[str, tuple[Any, np.ndarray]] = field(default_factory=dict)
    # Names of the initializers that were run before the step.
    initializers: list[str] = field(default_factory=list)


def flatten(tf: Any, value: Any, path: str = "") -> list[tuple[str, Any]]:
    """The leaves of a case's result, in a fixed order, each with a path that names it."""
    kind = type(value).__name__
    if kind in ("SparseTensor", "SparseTensorValue"):
        parts: Any = {
            "indices": value.indices,
            "values": value.values,
            "dense_shape": value.dense_shape,
        }
        return [leaf for key, part in parts.items() for leaf in flatten(tf, part, f"{path}/{key}")]
    if kind in ("IndexedSlices", "IndexedSlicesValue"):
        parts = {"values": value.values, "indices": value.indices}
        return [leaf for key, part in parts.items() for leaf in flatten(tf, part, f"{path}/{key}")]
    if isinstance(value, dict):
        ordered = sorted(value.items(), key=lambda item: str(item[0]))
        return [leaf for key, part in ordered for leaf in flatten(tf, part, f"{path}/{key}")]
    if isinstance(value, (list, tuple)):
        numbered = enumerate(value)
        return [leaf for key, part in numbered for leaf in flatten(tf, part, f"{path}/{key}")]
    return [(path, value)]


def is_symbolic(leaf: Any) -> bool:
    """Whether a leaf has to be run; a number, string or array is already a result."""
    plain = (np.ndarray, np.generic, bool, int, float, complex, str, bytes, type(None))
    return not isinstance(leaf, plain)


def static_shape(leaf: Any) -> list[int | None] | None:
    """A tensor's static shape as a list, or None when its rank is unknown."""
    shape = leaf.get_shape()
    if shape.ndims is None:
        return None
    return [None if d is None else int(d) for d in shape.as_list()]


def node_names(built: Built) -> dict[str, list[str]]:
    """For each output that is a tensor: the tensor's name, and the type of the op that makes it."""
    return {
        path: [leaf.name, leaf.op.type]
        for path, leaf in built.outputs
        if is_symbolic(leaf) and hasattr(leaf, "op") and hasattr(leaf, "get_shape")
    }


def is_differentiable(tf: Any, leaf: Any) -> bool:
    """Whether tf.gradients may start or end at this leaf."""
    if not isinstance(leaf, tf.Tensor):
        return False
    return bool(leaf.dtype.base_dtype.is_floating or leaf.dtype.base_dtype.is_complex)


def dtype_of(tf: Any, array: np.ndarray) -> Any:
    """The module's dtype for a numpy array."""
    return tf.string if array.dtype.kind == "O" else getattr(tf, array.dtype.name)


def placeholder_shape(case: Case, name: str, array: np.ndarray, variant: str) -> Any:
    """The static shape that a placeholder gets in a variant."""
    if variant == "known":
        return list(array.shape)
    if variant == "unknown":
        return None
    asked = case.inputs[name].partial
    if asked is not None:
        return list(asked)
    return [None, *array.shape[1:]] if array.ndim else []


def arrays_of(case: Case, double: bool = False) -> dict[str, np.ndarray]:
    """A case's inputs; `double` turns float32 into float64 for numeric differentiation."""
    drawn = draw(case.inputs, case.id)
    if double:
        drawn = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in drawn.items()}
    return drawn


def build(tf: Any, case: Case, arrays: dict[str, np.ndarray], variant: str) -> Built:
    """Build a case's forward graph."""
    graph = tf.Graph()
    with graph.as_default():
        graph.seed = GRAPH_SEED
        feeds = {
            name: tf.placeholder(
                dtype_of(tf, array), placeholder_shape(case, name, array, variant), name=name
            )
            for name, array in arrays.items()
        }
        result = case.run(tf, **feeds)
        return Built(graph, feeds, flatten(tf, result))


def add_gradients(
    tf: Any, case: Case, built: Built, shapes: dict[str, tuple[int, ...]], variant: str
) -> None:
    """Add the gradients of a case's outputs, for incoming gradients of the outputs' shapes.

    Args:
        shapes: run-time shape of each differentiable output, by path.
    """
    if not case.grad:
        return
    with built.graph.as_default():
        tensors = [(path, leaf) for path, leaf in built.outputs if is_differentiable(tf, leaf)]
        wanted = [built.feeds[name] for name in case.grad]
        incoming = []
        for path, leaf in tensors:
            incoming.append(_seed(tf, case, built, f"output{path}", leaf, shapes[path], variant))
        gradients = tf.gradients([t for _, t in tensors], wanted, grad_ys=incoming)
        built.gradients = dict(zip(case.grad, _densified(tf, gradients), strict=True))
        if not case.second_order:
            return
        firsts, seconds_in = [], []
        for name, (_, tensor) in built.gradients.items():
            if tensor is None:
                continue
            shape = arrays_of(case)[name].shape
            firsts.append(tensor)
            seconds_in.append(_seed(tf, case, built, f"gradient/{name}", tensor, shape, variant))
        seconds = tf.gradients(firsts, wanted, grad_ys=seconds_in)
        built.second = dict(zip(case.grad, _densified(tf, seconds), strict=True))


def _seed(
    tf: Any, case: Case, built: Built, key: str, leaf: Any, shape: tuple[int, ...], variant: str
) -> Any:
    """A placeholder for the gradient that comes into a tensor, and the array that feeds it."""
    dtype = leaf.dtype.base_dtype
    rng = generator(case.id, "seed", key)
    array = np.asarray(rng.uniform(-1.0, 1.0, size=shape))
    if dtype.is_complex:
        array = array + 1j * rng.uniform(-1.0, 1.0, size=shape)
    static = list(shape) if variant == "known" else None
    name = "seed_" + "".join(c if c.isalnum() else "_" for c in key)
    placeholder = tf.placeholder(dtype, static, name=name)
    built.seeds[key] = (placeholder, np.asarray(array).astype(dtype.as_numpy_dtype))
    return placeholder


def _densified(tf: Any, gradients: list[Any]) -> list[tuple[str, Any]]:
    """Each gradient as (kind, dense tensor); the kind keeps what tf.gradients returned."""
    dense: list[tuple[str, Any]] = []
    for gradient in gradients:
        if gradient is None:
            dense.append(("None", None))
        elif isinstance(gradient, tf.IndexedSlices):
            dense.append(("IndexedSlices", tf.convert_to_tensor(gradient)))
        else:
            dense.append(("Tensor", gradient))
    return dense


def initialize(tf: Any, graph: Any, session: Any) -> list[str]:
    """Run the initializers of whatever state the graph has; returns the names of what was run."""
    with graph.as_default():
        targets = []
        if graph.get_collection("variables"):
            targets.append(tf.global_variables_initializer())
        if graph.get_collection("local_variables"):
            targets.append(tf.local_variables_initializer())
        if graph.get_collection("table_initializer"):
            targets.append(tf.tables_initializer())
    for target in targets:
        session.run(target)
    return [target.name for target in targets]


def run(tf: Any, built: Built, arrays: dict[str, np.ndarray], session: Any) -> dict[str, Any]:
    """Run everything that was built, in one step; returns values by section."""
    feed = {built.feeds[name]: array for name, array in arrays.items()}
    feed.update(dict(built.seeds.values()))
    fetched: dict[str, Any] = {}
    fetched["outputs"] = {path: leaf for path, leaf in built.outputs if is_symbolic(leaf)}
    fetched["gradients"] = {n: t for n, (_, t) in built.gradients.items() if t is not None}
    fetched["second"] = {n: t for n, (_, t) in built.second.items() if t is not None}
    # A case may only look at Python values; a session refuses a graph without operations.
    values = session.run(fetched, feed) if any(fetched.values()) else fetched
    for path, leaf in built.outputs:
        if not is_symbolic(leaf):
            values["outputs"][path] = leaf
    return {section: {k: as_array(v) for k, v in part.items()} for section, part in values.items()}


def as_array(value: Any) -> np.ndarray | None:
    """A result as an array; what an operation returns (nothing) stays None."""
    if value is None:
        return None
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return np.array(value, dtype=object)
    array = np.asarray(value)
    if array.dtype.kind in "SU":
        array = array.astype(object)
    return array


def observe(
    tf: Any, case: Case, variant: str, shapes: dict[str, tuple[int, ...]] | None = None
) -> tuple[Built, dict[str, Any]]:
    """Build a variant, run it, return the graph and the values.

    Args:
        shapes: the outputs' run-time shapes, if they are known already; else the forward graph is
            run once more to learn them.
    """
    arrays = arrays_of(case)
    built = build(tf, case, arrays, variant)
    if shapes is None and case.grad:
        with tf.Session(graph=built.graph) as session:
            initialize(tf, built.graph, session)
            forward = run(tf, built, arrays, session)["outputs"]
            shapes = {path: np.shape(value) for path, value in forward.items()}
    add_gradients(tf, case, built, shapes or {}, variant)
    with tf.Session(graph=built.graph) as session:
        built.initializers = initialize(tf, built.graph, session)
        return built, run(tf, built, arrays, session)


def observe_error(tf: Any, case: Case) -> tuple[str, BaseException]:
    """Build and run a case that must fail; returns the stage ("build" or "run") and the error.

    Raises:
        AssertionError: the case did not fail.
    """
    arrays = arrays_of(case)
    stage = "build"
    variant = case.variants[0]
    try:
        built = build(tf, case, arrays, variant)
        if case.grad:
            add_gradients(tf, case, built, {p: () for p, _ in built.outputs}, variant)
        stage = "run"
        with tf.Session(graph=built.graph) as session:
            initialize(tf, built.graph, session)
            run(tf, built, arrays, session)
    except Exception as error:
        return stage, error
    raise AssertionError(f"{case.id} was expected to raise {case.raises}, and did not")
