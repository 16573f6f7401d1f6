"""Pipelines of tf.data, built by TensorFlow."""

import os
import tempfile

import numpy as np
import sites
import tensorflow.compat.v1 as tf


def drained(sess, following):
    """All elements."""
    found = []
    try:
        while True:
            found.append(sess.run(following))
    except tf.errors.OutOfRangeError:
        return found


@sites.case
def a_shuffled_pipeline(site):
    with site.worker(1):
        data = np.arange(40.0).reshape(20, 2)
        dataset = tf.data.Dataset.from_tensor_slices({"x": data, "y": np.arange(20)})
        dataset = dataset.shuffle(7, seed=3).repeat(2).map(lambda d: (d["x"] * 2, d["y"] + 1))
        following = tf.data.make_one_shot_iterator(dataset.batch(8).prefetch(2)).get_next()
    with site.session() as sess:
        return drained(sess, following)


@sites.case
def records_parsed_in_batches(site):
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "a.rec")
    with tf.python_io.TFRecordWriter(path) as writer:
        for i in range(10):
            features = tf.train.Features(
                feature={
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=[i, i / 2])),
                    "ids": tf.train.Feature(
                        int64_list=tf.train.Int64List(value=list(range(i % 3)))
                    ),
                }
            )
            writer.write(tf.train.Example(features=features).SerializeToString())

    def parse(records):
        found = tf.parse_example(
            records,
            {"x": tf.FixedLenFeature([2], tf.float32), "ids": tf.VarLenFeature(tf.int64)},
        )
        return found["x"], tf.sparse_tensor_to_dense(found["ids"], default_value=-1)

    with site.worker():
        dataset = tf.data.TFRecordDataset(path).batch(4).map(parse, num_parallel_calls=2)
        iterator = tf.data.make_initializable_iterator(dataset)
        following = iterator.get_next()
    with site.session() as sess:
        sess.run(iterator.initializer)
        return drained(sess, following)


@sites.case
def words_of_various_lengths(site):
    with site.worker():
        lines = tf.data.Dataset.from_tensor_slices(["a b c", "d", "e f", "g h i j"])
        dataset = lines.map(lambda line: tf.string_split([line]).values).padded_batch(2, [None])
        following = tf.data.make_one_shot_iterator(dataset).get_next()
    with site.session() as sess:
        return drained(sess, following)


@sites.case
def two_pipelines_through_one_feedable_iterator(site):
    with site.worker():
        a, b = tf.data.Dataset.range(5), tf.data.Dataset.range(10, 15)
        one = tf.data.make_one_shot_iterator(a.interleave(
            lambda x: tf.data.Dataset.from_tensors(x).repeat(2), cycle_length=2))  # fmt: skip
        two = tf.data.make_initializable_iterator(b.filter(lambda x: x % 2 > 0))
        handle = tf.placeholder(tf.string, [])
        following = tf.data.Iterator.from_string_handle(
            handle, a.output_types, a.output_shapes
        ).get_next()
        handles = [one.string_handle(), two.string_handle()]
    with site.session() as sess:
        first, second = sess.run(handles)
        sess.run(two.initializer)
        return [sess.run(following, {handle: h}) for h in (first, second, first, first, second)]


@sites.case
def variables_in_a_map_function(site):
    with site.worker():
        v = tf.Variable(3, dtype=tf.int64, use_resource=True)
        dataset = tf.data.Dataset.range(3).map(lambda x: x * v)
        iterator = tf.data.make_initializable_iterator(dataset)
        following = iterator.get_next()
    with site.session() as sess:
        sess.run(v.initializer)
        sess.run(iterator.initializer)
        return drained(sess, following)


if __name__ == "__main__":
    sites.main()
