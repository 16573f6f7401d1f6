"""Vocabularies: tables between words and numbers, with buckets for words that are not in them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from millrace.core import dtypes
from millrace.core.dtypes import DType, as_dtype
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import control_flow
from millrace.ops.lookup.tables import (
    KeyValueTensorInitializer,
    LookupInterface,
    StaticHashTable,
    TableInitializerBase,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileStringTableInitializer,
    _like,
    _values_of,
)
from millrace.ops.math import arithmetic, comparison, numeric
from millrace.ops.strings import conversion as string_conversion
from millrace.ops.strings import strings

__all__: list[str] = []


class HasherSpec(NamedTuple):
    """Which hash function to use, and its key."""

    hasher: str
    key: Any


FastHashSpec = HasherSpec("fasthash", None)


class StrongHashSpec(HasherSpec):
    """A hash function that others cannot guess the buckets of; `key` is two numbers."""

    __slots__ = ()

    def __new__(cls, key: Any) -> StrongHashSpec:
        """Checks the key.

        Raises:
          ValueError: It has not two parts.
          TypeError: They are no whole numbers.
        """
        if len(key) != 2:
            raise ValueError(f"`key` must have size 2, received {len(key)}")
        if not all(isinstance(part, int) for part in key):
            raise TypeError(f"Invalid key {key}. Must be unsigned integer values.")
        return super().__new__(cls, "stronghash", key)


def _hash_function(spec: HasherSpec) -> Callable[..., Tensor]:
    if spec.hasher == "fasthash":
        return strings.string_to_hash_bucket_fast
    if spec.hasher == "legacy":
        return strings.string_to_hash_bucket
    if spec.hasher == "stronghash":
        return functools.partial(strings.string_to_hash_bucket_strong, key=spec.key)
    raise ValueError(f"Found unknown hasher {spec.hasher} in `hasher_spec`")


def _check_ids(key_dtype: DType, value_dtype: DType, wanted: DType) -> None:
    """Raises TypeError unless a table from words (or numbers) to numbers can serve `wanted`."""
    known = (dtypes.int64, dtypes.string)
    if key_dtype not in known:
        raise TypeError(f"Invalid `key_dtype`, expected one of {known}, received {key_dtype}.")
    if key_dtype.is_integer != wanted.is_integer:
        kind = "integer" if wanted.is_integer else "non-integer"
        raise TypeError(f"Invalid `key_dtype`, expected {kind} but got {key_dtype}.")
    if value_dtype != dtypes.int64:
        raise TypeError(f"Invalid `value_dtype`: expected int64 but got {value_dtype}.")


class IdTableWithHashBuckets(LookupInterface):
    """Numbers for words: those of a table, and for others one of some buckets after them."""

    def __init__(
        self,
        table: Any,
        num_oov_buckets: int,
        hasher_spec: HasherSpec = FastHashSpec,
        name: str | None = None,
        key_dtype: Any = None,
    ) -> None:
        """Puts buckets behind a table.

        Args:
          table: A table to int64, or None for buckets only.
          num_oov_buckets: How many buckets words that are not in the table are spread over.
          hasher_spec: Which hash function spreads them.
          name: A name for the operations.
          key_dtype: The type of keys; the table's by default.
        """
        name = name.rstrip("/") if name else name
        wanted = None if key_dtype is None else as_dtype(key_dtype)
        if table is not None:
            wanted = wanted or table.key_dtype
            _check_ids(table.key_dtype, table.value_dtype, wanted)
            name = name or table.name
        else:
            if num_oov_buckets <= 0:
                raise ValueError("`oov_buckets` must be > 0 if no `table` is supplied.")
            wanted = wanted or dtypes.string
            name = name or "hash_bucket"
        if not wanted.is_integer and wanted != dtypes.string:
            raise TypeError(f"Invalid `key_dtype`, expected integer or string, got {wanted}.")
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError(f"`hasher_spec` must be of type HasherSpec, got {type(hasher_spec)}.")
        self._table = table
        self._num_oov_buckets = num_oov_buckets
        self._hash = _hash_function(hasher_spec)
        self._table_name = name.split("/")[-1]
        super().__init__(wanted, dtypes.int64)

    @property
    def initializer(self) -> Operation:
        """The operation that fills the table."""
        if self._table is not None:
            return self._table.initializer
        with name_scope(None, "init"):
            return control_flow.no_op()

    init = initializer

    @property
    def resource_handle(self) -> Any:
        """The handle of the table, or None."""
        return None if self._table is None else self._table.resource_handle

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._table_name

    def size(self, name: str | None = None) -> Tensor:
        """How many numbers there are: of the table, and of the buckets."""
        with name_scope(name, f"{self.name}_Size"):
            count = (
                convert_to_tensor(0, dtype=dtypes.int64)
                if self._table is None
                else self._table.size()
            )
            return count + self._num_oov_buckets

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The numbers of keys."""
        keys = self._check_keys(keys)
        words = _values_of(keys)
        if self._table is not None and self._table.key_dtype == dtypes.int64:
            words = cast.cast(words, dtypes.int64)
        if not self._num_oov_buckets:
            return _like(keys, self._table.lookup(words, name=name))
        with name_scope(name, f"{self.name}_Lookup"):
            texts = words if words.dtype == dtypes.string else string_conversion.as_string(words)
            ids = self._hash(texts, num_buckets=self._num_oov_buckets, name="hash_bucket")
            if self._table is not None:
                found = self._table.lookup(words)
                buckets = arithmetic.add(ids, self._table.size())
                is_known = comparison.not_equal(found, self._table.default_value)
                ids = array_select.where_v2(is_known, found, buckets)
        return _like(keys, ids)


class StaticVocabularyTable(IdTableWithHashBuckets):
    """As IdTableWithHashBuckets, with a table of its own."""

    def __init__(
        self,
        initializer: TableInitializerBase | None,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: str | None = None,
    ) -> None:
        """Makes the table.

        Args:
          initializer: Fills it with words and int64 numbers; None for buckets only.
          num_oov_buckets: How many buckets other words are spread over; at least 1.
          lookup_key_dtype: The type of keys; the initializer's by default.
          name: A name for the operations.
        """
        if num_oov_buckets <= 0:
            raise ValueError("`num_oov_buckets` must be > 0; use StaticHashTable.")
        table = None
        if initializer is not None:
            wanted = as_dtype(lookup_key_dtype or initializer.key_dtype)
            _check_ids(initializer.key_dtype, initializer.value_dtype, wanted)
            table = StaticHashTable(initializer, default_value=-1)
        else:
            lookup_key_dtype = dtypes.string
        super().__init__(table, num_oov_buckets, name=name, key_dtype=lookup_key_dtype)


def _check_vocabulary_file(vocabulary_file: Any, vocab_size: int | None) -> None:
    if vocabulary_file is None or (isinstance(vocabulary_file, str) and not vocabulary_file):
        raise ValueError("`vocabulary_file` must be specified and must not be empty.")
    if vocab_size is not None and vocab_size < 1:
        shown: Any = vocabulary_file
        if isinstance(shown, Tensor):
            shown = constant_value(shown) or "?"
        raise ValueError(
            f"`vocab_size` must be greater than 0, got {vocab_size} for vocabulary_file: {shown}."
        )


def _with_buckets(table: Any, count: int, spec: HasherSpec, key_dtype: DType) -> Any:
    if not count:
        return table
    return IdTableWithHashBuckets(table, count, hasher_spec=spec, key_dtype=key_dtype)


def index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    key_dtype: Any = dtypes.string,
    name: str | None = None,
    key_column_index: int = TextFileIndex.WHOLE_LINE,
    value_column_index: int = TextFileIndex.LINE_NUMBER,
    delimiter: str = "\t",
) -> Any:
    """A table from the words of a file to their line numbers.

    Args:
      vocabulary_file: The file, a word a line.
      num_oov_buckets: How many buckets other words are spread over; 0 for `default_value`.
      vocab_size: How many lines to read; all when None.
      default_value: The number of other words, without buckets.
      hasher_spec: Which hash function spreads words over buckets.
      key_dtype: The type of keys, string or an integer type.
      name: A name for the operations.
      key_column_index: The column of words.
      value_column_index: The column of numbers.
      delimiter: What separates columns.
    """
    _check_vocabulary_file(vocabulary_file, vocab_size)
    if num_oov_buckets < 0:
        raise ValueError(f"num_oov_buckets must be greater or equal than 0, got {num_oov_buckets}.")
    kind = as_dtype(key_dtype)
    if not kind.is_integer and kind.base_dtype != dtypes.string:
        raise TypeError("Dtype for `keys` should be either integer or string.")
    with name_scope(name, "string_to_index"):
        with name_scope(None, "hash_table"):
            initializer = TextFileIdTableInitializer(
                vocabulary_file,
                vocab_size=vocab_size,
                key_dtype=dtypes.int64 if kind.is_integer else kind,
                name="table_init",
                key_column_index=key_column_index,
                value_column_index=value_column_index,
                delimiter=delimiter,
            )
            table = StaticHashTable(initializer, default_value)
        return _with_buckets(table, num_oov_buckets, hasher_spec, kind)


def index_table_from_tensor(
    vocabulary_list: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    dtype: Any = dtypes.string,
    name: str | None = None,
) -> Any:
    """A table from words to their positions in `vocabulary_list`; see `index_table_from_file`."""
    if vocabulary_list is None:
        raise ValueError("`vocabulary_list` must be specified.")
    if num_oov_buckets < 0:
        raise ValueError(
            f"`num_oov_buckets` must be greater or equal than 0, got {num_oov_buckets}."
        )
    kind = as_dtype(dtype)
    if not kind.is_integer and kind.base_dtype != dtypes.string:
        raise TypeError("`dtype` must either be integer or string.")
    with name_scope(name, "string_to_index"):
        keys = convert_to_tensor(vocabulary_list)
        if keys.dtype.is_integer != kind.is_integer:
            wanted = "integer" if kind.is_integer else "non-integer"
            raise ValueError(f"Invalid `dtype`: Expected {wanted}, got {keys.dtype}.")
        if not kind.is_integer and keys.dtype.base_dtype != kind:
            raise ValueError(f"Invalid `dtype`: Expected {kind}, got {keys.dtype}.")
        values = cast.cast(numeric.range(array_shape.size(keys)), dtypes.int64)
        with name_scope(None, "hash_table"):
            words = cast.cast(keys, dtypes.int64) if keys.dtype.is_integer else keys
            initializer = KeyValueTensorInitializer(
                words, values, words.dtype.base_dtype, dtypes.int64, name="table_init"
            )
            table = StaticHashTable(initializer, default_value)
        return _with_buckets(table, num_oov_buckets, hasher_spec, kind)


def index_to_string_table_from_file(
    vocabulary_file: Any,
    vocab_size: int | None = None,
    default_value: str = "UNK",
    name: str | None = None,
    key_column_index: int = TextFileIndex.LINE_NUMBER,
    value_column_index: int = TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> StaticHashTable:
    """A table from line numbers of a file to its words; see `index_table_from_file`."""
    _check_vocabulary_file(vocabulary_file, vocab_size)
    with name_scope(name, "index_to_string"):
        initializer = TextFileStringTableInitializer(
            vocabulary_file,
            vocab_size=vocab_size,
            name="table_init",
            key_column_index=key_column_index,
            value_column_index=value_column_index,
            delimiter=delimiter,
        )
        return StaticHashTable(initializer, default_value)


def index_to_string_table_from_tensor(
    vocabulary_list: Any, default_value: str = "UNK", name: str | None = None
) -> StaticHashTable:
    """A table from positions in `vocabulary_list` to its words."""
    if vocabulary_list is None:
        raise ValueError("`vocabulary_list` argument must be specified.")
    with name_scope(name, "index_to_string"):
        words = convert_to_tensor(vocabulary_list, dtypes.string)
        keys = cast.cast(numeric.range(array_shape.size(words)), dtypes.int64)
        initializer = KeyValueTensorInitializer(
            keys, words, dtypes.int64, dtypes.string, name="table_init"
        )
        return StaticHashTable(initializer, default_value)
