"""`tf.lookup`: tables from keys to values, and the vocabularies built on them.

A static table is filled by its initializer; `tables_initializer` runs those of all tables in the
graph. A mutable table starts empty, and is saved with the variables.
"""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from millrace.core import dtypes
from millrace.core.dtypes import DType, as_dtype
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import (
    add_to_collection,
    colocate_with,
    get_collection,
    init_scope,
    name_scope,
)
from millrace.graph.keys import GraphKeys
from millrace.graph.operation import Operation
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.control_flow import control_flow
from millrace.ops.lookup import kernels as lookup_kernels

__all__ = ["initialize_all_tables", "tables_initializer"]


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """An operation that fills all static tables of the default graph."""
    initializers = get_collection(GraphKeys.TABLE_INITIALIZERS)
    if initializers:
        return control_flow.group(*initializers, name=name)
    return control_flow.no_op(name=name)


def initialize_all_tables(name: str = "init_all_tables") -> Operation:
    """The old name of `tables_initializer`."""
    return tables_initializer(name)


class LookupInterface:
    """What all tables have in common."""

    def __init__(self, key_dtype: Any, value_dtype: Any) -> None:
        self._key_dtype = as_dtype(key_dtype)
        self._value_dtype = as_dtype(value_dtype)

    @property
    def key_dtype(self) -> DType:
        """The type of keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """The type of values."""
        return self._value_dtype

    @property
    def name(self) -> str | None:
        """The name of the table."""
        raise NotImplementedError

    @property
    def resource_handle(self) -> Any:
        """The handle, or None for a table that is only a hash function."""
        raise NotImplementedError

    def size(self, name: str | None = None) -> Tensor:
        """How many entries the table has."""
        raise NotImplementedError

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of keys."""
        raise NotImplementedError

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)

    def _check_keys(self, keys: Any) -> Any:
        """The keys as a tensor (or SparseTensor) of the table's key type."""
        if not isinstance(keys, SparseTensor):
            keys = convert_to_tensor(keys, name="keys")
        if keys.dtype.base_dtype != self._key_dtype:
            raise TypeError(
                f"Dtype of argument `keys` must be {self._key_dtype}, received: {keys.dtype}"
            )
        return keys


def _values_of(keys: Any) -> Tensor:
    return keys.values if isinstance(keys, SparseTensor) else keys


def _like(keys: Any, values: Tensor) -> Any:
    """Values found, sparse where the keys are."""
    if isinstance(keys, SparseTensor):
        return SparseTensor(keys.indices, values, keys.dense_shape)
    return values


def check_table_dtypes(table: LookupInterface, key_dtype: DType, value_dtype: DType) -> None:
    """Raises TypeError unless a table has the given types."""
    if key_dtype.base_dtype != table.key_dtype:
        raise TypeError(
            f"Invalid key dtype for table, expected {table.key_dtype} but got {key_dtype}."
        )
    if value_dtype.base_dtype != table.value_dtype:
        raise TypeError(
            f"Invalid value dtype for table, expected {table.value_dtype} but got {value_dtype}."
        )


# -- Initializers ------------------------------------------------------------------------


class TableInitializerBase:
    """What fills a static table."""

    def __init__(self, key_dtype: Any, value_dtype: Any) -> None:
        self._key_dtype = as_dtype(key_dtype)
        self._value_dtype = as_dtype(value_dtype)

    @property
    def key_dtype(self) -> DType:
        """The type of keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """The type of values."""
        return self._value_dtype

    def initialize(self, table: Any) -> Operation:
        """The operation that fills `table`."""
        raise NotImplementedError

    @property
    def _shared_name(self) -> str:
        """A name for tables filled from the same source; empty if each is its own."""
        return ""


class KeyValueTensorInitializer(TableInitializerBase):
    """Fills a table from a tensor of keys and one of values."""

    def __init__(
        self,
        keys: Any,
        values: Any,
        key_dtype: Any = None,
        value_dtype: Any = None,
        name: str | None = None,
    ) -> None:
        # The table is filled outside of whatever is being built here.
        with init_scope():
            self._keys = convert_to_tensor(keys, dtype=key_dtype, name="keys")
            self._values = convert_to_tensor(values, dtype=value_dtype, name="values")
        self._name = name if name is not None else "key_value_init"
        super().__init__(self._keys.dtype, self._values.dtype)

    def initialize(self, table: Any) -> Operation:
        """The operation that fills `table`."""
        check_table_dtypes(table, self._keys.dtype, self._values.dtype)
        with name_scope(self._name, values=(table.resource_handle, self._keys, self._values)):
            fill: Operation = lookup_kernels.LookupTableImportV2(
                table.resource_handle, self._keys, self._values
            )
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, fill)
        return fill


class TextFileIndex:
    """What stands in place of a column's number."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TextFileInitializer(TableInitializerBase):
    """Fills a table from the lines of a text file."""

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        """States where keys and values are.

        Args:
          filename: The file; a string or a scalar tensor.
          key_dtype: The type of keys.
          key_index: The column of keys, or one of `TextFileIndex`.
          value_dtype: The type of values.
          value_index: The column of values, or one of `TextFileIndex`.
          vocab_size: How many lines to read; all when None.
          delimiter: What separates columns; one character.
          name: A name for the operation.
          value_index_offset: Added to line numbers.
        """
        if not isinstance(filename, Tensor) and not filename:
            raise ValueError("`filename` argument required for tf.lookup.TextFileInitializer")
        types = {"key": as_dtype(key_dtype), "value": as_dtype(value_dtype)}
        for which, index in (("key", key_index), ("value", value_index)):
            dtype = types[which]
            if index < -2:
                raise ValueError(f"`{which}_index` should be >= -2, received: {index}.")
            if index == TextFileIndex.LINE_NUMBER and dtype != dtypes.int64:
                raise ValueError(
                    f"`{which}_dtype` must be int64 for `{which}_index` {index}, received: {dtype}"
                )
            if index == TextFileIndex.WHOLE_LINE and not (
                dtype.is_integer or dtype == dtypes.string
            ):
                raise ValueError(
                    f"`{which}_dtype` should be either integer or string for `{which}_index` "
                    f"{index}, received: {dtype}"
                )
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"`vocab_size` should be > 0, received: {vocab_size}")
        self._filename = filename
        self._key_index = key_index
        self._value_index = value_index
        self._vocab_size = vocab_size
        self._delimiter = delimiter
        self._name = name
        self._offset = value_index_offset
        super().__init__(types["key"], types["value"])

    def initialize(self, table: Any) -> Operation:
        """The operation that fills `table`."""
        check_table_dtypes(table, self.key_dtype, self.value_dtype)
        with name_scope(self._name, "text_file_init", (table.resource_handle,)):
            filename = convert_to_tensor(self._filename, dtypes.string, name="asset_filepath")
            fill: Operation = lookup_kernels.InitializeTableFromTextFileV2(
                table.resource_handle,
                filename,
                key_index=self._key_index,
                value_index=self._value_index,
                vocab_size=-1 if self._vocab_size is None else self._vocab_size,
                delimiter=self._delimiter,
                offset=self._offset,
            )
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, fill)
        if filename.op.type == "Const":
            add_to_collection(GraphKeys.ASSET_FILEPATHS, filename)
        return fill

    @property
    def _shared_name(self) -> str:
        # Tables of one file and the same columns are one table.
        parts = [self._filename]
        if self._vocab_size:
            parts.append(self._vocab_size)
        parts += [self._key_index, self._value_index]
        if self._offset:
            parts.append(self._offset)
        return "hash_table_" + "_".join(str(part) for part in parts)


class TextFileStringTableInitializer(TextFileInitializer):
    """Fills a table from line numbers to lines."""

    def __init__(
        self,
        filename: Any,
        key_column_index: int = TextFileIndex.LINE_NUMBER,
        value_column_index: int = TextFileIndex.WHOLE_LINE,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str = "text_file_string_table_init",
    ) -> None:
        super().__init__(
            filename,
            dtypes.int64,
            key_column_index,
            dtypes.string,
            value_column_index,
            vocab_size=vocab_size,
            delimiter=delimiter,
            name=name,
        )


class TextFileIdTableInitializer(TextFileInitializer):
    """Fills a table from lines to line numbers."""

    def __init__(
        self,
        filename: Any,
        key_column_index: int = TextFileIndex.WHOLE_LINE,
        value_column_index: int = TextFileIndex.LINE_NUMBER,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str = "text_file_id_table_init",
        key_dtype: Any = dtypes.string,
    ) -> None:
        super().__init__(
            filename,
            key_dtype,
            key_column_index,
            dtypes.int64,
            value_column_index,
            vocab_size=vocab_size,
            delimiter=delimiter,
            name=name,
        )


# -- Static tables -----------------------------------------------------------------------


class InitializableLookupTableBase(LookupInterface):
    """A table that an initializer fills once."""

    def __init__(self, default_value: Any, initializer: TableInitializerBase) -> None:
        super().__init__(initializer.key_dtype, initializer.value_dtype)
        self._default_value = convert_to_tensor(default_value, dtype=self._value_dtype)
        self._default_value.shape.merge_with(TensorShape([]))
        self._initializer = initializer
        with init_scope():
            self._resource_handle = self._create_resource()
            self._init_op = initializer.initialize(self)

    def _create_resource(self) -> Tensor:
        raise NotImplementedError

    @property
    def resource_handle(self) -> Tensor:
        """The handle."""
        return self._resource_handle

    table_ref = resource_handle

    @property
    def initializer(self) -> Operation:
        """The operation that fills the table."""
        return self._init_op

    init = initializer

    @property
    def default_value(self) -> Tensor:
        """What keys without an entry give."""
        return self._default_value

    def size(self, name: str | None = None) -> Tensor:
        """How many entries the table has."""
        with name_scope(name, f"{self.name}_Size", [self._resource_handle]):
            return lookup_kernels.LookupTableSizeV2(self._resource_handle)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of keys; the default value where there is none.

        Args:
          keys: A tensor or SparseTensor of the key type.
          name: A name for the operation.
        """
        keys = self._check_keys(keys)
        tensor = _values_of(keys)
        with name_scope(name, f"{self.name}_Lookup", (self._resource_handle, tensor)):
            values = lookup_kernels.LookupTableFindV2(
                self._resource_handle, tensor, self._default_value
            )
        values.set_shape(tensor.shape)
        return _like(keys, values)


class StaticHashTable(InitializableLookupTableBase):
    """A table whose entries are given once."""

    def __init__(
        self,
        initializer: TableInitializerBase,
        default_value: Any,
        name: str | None = None,
        shared_name: str | None = None,
    ) -> None:
        """Makes a table.

        Args:
          initializer: What fills it.
          default_value: What keys without an entry give.
          name: A name for the operation, "hash_table" by default.
          shared_name: Sessions share the table under this name.
        """
        self._shared_name = shared_name or initializer._shared_name or f"hash_table_{uuid.uuid4()}"
        self._name = name or "hash_table"
        super().__init__(default_value, initializer)
        self._table_name = self._resource_handle.op.name.split("/")[-1]
        self._value_shape = self._default_value.shape

    def _create_resource(self) -> Tensor:
        return lookup_kernels.HashTableV2(
            shared_name=self._shared_name,
            key_dtype=self._key_dtype,
            value_dtype=self._value_dtype,
            name=self._name,
        )

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._table_name

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys and all values."""
        with name_scope(name, f"{self.name}_Export", [self._resource_handle]):
            keys, values = lookup_kernels.LookupTableExportV2(
                self._resource_handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype
            )
        values.set_shape(keys.shape.concatenate(self._value_shape))
        return keys, values


#: The name in tf.contrib.lookup.
HashTable = StaticHashTable


# -- Mutable tables ----------------------------------------------------------------------


class SaveSpec(NamedTuple):
    """One tensor of what is saved."""

    tensor: Tensor
    slice_spec: str
    name: str

    @property
    def dtype(self) -> DType:
        """Its type."""
        return self.tensor.dtype

    @property
    def device(self) -> str:
        """Where it is."""
        return self.tensor.device


class TableSaveable:
    """How a `Saver` saves and restores a table: by its keys and values.

    Attributes:
      op: The table.
      specs: The tensors to save.
      name: What their names begin with.
    """

    def __init__(self, table: _MutableTable, name: str) -> None:
        keys, values = table.export()
        self.op = table
        self.name = name
        self.specs = [
            SaveSpec(keys, "", f"{name}-keys"),
            SaveSpec(values, "", f"{name}-values"),
        ]

    @property
    def device(self) -> str:
        """Where the table is."""
        return self.specs[0].device

    def restore(self, restored_tensors: list[Tensor], restored_shapes: Any) -> Operation:
        """The operation that gives the table the entries that were saved."""
        with (
            name_scope(f"{self.name}_table_restore"),
            colocate_with(self.op.resource_handle.op),
        ):
            restored: Operation = lookup_kernels.LookupTableImportV2(
                self.op.resource_handle, restored_tensors[0], restored_tensors[1]
            )
            return restored


class _MutableTable(LookupInterface):
    """What both kinds of mutable tables share."""

    def __init__(
        self, key_dtype: Any, value_dtype: Any, default_value: Any, name: str, checkpoint: bool
    ) -> None:
        super().__init__(key_dtype, value_dtype)
        self._default_value = convert_to_tensor(default_value, dtype=self._value_dtype)
        self._value_shape = self._default_value.shape
        self._resource_handle = self._create_resource(name, checkpoint)
        self._table_name = self._resource_handle.op.name.split("/")[-1]
        if checkpoint:
            add_to_collection(GraphKeys.SAVEABLE_OBJECTS, TableSaveable(self, name))

    def _create_resource(self, name: str, checkpoint: bool) -> Tensor:
        raise NotImplementedError

    @property
    def resource_handle(self) -> Tensor:
        """The handle."""
        return self._resource_handle

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._table_name

    @property
    def default_value(self) -> Tensor:
        """What keys without an entry give."""
        return self._default_value

    def size(self, name: str | None = None) -> Tensor:
        """How many entries the table has."""
        with (
            name_scope(name, f"{self.name}_Size", [self._resource_handle]),
            colocate_with(self._resource_handle.op),
        ):
            return lookup_kernels.LookupTableSizeV2(self._resource_handle)

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """An operation that adds entries, or replaces them."""
        with name_scope(
            name, f"{self.name}_lookup_table_insert", [self._resource_handle, keys, values]
        ):
            keys = convert_to_tensor(keys, self._key_dtype, name="keys")
            values = convert_to_tensor(values, self._value_dtype, name="values")
            with colocate_with(self._resource_handle.op):
                return lookup_kernels.LookupTableInsertV2(self._resource_handle, keys, values)

    def remove(self, keys: Any, name: str | None = None) -> Operation:
        """An operation that removes entries, where they are."""
        keys = self._check_keys(keys)
        with name_scope(name, f"{self.name}_lookup_table_remove", (self._resource_handle, keys)):
            return lookup_kernels.LookupTableRemoveV2(self._resource_handle, keys)

    def _find(self, keys: Any, default: Any, name: str | None) -> Tensor:
        with name_scope(name, f"{self.name}_lookup_table_find", (self._resource_handle, keys)):
            keys = convert_to_tensor(keys, dtype=self._key_dtype, name="keys")
            with colocate_with(self._resource_handle.op):
                return lookup_kernels.LookupTableFindV2(self._resource_handle, keys, default)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of keys; the default value where there is none."""
        return self._find(keys, self._default_value, name)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys and all values."""
        with (
            name_scope(name, f"{self.name}_lookup_table_export_values", [self._resource_handle]),
            colocate_with(self._resource_handle.op),
        ):
            keys, values = lookup_kernels.LookupTableExportV2(
                self._resource_handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype
            )
        return keys, values


class MutableHashTable(_MutableTable):
    """A table whose entries come and go; values are scalars or vectors."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        shared_name: str | None = None,
    ) -> None:
        """Makes an empty table.

        Args:
          key_dtype: The type of keys.
          value_dtype: The type of values.
          default_value: What keys without an entry give; its shape is that of values.
          name: A name for the operation.
          checkpoint: Whether a Saver saves it.
          shared_name: Sessions share the table under this name.
        """
        self._shared_name = shared_name
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint)

    def _create_resource(self, name: str, checkpoint: bool) -> Tensor:
        attributes: dict[str, Any] = {
            "shared_name": self._shared_name,
            "use_node_name_sharing": checkpoint and self._shared_name is None,
            "key_dtype": self._key_dtype,
            "value_dtype": self._value_dtype,
            "name": name,
        }
        if self._value_shape.ndims == 0:
            return lookup_kernels.MutableHashTableV2(**attributes)
        return lookup_kernels.MutableHashTableOfTensorsV2(
            value_shape=self._value_shape, **attributes
        )

    def lookup(  # type: ignore[override]  # TensorFlow's order of arguments
        self, keys: Any, dynamic_default_values: Any = None, name: str | None = None
    ) -> Tensor:
        """The values of keys; the default value where there is none.

        Args:
          keys: Keys.
          dynamic_default_values: A default for each key, in place of the table's.
          name: A name for the operation.
        """
        default = self._default_value if dynamic_default_values is None else dynamic_default_values
        return self._find(keys, default, name)


class DenseHashTable(_MutableTable):
    """A mutable table with two keys that must not be used (TensorFlow's dense storage)."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        shared_name: str | None = None,
    ) -> None:
        """Makes an empty table; see `MutableHashTable`.

        Args:
          key_dtype: The type of keys.
          value_dtype: The type of values.
          default_value: What keys without an entry give.
          empty_key: A key that is never used.
          deleted_key: Another.
          initial_num_buckets: A power of 2; kept for TensorFlow's sake.
          name: A name for the operation.
          checkpoint: Whether a Saver saves it.
          shared_name: Sessions share the table under this name.
        """
        self._empty_key = empty_key
        self._deleted_key = deleted_key
        self._initial_num_buckets = initial_num_buckets
        self._shared_name = shared_name
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint)

    def _create_resource(self, name: str, checkpoint: bool) -> Tensor:
        return lookup_kernels.MutableDenseHashTableV2(
            convert_to_tensor(self._empty_key, dtype=self._key_dtype, name="empty_key"),
            convert_to_tensor(self._deleted_key, dtype=self._key_dtype, name="deleted_key"),
            shared_name=self._shared_name,
            use_node_name_sharing=checkpoint and self._shared_name is None,
            value_dtype=self._value_dtype,
            value_shape=self._value_shape,
            initial_num_buckets=self._initial_num_buckets,
            name=name,
        )

    def insert_or_assign(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """`insert`."""
        return self.insert(keys, values, name)

    def erase(self, keys: Any, name: str | None = None) -> Operation:
        """`remove`."""
        return self.remove(keys, name)


#: The name in tf.contrib.lookup.
MutableDenseHashTable = DenseHashTable
