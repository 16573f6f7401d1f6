"""What updates of rows make of them, without the table around them.

The op types that update rows of a variable put themselves here, so that the runtime may work on
the rows alone (`runtime/stages/rows.py`).
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
