"""Lookup tables: static, mutable, from files and vocabularies."""

import tempfile

import numpy as np
from parity_kit import scenario

A_FILE = "the table reads a file of this run"


def _static(tf, keys, values, default):
    initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
    return tf.lookup.StaticHashTable(initializer, default)


@scenario
def static_table_of_strings(run, tf):
    table = _static(tf, ["a", "b", "c"], [1, 2, 3], -1)
    found = table.lookup(tf.constant([["b", "z"], ["a", "c"]]))
    run.note([found.dtype.name, found.get_shape().as_list()])
    run.fails("FailedPreconditionError", found, words="Table not initialized")
    run.initialize()
    run(found)
    run(table.size())


@scenario
def static_table_of_ints(run, tf):
    table = _static(tf, tf.constant([10, 20], tf.int64), ["x", "y"], "?")
    run.initialize()
    run(table.lookup(tf.constant([20, 30, 10], tf.int64)))


@scenario
def static_table_of_floats_as_values(run, tf):
    table = _static(tf, ["a", "b"], [0.5, 1.5], 0.0)
    run.initialize()
    run(table.lookup(tf.constant(["b", "c"])))


@scenario
def static_table_wrong_key_type(run, tf):
    table = _static(tf, ["a"], [1], -1)
    run.raises("TypeError", lambda: table.lookup(tf.constant([1])))


@scenario
def static_table_duplicate_keys(run, tf):
    _static(tf, ["a", "a"], [1, 2], -1)
    run.fails("FailedPreconditionError", tf.tables_initializer(), words="different value")


@scenario
def static_table_initialized_twice(run, tf):
    table = _static(tf, ["a"], [1], -1)
    run.initialize()
    run.initialize()
    run(table.size())


@scenario
def static_table_looks_up_sparse(run, tf):
    table = _static(tf, ["a", "b"], [1, 2], -1)
    keys = tf.SparseTensor([[0, 0], [1, 2]], tf.constant(["b", "q"]), [2, 3])
    run.initialize()
    run(table.lookup(keys))


@scenario
def vocabulary_table_with_buckets(run, tf):
    initializer = tf.lookup.KeyValueTensorInitializer(
        tf.constant(["emerson", "lake", "palmer"]), tf.constant([0, 1, 2], tf.int64)
    )
    table = tf.lookup.StaticVocabularyTable(initializer, num_oov_buckets=4)
    run.initialize()
    run(table.lookup(tf.constant(["emerson", "palmer", "king", "crimson", ""])))
    run(table.size())


@scenario(replay=A_FILE)
def table_from_a_file(run, tf):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("apple\t5\nbanana\t7\ncherry\t9\n")
        file.flush()
        whole = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(file.name, tf.string, 0, tf.int64, 1, delimiter="\t"),
            -1,
        )
        lines = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                file.name,
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            ),
            -1,
        )
        run.initialize()
        run(whole.lookup(tf.constant(["banana", "durian"])))
        run(lines.lookup(tf.constant(["cherry\t9", "cherry"])))
        run([whole.size(), lines.size()])


@scenario(replay=A_FILE)
def table_from_a_missing_file(run, tf):
    tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(
            "/nowhere/at/all.txt",
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        ),
        -1,
    )
    run.fails("NotFoundError", tf.tables_initializer(), words="/nowhere/at/all.txt")


@scenario
def raw_mutable_hash_table(run, tf):
    raw = tf.raw_ops
    table = raw.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name="m")
    insert = raw.LookupTableInsertV2(
        table_handle=table, keys=["a", "b"], values=tf.constant([1, 2], tf.int64)
    )
    update = raw.LookupTableInsertV2(
        table_handle=table, keys=["b", "c"], values=tf.constant([20, 30], tf.int64)
    )
    remove = raw.LookupTableRemoveV2(table_handle=table, keys=["a", "zz"])
    find = raw.LookupTableFindV2(
        table_handle=table, keys=["a", "b", "c", "d"], default_value=tf.constant(-1, tf.int64)
    )
    size = raw.LookupTableSizeV2(table_handle=table)
    run([find, size])
    run.value(insert)
    run([find, size])
    run.value(update)
    run([find, size])
    run.value(remove)
    run([find, size])
    keys, values = raw.LookupTableExportV2(table_handle=table, Tkeys=tf.string, Tvalues=tf.int64)
    exported = run.value([keys, values])
    run.note(sorted(zip(exported[0].tolist(), exported[1].tolist(), strict=True)))
    run.value(
        raw.LookupTableImportV2(table_handle=table, keys=["q"], values=tf.constant([99], tf.int64))
    )
    run(size)


@scenario
def raw_mutable_hash_table_of_vectors(run, tf):
    raw = tf.raw_ops
    table = raw.MutableHashTableOfTensorsV2(
        key_dtype=tf.int64, value_dtype=tf.float32, value_shape=[2], shared_name="v"
    )
    insert = raw.LookupTableInsertV2(
        table_handle=table, keys=tf.constant([7, 9], tf.int64), values=[[1.0, 2.0], [3.0, 4.0]]
    )
    find = raw.LookupTableFindV2(
        table_handle=table, keys=tf.constant([9, 1], tf.int64), default_value=[0.5, 0.5]
    )
    run.value(insert)
    run(find)


@scenario
def raw_mutable_dense_hash_table(run, tf):
    raw = tf.raw_ops
    table = raw.MutableDenseHashTableV2(
        empty_key=tf.constant(-1, tf.int64),
        deleted_key=tf.constant(-2, tf.int64),
        value_dtype=tf.int64,
        shared_name="d",
    )
    keys = tf.constant([3, 5, 11], tf.int64)
    insert = raw.LookupTableInsertV2(table_handle=table, keys=keys, values=keys * 10)
    find = raw.LookupTableFindV2(
        table_handle=table, keys=keys + 0, default_value=tf.constant(0, tf.int64)
    )
    run(find)
    run.value(insert)
    run(find)
    run.value(raw.LookupTableRemoveV2(table_handle=table, keys=keys[:1]))
    run(find)
    run(raw.LookupTableSizeV2(table_handle=table))


@scenario
def raw_hash_table_shared_by_name(run, tf):
    raw = tf.raw_ops
    options = {"key_dtype": tf.string, "value_dtype": tf.int64, "shared_name": "same"}
    one, two = raw.HashTableV2(**options), raw.HashTableV2(**options)
    run.value(
        raw.InitializeTableV2(table_handle=one, keys=["k"], values=tf.constant([4], tf.int64))
    )
    run(
        raw.LookupTableFindV2(
            table_handle=two, keys=["k", "l"], default_value=tf.constant(np.int64(-7))
        )
    )
