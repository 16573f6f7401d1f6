"""`slim.model_analyzer`: sizes of variables and activations, printed."""

from __future__ import annotations

import math
from typing import Any


def analyze_ops(graph: Any, print_info: bool = False) -> int:
    """How many numbers the outputs of all operations hold, where that is known."""
    total = 0
    for op in graph.get_operations():
        size = 0
        for output in op.outputs:
            shape = output.shape
            if shape.is_fully_defined():
                size += math.prod(shape.as_list())
        total += size
        if print_info:
            print(op.name, "\t->", ", ".join(str(o.shape) for o in op.outputs))
    return total


def analyze_vars(variables: Any, print_info: bool = False) -> tuple[int, int]:
    """(numbers, bytes) that variables hold."""
    numbers = size = 0
    for variable in variables:
        count = math.prod(variable.shape.as_list())
        numbers += count
        size += count * variable.dtype.base_dtype.size
        if print_info:
            print(variable.name, tuple(variable.shape.as_list()), count)
    if print_info:
        print(f"Total size of variables: {numbers}\nTotal bytes of variables: {size}")
    return numbers, size
