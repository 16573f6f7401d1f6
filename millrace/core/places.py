"""Taking the values at given places of a list, as every stage of every step does.

A comprehension is a call of a Python function for each; what is made here once is none.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any


def taker(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What takes the values at these places, in this order."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    start = places[0] if places else 0
    return operator.itemgetter(slice(start, start + len(places)))  # a value alone would be bare
