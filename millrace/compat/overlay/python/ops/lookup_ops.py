"""What programs take from TensorFlow's python.ops.lookup_ops that has no public name."""

from millrace.ops.lookup.tables import HashTable, StaticHashTable
from millrace.ops.lookup.vocabulary import (
    StaticVocabularyTable,
    index_table_from_tensor,
    index_to_string_table_from_tensor,
)
