"""The functions that TensorFlow generates from its op definitions: `raw_ops` and `gen_*_ops`.

Each has the names, order and defaults that TensorFlow 1.15 gives its parameters. They are made
when they are first asked for. Which function is in which module, and where a parameter has another
name than the op's argument, is recorded in generated_ops.txt (docs/tools/record_tensorflow_tree.py
writes it); defaults are those of the op.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections import namedtuple
from collections.abc import Callable
from importlib import resources
from typing import Any

from millrace.graph import registry
from millrace.graph.registry import OpDefinition
from millrace.graph.signature import MISSING


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A generated function: its op type, and the op's argument behind each parameter."""

    op_type: str
    arguments: dict[str, str]


@functools.cache
def record() -> dict[str, dict[str, Function]]:
    """The functions by module (``python.ops.gen_math_ops``) and name."""
    found: dict[str, dict[str, Function]] = {}
    text = resources.files("millrace.compat").joinpath("generated_ops.txt").read_text()
    for line in text.splitlines():
        module, name, op_type, *words = line.split()
        pairs = (word.rstrip("?").partition(":") for word in words)
        arguments = {parameter: own or parameter for parameter, _, own in pairs}
        found.setdefault(module, {})[name] = Function(op_type, arguments)
    return found


@functools.cache
def _by_op_type() -> dict[str, Function]:
    return {each.op_type: each for module in record().values() for each in module.values()}


def offered(module: str) -> list[str]:
    """The functions of a module whose ops Millrace has."""
    return [n for n, f in record()[module].items() if registry.find(f.op_type) is not None]


def raw_function(name: str) -> Callable[..., Any]:
    """``tf.raw_ops.MatMul``, which takes its arguments by keyword only.

    Raises:
      AttributeError: There is no such op type.
    """
    if name.startswith("_"):
        raise AttributeError(name)
    return _made(_definition(name), name, inspect.Parameter.KEYWORD_ONLY)


def generated_function(module: str, name: str) -> Callable[..., Any]:
    """``mat_mul`` of ``python.ops.gen_math_ops``, which takes them by position too.

    Raises:
      AttributeError: TensorFlow has no such function in that module, or Millrace not its op.
    """
    function = record()[module].get(name)
    if function is None:
        raise AttributeError(f"TensorFlow's {module} has no function {name!r}")
    return _made(_definition(function.op_type), name, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _definition(op_type: str) -> OpDefinition:
    definition = registry.find(op_type)
    if definition is None:
        raise AttributeError(
            f"There is no op type {op_type!r}. Types near it: "
            f"{', '.join(registry.near(op_type)) or 'none'}."
        )
    return definition


@functools.cache
def _made(definition: Any, name: str, kind: Any) -> Callable[..., Any]:
    arguments = _arguments(definition)
    signature = _signature(definition, arguments, kind)
    fields = [output.name for output in definition.signature.outputs]
    returned: Any = namedtuple(definition.name, fields) if len(fields) > 1 else None

    def function(*args: Any, **keywords: Any) -> Any:
        extra = {k: keywords.pop(k) for k in list(keywords) if k.startswith("_")}
        try:
            bound = signature.bind(*args, **keywords)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        given = {arguments.get(key, key): value for key, value in bound.arguments.items()}
        result = definition(**given, **extra)
        return result if returned is None else returned(*result)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = definition.__doc__ or f"Adds a node of type {definition.name} to the graph."
    vars(function)["__signature__"] = signature
    return function


def _arguments(definition: OpDefinition) -> dict[str, str]:
    """The op's argument behind each parameter, in TensorFlow's order of parameters."""
    signature = definition.signature
    inferred = {
        each
        for arg in signature.inputs
        for each in (arg.type_attr, arg.number_attr, arg.type_list_attr)
    }
    attrs = [spec for spec in signature.attrs.values() if spec.name not in inferred]
    attrs.sort(key=lambda spec: spec.default is not MISSING)
    own = [arg.name for arg in signature.inputs] + [spec.name for spec in attrs]
    recorded = _by_op_type().get(definition.name)
    if recorded is None:  # an op that is younger than 1.15
        return {each: each for each in own}
    arguments = {p: a for p, a in recorded.arguments.items() if a in own}
    return arguments | {each: each for each in own if each not in arguments.values()}


def _signature(definition: OpDefinition, arguments: dict[str, str], kind: Any) -> inspect.Signature:
    parameters = []
    for parameter, own in arguments.items():
        spec = definition.signature.attrs.get(own)
        default = inspect.Parameter.empty
        if spec is not None and spec.default is not MISSING:
            default = _shown(spec.default)
        parameters.append(inspect.Parameter(parameter, kind, default=default))
    recorded = _by_op_type().get(definition.name)
    place = len(recorded.arguments) if recorded else len(parameters)
    # What younger versions added follows behind: who passes by position means 1.15's places.
    parameters.insert(place, inspect.Parameter("name", kind, default=None))
    return inspect.Signature(parameters)


def _shown(default: Any) -> Any:
    """An attribute's default as a caller would write it."""
    if isinstance(default, bytes):
        return default.decode()
    if isinstance(default, list | tuple):
        return [_shown(each) for each in default]
    return default
