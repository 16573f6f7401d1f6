"""Small stages of whole numbers and truth values, which need no XLA program to be right.

A session looks whether all variables have values, or how long a list is, a few times. On NumPy
the same kernels give the same results (that is how constants fold), within microseconds instead
of the milliseconds that compiling takes. A stage that goes on to be run gets its program.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from millrace.compiler.xla import jax
from millrace.core.dtypes import DType
from millrace.core.value import Value
from millrace.passes.function_body import functions_of
from millrace.passes.node import Edge, Node
from millrace.runtime.kernel_call import Services, StoredState, run_nodes
from millrace.runtime.step import Step

#: How often a stage is run so before it is compiled: a worker that waits for the chief looks about
#: twenty times a second, and compiling takes as long as so many runs.
RUNS = 200
#: How many numbers come in at most.
_MOST_NUMBERS = 4096


def are_host_integers(nodes: Iterable[Node]) -> bool:
    """Whether the nodes compute on whole numbers and truth values alone, without state."""
    return all(
        node.definition.is_pure
        and node.definition.runs_on_numpy
        and not set(node.definition.specials) & {"rng", "ctx", "variable", "invoke"}
        and not functions_of(node)
        and all(_is_exact(edge.dtype) for edge in node.inputs)
        and all(_is_exact(dtype) for dtype in node.output_types)
        for node in nodes
    )


def _is_exact(dtype: DType) -> bool:
    return bool(dtype.is_integer or dtype.is_bool) and not dtype._is_ref_dtype


def is_little(inputs: list[Value]) -> bool:
    """Whether the values that a stage is given are small arrays."""
    return all(isinstance(v, np.ndarray | jax.Array) for v in inputs) and (
        sum(v.size for v in inputs) <= _MOST_NUMBERS
    )


def run(
    nodes: list[Node], edges: list[Edge], values: list[Value], outputs: list[Edge], step: Step
) -> list[Value]:
    """Runs the nodes on NumPy.

    Args:
      nodes: In the order of execution.
      edges: What comes in from outside.
      values: The values of `edges`.
      outputs: What is wanted.
      step: The step's context.
    """
    env = {edge: np.asarray(value) for edge, value in zip(edges, values, strict=True)}
    run_nodes(nodes, env, Services(StoredState(step.resources)))
    return [env[edge] for edge in outputs]
