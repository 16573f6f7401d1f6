"""What programs take from TensorFlow's python.ops.lookup_ops that has no public name."""

from millrace.ops.lookup import HashTable, StaticHashTable
from millrace.ops.vocabulary import (
    StaticVocabularyTable,
    index_table_from_tensor,
    index_to_string_table_from_tensor,
)
