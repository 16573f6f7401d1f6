"""`tf.lookup`: tables from keys to values."""

from types import SimpleNamespace

from millrace.ops.lookup import (
    DenseHashTable,
    KeyValueTensorInitializer,
    MutableHashTable,
    StaticHashTable,
    TextFileIndex,
    TextFileInitializer,
)
from millrace.ops.vocabulary import StaticVocabularyTable

experimental = SimpleNamespace(DenseHashTable=DenseHashTable, MutableHashTable=MutableHashTable)

__all__ = [
    "KeyValueTensorInitializer",
    "StaticHashTable",
    "StaticVocabularyTable",
    "TextFileIndex",
    "TextFileInitializer",
    "experimental",
]
