"""Op types of iterators: they make, fill, empty and save one."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import errors
from millrace.core.resource_handle import ResourceHandle, handle_array, handle_of
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, none, scalars
from millrace.ops.data.define import OUTPUTS, boxed, dataset_of
from millrace.ops.data.iterator_resource import IteratorResource, check_same
from millrace.ops.data_flow import shared_state
from millrace.ops.strings.string_arrays import scalar_bytes

__all__: list[str] = []

_NAMES = "shared_name: string; container: string"


def _make(ctx: Any, node: Any, types: Any, shapes: Any) -> Any:
    def make_handle() -> Any:
        handle = shared_state.name_of(ctx, node)
        resource = shared_state.make(
            IteratorResource, ctx, handle, lambda: IteratorResource(handle.name, types, shapes)
        )
        check_same(types, shapes, resource.types, resource.shapes)
        return handle_array(handle)

    return shared_state.once(ctx, node, make_handle)


def _iterator(*, output_types: Any, output_shapes: Any, ctx: Any, node: Any) -> Any:
    return _make(ctx, node, output_types, output_shapes)


#: An iterator that is filled by `MakeIterator`.
IteratorV2 = op(
    f"IteratorV2() -> handle: resource where {_NAMES}; {OUTPUTS}",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)(_iterator)
Iterator = op(
    f"Iterator() -> handle: resource where {_NAMES}; {OUTPUTS}",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)(_iterator)


@op(
    f"OneShotIterator() -> handle: resource where dataset_factory: func; {OUTPUTS}; "
    'container: string = ""; shared_name: string = ""',
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def OneShotIterator(
    *, dataset_factory: Any, output_types: Any, output_shapes: Any, ctx: Any, node: Any, bind: Any
) -> Any:
    """An iterator that makes its dataset itself, once."""

    def make_handle() -> Any:
        handle = shared_state.name_of(ctx, node)

        def create() -> IteratorResource:
            (dataset,) = bind(dataset_factory)([])
            made = IteratorResource(handle.name, output_types, output_shapes)
            made.begin(dataset_of(dataset), ctx)
            return made

        shared_state.make(IteratorResource, ctx, handle, create)
        return handle_array(handle)

    return shared_state.once(ctx, node, make_handle)


@op(
    "MakeIterator(dataset: variant, iterator: resource)",
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def MakeIterator(dataset: Any, iterator: Any, *, ctx: Any) -> Any:
    """Lets an iterator begin with a dataset."""
    shared_state.find(IteratorResource, ctx, iterator).begin(dataset_of(dataset), ctx)
    return ()


def _stated_shapes(c: ShapeContext) -> Any:
    return c.attr("output_shapes")


def _get_next(iterator: Any, *, ctx: Any) -> Any:
    return shared_state.find(IteratorResource, ctx, iterator).get_next(ctx)


#: The next element.
IteratorGetNext = op(
    f"IteratorGetNext(iterator: resource) -> components: [output_types] where {OUTPUTS}",
    shape=_stated_shapes,
    gradient=NO_GRADIENT,
    blocking=True,
    stateful=True,
)(_get_next)
IteratorGetNextSync = op(
    f"IteratorGetNextSync(iterator: resource) -> components: [output_types] where {OUTPUTS}",
    shape=_stated_shapes,
    gradient=NO_GRADIENT,
    blocking=True,
    stateful=True,
)(_get_next)


@op(
    "IteratorToStringHandle(resource_handle: resource) -> string_handle: string",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def IteratorToStringHandle(resource_handle: Any) -> Any:
    """The name of an iterator as a string that can be fed."""
    handle = handle_of(resource_handle)
    return boxed(f"{handle.container}\n{handle.name}".encode())


def _from_string_handle(
    string_handle: Any, *, output_types: Any, output_shapes: Any, ctx: Any
) -> Any:
    text = scalar_bytes(string_handle, "string_handle")
    container, separator, name = text.decode(errors="replace").partition("\n")
    if not separator:
        raise ValueError(f"Could not parse string_handle as a valid ResourceHandle: {text!r}")
    handle = ResourceHandle(container, name)
    found = ctx.resources.get(IteratorResource, handle)
    check_same(output_types, output_shapes, found.types, found.shapes)
    return handle_array(handle)


_FROM_STRING = (
    "(string_handle: string) -> resource_handle: resource where output_types: list(type) >= 0 = "
    "[]; output_shapes: list(shape) >= 0 = []"
)
IteratorFromStringHandleV2 = op(
    f"IteratorFromStringHandleV2{_FROM_STRING}",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)(_from_string_handle)
IteratorFromStringHandle = op(
    f"IteratorFromStringHandle{_FROM_STRING}",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)(_from_string_handle)


# -- State ---------------------------------------------------------------------------------


def _unknown(c: ShapeContext) -> TensorShape:
    return unknown_shape()


@op(
    "SerializeIterator(resource_handle: resource) -> serialized: variant where "
    "external_state_policy: int = 0",
    shape=_unknown,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def SerializeIterator(resource_handle: Any, *, ctx: Any) -> Any:
    """The state of an iterator."""
    state = shared_state.find(IteratorResource, ctx, resource_handle).save()
    serialized = np.empty(1, object)
    serialized[0] = state
    return serialized


@op(
    "DeserializeIterator(resource_handle: resource, serialized: variant)",
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def DeserializeIterator(resource_handle: Any, serialized: Any, *, ctx: Any) -> Any:
    """Lets an iterator go on where its state was saved."""
    data = np.ravel(serialized)
    if data.size != 1 or not isinstance(data[0], bytes):
        raise errors.InvalidArgumentError(
            None, None, "DeserializeIterator: this is not a state that Millrace has saved."
        )
    shared_state.find(IteratorResource, ctx, resource_handle).restore(data[0])
    return ()


@op(
    "IteratorGetDevice(resource: resource) -> device: string",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def IteratorGetDevice(resource: Any, *, node: Any) -> Any:
    """The device that an iterator is on."""
    return boxed(node.device.encode())


@op(
    f"IteratorGetNextAsOptional(iterator: resource) -> optional: variant where {OUTPUTS}",
    shape=scalars,
    gradient=NO_GRADIENT,
    blocking=True,
    stateful=True,
)
def IteratorGetNextAsOptional(iterator: Any, *, ctx: Any) -> Any:
    """The next element, or that there is none."""
    resource = shared_state.find(IteratorResource, ctx, iterator)
    return resource.get_next(ctx, lambda found: boxed(None if found is None else tuple(found)))
