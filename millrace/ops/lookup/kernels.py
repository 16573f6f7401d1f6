"""The op types of lookup tables, in the old form (a reference to strings) and the new (V2).

What a table does is in `protocol.lookup_table`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from millrace.core import dtypes
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape, scalar, unknown_shape
from millrace.graph.define import Op, op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, none, scalars
from millrace.ops.data_flow import shared_state
from millrace.ops.data_flow.handle_forms import both_forms
from millrace.ops.data_flow.shared_state import type_text
from millrace.platform import gfile
from millrace.protocol import lookup_table as protocol
from millrace.protocol.lookup_table import TableState

_R = TypeVar("_R")


class Table:
    """A table of a task: one event at a time.

    Attributes:
      key_dtype: The type of keys.
      value_dtype: The type of values.
      state: Its entries; touched only with the lock held.
      lock: The lock.
    """

    def __init__(self, state: TableState, key_dtype: DType, value_dtype: DType) -> None:
        self.state = state
        self.lock = threading.Lock()
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        self.name = state.name

    def ask(self, question: Callable[[TableState], _R]) -> _R:
        """Looks at (or changes) the table."""
        with self.lock:
            return question(self.state)


def _numpy_type(dtype: DType) -> Any:
    return object if dtype == dtypes.string else dtype.as_numpy_dtype


# -- Making tables -----------------------------------------------------------------------


def _make(ctx: Any, node: Any, create: Callable[[str], TableState]) -> Any:
    key_dtype, value_dtype = node.attrs["key_dtype"], node.attrs["value_dtype"]

    def make_handle() -> Any:
        handle = shared_state.name_of(ctx, node, use_node_name=node.attrs["use_node_name_sharing"])
        table = shared_state.make(
            Table, ctx, handle, lambda: Table(create(handle.name), key_dtype, value_dtype)
        )
        if (table.key_dtype, table.value_dtype) != (key_dtype, value_dtype):
            wanted = f"{type_text(key_dtype)}->{type_text(value_dtype)}"
            found = f"{type_text(table.key_dtype)}-{type_text(table.value_dtype)}"
            raise ValueError(
                f"Conflicting key/value dtypes {wanted} with {found} for table {table.name}"
            )
        return shared_state.give_out(handle, node)

    return shared_state.once(ctx, node, make_handle)


def _hash_table(*, value_dtype: Any, ctx: Any, node: Any) -> Any:
    return _make(ctx, node, lambda name: protocol.StaticTable(name, _numpy_type(value_dtype)))


def _mutable_hash_table(*, value_dtype: Any, ctx: Any, node: Any) -> Any:
    return _make(ctx, node, lambda name: protocol.MutableTable(name, _numpy_type(value_dtype)))


def _mutable_hash_table_of_tensors(
    *, value_dtype: Any, value_shape: Any, ctx: Any, node: Any
) -> Any:
    if value_shape.ndims not in (0, 1) or not value_shape.is_fully_defined():
        raise ValueError(
            "Default value must be a vector, got shape "
            f"{shared_state.shape_text(value_shape.as_list())}"
        )
    sizes = tuple(value_shape.as_list())
    return _make(
        ctx, node, lambda name: protocol.MutableTable(name, _numpy_type(value_dtype), sizes)
    )


def _dense(empty_key: Any, deleted_key: Any, value_dtype: Any, ctx: Any, node: Any) -> Any:
    buckets = node.attrs["initial_num_buckets"]
    if buckets < 4 or buckets & (buckets - 1):
        raise ValueError(f"Number of buckets must be at least 4 and a power of 2, got: {buckets}")
    if deleted_key is not None and empty_key.item() == deleted_key.item():
        raise ValueError("Empty and deleted keys cannot be equal")
    sizes = tuple(node.attrs["value_shape"].as_list())

    def create(name: str) -> TableState:
        return protocol.DenseTable(
            name,
            _numpy_type(value_dtype),
            sizes,
            empty_key.item(),
            None if deleted_key is None else deleted_key.item(),
        )

    return _make(ctx, node, create)


def _mutable_dense_hash_table(empty_key: Any, *, value_dtype: Any, ctx: Any, node: Any) -> Any:
    return _dense(empty_key, None, value_dtype, ctx, node)


def _mutable_dense_hash_table_v2(
    empty_key: Any, deleted_key: Any, *, value_dtype: Any, ctx: Any, node: Any
) -> Any:
    return _dense(empty_key, deleted_key, value_dtype, ctx, node)


def _handle_shape(c: ShapeContext) -> TensorShape:
    return TensorShape([2]) if c.op.outputs[0].dtype._is_ref_dtype else scalar()


_NAMED = 'container: string = ""; shared_name: string = ""; use_node_name_sharing: bool = false; '
_TYPED = "key_dtype: type; value_dtype: type"
_DENSE = "; initial_num_buckets: int = 131072; max_load_factor: float = 0.800000011920929"


def _maker(text: str, kernel: Callable[..., Any]) -> Op:
    return op(text, shape=_handle_shape, gradient=NO_GRADIENT, host=True, stateful=True)(kernel)


for _version, _kind in (("", "ref(string)"), ("V2", "resource")):
    HashTableV2 = _maker(
        f"HashTable{_version}() -> table_handle: {_kind} where {_NAMED}{_TYPED}", _hash_table
    )
    MutableHashTableV2 = _maker(
        f"MutableHashTable{_version}() -> table_handle: {_kind} where {_NAMED}{_TYPED}",
        _mutable_hash_table,
    )
    MutableHashTableOfTensorsV2 = _maker(
        f"MutableHashTableOfTensors{_version}() -> table_handle: {_kind} where {_NAMED}{_TYPED}; "
        "value_shape: shape = []",
        _mutable_hash_table_of_tensors,
    )
_maker(
    "MutableDenseHashTable(empty_key: key_dtype) -> table_handle: ref(string) where "
    f"{_NAMED}{_TYPED}; value_shape: shape = []{_DENSE}",
    _mutable_dense_hash_table,
)
MutableDenseHashTableV2 = _maker(
    "MutableDenseHashTableV2(empty_key: key_dtype, deleted_key: key_dtype) -> "
    f"table_handle: resource where {_NAMED}{_TYPED}; value_shape: shape = []{_DENSE}",
    _mutable_dense_hash_table_v2,
)


# -- Using tables ------------------------------------------------------------------------


def _find_table(ctx: Any, handle: Any) -> Table:
    return shared_state.find(Table, ctx, handle)


def _check_types(
    node: Any, table: Table, key: DType, value: DType | None, returns: bool = False
) -> None:
    """Raises ValueError unless keys and values are of the table's types."""
    if key == table.key_dtype and value in (None, table.value_dtype):
        return
    handle = type_text(node.inputs[0].dtype)

    def signature(key_type: DType, value_type: DType) -> str:
        inputs = [handle, type_text(key_type)]
        if value is not None:
            inputs.append(type_text(value_type))
        return f"{', '.join(inputs)}->{type_text(value_type) if returns else ''}"

    have = signature(key, value if value is not None else table.value_dtype)
    raise ValueError(
        f"Signature mismatch, have: {have} expected: "
        f"{signature(table.key_dtype, table.value_dtype)}"
    )


def _find(
    table_handle: Any, keys: Any, default_value: Any, *, Tin: Any, Tout: Any, ctx: Any, node: Any
) -> Any:
    table = _find_table(ctx, table_handle)
    _check_types(node, table, Tin, Tout, returns=True)
    return table.ask(lambda state: state.find(keys, default_value))


def _insert(
    table_handle: Any, keys: Any, values: Any, *, Tin: Any, Tout: Any, ctx: Any, node: Any
) -> None:
    table = _find_table(ctx, table_handle)
    _check_types(node, table, Tin, Tout)
    table.ask(lambda state: state.insert(state.pairs(keys, values)))


def _remove(table_handle: Any, keys: Any, *, Tin: Any, ctx: Any, node: Any) -> None:
    table = _find_table(ctx, table_handle)
    _check_types(node, table, Tin, None)
    table.ask(lambda state: state.remove(keys))


def _size(table_handle: Any, *, ctx: Any) -> Any:
    return _find_table(ctx, table_handle).ask(len)


def _export(table_handle: Any, *, Tkeys: Any, ctx: Any) -> Any:
    return _find_table(ctx, table_handle).ask(lambda state: state.export(_numpy_type(Tkeys)))


def _import(
    table_handle: Any, keys: Any, values: Any, *, Tin: Any, Tout: Any, ctx: Any, node: Any
) -> None:
    table = _find_table(ctx, table_handle)
    _check_types(node, table, Tin, Tout)
    table.ask(lambda state: state.fill(_all_pairs(state, keys, values)))


def _initialize(
    table_handle: Any, keys: Any, values: Any, *, Tkey: Any, Tval: Any, ctx: Any, node: Any
) -> None:
    table = _find_table(ctx, table_handle)
    _check_types(node, table, Tkey, Tval)
    if keys.ndim != 1 or values.ndim != 1 or keys.size != values.size:
        raise ValueError(
            "Keys and values must be vectors of the same size, got shapes "
            f"{shared_state.shape_text(keys.shape)} and {shared_state.shape_text(values.shape)}"
        )
    table.ask(lambda state: state.fill(state.pairs(keys, values)))


def _all_pairs(state: TableState, keys: Any, values: Any) -> list[tuple[Any, Any]]:
    if isinstance(state, protocol.DenseTable) and keys.ndim == 2 and keys.shape[1] == 1:
        # So TensorFlow exports the buckets of a dense table.
        keys = keys[:, 0]
        values = values.reshape(keys.size, *state.value_shape)
    return state.pairs(keys, values)


def _initialize_from_text_file(
    table_handle: Any,
    filename: Any,
    *,
    key_index: int,
    value_index: int,
    vocab_size: int,
    delimiter: bytes,
    offset: int,
    ctx: Any,
) -> None:
    if filename.size != 1:
        raise ValueError(
            f"filename should be a single string, but got {shared_state.shape_text(filename.shape)}"
        )
    table = _find_table(ctx, table_handle)
    name = filename.item().decode()
    with gfile.GFile(name, "rb") as file:
        data = file.read()
    pairs = protocol.parse_lines(
        name,
        data,
        (key_index, table.key_dtype.name),
        (value_index, table.value_dtype.name),
        vocab_size,
        delimiter,
        offset,
    )
    table.ask(lambda state: state.fill(pairs))


def _find_shape(c: ShapeContext) -> TensorShape:
    """The keys' shape, followed by that of a value where the table is known."""
    maker = c.tensor("table_handle").op
    if maker.type.removesuffix("V2") in ("HashTable", "MutableHashTable"):
        return c.shape("keys")
    if "value_shape" in maker.attrs:
        return c.shape("keys").concatenate(maker.attrs["value_shape"])
    return unknown_shape()


def _export_shapes(c: ShapeContext) -> list[TensorShape]:
    return [TensorShape([None]), unknown_shape()]


_IN_OUT = " where Tin: type; Tout: type"

_, LookupTableFindV2 = both_forms(
    "LookupTableFind",
    "table_handle: HANDLE, keys: Tin, default_value: Tout",
    f" -> values: Tout{_IN_OUT}",
    _find,
    _find_shape,
)
_, LookupTableInsertV2 = both_forms(
    "LookupTableInsert", "table_handle: HANDLE, keys: Tin, values: Tout", _IN_OUT, _insert, none
)
_, LookupTableImportV2 = both_forms(
    "LookupTableImport", "table_handle: HANDLE, keys: Tin, values: Tout", _IN_OUT, _import, none
)
_, LookupTableSizeV2 = both_forms(
    "LookupTableSize", "table_handle: HANDLE", " -> size: int64", _size, scalars
)
_, LookupTableExportV2 = both_forms(
    "LookupTableExport",
    "table_handle: HANDLE",
    " -> (keys: Tkeys, values: Tvalues) where Tkeys: type; Tvalues: type",
    _export,
    _export_shapes,
)
_, InitializeTableV2 = both_forms(
    "InitializeTable",
    "table_handle: HANDLE, keys: Tkey, values: Tval",
    " where Tkey: type; Tval: type",
    _initialize,
    none,
)
_, InitializeTableFromTextFileV2 = both_forms(
    "InitializeTableFromTextFile",
    "table_handle: HANDLE, filename: string",
    " where key_index: int >= -2; value_index: int >= -2; vocab_size: int >= -1 = -1; "
    'delimiter: string = "\t"; offset: int = 0',
    _initialize_from_text_file,
    none,
)
LookupTableRemoveV2 = op(
    "LookupTableRemoveV2(table_handle: resource, keys: Tin) where Tin: type",
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)(_remove)
