"""`tf.contrib.lookup`: tables. Re-exports only."""

from millrace.ops.lookup.tables import (
    DenseHashTable as MutableDenseHashTable,
)
from millrace.ops.lookup.tables import (
    KeyValueTensorInitializer,
    MutableHashTable,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileInitializer,
    TextFileStringTableInitializer,
)
from millrace.ops.lookup.tables import StaticHashTable as HashTable
from millrace.ops.lookup.vocabulary import (
    HasherSpec,
    StrongHashSpec,
    index_table_from_file,
    index_table_from_tensor,
    index_to_string_table_from_file,
    index_to_string_table_from_tensor,
)

__all__ = [
    "HashTable",
    "HasherSpec",
    "KeyValueTensorInitializer",
    "MutableDenseHashTable",
    "MutableHashTable",
    "StrongHashSpec",
    "TextFileIdTableInitializer",
    "TextFileIndex",
    "TextFileInitializer",
    "TextFileStringTableInitializer",
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
]
