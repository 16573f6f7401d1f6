"""What updates of variables make of them, without the variables around it.

The op types that update rows of a variable put themselves here, so that the runtime may work on
the rows alone (`runtime/stages/rows.py`); those that update a whole variable too, so that it may
make many updates as one (`runtime/joint_updates.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class RowUpdate(NamedTuple):
    """An op type that changes rows of variables, each row by itself.

    Attributes:
      variables: How many variables it changes; they are its first inputs.
      gradient: Which input has a value for each row, or one for all.
      indices: Which input names the rows.
      apply: (rows of each variable, the other inputs with None for the indices, node) -> new rows.
    """

    variables: int
    gradient: int
    indices: int
    apply: Callable[[Sequence[Any], Sequence[Any], Any], Sequence[Any]]


#: By op type.
ROW_UPDATES: dict[str, RowUpdate] = {}


class DenseUpdate(NamedTuple):
    """An op type that changes whole variables, element by element.

    Attributes:
      variables: How many variables it changes; they are its first inputs.
      gradient: Which input is the gradient.
      hyper: The rule's further arguments that are inputs: (name, position).
      flags: Those that are attributes.
      rule: (variable, gradient, slots, hyperparameters) -> new variable and slots.
    """

    variables: int
    gradient: int
    hyper: tuple[tuple[str, int], ...]
    flags: tuple[str, ...]
    rule: Callable[..., tuple[Any, ...]]


#: By op type.
DENSE_UPDATES: dict[str, DenseUpdate] = {}
