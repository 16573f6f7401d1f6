"""Seeded random ops: the very numbers that TensorFlow draws on a CPU, step after step."""

import numpy as np
from parity_kit import array, case, cases, floats, scenario

FLOATS = ["float16", "bfloat16", "float32", "float64"]
LOGITS = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]], np.float32))


@scenario
def uniform_floats(run, tf):
    drawn = [tf.random_uniform([3, 7], dtype=d, seed=3) for d in FLOATS if d != "bfloat16"]
    for _ in range(3):
        run(drawn)


@scenario
def uniform_floats_in_a_range(run, tf):
    run([tf.random_uniform([5], -2.0, 3.5, seed=1), tf.random_uniform([5], maxval=4.0, seed=1)])


@scenario
def normals(run, tf):
    drawn = [tf.random_normal([3, 7], 1.5, 2.0, d, seed=4) for d in ("float32", "float64")]
    for _ in range(3):
        run(drawn)


@scenario
def truncated_normals(run, tf):
    drawn = [tf.truncated_normal([30, 7], dtype=d, seed=5) for d in ("float32", "float64")]
    for _ in range(3):
        run(drawn)


@scenario
def uniform_integers(run, tf):
    drawn = [tf.random_uniform([3, 7], -5, 17, dtype=d, seed=6) for d in (tf.int32, tf.int64)]
    for _ in range(3):
        run(drawn)


@scenario
def shuffles(run, tf):
    drawn = [
        tf.random_shuffle(tf.constant(np.arange(23)), seed=7),
        tf.random_shuffle(tf.constant(np.arange(12.0).reshape(6, 2)), seed=7),
        tf.random_shuffle(tf.constant(["a", "b", "c", "d", "e"]), seed=7),
    ]
    for _ in range(3):
        run(drawn)


@scenario
def crops(run, tf):
    crop = tf.random_crop(tf.constant(np.arange(100).reshape(10, 10)), [3, 3], seed=9)
    run.note(crop.shape.as_list())
    for _ in range(3):
        run(crop)


@scenario
def a_crop_larger_than_the_value_fails(run, tf):
    crop = tf.random_crop(tf.placeholder_with_default(np.zeros([2, 2]), None), [3, 1])
    run.fails("InvalidArgumentError", crop, words="Need value.shape >= size")


@scenario
def classes(run, tf):
    drawn = [
        tf.multinomial(tf.constant(LOGITS), 11, seed=8),
        tf.random.categorical(tf.constant(LOGITS), 5, dtype=tf.int32, seed=8),
    ]
    for _ in range(3):
        run(drawn)


@scenario
def seeds_of_a_seeded_graph(run, tf):
    tf.set_random_seed(42)
    run([tf.random_uniform([4]), tf.random_normal([4]), tf.random_uniform([4], seed=1)])
    run.note(list(tf.random_uniform([1]).op.node_def.attr["seed2"].i for _ in range(3)))


@scenario
def names_of_nodes(run, tf):
    with tf.Graph().as_default() as graph:
        tf.random_uniform([3], 1, 4)
        tf.random_uniform([3])
        tf.random_uniform([3], maxval=2.0)
        tf.random_uniform([3], 1, 4, tf.int32)
        tf.random_normal([2], name="noise")
        tf.truncated_normal([2])
        tf.random_shuffle([1, 2])
        tf.multinomial([[1.0, 2.0]], 3)
        tf.random_gamma([2], 1.0)
        tf.random_poisson(2.0, [3])
        tf.random.stateless_uniform([2], [1, 2])
        tf.random.stateless_normal([2], [1, 2])
        run.note([[op.name, op.type] for op in graph.get_operations() if op.type != "Const"])


@cases([(f"stateless_uniform_{d}", {"seed": array([1, 2])}, d) for d in FLOATS])
def stateless_uniforms(tf, dtype, seed):
    return tf.random.stateless_uniform([3, 7], seed, dtype=dtype)


@cases([(f"stateless_normal_{d}", {"seed": array([1, 2])}, d) for d in FLOATS])
def stateless_normals(tf, dtype, seed):
    return tf.random.stateless_normal([3, 7], seed, 1.0, 3.0, dtype=dtype)


@cases([(f"stateless_truncated_normal_{d}", {"seed": array([1, 2])}, d) for d in FLOATS])
def stateless_truncated_normals(tf, dtype, seed):
    return tf.random.stateless_truncated_normal([9, 7], seed, dtype=dtype)


WIDE_SEED = {"seed": array(np.array([-1, 2**40]))}


@case(inputs=WIDE_SEED)
def stateless_integers(tf, seed):
    return [
        tf.random.stateless_uniform([5], seed, 0, 17, dtype=tf.int32),
        tf.random.stateless_uniform([5], seed, -9, 17, dtype=tf.int64),
        tf.random.stateless_uniform([5], seed, None, None, dtype=tf.int64),
        tf.random.stateless_uniform([5], seed, None, None, dtype=tf.int32),
    ]


@case(inputs={"logits": floats(2, 4), "seed": array([4, 5])})
def stateless_classes(tf, logits, seed):
    return tf.random.stateless_categorical(logits, 11, seed)


@case(raises=("ValueError", "Must specify maxval for integer dtype"))
def uniform_integers_need_a_maxval(tf):
    return tf.random_uniform([2], dtype=tf.int32)


@case(raises=("ValueError", "Argument `dtype` got invalid value"))
def uniform_of_another_type(tf):
    return tf.random_uniform([2], dtype=tf.complex64)


@case(
    inputs={"high": array(3)},
    variants=["unknown"],
    raises=("InvalidArgumentError", "Need minval < maxval, got 3 >= 3"),
)
def an_empty_range_fails(tf, high):
    return tf.random_uniform([2], 3, high, dtype=tf.int32)
