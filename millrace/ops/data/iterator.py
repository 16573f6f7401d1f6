"""`tf.data.Iterator`: takes elements from a dataset, as tensors of the graph."""

from __future__ import annotations

import warnings
from typing import Any

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import colocate_with, get_default_graph
from millrace.graph.function import FuncGraph, Function, add_function, unique_function_name
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.control_flow import tensor_list as optionals
from millrace.ops.data import iterator_kernels as kernels
from millrace.ops.data import structure
from millrace.ops.data.transformations import outputs

__all__ = ["GET_NEXT_CALL_WARNING_THRESHOLD", "Iterator", "get_next_as_optional"]

#: After so many calls of `get_next` a program is told that it builds a graph in a loop.
GET_NEXT_CALL_WARNING_THRESHOLD = 32
#: The collection of all iterators of a graph.
GLOBAL_ITERATORS = "iterators"


class Iterator:
    """Takes elements from a dataset.

    Args:
      iterator_resource: The iterator as a tensor of the graph.
      initializer: The operation that begins a pass, or None.
      output_types: The structure of types.
      output_shapes: The structure of shapes.
      output_classes: The structure of classes.
    """

    def __init__(
        self,
        iterator_resource: Tensor,
        initializer: Operation | None,
        output_types: Any,
        output_shapes: Any,
        output_classes: Any,
    ) -> None:
        self._iterator_resource = iterator_resource
        self._initializer = initializer
        if iterator_resource is None:
            raise ValueError("Invalid `iterator_resource`. It must not be None.")
        self._element_spec = structure.from_legacy(output_types, output_shapes, output_classes)
        self._string_handle = kernels.IteratorToStringHandle(iterator_resource)
        self._get_next_call_count = 0
        get_default_graph().add_to_collection(GLOBAL_ITERATORS, iterator_resource)

    @classmethod
    def _over(cls, resource: Tensor, initializer: Operation | None, spec: Any) -> Iterator:
        made = cls(
            resource,
            initializer,
            structure.legacy_types(spec),
            structure.legacy_shapes(spec),
            structure.legacy_classes(spec),
        )
        made._element_spec = spec
        return made

    @staticmethod
    def from_structure(
        output_types: Any,
        output_shapes: Any = None,
        shared_name: str | None = None,
        output_classes: Any = None,
    ) -> Iterator:
        """An iterator that can be initialised with any dataset of this structure.

        Args:
          output_types: The structure of types.
          output_shapes: The structure of shapes; unknown if None.
          shared_name: A name under which sessions of one server share it.
          output_classes: The structure of classes; tensors if None.
        """
        spec = structure.from_legacy(output_types, output_shapes, output_classes)
        resource = _resource(spec, shared_name)
        return Iterator._over(resource, None, spec)

    @staticmethod
    def from_string_handle(
        string_handle: Any,
        output_types: Any,
        output_shapes: Any = None,
        output_classes: Any = None,
    ) -> Iterator:
        """The iterator whose handle (`string_handle`) is fed.

        Args:
          string_handle: A scalar string tensor: what another iterator's `string_handle` gave.
          output_types: The structure of types.
          output_shapes: The structure of shapes; unknown if None.
          output_classes: The structure of classes; tensors if None.
        """
        spec = structure.from_legacy(output_types, output_shapes, output_classes)
        handle = convert_to_tensor(string_handle, dtype=dtypes.string)
        resource = kernels.IteratorFromStringHandleV2(handle, **outputs(spec))
        return Iterator._over(resource, None, spec)

    @property
    def initializer(self) -> Operation:
        """The operation that begins a pass.

        Raises:
          ValueError: This iterator has none: a one-shot one, or one that `make_initializer` begins.
        """
        if self._initializer is None:
            raise ValueError(
                "The iterator does not have an initializer. This means it was likely created using "
                "`tf.data.Dataset.make_one_shot_iterator()`. For an initializable iterator, use "
                "`tf.data.Dataset.make_initializable_iterator()` instead."
            )
        return self._initializer

    def make_initializer(self, dataset: Any, name: str | None = None) -> Operation:
        """The operation that begins a pass over `dataset`.

        Raises:
          TypeError: Its elements have another structure, other types, shapes or classes.
        """
        with get_default_graph().name_scope(name or "make_initializer") as scope:
            spec = dataset.element_spec
            for words, of in (
                ("types", structure.legacy_types),
                ("classes", structure.legacy_classes),
            ):
                mine, its = of(self._element_spec), of(spec)
                if _flat_differs(mine, its):
                    raise TypeError(
                        f"Expected output {words} {mine!r} but got dataset with output {words} "
                        f"{its!r}."
                    )
            for mine, its in zip(
                structure.flatten(self._element_spec), structure.flatten(spec), strict=True
            ):
                if not mine.shape.is_compatible_with(its.shape):
                    raise TypeError(
                        f"Expected output shapes compatible with "
                        f"{structure.legacy_shapes(self._element_spec)!r} but got dataset with "
                        f"output shapes {structure.legacy_shapes(spec)!r}."
                    )
            with colocate_with(self._iterator_resource.op):
                made: Operation = kernels.MakeIterator(
                    dataset._variant_tensor, self._iterator_resource, name=scope
                )
            return made

    def get_next(self, name: str | None = None) -> Any:
        """The next element as tensors; OutOfRangeError in the step when there is none."""
        self._get_next_call_count += 1
        if self._get_next_call_count > GET_NEXT_CALL_WARNING_THRESHOLD:
            warnings.warn(
                "An unusually high number of `Iterator.get_next()` calls was detected. This often "
                "indicates that `Iterator.get_next()` is being called inside a training loop, "
                "which will cause gradual slowdown and eventual resource exhaustion. If this is "
                "the case, restructure your code to call `next_element = iterator.get_next()` once "
                "outside the loop, and use `next_element` as the input to some computation that "
                "is invoked inside the loop.",
                stacklevel=2,
            )
        with colocate_with(self._iterator_resource.op):
            flat = kernels.IteratorGetNext(
                self._iterator_resource, name=name, **outputs(self._element_spec)
            )
            return structure.from_tensors(self._element_spec, flat)

    def get_next_as_optional(self) -> Optional:
        """The next element, or that there is none."""
        return get_next_as_optional(self)

    def string_handle(self, name: str | None = None) -> Tensor:
        """A string tensor to be fed where `from_string_handle` takes one."""
        if name is None:
            return self._string_handle
        return kernels.IteratorToStringHandle(self._iterator_resource, name=name)

    @property
    def element_spec(self) -> Any:
        """The structure of an element, as specs."""
        return self._element_spec

    @property
    def output_types(self) -> Any:
        """The types of an element's components."""
        return structure.legacy_types(self._element_spec)

    @property
    def output_shapes(self) -> Any:
        """The shapes of an element's components."""
        return structure.legacy_shapes(self._element_spec)

    @property
    def output_classes(self) -> Any:
        """The classes of an element's components."""
        return structure.legacy_classes(self._element_spec)


def _flat_differs(a: Any, b: Any) -> bool:
    try:
        parts = structure.flatten_up_to(a, b)
    except (TypeError, ValueError):
        return True
    return any(x != y for x, y in zip(structure.flatten(a), parts, strict=True))


class Optional:
    """An element that may not be there."""

    def __init__(self, variant_tensor: Tensor, element_spec: Any) -> None:
        self._variant_tensor = variant_tensor
        self._element_spec = element_spec

    def _own_spec(self) -> structure.OptionalSpec:
        return structure.OptionalSpec(self._element_spec)

    @staticmethod
    def from_value(value: Any) -> Optional:
        """That there is this element."""
        made = structure.normalized(value)
        tensor = optionals.OptionalFromValue(structure.to_tensors(made))
        return Optional(tensor, structure.specs_of(made))

    @staticmethod
    def none_from_structure(value_structure: Any) -> Optional:
        """That there is none, of this structure."""
        return Optional(optionals.OptionalNone(), value_structure)

    @staticmethod
    def empty(element_spec: Any) -> Optional:
        """That there is none, of this structure."""
        return Optional(optionals.OptionalNone(), element_spec)

    def has_value(self, name: str | None = None) -> Tensor:
        """Whether there is an element."""
        return optionals.OptionalHasValue(self._variant_tensor, name=name)

    def get_value(self, name: str | None = None) -> Any:
        """The element; InvalidArgumentError in the step if there is none."""
        flat = optionals.OptionalGetValue(
            self._variant_tensor, name=name, **outputs(self._element_spec)
        )
        return structure.from_tensors(self._element_spec, flat)

    @property
    def element_spec(self) -> Any:
        """The structure of the element."""
        return self._element_spec

    @property
    def value_structure(self) -> Any:
        """The structure of the element."""
        return self._element_spec


structure.wrappers[structure.OptionalSpec] = lambda tensor, spec: Optional(
    tensor, spec.element_spec
)
structure.leaf_classes[structure.OptionalSpec] = Optional


def get_next_as_optional(iterator: Iterator) -> Optional:
    """The next element of an iterator, or that there is none."""
    with colocate_with(iterator._iterator_resource.op):
        variant = kernels.IteratorGetNextAsOptional(
            iterator._iterator_resource, **outputs(iterator.element_spec)
        )
    return Optional(variant, iterator.element_spec)


# -- Making iterators --------------------------------------------------------------------------


def _resource(spec: Any, shared_name: str | None) -> Tensor:
    made: Tensor = kernels.IteratorV2(container="", shared_name=shared_name or "", **outputs(spec))
    return made


def initializable(variant: Tensor, spec: Any, shared_name: str | None) -> Iterator:
    """An iterator over a dataset, with an initializer."""
    resource = _resource(spec, shared_name)
    with colocate_with(resource.op):
        initializer = kernels.MakeIterator(variant, resource)
    return Iterator._over(resource, initializer, spec)


def one_shot(variant: Tensor, spec: Any) -> Iterator:
    """An iterator over a dataset that is made by a function without arguments.

    Raises:
      ValueError: The dataset uses something that such a function cannot.
    """
    try:
        factory = _by_value(variant)
    except ValueError as error:
        if "Cannot capture" in str(error):
            raise ValueError(
                f"{error}: A likely cause of this error is that the dataset for which you are "
                "calling `make_one_shot_iterator()` captures a stateful object, such as a "
                "`tf.Variable` or `tf.lookup.StaticHashTable`, which is not supported. Use "
                "`make_initializable_iterator()` instead."
            ) from None
        raise
    resource = kernels.OneShotIterator(dataset_factory=factory, **outputs(spec))
    return Iterator._over(resource, None, spec)


def _by_value(variant: Tensor) -> Function:
    """A function without arguments that makes a tensor: all that it depends on is copied."""
    outer = variant.graph
    graph = FuncGraph(unique_function_name(outer, "_make_dataset"), outer)
    copies: dict[Operation, Operation] = {}

    def copied(op: Operation) -> Operation:
        pending = [op]
        while pending:
            current = pending[-1]
            if current in copies:
                pending.pop()
                continue
            waiting = [t.op for t in current.inputs if t.op not in copies]
            waiting += [c for c in current.control_inputs if c not in copies]
            if waiting:
                pending += waiting
                continue
            pending.pop()
            copies[current] = _copy(current)
        return copies[op]

    def _copy(op: Operation) -> Operation:
        if op.type in ("Placeholder", "PlaceholderV2", "_Arg"):
            raise ValueError(
                f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by value."
            )
        makes_dataset = any(t.dtype == dtypes.variant for t in op.outputs)
        if op.definition.is_stateful and not makes_dataset and op.type not in _HARMLESS:
            raise ValueError(
                f"Cannot capture a stateful node (name:{op.name}, type:{op.type}) by value."
            )
        inputs = [copies[t.op].outputs[t.value_index] for t in op.inputs]
        controls = [copies[c] for c in op.control_inputs]
        with graph.control_dependencies(controls):
            made = graph.create_op(op.type, inputs, name=op.name + "/", attrs=_own_attrs(op))
        for new, old in zip(made.outputs, op.outputs, strict=True):
            new.set_shape(old.shape)
        return made

    with graph.as_default():
        output = copied(variant.op).outputs[variant.value_index]
    function = Function(graph, [output], [])
    add_function(graph, function)
    return function


#: Stateful ops that a function can make for itself each time.
_HARMLESS = frozenset(("MatchingFiles", "Assert", "RandomUniform", "RandomUniformInt", "ReadFile"))


def _own_attrs(op: Operation) -> dict[str, Any]:
    return {name: value for name, value in op.attrs.items() if name != "_class"}
