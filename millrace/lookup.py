"""`tf.lookup`: tables from keys to values."""

from types import SimpleNamespace

from millrace.ops.lookup.tables import (
    DenseHashTable,
    KeyValueTensorInitializer,
    MutableHashTable,
    StaticHashTable,
    TextFileIndex,
    TextFileInitializer,
)
from millrace.ops.lookup.vocabulary import StaticVocabularyTable

experimental = SimpleNamespace(DenseHashTable=DenseHashTable, MutableHashTable=MutableHashTable)

__all__ = [
    "KeyValueTensorInitializer",
    "StaticHashTable",
    "StaticVocabularyTable",
    "TextFileIndex",
    "TextFileInitializer",
    "experimental",
]
