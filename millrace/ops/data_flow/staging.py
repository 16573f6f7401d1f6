"""`StagingArea` and `MapStagingArea`: tensors put aside for a later step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.core.dtypes import DType, as_dtype
from millrace.core.tensor_shape import TensorShape, as_shape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import colocate_with, get_default_graph, name_scope
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.array import identity as array_identity
from millrace.ops.control_flow import control_flow
from millrace.ops.data_flow import staging_kernels
from millrace.ops.data_flow.queues import values_in

__all__: list[str] = []


class BaseStagingArea:
    """What both staging areas share: types, shapes and names of a tuple's tensors."""

    def __init__(
        self,
        dtypes: Sequence[Any],
        shapes: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        """Makes a staging area.

        Args:
          dtypes: The types of a tuple's tensors.
          shapes: Their shapes, or None.
          names: Their names, or None; with names, tuples are dicts.
          shared_name: The name under which its operations find it.
          capacity: How many tuples it holds; 0 for any number.
          memory_limit: How many bytes it holds; 0 for any number.
        """
        if shared_name is None:
            shared_name = get_default_graph().unique_name(type(self).__name__)
        elif not isinstance(shared_name, str):
            raise ValueError(f"shared_name must be a string, got {shared_name}")
        self._name = shared_name
        self._dtypes = [as_dtype(dtype) for dtype in dtypes]
        for what, given in (("shapes", shapes), ("names", names)):
            if given is not None and len(given) != len(self._dtypes):
                raise ValueError(f"StagingArea {what} must be the same length as dtypes")
        self._shapes = (
            [as_shape(shape) for shape in shapes]
            if shapes is not None
            else [unknown_shape() for _ in self._dtypes]
        )
        self._names = None if names is None else list(names)
        self._capacity = capacity
        self._memory_limit = memory_limit
        # All its operations must be in one task: they are colocated with this one.
        with name_scope(f"{self._name}_root"):
            self._root = control_flow.no_op()

    @property
    def name(self) -> str:
        """The name under which its operations find it."""
        return self._name

    @property
    def dtypes(self) -> list[DType]:
        """The types of a tuple's tensors."""
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        """The shapes of a tuple's tensors."""
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        """The names of a tuple's tensors, or None."""
        return self._names

    @property
    def capacity(self) -> int:
        """How many tuples it holds; 0 for any number."""
        return self._capacity

    @property
    def memory_limit(self) -> int:
        """How many bytes it holds; 0 for any number."""
        return self._memory_limit

    def _attributes(self) -> dict[str, Any]:
        return {
            "shared_name": self._name,
            "capacity": self._capacity,
            "memory_limit": self._memory_limit,
        }

    def _tensors(self, values: Any, indices: Any) -> tuple[list[Tensor], list[int]]:
        """What is put, as tensors and the places where they belong."""
        if isinstance(values, dict):
            if not self._names:
                raise ValueError("Staging areas must have names to enqueue a dictionary")
            if not set(values) <= set(self._names):
                raise ValueError(
                    "Keys in dictionary to put do not match names of staging area. Dictionary: "
                    f"{sorted(values)}Queue: {sorted(self._names)}"
                )
            indices = [i for i, name in enumerate(self._names) if name in values]
            values = [values[self._names[i]] for i in indices]
        else:
            if self._names:
                raise ValueError("You must enqueue a dictionary in a staging area with names")
            if indices is None:
                raise ValueError("Indices must be supplied when inserting a list of tensors")
            if not isinstance(values, list | tuple):
                values, indices = [values], [0]
            if len(indices) != len(values):
                raise ValueError(
                    f"Number of indices {len(indices)} doesn't match number of values {len(values)}"
                )
        if len(values) > len(self._dtypes):
            raise ValueError(f"Unexpected number of inputs {len(values)} vs {len(self._dtypes)}")
        tensors = []
        for value, i in zip(values, indices, strict=True):
            found = getattr(value, "dtype", None)
            if isinstance(found, DType) and found.base_dtype != self._dtypes[i]:
                raise ValueError(
                    f"Datatypes do not match. Received val.dtype {found} and dtype "
                    f"{self._dtypes[i]}"
                )
            tensor = convert_to_tensor(value, dtype=self._dtypes[i], name=f"component_{i}")
            tensor.shape.assert_is_compatible_with(self._shapes[i])
            tensors.append(tensor)
        return tensors, list(indices)

    def _here(self, tensors: list[Tensor]) -> list[Tensor]:
        """Copies on the current device, if that is another than the staging area's."""
        if control_flow.no_op().device != self._root.device:
            return [array_identity.identity(tensor) for tensor in tensors]
        return tensors

    def _returned(self, tensors: list[Tensor], indices: Sequence[int]) -> Any:
        tensors = self._here(tensors)
        for tensor, i in zip(tensors, indices, strict=True):
            tensor.set_shape(self._shapes[i])
        if self._names is not None:
            return {self._names[i]: t for t, i in zip(tensors, indices, strict=True)}
        return tensors


class StagingArea(BaseStagingArea):
    """Tuples of tensors in the order in which they were put."""

    def put(self, values: Any, name: str | None = None) -> Operation:
        """An operation that puts a tuple aside, as soon as there is room."""
        with name_scope(name, f"{self._name}_put", values_in(values)) as scope:
            if not isinstance(values, list | tuple | dict):
                values = [values]
            tensors, _ = self._tensors(values, list(range(len(values))))
            with colocate_with(self._root):
                return staging_kernels.Stage(tensors, name=scope, **self._attributes())

    def get(self, name: str | None = None) -> Any:
        """The oldest tuple, which is taken out, as soon as there is one."""
        with colocate_with(self._root):
            tensors = staging_kernels.Unstage(
                dtypes=self._dtypes, name=name or f"{self._name}_get", **self._attributes()
            )
        return self._returned(tensors, range(len(self._dtypes)))

    def peek(self, index: Any, name: str | None = None) -> Any:
        """The tuple at a position, which stays."""
        with colocate_with(self._root):
            tensors = staging_kernels.StagePeek(
                index, dtypes=self._dtypes, name=name or f"{self._name}_peek", **self._attributes()
            )
        return self._returned(tensors, range(len(self._dtypes)))

    def size(self, name: str | None = None) -> Tensor:
        """How many tuples it holds."""
        return staging_kernels.StageSize(
            dtypes=self._dtypes, name=name or f"{self._name}_size", **self._attributes()
        )

    def clear(self, name: str | None = None) -> Operation:
        """An operation that drops everything."""
        return staging_kernels.StageClear(
            dtypes=self._dtypes, name=name or f"{self._name}_clear", **self._attributes()
        )


class MapStagingArea(BaseStagingArea):
    """Tuples of tensors by key; a tuple's tensors may be put one after the other."""

    def __init__(
        self,
        dtypes: Sequence[Any],
        shapes: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        ordered: bool = False,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        """Makes a staging area; see `BaseStagingArea`.

        Args:
          dtypes: The types of a tuple's tensors.
          shapes: Their shapes, or None.
          names: Their names, or None.
          shared_name: The name under which its operations find it.
          ordered: Whether `get` without a key gives the smallest key.
          capacity: How many tuples it holds; 0 for any number.
          memory_limit: How many bytes it holds; 0 for any number.
        """
        super().__init__(dtypes, shapes, names, shared_name, capacity, memory_limit)
        self._ops = staging_kernels.ORDERED_MAP_OPS if ordered else staging_kernels.MAP_OPS

    def put(
        self, key: Any, vals: Any, indices: Sequence[int] | None = None, name: str | None = None
    ) -> Operation:
        """An operation that puts tensors (all, or some) of the tuple of a key.

        Args:
          key: An int64 scalar.
          vals: A dict of tensors, or a list.
          indices: Of a list: which of the tuple's tensors they are.
          name: A name for the operation.
        """
        with name_scope(name, f"{self._name}_put", values_in(vals)) as scope:
            tensors, places = self._tensors(vals, indices)
            with colocate_with(self._root):
                return self._ops.stage(
                    key, places, tensors, dtypes=self._dtypes, name=scope, **self._attributes()
                )

    def _places(self, indices: Any) -> tuple[list[int], list[DType]]:
        if indices is None:
            indices = list(range(len(self._dtypes)))
        if not isinstance(indices, list | tuple):
            raise TypeError(f"Invalid indices type {type(indices)}")
        if not indices:
            raise ValueError("Empty indices")
        if all(isinstance(i, str) for i in indices):
            if self._names is None:
                raise ValueError(
                    f"String indices provided {indices}, but this Staging Area was not created "
                    "with names."
                )
            if not set(indices) <= set(self._names):
                raise ValueError(f"Named index not in Staging Area names {self._names}")
            indices = [self._names.index(name) for name in indices]
        elif not all(isinstance(i, int) for i in indices):
            raise TypeError(f"Mixed types in indices {indices}. May only be str or int")
        return list(indices), [self._dtypes[i] for i in indices]

    def peek(self, key: Any, indices: Any = None, name: str | None = None) -> Any:
        """Tensors of a key's tuple, which stay."""
        places, types = self._places(indices)
        with colocate_with(self._root):
            tensors = self._ops.peek(
                key, places, dtypes=types, name=name or f"{self._name}_pop", **self._attributes()
            )
        return self._returned(tensors, places)

    def get(self, key: Any = None, indices: Any = None, name: str | None = None) -> Any:
        """(key, tensors) of a key's tuple, or of the next; they are taken out.

        Args:
          key: The key; the next one when None.
          indices: Names or numbers of the tensors wanted; all when None.
          name: A name for the operation.
        """
        places, types = self._places(indices)
        with colocate_with(self._root):
            if key is None:
                key, tensors = self._ops.unstage_no_key(
                    places,
                    dtypes=types,
                    name=name or f"{self._name}_get_nokey",
                    **self._attributes(),
                )
                is_given = False
            else:
                tensors = self._ops.unstage(
                    key,
                    places,
                    dtypes=types,
                    name=name or f"{self._name}_get",
                    **self._attributes(),
                )
                is_given = True
        if not is_given:
            key = self._here([key])[0]
        return key, self._returned(tensors, places)

    def size(self, name: str | None = None) -> Tensor:
        """How many complete tuples it holds."""
        return self._ops.size(
            dtypes=self._dtypes, name=name or f"{self._name}_size", **self._attributes()
        )

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """How many keys lack tensors."""
        return self._ops.incomplete_size(
            dtypes=self._dtypes, name=name or f"{self._name}_incomplete_size", **self._attributes()
        )

    def clear(self, name: str | None = None) -> Operation:
        """An operation that drops everything."""
        return self._ops.clear(
            dtypes=self._dtypes, name=name or f"{self._name}_clear", **self._attributes()
        )
