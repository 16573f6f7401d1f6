"""tf.data: sources, transformations, iterators. Every element, type, shape, class, and the end."""

import gzip
import os
import tempfile

import numpy as np
from parity_kit import scenario

A_FILE = "the graph names a file that is gone"
IN_PYTHON = "a Python function, which the graph only names"


def structure_of(dataset):
    """Types, shapes and classes as plain values."""

    def plain(value):
        if isinstance(value, dict):
            return {key: plain(value[key]) for key in sorted(value)}
        if isinstance(value, tuple):
            return [plain(each) for each in value]
        if hasattr(value, "as_list"):
            return value.as_list() if value.ndims is not None else "unknown"
        if isinstance(value, type):
            return value.__name__
        return value.name

    types = getattr(dataset, "output_types", None)
    return [plain(types), plain(dataset.output_shapes), plain(dataset.output_classes)]


def elements(run, tf, dataset, count, feed=None):
    """All `count` elements, and that it ends there."""
    run.note(structure_of(dataset))
    iterator = tf.data.make_initializable_iterator(dataset)
    following = iterator.get_next()
    run.value(iterator.initializer, feed)
    for _ in range(count):
        run(following)
    run.fails("OutOfRangeError", following, words="End of sequence")


@scenario
def from_tensors(run, tf):
    elements(run, tf, tf.data.Dataset.from_tensors(([1, 2], {"b": "x", "a": 2.5})), 1)


@scenario
def from_tensor_slices(run, tf):
    value = {"x": np.arange(6.0).reshape(3, 2), "y": ["a", "b", "c"]}
    elements(run, tf, tf.data.Dataset.from_tensor_slices(value), 3)


@scenario
def from_tensor_slices_of_a_list(run, tf):
    elements(run, tf, tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4]]), 2)


@scenario
def from_tensor_slices_refuses(run, tf):
    dataset = tf.data.Dataset
    run.raises("ValueError", lambda: dataset.from_tensor_slices(3))
    run.raises("ValueError", lambda: dataset.from_tensor_slices(([1, 2], [1, 2, 3])))


@scenario
def ranges(run, tf):
    elements(run, tf, tf.data.Dataset.range(3), 3)
    elements(run, tf, tf.data.Dataset.range(2, 5), 3)
    elements(run, tf, tf.data.Dataset.range(9, 2, -3), 3)
    elements(run, tf, tf.data.Dataset.range(3, 3), 0)


@scenario
def fed_slices(run, tf):
    x = tf.placeholder(tf.float32, [None, 2])
    dataset = tf.data.Dataset.from_tensor_slices(x)
    elements(run, tf, dataset, 3, {x: np.arange(6.0).reshape(3, 2)})


@scenario(replay=IN_PYTHON)
def from_generator(run, tf):
    def numbers():
        for i in range(4):
            yield i, [i] * i

    dataset = tf.data.Dataset.from_generator(numbers, (tf.int64, tf.int32), ([], [None]))
    elements(run, tf, dataset, 4)
    elements(run, tf, dataset.repeat(2), 8)


@scenario(replay=IN_PYTHON)
def from_generator_with_arguments(run, tf):
    def count(limit, step):
        yield from range(0, limit, step)

    dataset = tf.data.Dataset.from_generator(count, tf.int64, [], args=(10, 3))
    elements(run, tf, dataset, 4)


@scenario(replay=IN_PYTHON)
def a_generator_that_is_wrong(run, tf):
    def one(value):
        def generate():
            yield value

        return generate

    for value, types, shapes in (
        ("text", tf.int64, []),
        ([1, 2], tf.int64, [3]),
        ((1, 2), tf.int64, []),
    ):
        dataset = tf.data.Dataset.from_generator(one(value), types, shapes)
        iterator = tf.data.make_initializable_iterator(dataset)
        following = iterator.get_next()
        run.value(iterator.initializer)
        run.fails("InvalidArgumentError", following, words="`generator` yielded an element")


@scenario(replay=IN_PYTHON)
def a_generator_that_raises(run, tf):
    def generate():
        yield 1
        raise ValueError("what the generator says")

    dataset = tf.data.Dataset.from_generator(generate, tf.int64, [])
    iterator = tf.data.make_initializable_iterator(dataset)
    following = iterator.get_next()
    run.value(iterator.initializer)
    run(following)
    run.fails("InvalidArgumentError", following, words="what the generator says")


@scenario
def zipped(run, tf):
    a = tf.data.Dataset.range(3)
    b = tf.data.Dataset.from_tensor_slices([[1.0], [2.0], [3.0], [4.0]])
    elements(run, tf, tf.data.Dataset.zip((a, b)), 3)
    elements(run, tf, tf.data.Dataset.zip({"b": b, "a": (a, a)}), 3)
    run.raises("TypeError", lambda: tf.data.Dataset.zip([a, b]))


@scenario
def concatenated(run, tf):
    a = tf.data.Dataset.from_tensor_slices(np.ones((2, 3)))
    b = tf.data.Dataset.from_tensor_slices(np.zeros((1, 5)))
    elements(run, tf, a.concatenate(b), 3)
    run.raises("TypeError", lambda: a.concatenate(tf.data.Dataset.range(3)))


@scenario
def fewer(run, tf):
    dataset = tf.data.Dataset.range(10)
    elements(run, tf, dataset.take(3), 3)
    elements(run, tf, dataset.take(-1), 10)
    elements(run, tf, dataset.skip(8), 2)
    elements(run, tf, dataset.skip(-1), 0)
    elements(run, tf, dataset.shard(3, 1), 3)
    elements(run, tf, dataset.filter(lambda x: tf.equal(x % 3, 0)), 4)
    elements(run, tf, dataset.apply(tf.data.experimental.take_while(lambda x: x < 4)), 4)


@scenario
def shards_that_cannot_be(run, tf):
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(3).shard(2, 2))
    run.fails("InvalidArgumentError", iterator.initializer, words="currently index = 2")


@scenario
def repeated(run, tf):
    elements(run, tf, tf.data.Dataset.range(2).repeat(3), 6)
    elements(run, tf, tf.data.Dataset.range(0).repeat(), 0)
    elements(run, tf, tf.data.Dataset.range(4).repeat(0), 0)


@scenario
def shuffled(run, tf):
    dataset = tf.data.Dataset.range(12)
    elements(run, tf, dataset.shuffle(5, seed=3), 12)
    elements(run, tf, dataset.shuffle(100, seed=3).repeat(2), 24)
    elements(run, tf, dataset.shuffle(5, seed=3, reshuffle_each_iteration=False).repeat(2), 24)
    elements(run, tf, dataset.shuffle(1), 12)


@scenario
def shuffled_by_the_graphs_seed(run, tf):
    tf.set_random_seed(11)
    dataset = tf.data.Dataset.range(8)
    elements(run, tf, dataset.shuffle(8, seed=1), 8)


@scenario
def shuffled_and_repeated(run, tf):
    apply = tf.data.experimental.shuffle_and_repeat
    elements(run, tf, tf.data.Dataset.range(7).apply(apply(4, 3, seed=5)), 21)


@scenario
def a_buffer_that_cannot_be(run, tf):
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(3).shuffle(0))
    run.fails("InvalidArgumentError", iterator.initializer)


@scenario
def batches(run, tf):
    dataset = tf.data.Dataset.from_tensor_slices((np.arange(14).reshape(7, 2), list("abcdefg")))
    elements(run, tf, dataset.batch(3), 3)
    elements(run, tf, dataset.batch(3, drop_remainder=True), 2)
    elements(run, tf, dataset.batch(10, drop_remainder=True), 0)
    elements(run, tf, dataset.take(6).batch(2).batch(2), 2)


@scenario
def a_batch_of_different_shapes(run, tf):
    dataset = tf.data.Dataset.range(1, 4).map(lambda n: tf.fill([n], n)).batch(2)
    iterator = tf.data.make_initializable_iterator(dataset)
    following = iterator.get_next()
    run.value(iterator.initializer)
    run.fails("InvalidArgumentError", following, words="batch")
    run(following)
    run.fails("OutOfRangeError", following)


@scenario
def padded_batches(run, tf):
    dataset = tf.data.Dataset.range(1, 6).map(lambda n: tf.fill([n], n))
    elements(run, tf, dataset.padded_batch(2, [None]), 3)
    elements(run, tf, dataset.padded_batch(2, [6], drop_remainder=True), 2)
    elements(run, tf, dataset.padded_batch(3, [None], padding_values=np.int64(-1)), 2)
    words = dataset.map(lambda x: {"w": tf.as_string(x), "m": tf.ones([tf.size(x), 2])})
    elements(run, tf, words.padded_batch(3, {"w": [None], "m": [None, 3]}), 2)
    elements(
        run,
        tf,
        words.padded_batch(3, {"w": [-1], "m": [-1, 2]}, {"w": "pad", "m": 0.5}),
        2,
    )


@scenario
def a_padded_batch_that_is_too_small(run, tf):
    dataset = tf.data.Dataset.range(1, 6).map(lambda n: tf.fill([n], n)).padded_batch(5, [3])
    iterator = tf.data.make_initializable_iterator(dataset)
    following = iterator.get_next()
    run.value(iterator.initializer)
    run.fails("DataLossError", following, words="Attempted to pad to a smaller size")


@scenario
def unbatched(run, tf):
    dataset = tf.data.Dataset.from_tensor_slices(np.arange(12).reshape(3, 2, 2))
    elements(run, tf, dataset.apply(tf.data.experimental.unbatch()), 6)
    elements(run, tf, tf.data.Dataset.range(5).batch(2).unbatch(), 5)


@scenario
def windows(run, tf):
    dataset = tf.data.Dataset.range(7)
    for options, count in (
        ({"size": 3}, 3),
        ({"size": 3, "drop_remainder": True}, 2),
        ({"size": 3, "shift": 1}, 7),
        ({"size": 2, "shift": 3, "stride": 2}, 3),
    ):
        made = dataset.window(**options).flat_map(lambda w: w.batch(10))
        elements(run, tf, made, count)
    pairs = tf.data.Dataset.zip((dataset, dataset.map(lambda x: x * x))).window(4)
    elements(run, tf, pairs.flat_map(lambda a, b: tf.data.Dataset.zip((a, b))), 7)


@scenario
def mapped(run, tf):
    dataset = tf.data.Dataset.range(5)
    elements(run, tf, dataset.map(lambda x: x * 2 + 1), 5)
    elements(run, tf, dataset.map(lambda x: (x, tf.cast(x, tf.float32) / 2)), 5)
    elements(run, tf, dataset.map(lambda x: {"a": x, "b": tf.as_string(x)}), 5)
    pairs = tf.data.Dataset.zip((dataset, dataset))
    elements(run, tf, pairs.map(lambda a, b: a + b), 5)
    elements(run, tf, pairs.map(lambda a, b: [a, b]), 5)
    elements(run, tf, dataset.map(lambda x: x, num_parallel_calls=3), 5)


@scenario
def mapped_with_what_is_around(run, tf):
    v = tf.Variable(3, dtype=tf.int64, use_resource=True)
    c = tf.constant(10, tf.int64)
    elements_ = tf.data.Dataset.range(3).map(lambda x: x * v + c)
    iterator = tf.data.make_initializable_iterator(elements_)
    following = iterator.get_next()
    run.initialize()
    run.value(iterator.initializer)
    run(following)
    run(following)


@scenario
def mapped_with_control_flow(run, tf):
    def clip(x):
        y = tf.cond(x < 2, lambda: x * 10, lambda: x)
        return tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y + x), (0, y))[1]

    elements(run, tf, tf.data.Dataset.range(4).map(clip), 4)


@scenario(replay=IN_PYTHON)
def mapped_in_python(run, tf):
    dataset = tf.data.Dataset.range(4)
    made = dataset.map(lambda x: tf.py_func(lambda v: np.float32(v / 2), [x], tf.float32))
    elements(run, tf, made, 4)


@scenario
def mapped_with_random_numbers(run, tf):
    dataset = tf.data.Dataset.range(3).map(lambda x: tf.random_uniform([2], seed=4)).repeat(2)
    elements(run, tf, dataset, 6)


@scenario
def an_error_in_the_middle(run, tf):
    x = tf.data.Dataset.from_tensor_slices([1.0, 2.0, np.nan, 4.0])
    dataset = x.map(lambda v: tf.check_numerics(v, "not a number"))
    iterator = tf.data.make_initializable_iterator(dataset)
    following = iterator.get_next()
    run.value(iterator.initializer)
    run(following)
    run(following)
    run.fails("InvalidArgumentError", following, words="not a number")
    run(following)
    run.fails("OutOfRangeError", following)
    elements(run, tf, dataset.apply(tf.data.experimental.ignore_errors()), 3)


@scenario
def flat_mapped(run, tf):
    dataset = tf.data.Dataset.range(4)
    elements(run, tf, dataset.flat_map(lambda n: tf.data.Dataset.range(n)), 6)


@scenario
def interleaved(run, tf):
    dataset = tf.data.Dataset.range(1, 5)

    def repeated(n):
        return tf.data.Dataset.from_tensors(n).repeat(n)

    for cycle, block in ((1, 1), (2, 1), (2, 3), (4, 2), (8, 1)):
        elements(run, tf, dataset.interleave(repeated, cycle, block), 10)
    elements(run, tf, dataset.interleave(repeated, 2, 2, num_parallel_calls=2), 10)
    apply = tf.data.experimental.parallel_interleave
    elements(run, tf, dataset.apply(apply(repeated, cycle_length=1, block_length=2)), 10)


@scenario
def map_and_batch(run, tf):
    apply = tf.data.experimental.map_and_batch
    dataset = tf.data.Dataset.range(7)
    elements(run, tf, dataset.apply(apply(lambda x: x * x, 3)), 3)
    elements(run, tf, dataset.apply(apply(lambda x: (x, x + 1), 3, drop_remainder=True)), 2)


@scenario
def prefetched_and_cached(run, tf):
    dataset = tf.data.Dataset.range(4)
    elements(run, tf, dataset.prefetch(2), 4)
    elements(run, tf, dataset.prefetch(0), 4)
    elements(run, tf, dataset.map(lambda x: x).cache().repeat(2), 8)


@scenario(replay=A_FILE)
def cached_in_a_file(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        dataset = tf.data.Dataset.range(3).cache(os.path.join(folder, "cache")).repeat(2)
        elements(run, tf, dataset, 6)


@scenario
def reduced(run, tf):
    dataset = tf.data.Dataset.range(6)
    run(dataset.reduce(np.int64(0), lambda total, x: total + x))
    run(dataset.reduce((0.0, 1.0), lambda s, x: (s[0] + 1.0, s[1] * 2.0)))
    run.raises("TypeError", lambda: dataset.reduce(0, lambda total, x: x))


@scenario
def scanned(run, tf):
    apply = tf.data.experimental.scan
    dataset = tf.data.Dataset.range(5)
    elements(run, tf, dataset.apply(apply(np.int64(0), lambda s, x: (s + x, s))), 5)
    pairs = apply((np.int64(1), 1.0), lambda s, x: (s, (s[0] + x, s[1])))
    elements(run, tf, dataset.apply(pairs), 5)


@scenario
def grouped_by_window(run, tf):
    apply = tf.data.experimental.group_by_window
    dataset = tf.data.Dataset.range(11)
    made = dataset.apply(apply(lambda x: x % 3, lambda key, group: group.batch(4), 2))
    elements(run, tf, made, 6)


@scenario
def bucketed(run, tf):
    dataset = tf.data.Dataset.from_tensor_slices([1, 5, 2, 7, 3, 9, 4, 1]).map(
        lambda n: tf.fill([n], n)
    )
    apply = tf.data.experimental.bucket_by_sequence_length
    made = dataset.apply(apply(lambda x: tf.size(x), [3, 6], [2, 2, 2]))
    elements(run, tf, made, 5)


@scenario
def grouped_by_reducer(run, tf):
    reducer = tf.data.experimental.Reducer(
        lambda _: np.int64(0), lambda total, x: total + x, lambda total: total * 10
    )
    apply = tf.data.experimental.group_by_reducer
    elements(run, tf, tf.data.Dataset.range(9).apply(apply(lambda x: x % 2, reducer)), 2)


@scenario
def enumerated(run, tf):
    dataset = tf.data.Dataset.from_tensor_slices(["a", "b"])
    elements(run, tf, dataset.apply(tf.data.experimental.enumerate_dataset(5)), 2)


@scenario
def chosen_from_several(run, tf):
    parts = [tf.data.Dataset.from_tensors(text).repeat(3) for text in ("a", "b", "c")]
    choice = tf.data.Dataset.range(3).repeat(4)
    elements(run, tf, tf.data.experimental.choose_from_datasets(parts, choice), 9)


@scenario
def sampled_from_several(run, tf):
    parts = [tf.data.Dataset.from_tensors(text).repeat(4) for text in ("a", "b", "c")]
    sample = tf.data.experimental.sample_from_datasets
    elements(run, tf, sample(parts, [0.5, 0.3, 0.2], seed=9), 12)
    elements(run, tf, sample(parts, seed=2), 12)


@scenario
def sparse_elements(run, tf):
    sparse = tf.SparseTensorValue([[0, 0], [1, 2], [2, 1]], [1, 2, 3], [3, 4])
    dataset = tf.data.Dataset.from_tensor_slices(sparse)
    elements(run, tf, dataset, 3)
    elements(run, tf, dataset.batch(2), 2)
    elements(run, tf, tf.data.Dataset.from_tensors((sparse, 5)), 1)
    made = tf.data.Dataset.range(3).map(
        lambda x: tf.SparseTensor([[x]], tf.expand_dims(x * 2, 0), [5])
    )
    elements(run, tf, made, 3)
    elements(run, tf, made.batch(3).map(lambda s: tf.sparse_tensor_to_dense(s)), 1)


@scenario
def sparse_slices(run, tf):
    sparse = tf.SparseTensor([[0, 0], [2, 1], [2, 3]], [1.0, 2.0, 3.0], [3, 4])
    elements(run, tf, tf.data.Dataset.from_sparse_tensor_slices(sparse), 3)


@scenario
def dense_to_sparse(run, tf):
    dataset = tf.data.Dataset.range(1, 5).map(lambda n: tf.fill([n], n))
    apply = tf.data.experimental.dense_to_sparse_batch
    elements(run, tf, dataset.apply(apply(2, [6])), 2)


@scenario
def an_iterator_that_was_not_initialized(run, tf):
    following = tf.data.make_initializable_iterator(tf.data.Dataset.range(3)).get_next()
    run.fails(
        "FailedPreconditionError",
        following,
        words="GetNext() failed because the iterator has not been initialized",
    )


@scenario
def a_one_shot_iterator(run, tf):
    dataset = tf.data.Dataset.range(3).map(lambda x: x * x)
    iterator = tf.data.make_one_shot_iterator(dataset)
    following = iterator.get_next()
    run.note(structure_of(iterator))
    for _ in range(3):
        run(following)
    run.fails("OutOfRangeError", following)
    run.fails("OutOfRangeError", following)
    run.raises("ValueError", lambda: iterator.initializer)


@scenario
def a_one_shot_iterator_over_state(run, tf):
    x = tf.placeholder(tf.int64, [])
    run.raises("ValueError", lambda: tf.data.make_one_shot_iterator(tf.data.Dataset.range(x)))
    v = tf.Variable(3, dtype=tf.int64, use_resource=True)
    mapped = tf.data.Dataset.range(3).map(lambda x: x * v)
    run.raises("ValueError", lambda: tf.data.make_one_shot_iterator(mapped))


@scenario
def a_reinitializable_iterator(run, tf):
    a, b = tf.data.Dataset.range(3), tf.data.Dataset.range(10, 12)
    iterator = tf.data.Iterator.from_structure(a.output_types, a.output_shapes)
    following = iterator.get_next()
    first, second = iterator.make_initializer(a), iterator.make_initializer(b)
    run.value(first)
    run(following)
    run.value(second)
    run(following)
    run(following)
    run.fails("OutOfRangeError", following)
    run.value(first)
    run(following)
    other = tf.data.Dataset.from_tensors(1.0)
    run.raises("TypeError", lambda: iterator.make_initializer(other))


@scenario(replay="handles differ from session to session")
def a_feedable_iterator(run, tf):
    a, b = tf.data.Dataset.range(5), tf.data.Dataset.range(100, 103)
    one = tf.data.make_one_shot_iterator(a)
    two = tf.data.make_initializable_iterator(b)
    handle = tf.placeholder(tf.string, [])
    iterator = tf.data.Iterator.from_string_handle(handle, a.output_types, a.output_shapes)
    following = iterator.get_next()
    session = run.session
    handles = session.run([one.string_handle(), two.string_handle()])
    run.value(two.initializer)
    for i in (0, 1, 0, 1, 1):
        run.note(int(session.run(following, {handle: handles[i]})))
    try:
        session.run(following, {handle: handles[1]})
    except tf.errors.OutOfRangeError:
        run.note("end")
    run.note(int(session.run(following, {handle: handles[0]})))


@scenario
def two_nodes_of_one_iterator(run, tf):
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(6))
    one, two = iterator.get_next(), iterator.get_next()
    run.value(iterator.initializer)
    run(one)
    run(two)
    run(one)


@scenario
def optionals(run, tf):
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(2))
    optional = tf.data.experimental.get_next_as_optional(iterator)
    has, value = optional.has_value(), optional.get_value()
    run.value(iterator.initializer)
    run(has)
    run(value)
    run(has)
    run.fails("InvalidArgumentError", value, words="does not have a value")


@scenario
def single_elements(run, tf):
    run(tf.data.experimental.get_single_element(tf.data.Dataset.from_tensors((1, "a"))))
    run.fails(
        "InvalidArgumentError",
        tf.data.experimental.get_single_element(tf.data.Dataset.range(2)),
        words="Dataset had more than one element.",
    )
    run.fails(
        "InvalidArgumentError",
        tf.data.experimental.get_single_element(tf.data.Dataset.range(0)),
        words="Dataset was empty.",
    )


@scenario
def cardinalities(run, tf):
    dataset = tf.data.Dataset.range(10)
    count = tf.data.experimental.cardinality
    for made in (
        dataset,
        dataset.repeat(),
        dataset.repeat(3),
        dataset.batch(3),
        dataset.batch(3, drop_remainder=True),
        dataset.filter(lambda x: x > 3),
        dataset.take(4),
        dataset.skip(4),
        dataset.shard(3, 0),
        dataset.concatenate(dataset),
        tf.data.Dataset.zip((dataset, dataset.take(2))),
        dataset.map(lambda x: x).prefetch(2).cache().shuffle(4),
        dataset.flat_map(lambda x: tf.data.Dataset.range(x)),
    ):
        run(count(made))


def _write(folder, name, content):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(content)
    return path


@scenario(replay=A_FILE)
def text_lines(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        a = _write(folder, "a.txt", b"first\r\n\nthird, without an end")
        b = _write(folder, "b.txt", b"")
        c = _write(folder, "c.txt", b"x\ny\n")
        d = _write(folder, "d.gz", gzip.compress(b"packed\nlines\n"))
        elements(run, tf, tf.data.TextLineDataset([a, b, c]), 5)
        elements(run, tf, tf.data.TextLineDataset(d, compression_type="GZIP"), 2)
        names = tf.data.Dataset.from_tensor_slices([a, c])
        elements(run, tf, tf.data.TextLineDataset(names), 5)
        elements(run, tf, tf.data.TextLineDataset([a, c], num_parallel_reads=2), 5)


@scenario(replay=A_FILE)
def records(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.rec")
        with tf.io.TFRecordWriter(path) as writer:
            for record in (b"one", b"", b"three" * 100):
                writer.write(record)
        elements(run, tf, tf.data.TFRecordDataset(path), 3)
        elements(run, tf, tf.data.TFRecordDataset([path, path]), 6)
        missing = tf.data.TFRecordDataset(os.path.join(folder, "missing"))
        iterator = tf.data.make_initializable_iterator(missing)
        following = iterator.get_next()
        run.value(iterator.initializer)
        run.fails("NotFoundError", following, words="missing")
        with open(path, "rb") as file:
            content = bytearray(file.read())
        content[25] ^= 1
        damaged = _write(folder, "b.rec", bytes(content))
        iterator = tf.data.make_initializable_iterator(tf.data.TFRecordDataset([damaged, path]))
        following = iterator.get_next()
        run.value(iterator.initializer)
        run(following)
        run.fails("DataLossError", following, words="corrupted record")


@scenario(replay=A_FILE)
def fixed_length_records(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        a = _write(folder, "a.bin", b"HHaabbccF")
        b = _write(folder, "b.bin", b"HHddF")
        dataset = tf.data.FixedLengthRecordDataset([a, b], 2, header_bytes=2, footer_bytes=1)
        elements(run, tf, dataset, 4)
        c = _write(folder, "c.bin", b"aabbc")
        iterator = tf.data.make_initializable_iterator(tf.data.FixedLengthRecordDataset(c, 2))
        following = iterator.get_next()
        run.value(iterator.initializer)
        run.fails("InvalidArgumentError", following, words="not an exact multiple")


@scenario(replay=A_FILE)
def csv_lines(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        a = _write(folder, "a.csv", b'a,b,c\n1,2.5,"x, y"\n2,,z\n-3,1e2,"he said ""no"""\n')
        make = tf.data.experimental.CsvDataset
        elements(run, tf, make(a, [tf.int32, [0.5], tf.string], header=True), 3)
        elements(run, tf, make(a, [tf.string, [7]], header=True, select_cols=[0, 2]).take(0), 0)
        b = _write(folder, "b.csv", b"1|NA|3\nNA|5|6\n")
        elements(run, tf, make(b, [[0], [0], [0]], field_delim="|", na_value="NA"), 2)
        c = _write(folder, "c.csv", b"1,2\n3,x\n5,6\n7\n,8\n")
        iterator = tf.data.make_initializable_iterator(make(c, [tf.int32, tf.int32]))
        following = iterator.get_next()
        run.value(iterator.initializer)
        run(following)
        run.fails("InvalidArgumentError", following, words="not a valid int32: x")
        run(following)
        run.fails("InvalidArgumentError", following, words="Expect 2 fields but have 1 in record")
        run.fails("InvalidArgumentError", following, words="is required but missing in record")
        run.fails("OutOfRangeError", following)


@scenario(replay=A_FILE)
def listed_files(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        for name in ("b.txt", "a.txt", "c.bin"):
            _write(folder, name, name.encode())
        pattern = os.path.join(folder, "*.txt")
        names = tf.data.Dataset.list_files(pattern, shuffle=False)
        elements(run, tf, names.flat_map(tf.data.TextLineDataset), 2)
        nothing = tf.data.Dataset.list_files(os.path.join(folder, "*.none"), shuffle=False)
        iterator = tf.data.make_initializable_iterator(nothing)
        run.fails("InvalidArgumentError", iterator.initializer, words="No files matched pattern")


@scenario(replay=A_FILE)
def query_rows(run, tf):
    import sqlite3

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.db")
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t (name TEXT, age INTEGER, height REAL)")
        rows = [("ann", 30, 1.6), ("bob", 40, 1.8)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        connection.commit()
        connection.close()
        query = "SELECT name, age, height FROM t ORDER BY age DESC"
        types = (tf.string, tf.int32, tf.float64)
        elements(run, tf, tf.data.experimental.SqlDataset("sqlite", path, query, types), 2)


@scenario
def nested_structures(run, tf):
    value = {"a": (np.arange(4), {"z": ["p", "q", "r", "s"]}), "b": np.eye(4)}
    dataset = tf.data.Dataset.from_tensor_slices(value)
    made = dataset.map(lambda d: (d["a"][1]["z"], {"k": d["b"], "n": d["a"][0]})).batch(3)
    elements(run, tf, made, 2)


@scenario
def options_are_kept(run, tf):
    options = tf.data.Options()
    options.experimental_deterministic = False
    dataset = tf.data.Dataset.range(3).with_options(options).map(lambda x: x)
    run.note(dataset.options().experimental_deterministic)
    elements(run, tf, dataset, 3)
