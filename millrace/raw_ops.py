"""`tf.raw_ops`: every op type as a function of its inputs and attributes, by keyword.

``tf.raw_ops.MatMul(a=x, b=y, transpose_b=True)``. Several outputs come as a namedtuple.
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from millrace.graph import registry

_functions: dict[str, Callable[..., Any]] = {}

#: Arguments that have another name in Python than in the op's signature, as in TensorFlow.
_RENAMED: dict[str, dict[str, str]] = {
    **{
        name: {"axis": "reduction_indices"}
        for name in ("All", "Any", "EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum")
    },
    "ExpandDims": {"axis": "dim"},
    "Select": {"x": "t", "y": "e"},
    "Split": {"axis": "split_dim"},
    "SplitV": {"axis": "split_dim"},
    "Squeeze": {"axis": "squeeze_dims"},
    "Where": {"condition": "input"},
}


def __getattr__(name: str) -> Callable[..., Any]:
    definition = registry.find(name)
    if definition is None or name.startswith("_"):
        raise AttributeError(
            f"There is no op type {name!r}. Types near it: "
            f"{', '.join(registry.near(name)) or 'none'}."
        )
    if name not in _functions:
        _functions[name] = _function(definition)
    return _functions[name]


def __dir__() -> list[str]:
    return [d.name for d in registry.all_definitions() if not d.name.startswith("_")]


def _function(definition: Any) -> Callable[..., Any]:
    fields = [output.name for output in definition.signature.outputs]
    returned: Any = namedtuple(definition.name, fields) if len(fields) > 1 else None
    renamed = _RENAMED.get(definition.name, {})

    def build(**kwargs: Any) -> Any:
        result = definition(**{renamed.get(key, key): value for key, value in kwargs.items()})
        return result if returned is None else returned(*result)

    build.__name__ = build.__qualname__ = definition.name
    build.__doc__ = definition.__doc__
    return build
