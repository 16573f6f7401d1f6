"""The table of op types: signature, shape rule, kernel and gradient of each.

An entry is complete when every column is filled; a gradient that does not exist is stated
as `NO_GRADIENT`, never left out (a test holds the whole registry to that).

A program uses a few dozen of the 900 types: what must be worked out of a signature's text or
of a kernel's parameters is worked out when it is first asked for, not while modules load.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from tensorboard.compat.proto import op_def_pb2

from millrace.core import errors
from millrace.graph.signature import Signature, name_in, parse


class GradientMarker:
    """A statement about an op's gradient that is not a function."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


#: Nothing has been said yet. The completeness test fails on these.
UNSTATED = GradientMarker("UNSTATED")
#: The op has no gradient: it contributes None (integer outputs, state, strings).
NO_GRADIENT = GradientMarker("NO_GRADIENT")
#: The gradient is `jax.vjp` of the kernel, behind the generic VectorJacobianProduct op.
JAX_GRADIENT = GradientMarker("JAX_GRADIENT")

#: Kernel parameters that are not attributes of the op, and what the runtime passes for them.
SPECIAL_PARAMETERS = {
    "xp": "numpy when every input is a host array, jax.numpy while a segment is traced",
    "rng": "a jax.random key, new in every execution",
    "check": "check(ok, message): fails the step with InvalidArgumentError unless ok holds",
    "ctx": "the step's context: resources, containers, cancellation (host kernels only)",
    "node": "the node itself: name, attributes, output dtypes",
    "invoke": "invoke(function, args, key) -> (outputs, ok): runs a function's body in place",
    "bind": "bind(function, captured, argument) -> a callable of a function that outlives the step",
    "variable": "a VariableRef to the variable that this very node is",
}


#: (node, constants among its inputs) -> its kernel for NumPy, a function of the inputs.
HostRule = Callable[[Any, Sequence[Any]], Callable[..., Any] | None]


class _Probe:
    """Stands for NumPy and says which function was called with what."""

    def __getattr__(self, name: str) -> Callable[..., tuple[str, list[Any]]]:
        return lambda *inputs: (name, list(inputs))


class OpDefinition:
    """All that is known of one op type.

    Attributes:
      kind: ``pure`` (a JAX function, compiled into segments), ``host`` (a Python function on
        NumPy arrays), or ``blocking`` (a host function that may return a Future).
      static_rule: Where `static_inputs` differ from node to node: a function of the node that
        names them.
    """

    def __init__(
        self,
        signature: Signature | str,
        *,
        shape_rule: Callable[..., Any],
        kernel: Callable[..., Any],
        kind: str,
        static_inputs: Iterable[str] | Callable[[Any], Iterable[str]] = (),
        updates: Iterable[str] = (),
        overwrites: Iterable[str] = (),
        is_stateful: bool = False,
        gradient: Any = UNSTATED,
    ) -> None:
        self._stated = signature
        self.name = name_in(signature) if isinstance(signature, str) else signature.name
        self.shape_rule = shape_rule
        self.kernel = kernel
        self.kind = kind
        self.static_rule = static_inputs if callable(static_inputs) else None
        self._static_names = () if callable(static_inputs) else tuple(static_inputs)
        self._updated_names = tuple(updates)
        self._overwritten_names = tuple(overwrites)
        self.is_stateful = is_stateful
        self.gradient_rule: Any = gradient
        #: See `on_host`.
        self.host_rule: HostRule | None = None

    @functools.cached_property
    def signature(self) -> Signature:
        """Inputs, outputs and attributes."""
        return parse(self._stated) if isinstance(self._stated, str) else self._stated

    @functools.cached_property
    def static_inputs(self) -> frozenset[int]:
        """Positions of inputs whose values decide a shape or a program."""
        return self._positions(self._static_names)

    @functools.cached_property
    def updates(self) -> frozenset[int]:
        """Positions of variable inputs that the kernel reads and writes."""
        return self._positions(self._updated_names)

    @functools.cached_property
    def overwrites(self) -> frozenset[int]:
        """Positions of variable inputs that the kernel writes without reading."""
        return self._positions(self._overwritten_names)

    @functools.cached_property
    def kernel_attrs(self) -> tuple[str, ...]:
        """Attributes that the kernel takes as keywords."""
        return tuple(k for k in self._kernel_keywords if k in self.signature.attrs)

    @functools.cached_property
    def specials(self) -> tuple[str, ...]:
        """Which of `SPECIAL_PARAMETERS` the kernel takes."""
        return tuple(k for k in self._kernel_keywords if k not in self.signature.attrs)

    @functools.cached_property
    def _kernel_keywords(self) -> list[str]:
        keywords = [
            p.name
            for p in inspect.signature(self.kernel).parameters.values()
            if p.kind is inspect.Parameter.KEYWORD_ONLY
        ]
        known = {*self.signature.attrs, *SPECIAL_PARAMETERS}
        unknown = [k for k in keywords if k not in known]
        if unknown:
            raise TypeError(f"Kernel of {self.name} wants {unknown}: neither attributes nor known")
        return keywords

    def _positions(self, names: Iterable[str]) -> frozenset[int]:
        return frozenset(self.signature.input_index(name) for name in names)

    @property
    def runs_on_numpy(self) -> bool:
        """Whether the kernel also accepts NumPy arrays (it takes ``xp``)."""
        return "xp" in self.specials

    @property
    def is_foldable(self) -> bool:
        """Whether the outputs can be computed on NumPy ahead of the step, given the inputs."""
        return self.runs_on_numpy and self.kind != "blocking" and not self.is_stateful

    @property
    def is_pure(self) -> bool:
        """Whether the kernel can be traced into a compiled segment."""
        return self.kind == "pure"

    def gradient(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: states the gradient function ``(op, *output_grads) -> input grads``."""
        self.gradient_rule = function
        return function

    def on_host(self, function: HostRule) -> HostRule:
        """Decorator: states ``(node, known) -> function of the inputs``, the kernel for NumPy.

        `known` has the value of each input that is a constant, else None. The function may work
        out beforehand all that follows from these; None says that the kernel itself is as good.
        What NumPy refuses by itself need not be checked: the kernel then says what is wrong.
        """
        self.host_rule = function
        return function

    def host_kernel(self, node: Any, known: Sequence[Any]) -> Callable[..., Any] | None:
        """The kernel of a node for NumPy arrays, if there is a quicker one than the kernel."""
        if self.host_rule is not None:
            return self.host_rule(node, known)
        return self._numpy_function

    @functools.cached_property
    def _numpy_function(self) -> Callable[..., Any] | None:
        """The NumPy function that the kernel hands its inputs to, where it does nothing else."""
        if self.specials != ("xp",) or self.kernel_attrs:
            return None
        kernel = self.kernel
        if hasattr(kernel, "broadcasts"):
            kernel = inspect.unwrap(kernel)  # NumPy refuses what does not broadcast, too.
        inputs = [object() for _ in self.signature.inputs]
        try:
            name, given = kernel(*inputs, xp=_Probe())
        except Exception:
            return None  # It looks at its inputs.
        found = getattr(np, name) if isinstance(name, str) else None
        return found if isinstance(found, np.ufunc) and given == inputs else None

    def op_def(self) -> op_def_pb2.OpDef:
        """The signature as an OpDef message."""
        return self.signature.to_op_def(self.is_stateful)

    def __repr__(self) -> str:
        return f"<op type {self.name} ({self.kind})>"


_definitions: dict[str, OpDefinition] = {}
_named_gradients: dict[str, Any] = {}


def register(definition: OpDefinition) -> None:
    """Adds an op type; two of one name are a programming error."""
    if definition.name in _definitions:
        raise KeyError(f"Op type {definition.name} is registered twice")
    _definitions[definition.name] = definition


def lookup(op_type: str) -> OpDefinition:
    """The definition of `op_type`.

    Raises:
      NotFoundError: No such op type is known.
    """
    definition = _definitions.get(op_type)
    if definition is None:
        raise errors.NotFoundError(
            None,
            None,
            f"Op type not registered {op_type!r} in Millrace. "
            f"Known types near it: {', '.join(near(op_type)) or 'none'}.",
        )
    return definition


def find(op_type: str) -> OpDefinition | None:
    """The definition of `op_type`, or None."""
    return _definitions.get(op_type)


def near(op_type: str) -> list[str]:
    """Registered names that resemble `op_type`."""
    return difflib.get_close_matches(op_type, _definitions, n=3)


def all_definitions() -> list[OpDefinition]:
    """Every registered op type, by name."""
    return [_definitions[name] for name in sorted(_definitions)]


class RegisterGradient:
    """Decorator that registers a gradient function for an op type, or under a new name.

    A name that is no op type can be used through `Graph.gradient_override_map`.
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Registers `function` and returns it."""
        definition = _definitions.get(self._op_type)
        if self._op_type in _named_gradients or (
            definition is not None and definition.gradient_rule is not UNSTATED
        ):
            raise KeyError(f"Registering two gradients with name '{self._op_type}'!")
        _named_gradients[self._op_type] = function
        return function


def no_gradient(op_type: str) -> None:
    """States that `op_type` is not differentiable (`tf.NotDifferentiable`)."""
    _named_gradients[op_type] = NO_GRADIENT


def gradient_rule(op_type: str) -> Any:
    """The gradient function or marker for an op type or an overriding name.

    Raises:
      LookupError: Nothing is registered under that name.
    """
    if op_type in _named_gradients:
        return _named_gradients[op_type]
    definition = _definitions.get(op_type)
    if definition is None or definition.gradient_rule is UNSTATED:
        raise LookupError(f"gradient registry has no entry for: {op_type}")
    return definition.gradient_rule
