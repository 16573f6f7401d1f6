"""`tf.py_func`: a Python function as an operation.

The graph holds only a token; the function lives in this process, and as long as the graph that
it was used in. Its arguments are copies: it may change them.
"""

from __future__ import annotations

import itertools
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.core import errors
from millrace.core.dtypes import as_dtype
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import get_default_graph
from millrace.graph.define import op
from millrace.graph.function import FuncGraph
from millrace.graph.graph import Graph
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import unknown
from millrace.graph.tensor import Tensor
from millrace.ops.data_flow.shared_state import type_text

__all__ = ["numpy_function", "py_func", "py_function"]

_tokens = itertools.count()
_functions: weakref.WeakValueDictionary[str, _Function] = weakref.WeakValueDictionary()
_functions_of_graph: weakref.WeakKeyDictionary[Graph, list[_Function]] = weakref.WeakKeyDictionary()


class _Function:
    """Something callable that weak references can point to."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call


def _register(call: Callable[..., Any]) -> str:
    token = f"pyfunc_{next(_tokens)}"
    function = _Function(call)
    graph = get_default_graph()
    if isinstance(graph, FuncGraph):
        graph = graph.root
    _functions[token] = function
    _functions_of_graph.setdefault(graph, []).append(function)
    return token


#: Classes of Python's exceptions that a step tells apart; the rest is UnknownError.
_ERRORS: tuple[tuple[type[Exception], Any], ...] = (
    (TypeError, errors.InvalidArgumentError),
    (ValueError, errors.InvalidArgumentError),
    (StopIteration, errors.OutOfRangeError),
    (MemoryError, errors.ResourceExhaustedError),
    (NotImplementedError, errors.UnimplementedError),
)


def _call(input: list[Any], *, token: bytes, Tout: list[Any]) -> Any:
    """Calls the function that the token stands for."""
    name = token.decode()
    function = _functions.get(name)
    if function is None:
        raise ValueError(
            f"Could not find callback with key={name} in the registry. A function given to "
            "tf.py_func exists only in the process, and as long as the graph, that it was used in."
        )
    # Scalars arrive as NumPy scalars (and bytes), arrays as copies.
    arguments = [value[()] if value.ndim == 0 else np.array(value) for value in input]
    try:
        result = function.call(*arguments)
    except Exception as error:
        kind: Any = next((e for c, e in _ERRORS if isinstance(error, c)), errors.UnknownError)
        raise kind(
            None,
            None,
            f"{type(error).__name__}: {error}\n{''.join(traceback.format_exception(error))}",
        ) from error
    return _outputs(name, result, Tout)


def _outputs(name: str, result: Any, types: list[Any]) -> list[Any]:
    if result is None:
        results = []
    elif isinstance(result, list | tuple):
        results = list(result)
    else:
        results = [result]
    if len(results) != len(types):
        raise ValueError(
            f"{name} returns {len(results)} values, but expects to see {len(types)} values."
        )
    outputs = []
    for i, (value, wanted) in enumerate(zip(results, types, strict=True)):
        array = _as_array(value)
        try:
            found = as_dtype(array.dtype)
        except TypeError:
            raise errors.InternalError(
                None, None, f"Unsupported numpy data type {array.dtype} returned by {name}"
            ) from None
        if found != wanted:
            raise ValueError(
                f"{i}-th value returned by {name} is {type_text(found)}, but expects "
                f"{type_text(wanted)}"
            )
        outputs.append(array)
    return outputs


def _as_array(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind in "SU":
        texts = [t.encode() if isinstance(t, str) else bytes(t) for t in array.ravel().tolist()]
        encoded = np.empty(array.size, dtype=object)
        encoded[:] = texts
        return encoded.reshape(array.shape)
    if array.dtype == object:
        for element in array.flat:
            if not isinstance(element, bytes | str):
                raise errors.InternalError(
                    None, None, f"Unsupported object type {type(element).__name__}"
                )
        encode = np.frompyfunc(lambda t: t.encode() if isinstance(t, str) else t, 1, 1)
        return np.asarray(encode(array), dtype=object)
    # A copy: the function may keep what it returned and change it later.
    return np.array(array.astype(array.dtype.newbyteorder("="), copy=False))


#: Calls a Python function in every step.
PyFunc = op(
    "PyFunc(input: [Tin]) -> output: [Tout] where token: string; Tin: list(type) >= 0; "
    "Tout: list(type) >= 0",
    shape=unknown,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)(_call)

#: As PyFunc, for a function that gives the same result for the same arguments.
PyFuncStateless = op(
    "PyFuncStateless(input: [Tin]) -> output: [Tout] where token: string; "
    "Tin: list(type) >= 0; Tout: list(type) >= 0",
    shape=unknown,
    gradient=NO_GRADIENT,
    host=True,
)(_call)


#: As PyFunc, for a function that expects eager tensors.
EagerPyFunc = op(
    "EagerPyFunc(input: [Tin]) -> output: [Tout] where token: string; is_async: bool = false; "
    "Tin: list(type) >= 0; Tout: list(type) >= 0",
    shape=unknown,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)(_call)


class EagerArray(np.ndarray[Any, Any]):
    """An array that is asked for its value as an eager tensor is."""

    def numpy(self) -> Any:
        """The array itself, a NumPy scalar or bytes if it is one value."""
        plain = self.view(np.ndarray)
        return plain[()] if plain.ndim == 0 else plain


def py_function(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, name: str | None = None
) -> Any:
    """Calls a Python function on values with a method ``numpy()`` when it is evaluated.

    There is no eager execution: inside of `func`, NumPy computes. It has no gradient.

    Args:
      func: Takes as many values as `inp` has tensors; returns an array, or a list of them.
      inp: Tensors.
      Tout: The type of the result, or a list of types. Results are converted to them.
      name: A name for the operation.
    """
    types = [as_dtype(t) for t in (Tout if isinstance(Tout, list | tuple) else [Tout])]

    def call(*values: Any) -> Any:
        result = func(*(np.asarray(v).view(EagerArray) for v in values))
        if result is None:
            return []
        several = isinstance(result, list | tuple) and len(types) != 1
        results = list(result) if several else [result]
        if any(isinstance(each, Tensor) for each in results):
            raise TypeError(
                "the function given to tf.py_function returned a tensor of a graph: Millrace has "
                "no eager execution; compute with NumPy, on the values' numpy()"
            )
        return [
            np.asarray(each, None if t.as_numpy_dtype is object else t.as_numpy_dtype)
            for each, t in zip(results, types, strict=True)
        ]

    tensors = [convert_to_tensor(value) for value in inp]
    made = EagerPyFunc(tensors, token=_register(call), Tout=types, name=name or "EagerPyFunc")
    return made if isinstance(Tout, list | tuple) else made[0]


def py_func(
    func: Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Calls a Python function on NumPy arrays when it is evaluated.

    Args:
      func: Takes as many arrays as `inp` has tensors; returns an array, or a list of them.
      inp: Tensors.
      Tout: The type of the result, or a list of types. Results of other types are an error.
      stateful: Whether it may give different results for the same arguments.
      name: A name for the operation.

    Returns:
      A tensor for a single type, a list of tensors for a list, the operation for an empty one.
    """
    if not callable(func):
        raise ValueError(
            f"Expected func to be callable. Received func={func} of type {type(func)}."
        )
    types = list(Tout) if isinstance(Tout, list | tuple) else [Tout]
    tensors = [convert_to_tensor(value) for value in inp]
    build = PyFunc if stateful else PyFuncStateless
    result = build(tensors, token=_register(func), Tout=types, name=name)
    return result if isinstance(Tout, list | tuple) else result[0]


def numpy_function(
    func: Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,
    name: str | None = None,
) -> Any:
    """The newer name of `py_func`."""
    return py_func(func, inp, Tout, True, name)
