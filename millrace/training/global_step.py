"""The global step: one integer variable that counts training steps of all workers."""

from __future__ import annotations

from typing import Any

from millrace.core import dtypes
from millrace.graph.defaults import get_default_graph
from millrace.graph.graph import Graph
from millrace.graph.keys import GraphKeys
from millrace.graph.tensor import Tensor
from millrace.ops.state import initializers, variable_scope

#: The collection that remembers the tensor of `get_or_create_global_step_read`; TensorFlow's name.
_READ_CACHE = "global_step_read_op_cache"


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """The value of the global step in a session, as an int."""
    return int(sess.run(global_step_tensor))


def get_global_step(graph: Graph | None = None) -> Any:
    """The global step of the graph, or None.

    Raises:
      TypeError: What is there is no integer scalar.
    """
    graph = graph if graph is not None else get_default_graph()
    found = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if len(found) > 1:
        raise ValueError(f"Multiple tensors in global_step collection: {found}")
    if found:
        tensor: Any = found[0]
    else:
        try:
            tensor = graph.get_tensor_by_name("global_step:0")
        except KeyError:
            return None
    assert_global_step(tensor)
    return tensor


def create_global_step(graph: Graph | None = None) -> Any:
    """A new global step, an int64 variable called ``global_step``.

    Raises:
      ValueError: The graph has one already.
    """
    graph = graph if graph is not None else get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with graph.as_default(), graph.name_scope(None):
        return variable_scope.get_variable(
            GraphKeys.GLOBAL_STEP,
            shape=[],
            dtype=dtypes.int64,
            initializer=initializers.zeros_initializer(),
            trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
        )


def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """The graph's global step, made when missing."""
    graph = graph if graph is not None else get_default_graph()
    found = get_global_step(graph)
    return found if found is not None else create_global_step(graph)


def get_global_step_read(graph: Graph | None = None) -> Any:
    """What `get_or_create_global_step_read` made for the graph, or None."""
    graph = graph if graph is not None else get_default_graph()
    made = graph.get_collection(_READ_CACHE)
    if len(made) > 1:
        raise RuntimeError(
            f"There are multiple items in collection {_READ_CACHE}. There should be only one."
        )
    return made[0] if made else None


def get_or_create_global_step_read(graph: Graph | None = None) -> Any:
    """A tensor with a copy of the global step, made when missing; None without a global step.

    Hooks fetch it together with a training operation. It is a copy (TensorFlow's ``+ 0``), so
    that what was fetched does not change when the variable does.

    TensorFlow wraps the read in a conditional that gives the initial value of a step that is not
    initialised; sessions that are ready have no such step, and a conditional on a parameter
    server would cost a round trip in every step.
    """
    graph = graph if graph is not None else get_default_graph()
    made = get_global_step_read(graph)
    if made is not None:
        return made
    step = get_global_step(graph)
    if step is None:
        return None
    with graph.as_default(), graph.name_scope(None), graph.name_scope(step.op.name + "/"):
        value = step if isinstance(step, Tensor) else step.read_value()
        read = value + 0
    graph.add_to_collection(_READ_CACHE, read)
    return read


def assert_global_step(global_step_tensor: Any) -> None:
    """Checks that something can be a global step.

    Raises:
      TypeError: It is no variable or tensor, no integer, or no scalar.
    """
    if not (isinstance(global_step_tensor, Tensor) or hasattr(global_step_tensor, "initializer")):
        raise TypeError(
            f'Existing "global_step" must be a Variable or Tensor: {global_step_tensor}.'
        )
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError(
            f'Existing "global_step" does not have integer type: {global_step_tensor.dtype}'
        )
    if global_step_tensor.get_shape().ndims != 0:
        raise TypeError(f'Existing "global_step" is not scalar: {global_step_tensor.get_shape()}')
