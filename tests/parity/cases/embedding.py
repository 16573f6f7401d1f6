"""Embedding lookups, dense and sparse, partitioned; sampled losses where they can be compared."""

import numpy as np
from parity_kit import array, case, cases, floats, scenario

PARTS = {"a": floats(3, 2), "b": floats(2, 2)}


@cases(
    [
        ("lookup_vector", {"x": floats(5, 2)}, [3, 0, 3], {}),
        ("lookup_matrix", {"x": floats(5, 2)}, [[1, 2], [4, 4]], {}),
        ("lookup_scalar", {"x": floats(5, 2)}, 2, {}),
        ("lookup_max_norm", {"x": floats(5, 2)}, [1, 1, 4], {"max_norm": 0.8}),
        ("lookup_of_scalars", {"x": floats(5)}, [1, 4], {}),
    ],
    grad=True,
)
def embedding_lookup(tf, ids, options, x):
    return tf.nn.embedding_lookup(x, ids, **options)


@cases(
    [
        ("lookup_mod", PARTS, [0, 1, 2, 3, 4, 2], "mod"),
        ("lookup_div", PARTS, [0, 1, 2, 3, 4, 2], "div"),
        ("lookup_mod_matrix", PARTS, [[0, 3], [4, 1]], "mod"),
        ("lookup_div_matrix", PARTS, [[0, 3], [4, 1]], "div"),
    ],
    grad=True,
)
def embedding_lookup_partitioned(tf, ids, strategy, a, b):
    return tf.nn.embedding_lookup([a, b], ids, partition_strategy=strategy)


@case(inputs={**PARTS, "i": array([4, 0, 4], np.int64)}, grad=["a", "b"])
def embedding_lookup_partitioned_fed(tf, a, b, i):
    return tf.nn.embedding_lookup([a, b], i, max_norm=1.0)


@case(inputs=PARTS, raises=("ValueError",))
def embedding_lookup_of_unknown_strategy(tf, a, b):
    return tf.nn.embedding_lookup([a, b], [0], partition_strategy="hash")


@case(raises=("ValueError",))
def embedding_lookup_of_nothing(tf):
    return tf.nn.embedding_lookup([], [0])


INDICES = [[0, 0], [0, 1], [2, 0], [2, 2]]


def _ids(tf):
    return tf.SparseTensor(
        tf.constant(INDICES, tf.int64), tf.constant([1, 3, 0, 3], tf.int64), [3, 3]
    )


def _weights(tf, w):
    return tf.SparseTensor(tf.constant(INDICES, tf.int64), w, [3, 3])


@cases(
    [(f"lookup_sparse_{c}", {"x": floats(4, 2)}, c) for c in ("sum", "mean", "sqrtn")], grad=True
)
def embedding_lookup_sparse(tf, combiner, x):
    return tf.nn.embedding_lookup_sparse(x, _ids(tf), None, combiner=combiner)


@cases(
    [
        (f"lookup_sparse_weighted_{c}", {"x": floats(4, 2), "w": floats(4, low=0.5, high=2)}, c)
        for c in ("sum", "mean", "sqrtn")
    ],
    grad=True,
)
def embedding_lookup_sparse_weighted(tf, combiner, x, w):
    return tf.nn.embedding_lookup_sparse(x, _ids(tf), _weights(tf, w), combiner=combiner)


@cases(
    [
        ("lookup_sparse_partitioned", PARTS, {"combiner": "mean"}),
        ("lookup_sparse_partitioned_div", PARTS, {"combiner": "sum", "partition_strategy": "div"}),
        ("lookup_sparse_max_norm", PARTS, {"combiner": "sum", "max_norm": 0.7}),
    ],
    grad=True,
)
def embedding_lookup_sparse_partitioned(tf, options, a, b):
    return tf.nn.embedding_lookup_sparse([a, b], _ids(tf), None, **options)


@case(inputs={"x": floats(4, 2)}, raises=("ValueError", "combiner must be one of"))
def embedding_lookup_sparse_unknown_combiner(tf, x):
    return tf.nn.embedding_lookup_sparse(x, _ids(tf), None, combiner="max")


@cases(
    [
        ("safe_lookup_sparse", {"x": floats(4, 2)}, {}),
        ("safe_lookup_sparse_default", {"x": floats(4, 2)}, {"default_id": 2}),
        ("safe_lookup_sparse_sum", {"x": floats(4, 2)}, {"combiner": "sum"}),
    ],
    grad=True,
)
def safe_embedding_lookup_sparse(tf, options, x):
    ids = tf.SparseTensor(
        tf.constant([[0, 0], [0, 1], [2, 0]], tf.int64), tf.constant([1, -1, 3], tf.int64), [3, 2]
    )
    return tf.nn.safe_embedding_lookup_sparse(x, ids, **options)


@case(inputs={"x": floats(4, 2)}, grad=True)
def safe_embedding_lookup_sparse_weighted(tf, x):
    indices = tf.constant([[0, 0], [0, 1], [1, 0]], tf.int64)
    ids = tf.SparseTensor(indices, tf.constant([1, 2, 3], tf.int64), [2, 2])
    weights = tf.SparseTensor(indices, tf.constant([1.0, 0.0, 2.0]), [2, 2])
    return tf.nn.safe_embedding_lookup_sparse(x, ids, tf.cast(weights, x.dtype))


@case(inputs={"x": floats(5, 2), "y": floats(3)}, grad=True)
def two_lookups_of_one_table_add_up(tf, x, y):
    first = tf.nn.embedding_lookup(x, [0, 1, 1])
    second = tf.nn.embedding_lookup(x, [4, 0])
    return tf.reduce_sum(first) * tf.reduce_sum(y) + tf.reduce_sum(tf.square(second))


@scenario
def lookup_in_a_variable(run, tf):
    table = tf.Variable(np.arange(10, dtype=np.float32).reshape(5, 2))
    ids = tf.placeholder(tf.int32, [None])
    rows = tf.nn.embedding_lookup(table, ids)
    (gradient,) = tf.gradients(tf.square(rows), [table])
    run.note(isinstance(gradient, tf.IndexedSlices))
    run.initialize()
    run([rows, gradient], {ids: [1, 4, 1]})


@scenario
def lookup_in_a_partitioned_variable(run, tf):
    table = tf.get_variable(
        "table",
        shape=[5, 2],
        initializer=tf.constant_initializer(1.5),
        partitioner=tf.fixed_size_partitioner(2),
    )
    run.note([len(list(table)), [v.op.name for v in table]])
    run.initialize()
    run(tf.nn.embedding_lookup(table, [0, 4, 2], partition_strategy="div"))
    run(tf.convert_to_tensor(table))


# --- sampled losses: compared for given samples


def _samples(tf):
    true_expected = tf.constant([[0.5], [0.3]])
    sampled_expected = tf.constant([0.2, 0.4, 0.1])
    return tf.constant([1, 4, 2], tf.int64), true_expected, sampled_expected


SAMPLED = {"w": floats(6, 3), "b": floats(6), "x": floats(2, 3)}


@cases(
    [
        ("sampled_softmax", SAMPLED, {}),
        ("sampled_softmax_with_hits", SAMPLED, {"remove_accidental_hits": False}),
    ],
    grad=True,
)
def sampled_softmax_loss(tf, options, w, b, x):
    return tf.nn.sampled_softmax_loss(
        w,
        b,
        labels=tf.constant([[0], [4]], tf.int64),
        inputs=x,
        num_sampled=3,
        num_classes=6,
        sampled_values=_samples(tf),
        **options,
    )


@cases(
    [("nce", SAMPLED, {}), ("nce_remove_hits", SAMPLED, {"remove_accidental_hits": True})],
    grad=True,
)
def nce_loss(tf, options, w, b, x):
    return tf.nn.nce_loss(
        w,
        b,
        labels=tf.constant([[0], [4]], tf.int64),
        inputs=x,
        num_sampled=3,
        num_classes=6,
        sampled_values=_samples(tf),
        **options,
    )


@case(
    inputs={"t": array([[0, 1], [2, 3]], np.int64), "s": array([2, 0, 9, 3], np.int64)},
    variants=["known"],
)
def compute_accidental_hits(tf, t, s):
    return tf.nn.compute_accidental_hits(t, s, num_true=2)


@scenario
def candidate_samplers_sample(run, tf):
    true = tf.constant([[0], [3]], tf.int64)
    for sampler in ("uniform", "log_uniform", "learned_unigram"):
        make = getattr(tf.nn, f"{sampler}_candidate_sampler")
        sampled, true_expected, sampled_expected = make(true, 1, 5, True, 20, seed=4)
        values = run.value([sampled, true_expected, sampled_expected])
        assert len(set(values[0])) == 5 and values[0].min() >= 0 and values[0].max() < 20
        assert (values[1] > 0).all() and (values[2] > 0).all()
        run.note([sampler, values[0].shape, values[1].shape, values[2].shape, values[0].dtype.name])


@scenario
def uniform_sampler_expects_equal_counts(run, tf):
    _, true_expected, sampled_expected = tf.nn.uniform_candidate_sampler(
        tf.constant([[0], [3]], tf.int64), 1, 4, False, 8, seed=1
    )
    run([true_expected, sampled_expected])


@scenario
def log_uniform_sampler_prefers_small_classes(run, tf):
    sampled, true_expected, _ = tf.nn.log_uniform_candidate_sampler(
        tf.constant([[0], [7]], tf.int64), 1, 2000, False, 10, seed=1
    )
    values, expected = run.value([sampled, true_expected])
    counts = np.bincount(values, minlength=10) / 2000
    law = np.log((np.arange(10) + 2) / (np.arange(10) + 1)) / np.log(11)
    assert np.abs(counts - law).max() < 0.05
    assert np.allclose(expected[:, 0], 2000 * law[[0, 7]], rtol=1e-3)


@scenario
def all_candidate_sampler_returns_every_class(run, tf):
    sampled, _, sampled_expected = tf.nn.all_candidate_sampler(
        tf.constant([[0]], tf.int64), 1, 6, True
    )
    values = run.value([sampled, sampled_expected])
    assert sorted(values[0]) == list(range(6))
    run.note(values[0].shape)


@scenario
def fixed_unigram_sampler_follows_its_counts(run, tf):
    sampled, _, _ = tf.nn.fixed_unigram_candidate_sampler(
        tf.constant([[0]], tf.int64), 1, 2000, False, 3, unigrams=[1.0, 3.0, 6.0], seed=2
    )
    counts = np.bincount(run.value(sampled), minlength=3) / 2000
    assert np.abs(counts - [0.1, 0.3, 0.6]).max() < 0.05
