"""The op types of staging areas.

A staging area has no handle: its ops find it by their `shared_name`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.graph.define import Op, op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import none, scalars, unknown
from millrace.ops.data_flow import shared_state
from millrace.ops.data_flow.shared_state import Guarded
from millrace.protocol.staging import Get, MapStaging, OrderedStaging, Put


class OrderedArea(Guarded[OrderedStaging]):
    """The staging area behind Stage and Unstage."""


class MapArea(Guarded[MapStaging]):
    """The staging area behind MapStage and OrderedMapStage."""


def _size_of(array: Any) -> int:
    if array.dtype == object:
        return sum(len(text) for text in array.flat)
    return int(array.nbytes)


def _area(ctx: Any, node: Any) -> OrderedArea:
    def create() -> OrderedArea:
        return OrderedArea(OrderedStaging(node.attrs["capacity"], node.attrs["memory_limit"]))

    handle = shared_state.name_of(ctx, node, use_node_name=True)
    return shared_state.make(OrderedArea, ctx, handle, create)


def _map_area(ctx: Any, node: Any) -> MapArea:
    def create() -> MapArea:
        return MapArea(
            MapStaging(
                node.attrs["capacity"],
                node.attrs["memory_limit"],
                is_ordered=node.type.startswith("Ordered"),
                size_of=_size_of,
            )
        )

    handle = shared_state.name_of(ctx, node, use_node_name=True)
    return shared_state.make(MapArea, ctx, handle, create)


def _kept(values: list[Any]) -> tuple[list[Any], int]:
    arrays = [shared_state.kept(value) for value in values]
    return arrays, sum(_size_of(array) for array in arrays)


_PLACE = 'container: string = ""; shared_name: string = ""'
_LIMITS = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0"
_ATTRS = f"{_LIMITS}; dtypes: list(type); {_PLACE}"
_VALUED = f"{_LIMITS}; dtypes: list(type) >= 1; {_PLACE}"


# -- StagingArea -------------------------------------------------------------------------


@op(
    f"Stage(values: [dtypes]) where {_VALUED}",
    shape=none,
    gradient=NO_GRADIENT,
    blocking=True,
    stateful=True,
)
def Stage(values: list[Any], *, ctx: Any, node: Any) -> Any:
    """Puts values aside, as soon as there is room."""
    arrays, size = _kept(values)
    return _area(ctx, node).submit(Put(arrays, size), ctx, "room in the staging area")


@op(
    f"Unstage() -> values: [dtypes] where {_VALUED}",
    shape=unknown,
    gradient=NO_GRADIENT,
    blocking=True,
    stateful=True,
)
def Unstage(*, ctx: Any, node: Any) -> Any:
    """Takes the oldest values, as soon as there are any."""
    return _area(ctx, node).submit(Get(), ctx, "values in the staging area")


@op(
    f"StagePeek(index: int32) -> values: [dtypes] where {_VALUED}",
    shape=unknown,
    gradient=NO_GRADIENT,
    blocking=True,
    stateful=True,
)
def StagePeek(index: Any, *, ctx: Any, node: Any) -> Any:
    """The values at a position, as soon as there are so many."""
    get = Get(int(index), removes=False)
    return _area(ctx, node).submit(get, ctx, f"{int(index) + 1} tuples in the staging area")


@op(
    f"StageSize() -> size: int32 where {_ATTRS}",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def StageSize(*, ctx: Any, node: Any) -> Any:
    """How many tuples are there."""
    return _area(ctx, node).ask(len)


@op(f"StageClear() where {_ATTRS}", shape=none, gradient=NO_GRADIENT, host=True, stateful=True)
def StageClear(*, ctx: Any, node: Any) -> None:
    """Drops everything."""
    _area(ctx, node).tell(lambda state: state.clear())


# -- MapStagingArea ----------------------------------------------------------------------


def _positions(indices: Any) -> list[int]:
    return [int(i) for i in indices.ravel()]


def _map_stage(key: Any, indices: Any, values: list[Any], *, ctx: Any, node: Any) -> Any:
    arrays, size = _kept(values)
    put = Put(arrays, size, int(key), _positions(indices), width=len(node.attrs["dtypes"]))
    return _map_area(ctx, node).submit(put, ctx, "room in the staging area")


def _map_unstage(key: Any, indices: Any, *, ctx: Any, node: Any) -> Any:
    get = Get(int(key), _positions(indices))
    return _map_area(ctx, node).submit(get, ctx, f"key {int(key)} in the staging area")


def _map_unstage_no_key(indices: Any, *, ctx: Any, node: Any) -> Any:
    return _map_area(ctx, node).submit(
        Get(None, _positions(indices)),
        ctx,
        "an entry in the staging area",
        lambda found: (np.array(found[0], np.int64), found[1]),
    )


def _map_peek(key: Any, indices: Any, *, ctx: Any, node: Any) -> Any:
    get = Get(int(key), _positions(indices), removes=False)
    return _map_area(ctx, node).submit(get, ctx, f"key {int(key)} in the staging area")


def _map_size(*, ctx: Any, node: Any) -> Any:
    return _map_area(ctx, node).ask(len)


def _map_incomplete_size(*, ctx: Any, node: Any) -> Any:
    return _map_area(ctx, node).ask(lambda state: state.incomplete_size)


def _map_clear(*, ctx: Any, node: Any) -> None:
    _map_area(ctx, node).tell(lambda state: state.clear())


class MapOps:
    """The op types of one kind of map: those named Map... or OrderedMap...."""

    def __init__(self, prefix: str) -> None:
        def define(
            text: str, kernel: Callable[..., Any], shape: Callable[..., Any], blocking: bool = True
        ) -> Op:
            return op(
                f"{prefix}{text}",
                shape=shape,
                gradient=NO_GRADIENT,
                host=not blocking,
                blocking=blocking,
                stateful=True,
            )(kernel)

        self.stage = define(
            f"Stage(key: int64, indices: int32, values: [fake_dtypes]) where {_LIMITS}; "
            f"dtypes: list(type); fake_dtypes: list(type) >= 1; {_PLACE}",
            _map_stage,
            none,
        )
        self.unstage = define(
            f"Unstage(key: int64, indices: int32) -> values: [dtypes] where {_VALUED}",
            _map_unstage,
            unknown,
        )
        self.unstage_no_key = define(
            f"UnstageNoKey(indices: int32) -> (key: int64, values: [dtypes]) where {_VALUED}",
            _map_unstage_no_key,
            unknown,
        )
        self.peek = define(
            f"Peek(key: int64, indices: int32) -> values: [dtypes] where {_VALUED}",
            _map_peek,
            unknown,
        )
        self.size = define(f"Size() -> size: int32 where {_ATTRS}", _map_size, scalars, False)
        self.incomplete_size = define(
            f"IncompleteSize() -> size: int32 where {_ATTRS}", _map_incomplete_size, scalars, False
        )
        self.clear = define(f"Clear() where {_ATTRS}", _map_clear, none, False)


MAP_OPS = MapOps("Map")
ORDERED_MAP_OPS = MapOps("OrderedMap")
