"""Stages whose results are known once they are traced: constants, and inputs handed on.

Initializers are mostly that: `Assign` of a constant, of zeros, of what another stage has drawn. A
program for them would be compiled, which takes tens of milliseconds, to run once. Large
constants are left to a program all the same: it fills memory without a copy on the host.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from millrace.compiler.xla import jax
from millrace.core.value import Value

#: Constants beyond this many bytes are filled in by a program.
LARGEST_CONSTANT = 1 << 20


class Input(NamedTuple):
    """A result that is one of the stage's inputs, as it came."""

    position: int


class Read(NamedTuple):
    """A result that is the value of one of the variables that the stage reads."""

    position: int


#: What is known of a result.
Known = np.ndarray | Input | Read


class Results(NamedTuple):
    """What is known of each output and of each variable that is written."""

    outputs: list[Known]
    written: list[Known]


class NothingToCompute(Exception):
    """Ends the tracing of a program that is not needed."""

    def __init__(self, results: Results) -> None:
        super().__init__("every result is known without a program")
        self.results = results


def look(
    outputs: list[Value], written: list[Value], inputs: list[Value], read: list[Value]
) -> None:
    """Ends the tracing if there is nothing to compute.

    Args:
      outputs: Values that the program would return.
      written: Values that it would assign to variables.
      inputs: What it is given.
      read: The values of variables.

    Raises:
      NothingToCompute: All of them are known, for all runs with inputs of the same shapes.
    """
    positions: dict[int, Known] = {id(value): Input(i) for i, value in enumerate(inputs)}
    positions.update((id(value), Read(i)) for i, value in enumerate(read))
    found = [_known(value, positions) for value in (*outputs, *written)]
    known = [value for value in found if value is not None]
    if len(known) < len(found):
        return
    if read and any(isinstance(value, np.ndarray) for value in known):
        return  # A variable may get another shape, and a constant be made of that.
    raise NothingToCompute(Results(known[: len(outputs)], known[len(outputs) :]))


def _known(value: object, positions: dict[int, Known]) -> Known | None:
    if isinstance(value, jax.Array):
        return positions.get(id(value))
    if not isinstance(value, np.ndarray) or value.dtype.hasobject:
        return None
    return value if value.nbytes <= LARGEST_CONSTANT else None


def found(result: Known, inputs: list[Value], read: list[Value]) -> Value:
    """A result as a NumPy array, which may be somebody else's."""
    if isinstance(result, np.ndarray):
        return result
    return np.asarray((read if isinstance(result, Read) else inputs)[result.position])


def stored(result: Known, inputs: list[Value], read: list[Value]) -> Value:
    """A result as a variable's value, for XLA.

    It may share memory with a constant, which nobody changes: XLA never writes into memory that
    was lent to it, so that the first update of the variable makes a copy.
    """
    value = found(result, inputs, read)
    if not isinstance(result, np.ndarray):
        value = np.array(value)
    # Not by jnp.asarray: that compiles a program for every shape.
    return jax.device_put(np.asarray(value, order="C"))


def returned(result: Known, inputs: list[Value], read: list[Value]) -> Value:
    """A result as a stage's output."""
    if isinstance(result, Read):
        # A host view keeps later updates from reusing the variable's buffer.
        return np.asarray(read[result.position])
    if isinstance(result, Input):
        value = inputs[result.position]
        # What came from outside may change after the step.
        return value.copy() if type(value) is np.ndarray else value
    return result
