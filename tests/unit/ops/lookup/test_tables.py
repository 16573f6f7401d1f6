"""Tables and vocabularies in sessions. Their rules are tested with `protocol.lookup_table`."""

import numpy as np
import pytest

import millrace as tf
from millrace.ops.lookup import tables as lookup
from millrace.ops.lookup import vocabulary


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as session:
        yield session


def static(keys, values, default, **options):
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys, values), default, **options
    )


# -- Static tables -----------------------------------------------------------------------


def test_a_table_is_filled_by_the_tables_initializer(session):
    table = static(["a", "b"], [1, 2], -1)
    found = table.lookup(tf.constant(["b", "z"]))
    with pytest.raises(tf.errors.FailedPreconditionError, match="Table not initialized"):
        session.run(found)
    session.run(tf.tables_initializer())
    assert session.run(found).tolist() == [2, -1]
    assert session.run(table["a"]) == 1
    assert session.run(table.size()) == 2
    keys, values = session.run(table.export())
    assert dict(zip(keys.tolist(), values.tolist(), strict=True)) == {b"a": 1, b"b": 2}


def test_without_tables_the_initializer_does_nothing(session):
    session.run(tf.initialize_all_tables())


def test_a_sparse_lookup_keeps_its_indices(session):
    table = static(["a", "b"], [1, 2], -1)
    keys = tf.SparseTensor([[0, 0], [1, 2]], ["b", "q"], [2, 3])
    session.run(table.initializer)
    found = session.run(table.lookup(keys))
    assert found.values.tolist() == [2, -1]
    assert found.indices.tolist() == [[0, 0], [1, 2]]


def test_the_static_shape_is_that_of_the_keys():
    table = static(["a"], [1], -1)
    assert table.lookup(tf.placeholder(tf.string, [None, 3])).shape.as_list() == [None, 3]


def test_keys_of_another_type_are_refused():
    table = static(["a"], [1], -1)
    with pytest.raises(TypeError, match="Dtype of argument `keys` must be"):
        table.lookup(tf.constant([1]))


def test_raw_lookups_check_types_and_shapes(session):
    table = static(["a"], [1], -1)
    session.run(table.initializer)
    find = tf.raw_ops.LookupTableFindV2
    with pytest.raises(tf.errors.InvalidArgumentError, match="Signature mismatch, have: resource"):
        session.run(find(table_handle=table.resource_handle, keys=["a"], default_value=1.5))
    default = tf.placeholder(tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Expected shape \[\] or \[1\]"):
        session.run(
            find(table_handle=table.resource_handle, keys=["a"], default_value=default),
            {default: [1, 2]},
        )


def test_tables_of_one_shared_name_must_agree_on_types(session):
    static(["a"], [1], -1, shared_name="t")
    static(["a"], [1.0], -1.0, shared_name="t")
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="Conflicting key/value dtypes string->float"
    ):
        session.run(tf.tables_initializer())


# -- Files -------------------------------------------------------------------------------


@pytest.fixture
def fruit(tmp_path):
    path = tmp_path / "fruit.txt"
    path.write_text("apple\t5\nbanana\t7\n")
    return str(path)


def test_a_table_is_filled_from_the_columns_of_a_file(session, fruit):
    table = tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(fruit, tf.string, 0, tf.int64, 1), -1
    )
    session.run(table.initializer)
    assert session.run(table.lookup(tf.constant(["banana", "fig"]))).tolist() == [7, -1]
    assert tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS)[0].op.type == "Const"


def test_tables_of_the_same_file_and_columns_are_shared(fruit):
    tables = [
        tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(fruit, tf.string, 0, tf.int64, column), -1
        )
        for column in (1, 1, -1)
    ]
    names = [table.resource_handle.op.get_attr("shared_name") for table in tables]
    assert names[0] == names[1] != names[2]


def test_a_file_that_is_not_there_is_named(session):
    vocabulary.index_table_from_file("/nowhere/at/all.txt")
    with pytest.raises(tf.errors.NotFoundError, match="/nowhere/at/all.txt"):
        session.run(tf.tables_initializer())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", tf.string, 0, tf.int64, 1), "`filename` argument required"),
        (("f", tf.string, -3, tf.int64, 1), "`key_index` should be >= -2"),
        (("f", tf.string, -1, tf.int64, 1), "`key_dtype` must be int64"),
        (("f", tf.string, 0, tf.float32, -2), "either integer or string"),
        (("f", tf.string, 0, tf.int64, 1, 0), "`vocab_size` should be > 0"),
    ],
)
def test_columns_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        tf.lookup.TextFileInitializer(*arguments)


# -- Vocabularies ------------------------------------------------------------------------


def test_words_that_are_not_in_a_vocabulary_go_to_buckets(session):
    table = vocabulary.index_table_from_tensor(["a", "b", "c"], num_oov_buckets=2)
    session.run(table.initializer)
    # The buckets are those of TensorFlow 2.21.
    assert session.run(table.lookup(tf.constant(["a", "q", "w", "c"]))).tolist() == [0, 4, 4, 2]
    assert session.run(table.size()) == 5


def test_numbers_can_be_a_vocabulary(session):
    table = vocabulary.index_table_from_tensor([10, 20], num_oov_buckets=2, dtype=tf.int64)
    session.run(table.initializer)
    found = table.lookup(tf.constant([10, 5, 20], tf.int64))
    assert session.run(found).tolist() == [0, 3, 1]


def test_a_vocabulary_file_maps_words_to_lines_and_back(session, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("the\nquick\nfox\n")
    to_index = vocabulary.index_table_from_file(str(path), default_value=-7)
    to_word = vocabulary.index_to_string_table_from_file(str(path))
    session.run(tf.tables_initializer())
    assert session.run(to_index.lookup(tf.constant(["fox", "dog"]))).tolist() == [2, -7]
    found = session.run(to_word.lookup(tf.constant([1, 9], tf.int64)))
    assert found.tolist() == [b"quick", b"UNK"]


def test_a_list_maps_positions_to_words(session):
    table = vocabulary.index_to_string_table_from_tensor(["a", "b"], default_value="?")
    session.run(table.initializer)
    found = session.run(table.lookup(tf.constant([1, 5], tf.int64)))
    assert found.tolist() == [b"b", b"?"]


def test_buckets_need_no_table(session):
    buckets = vocabulary.IdTableWithHashBuckets(
        None, 5, hasher_spec=vocabulary.StrongHashSpec((1, 2))
    )
    found = session.run(buckets.lookup(tf.constant(["a", "q", "w", "c"])))
    assert found.tolist() == [1, 3, 2, 4]  # as in TensorFlow 2.21
    session.run(buckets.initializer)


def test_vocabularies_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="must be specified and must not be empty"):
        vocabulary.index_table_from_file("")
    with pytest.raises(ValueError, match="`vocab_size` must be greater than 0"):
        vocabulary.index_table_from_file("f", vocab_size=0)
    with pytest.raises(TypeError, match="must either be integer or string"):
        vocabulary.index_table_from_tensor(["a"], dtype=tf.float32)
    with pytest.raises(ValueError, match="Expected integer"):
        vocabulary.index_table_from_tensor(["a"], dtype=tf.int64)
    with pytest.raises(ValueError, match="must be > 0"):
        tf.lookup.StaticVocabularyTable(None, 0)


# -- Mutable tables ----------------------------------------------------------------------


def test_a_mutable_table_changes(session):
    table = lookup.MutableHashTable(tf.string, tf.int64, -1)
    find = table.lookup(["a", "b"])
    assert session.run(find).tolist() == [-1, -1]
    session.run(table.insert(["a", "b"], [1, 2]))
    session.run(table.insert(["b"], [20]))
    assert session.run(find).tolist() == [1, 20]
    session.run(table.remove(tf.constant(["a"])))
    assert session.run([table.size(), find])[1].tolist() == [-1, 20]


def test_a_mutable_table_may_hold_vectors(session):
    table = lookup.MutableHashTable(tf.int64, tf.float32, [0.0, 0.5])
    session.run(table.insert([7], [[1.0, 2.0]]))
    found = table.lookup(tf.constant([[7], [8]], tf.int64))
    assert found.shape.as_list() == [2, 1, 2]
    assert session.run(found).tolist() == [[[1, 2]], [[0, 0.5]]]


def test_a_dense_table_refuses_its_reserved_keys(session):
    table = lookup.DenseHashTable(tf.int64, tf.int64, -1, empty_key=0, deleted_key=-5)
    session.run(table.insert([1], [10]))
    assert session.run(table.lookup([1, 3])).tolist() == [10, -1]
    session.run(table.erase(tf.constant([1], tf.int64)))
    assert session.run(table.size()) == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="Using the empty_key"):
        session.run(table.insert([0], [1]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deleted_key": 0}, "Empty and deleted keys cannot be equal"),
        ({"deleted_key": -1, "initial_num_buckets": 5}, "at least 4 and a power of 2, got: 5"),
    ],
)
def test_a_dense_table_that_makes_no_sense_is_refused(session, options, message):
    table = lookup.DenseHashTable(tf.int64, tf.int64, -1, empty_key=0, **options)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(table.size())


def test_a_mutable_table_is_saved_by_its_keys_and_values(session):
    table = lookup.MutableHashTable(tf.string, tf.int64, -1, name="t")
    (saveable,) = tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS)
    assert [spec.name for spec in saveable.specs] == ["t-keys", "t-values"]
    session.run(table.insert(["a"], [1]))
    keys, values = session.run([spec.tensor for spec in saveable.specs])
    session.run(table.insert(["b"], [2]))
    restore = saveable.restore([tf.constant(keys), tf.constant(values)], None)
    session.run(restore)
    assert session.run(table.lookup(["a", "b"])).tolist() == [1, -1]


def test_old_references_to_tables_work(session):
    raw = tf.raw_ops
    handle = raw.HashTable(key_dtype=tf.string, value_dtype=tf.int64)
    values = tf.constant([4], tf.int64)
    session.run(raw.InitializeTable(table_handle=handle, keys=["k"], values=values))
    found = raw.LookupTableFind(
        table_handle=handle, keys=["k", "l"], default_value=tf.constant(np.int64(-7))
    )
    assert session.run(found).tolist() == [4, -7]
    assert session.run(raw.LookupTableSize(table_handle=handle)) == 1
