"""Embedding lookups, candidate samplers and the losses over samples."""

import numpy as np
import pytest

import millrace as tf


def run(*fetches, feed=None):
    with tf.Session() as session:
        return session.run(list(fetches), feed)


TABLE = np.arange(14, dtype=np.float32).reshape(7, 2)


# -- Lookups -------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("known", [True, False])
def test_a_table_in_parts_gives_the_rows_of_the_whole(parts, strategy, known):
    if strategy == "mod":
        values = [TABLE[i::parts] for i in range(parts)]
    else:
        values = np.array_split(TABLE, parts)
    tensors = [tf.placeholder(tf.float32, [None, 2] if not known else v.shape) for v in values]
    ids = [[6, 0, 3], [3, 5, 1]]
    rows = tf.nn.embedding_lookup(tensors, ids, partition_strategy=strategy)
    assert rows.shape == (2, 3, 2)
    (found,) = run(rows, feed=dict(zip(tensors, values, strict=True)))
    np.testing.assert_array_equal(found, TABLE[ids])


def test_rows_are_gathered_where_the_table_is():
    with tf.device("/job:ps/task:1"):
        table = tf.Variable(TABLE, name="table")
    rows = tf.nn.embedding_lookup(table, [1, 2])
    gather = rows.op.inputs[0].op
    assert gather.type in ("GatherV2", "ResourceGather")
    assert b"loc:@table" in gather.colocation_groups()
    assert not any(b"table" in group for group in rows.op.colocation_groups())


def test_rows_longer_than_the_norm_are_scaled_down():
    rows = tf.nn.embedding_lookup(TABLE, [0, 2], max_norm=1.0)
    (found,) = run(rows)
    np.testing.assert_allclose(found, [[0, 1], np.array([4, 5]) / np.hypot(4, 5)], rtol=1e-5)


def test_a_table_of_no_parts_or_of_none_is_refused():
    with pytest.raises(ValueError, match="Need at least one param"):
        tf.nn.embedding_lookup([], [0])
    with pytest.raises(ValueError, match="params must be specified"):
        tf.nn.embedding_lookup(None, [0])
    with pytest.raises(ValueError, match="Missing embedding_weights"):
        tf.nn.safe_embedding_lookup_sparse(None, None)


def sparse_ids(*rows, width=3):
    indices = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    values = [v for row in rows for v in row]
    return tf.SparseTensor(
        tf.constant(indices, tf.int64, [len(values), 2]),
        tf.constant(values, tf.int64),
        [len(rows), width],
    )


@pytest.mark.parametrize(
    ("combiner", "divisor"), [("sum", [1, 1]), ("mean", [2, 1]), ("sqrtn", [2**0.5, 1])]
)
def test_a_combiner_divides_by_what_its_name_says(combiner, divisor):
    ids = sparse_ids([1, 3], [3])
    plain = tf.nn.embedding_lookup_sparse(TABLE, ids, None, combiner=combiner)
    ones = tf.SparseTensor(ids.indices, tf.ones([3]), ids.dense_shape)
    weighted = tf.nn.embedding_lookup_sparse(TABLE, ids, ones, combiner=combiner)
    expected = np.stack([TABLE[1] + TABLE[3], TABLE[3]]) / np.array(divisor)[:, None]
    for found in run(plain, weighted):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_dense_ids_and_weights_are_refused():
    ids = sparse_ids([1])
    with pytest.raises(TypeError, match="sp_ids must be SparseTensor"):
        tf.nn.embedding_lookup_sparse(TABLE, [1], None, combiner="sum")
    with pytest.raises(TypeError, match="sp_weights must be either None or SparseTensor"):
        tf.nn.embedding_lookup_sparse(TABLE, ids, [1.0], combiner="sum")


def test_empty_rows_are_zeros_or_the_default_row():
    ids = sparse_ids([1, -1], [], [3])
    zeros = tf.nn.safe_embedding_lookup_sparse(TABLE, ids)
    default = tf.nn.safe_embedding_lookup_sparse(TABLE, ids, default_id=5)
    zeros, default = run(zeros, default)
    np.testing.assert_array_equal(zeros, [TABLE[1], [0, 0], TABLE[3]])
    np.testing.assert_array_equal(default, TABLE[[1, 5, 3]])


def test_ids_without_weight_do_not_count_unless_summed():
    ids = sparse_ids([1, 3])
    weights = tf.SparseTensor(ids.indices, tf.constant([1.0, 0.0]), ids.dense_shape)
    mean = tf.nn.safe_embedding_lookup_sparse(TABLE, ids, weights)
    total = tf.nn.safe_embedding_lookup_sparse(TABLE, ids, weights, combiner="sum")
    mean, total = run(mean, total)
    np.testing.assert_array_equal(mean, TABLE[[1]])
    np.testing.assert_array_equal(total, TABLE[[1]])


# -- Samplers ------------------------------------------------------------------------------

# What TensorFlow 2.21 draws in three runs of a session, for graph seed 7 and op seed 4.
DRAWN = {
    "uniform": [[1, 10, 7, 12, 17, 16], [10, 12, 19, 6, 6, 10], [15, 1, 5, 12, 14, 2]],
    "uniform unique": [[1, 10, 7, 12, 17, 16], [10, 12, 19, 6, 8, 3], [15, 1, 5, 12, 14, 2]],
    "log_uniform": [[4, 2, 0, 6, 12, 2], [1, 6, 19, 1, 4, 13], [12, 1, 0, 2, 1, 2]],
    "log_uniform unique": [[4, 2, 0, 6, 12, 1], [1, 6, 19, 4, 13, 5], [12, 1, 0, 2, 6, 16]],
    "learned_unigram": [[5, 1, 6, 9, 7, 10], [8, 2, 1, 5, 19, 3], [11, 3, 0, 6, 5, 3]],
    "learned_unigram unique": [[5, 1, 6, 9, 7, 10], [8, 2, 1, 5, 19, 3], [11, 3, 0, 6, 5, 8]],
}


@pytest.mark.parametrize("kind", DRAWN)
def test_samplers_draw_what_tensorflow_draws(kind):
    name, _, unique = kind.partition(" ")
    tf.set_random_seed(7)
    sampler = getattr(tf.nn, f"{name}_candidate_sampler")
    sampled, _, _ = sampler(tf.constant([[0], [3]], tf.int64), 1, 6, bool(unique), 20, seed=4)
    with tf.Session() as session:
        assert [session.run(sampled).tolist() for _ in range(3)] == DRAWN[kind]


def test_the_fixed_unigram_sampler_draws_what_tensorflow_draws():
    tf.set_random_seed(7)
    sampled, true_expected, sampled_expected = tf.nn.fixed_unigram_candidate_sampler(
        tf.constant([[0], [3]], tf.int64), 1, 10, False, 5, unigrams=[1, 3, 6, 2, 8], seed=4
    )
    sampled, true_expected, sampled_expected = run(sampled, true_expected, sampled_expected)
    assert sampled.tolist() == [1, 4, 0, 0, 1, 3, 4, 4, 2, 3]
    np.testing.assert_allclose(true_expected, [[0.5], [1.0]])
    np.testing.assert_allclose(sampled_expected, [1.5, 4, 0.5, 0.5, 1.5, 1, 4, 4, 3, 1])


def test_the_fixed_unigram_sampler_reads_a_vocabulary(tmp_path):
    path = tmp_path / "vocabulary.csv"
    path.write_text("the,0\nof,5\nand,0\n")
    sampled, _, _ = tf.nn.fixed_unigram_candidate_sampler(
        [[0]], 1, 4, False, 5, vocab_file=str(path), num_reserved_ids=2
    )
    assert run(sampled)[0].tolist() == [3, 3, 3, 3]


def test_expected_counts_of_different_candidates_depend_on_the_tries():
    tf.set_random_seed(7)
    _, true_expected, _ = tf.nn.log_uniform_candidate_sampler(
        tf.constant([[0], [3]], tf.int64), 1, 6, True, 20, seed=4
    )
    np.testing.assert_allclose(run(true_expected)[0], [[0.836085], [0.413057]], rtol=1e-5)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda t: tf.nn.uniform_candidate_sampler(t, 2, 3, True, 9), "num_true columns"),
        (lambda t: tf.nn.uniform_candidate_sampler(t, 1, 30, True, 20), "range is too small"),
        (
            lambda t: tf.nn.fixed_unigram_candidate_sampler(t, 1, 1, True, 7, unigrams=[1.0]),
            "range is 7 must be equal to weights size",
        ),
        (lambda t: tf.nn.fixed_unigram_candidate_sampler(t, 1, 1, True, 7), "either vocab_file"),
        (
            lambda t: tf.nn.learned_unigram_candidate_sampler(t + 50, 1, 1, True, 7),
            "true_classes holds 50",
        ),
    ],
)
def test_samplers_refuse_what_they_cannot_sample(build, text):
    sampled, _, _ = build(tf.constant([[0], [3]], tf.int64))
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        run(sampled)


def test_accidental_hits_come_row_by_row():
    rows, places, weights = run(
        *tf.nn.compute_accidental_hits([[0, 1], [2, 3]], [2, 0, 9, 3], num_true=2)
    )
    assert rows.tolist() == [0, 1, 1] and places.tolist() == [1, 0, 3]
    assert (weights == -np.finfo(np.float32).max).all()


def test_a_sampled_softmax_over_all_classes_is_the_softmax():
    random = np.random.RandomState(0)
    weights, biases = random.randn(5, 3).astype(np.float32), random.randn(5).astype(np.float32)
    inputs = random.randn(2, 3).astype(np.float32)
    labels = tf.constant([[1], [4]], tf.int64)
    sampled = tf.nn.sampled_softmax_loss(
        weights,
        biases,
        labels,
        inputs,
        num_sampled=5,
        num_classes=5,
        sampled_values=tf.nn.all_candidate_sampler(labels, 1, 5, True),
    )
    whole = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=[1, 4], logits=inputs @ weights.T + biases
    )
    sampled, whole = run(sampled, whole)
    np.testing.assert_allclose(sampled, whole, rtol=1e-5)


def test_sampled_losses_train_a_partitioned_table():
    table = tf.get_variable(
        "table",
        [6, 3],
        initializer=tf.ones_initializer(),
        partitioner=tf.fixed_size_partitioner(2),
    )
    loss = tf.nn.nce_loss(
        table, tf.zeros([6]), [[1]], tf.ones([1, 3]), 2, 6, partition_strategy="div"
    )
    gradients = tf.gradients(loss, list(table))
    assert all(isinstance(g, tf.IndexedSlices) for g in gradients)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value, _ = session.run([loss, gradients])
    assert value.shape == (1,) and np.isfinite(value).all()
