"""Random ops: the bits differ from TensorFlow's, so properties are compared, not values."""

import numpy as np
from parity_kit import case, cases, floats, scenario

DRAWS = {
    "random_uniform": lambda tf, **o: tf.random_uniform([40, 50], **o),
    "random_normal": lambda tf, **o: tf.random_normal([40, 50], **o),
    "truncated_normal": lambda tf, **o: tf.truncated_normal([40, 50], **o),
    "random_gamma": lambda tf, **o: tf.random_gamma([40, 50], 2.0, **o),
    "random_poisson": lambda tf, **o: tf.random_poisson(3.0, [40, 50], **o),
    "random_uniform_int": lambda tf, **o: tf.random_uniform(
        [40, 50], maxval=9, dtype=tf.int32, **o
    ),
    "multinomial": lambda tf, **o: tf.multinomial(tf.zeros([40, 3]), 50, **o),
}


def _repeats(run, tf, draw):
    with tf.Session() as session:
        first, second = session.run(draw), session.run(draw)
    with tf.Session() as session:
        again = session.run(draw)
    run.note([draw.dtype.name, draw.get_shape().as_list(), list(first.shape)])
    run.note([bool((first == second).all()), bool((first == again).all())])


for _name, _draw in DRAWS.items():

    @scenario(name=f"{_name}_with_op_seed_repeats_in_a_new_session")
    def op_seed(run, tf, make=_draw):
        _repeats(run, tf, make(tf, seed=7))

    @scenario(name=f"{_name}_with_graph_seed_repeats_in_a_new_session")
    def graph_seed(run, tf, make=_draw):
        tf.set_random_seed(11)
        _repeats(run, tf, make(tf))


@scenario
def without_seeds_two_sessions_differ(run, tf):
    graph = tf.Graph()
    with graph.as_default():
        draw = tf.random_uniform([20])
        values = []
        for _ in range(2):
            with tf.Session() as session:
                values.append(session.run(draw))
    run.note(bool((values[0] == values[1]).all()))


@scenario
def two_ops_under_one_graph_seed_differ(run, tf):
    tf.set_random_seed(3)
    a, b = tf.random_normal([20]), tf.random_normal([20])
    c = tf.random_normal([20], seed=5)
    d = tf.random_normal([20], seed=5)
    a, b, c, d = run.value([a, b, c, d])
    run.note([bool((a == b).all()), bool((c == d).all()), bool((a == c).all())])


@scenario
def the_same_graph_built_twice_draws_the_same(run, tf):
    values = []
    for _ in range(2):
        graph = tf.Graph()
        with graph.as_default():
            tf.set_random_seed(5)
            draws = [tf.random_uniform([4]), tf.random_normal([4], seed=2)]
            with tf.Session() as session:
                values.append(session.run(draws))
    run.note([bool((a == b).all()) for a, b in zip(*values, strict=True)])


@scenario
def get_seed(run, tf):
    graph = tf.Graph()
    with graph.as_default():
        run.note([tf.get_seed(None), tf.get_seed(4)])
        tf.set_random_seed(9)
        run.note([tf.get_seed(4), tf.get_seed(None)[0]])


@scenario
def uniform_keeps_its_range(run, tf):
    draws = run.value(
        [
            tf.random_uniform([3000], seed=1),
            tf.random_uniform([3000], -2.0, 3.0, seed=1),
            tf.random_uniform([3000], -3, 4, dtype=tf.int32, seed=1),
            tf.random_uniform([3000], 0, 10**12, dtype=tf.int64, seed=1),
            tf.random_uniform([3000], dtype=tf.float64, seed=1),
            tf.random_uniform([3000], dtype=tf.float16, seed=1),
        ]
    )
    unit, wide, small, big, double, half = draws
    assert unit.min() >= 0 and unit.max() < 1 and abs(unit.mean() - 0.5) < 0.03
    assert wide.min() >= -2 and wide.max() < 3 and abs(wide.mean() - 0.5) < 0.15
    assert set(small) == set(range(-3, 4))
    assert big.min() >= 0 and big.max() < 10**12 and big.max() > 2**33
    assert len(set(double)) > 2990 and half.max() < 1.0
    run.note([d.dtype.name for d in draws])


@scenario
def normal_has_its_moments(run, tf):
    plain, moved, double = run.value(
        [
            tf.random_normal([4000], seed=1),
            tf.random_normal([4000], mean=3.0, stddev=0.5, seed=2),
            tf.random_normal([4000], dtype=tf.float64, seed=3),
        ]
    )
    assert abs(plain.mean()) < 0.07 and abs(plain.std() - 1) < 0.05 and np.abs(plain).max() > 2.5
    assert abs(moved.mean() - 3) < 0.04 and abs(moved.std() - 0.5) < 0.03
    run.note(double.dtype.name)


@scenario
def truncated_normal_stays_within_two_deviations(run, tf):
    value = run.value(tf.truncated_normal([4000], mean=1.0, stddev=2.0, seed=1))
    assert np.abs(value - 1.0).max() <= 4.0 and np.abs(value - 1.0).max() > 3.7
    assert abs(value.mean() - 1.0) < 0.1 and abs(value.std() / 2.0 - 0.88) < 0.03
    run.note(value.dtype.name)


@scenario
def gamma_and_poisson_have_their_moments(run, tf):
    gamma, poisson = run.value(
        [
            tf.random_gamma([4000], [2.0, 0.5], beta=2.0, seed=1),
            tf.random_poisson([4.0, 0.5], [4000], seed=1),
        ]
    )
    assert np.allclose(gamma.mean(0), [1.0, 0.25], atol=0.06)
    assert np.allclose(poisson.mean(0), [4.0, 0.5], atol=0.15)
    run.note([gamma.shape, poisson.shape, gamma.dtype.name, poisson.dtype.name])


@scenario
def multinomial_follows_its_logits(run, tf):
    logits = tf.log([[0.1, 0.2, 0.7], [0.5, 0.5, 1e-30]])
    draw = tf.multinomial(logits, 3000, seed=1)
    small = tf.multinomial(logits, 4, seed=1, output_dtype=tf.int32)
    value, few = run.value([draw, small])
    counts = [np.bincount(row, minlength=3) / 3000 for row in value]
    assert np.allclose(counts, [[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]], atol=0.04)
    run.note([draw.get_shape().as_list(), value.dtype.name, few.dtype.name])


@scenario
def shuffle_keeps_the_rows(run, tf):
    x = np.arange(60, dtype=np.int32).reshape(30, 2)
    shuffled = tf.random_shuffle(x, seed=1)
    strings = tf.random_shuffle(tf.constant(["a", "b", "c"]), seed=1)
    value, letters = run.value([shuffled, strings])
    assert not np.array_equal(value, x)
    run.note([sorted(value[:, 0].tolist()), bool((value[:, 1] - value[:, 0] == 1).all())])
    run.note([sorted(letters.tolist()), shuffled.get_shape().as_list()])


@scenario
def shuffle_is_differentiated_by_nothing(run, tf):
    x = tf.constant([1.0, 2.0, 3.0])
    run.note(str(tf.gradients(tf.random_shuffle(x), x)))


@scenario
def random_crop_cuts_a_window(run, tf):
    x = np.arange(30).reshape(5, 6)
    crop = tf.random_crop(x, [2, 3], seed=1)
    value = run.value(crop)
    row, column = divmod(int(value[0, 0]), 6)
    assert np.array_equal(value, x[row : row + 2, column : column + 3])
    run.note(crop.get_shape().as_list())
    run.raises("ValueError", lambda: tf.random_crop(tf.zeros([2, 2]), [3]))


@cases(
    [
        ("uniform_int_without_maxval", {}, lambda tf: tf.random_uniform([2], dtype=tf.int32)),
    ],
    raises=("ValueError", "Must specify maxval for integer dtype"),
)
def uniform_errors(tf, make):
    return make(tf)


@case(raises=("InvalidArgumentError", "Need minval < maxval"))
def uniform_int_of_empty_range(tf):
    return tf.random_uniform([2], 5, 5, dtype=tf.int32)


@case(raises=("TypeError",))
def normal_of_ints(tf):
    return tf.random_normal([2], dtype=tf.int32)


@case(inputs={"x": floats(2, 3)}, numeric="random", grad=["x"])
def noise_that_cancels(tf, x):
    noise = tf.random_normal(tf.shape(x))
    return x + noise * 0.0


@scenario
def fed_shapes_are_drawn(run, tf):
    shape = tf.placeholder(tf.int32, [2])
    draws = [tf.random_uniform(shape), tf.random_normal(shape), tf.truncated_normal(shape)]
    run.note([d.get_shape().as_list() for d in draws])
    for size in ([2, 3], [0, 1]):
        run.note([list(v.shape) for v in run.value(draws, {shape: size})])


INITIALIZERS = {
    "zeros": lambda tf: tf.zeros_initializer(),
    "ones": lambda tf: tf.ones_initializer(),
    "constant": lambda tf: tf.constant_initializer(0.25),
    "constant_list": lambda tf: tf.constant_initializer(list(range(12))),
}


@cases([(f"initializer_{n}", {}, f) for n, f in INITIALIZERS.items()])
def initializers(tf, make):
    return [make(tf)([3, 4], dtype=tf.float32), make(tf)([12], dtype=tf.float64)]


@case()
def initializer_identity(tf):
    return [tf.initializers.identity(gain=2.0)([2, 3]), tf.initializers.identity()([2, 2])]


@scenario
def random_initializers_have_their_scale(run, tf):
    shape = [60, 40]
    made = {
        "glorot_uniform": tf.glorot_uniform_initializer(seed=1)(shape),
        "glorot_normal": tf.glorot_normal_initializer(seed=1)(shape),
        "he_normal": tf.initializers.he_normal(seed=1)(shape),
        "he_uniform": tf.initializers.he_uniform(seed=1)(shape),
        "lecun_normal": tf.initializers.lecun_normal(seed=1)(shape),
        "lecun_uniform": tf.initializers.lecun_uniform(seed=1)(shape),
        "normal": tf.random_normal_initializer(1.0, 0.1, seed=1)(shape),
        "uniform": tf.random_uniform_initializer(-0.5, 0.25, seed=1)(shape),
        "truncated": tf.truncated_normal_initializer(stddev=0.3, seed=1)(shape),
        "scaling": tf.variance_scaling_initializer(2.0, "fan_out", "uniform", seed=1)(shape),
        "unit": tf.uniform_unit_scaling_initializer(factor=1.5, seed=1)(shape),
    }
    values = run.value(made)
    deviation = {
        "glorot_uniform": (2 / 100) ** 0.5,
        "glorot_normal": (2 / 100) ** 0.5,
        "he_normal": (2 / 60) ** 0.5,
        "he_uniform": (2 / 60) ** 0.5,
        "lecun_normal": (1 / 60) ** 0.5,
        "lecun_uniform": (1 / 60) ** 0.5,
        "normal": 0.1,
        "uniform": 0.75 / 12**0.5,
        "truncated": 0.3 * 0.8796,
        "scaling": (2 / 40) ** 0.5,
        "unit": (3 / 60) ** 0.5 * 1.5 / 3**0.5,
    }
    for name, value in values.items():
        assert abs(value.std() / deviation[name] - 1) < 0.06, (name, value.std())
    run.note({name: value.dtype.name for name, value in values.items()})


@scenario
def orthogonal_initializer_is_orthogonal(run, tf):
    tall = run.value(tf.orthogonal_initializer(gain=2.0, seed=1)([5, 3]))
    wide = run.value(tf.orthogonal_initializer(seed=1)([2, 4]))
    assert np.allclose(tall.T @ tall, 4 * np.eye(3), atol=1e-4)
    assert np.allclose(wide @ wide.T, np.eye(2), atol=1e-5)
    run.note([tall.shape, wide.shape])


STATELESS = ("stateless_uniform", "stateless_normal", "stateless_truncated_normal")


@scenario
def stateless_draws_depend_on_the_seed_alone(run, tf):
    seed = tf.placeholder(tf.int32, [2])
    draws = [getattr(tf.random, name)([50], seed) for name in STATELESS]
    first = run.value(draws, {seed: [1, 2]})
    again = run.value(draws, {seed: [1, 2]})
    other = run.value(draws, {seed: [1, 3]})
    for a, b, c in zip(first, again, other, strict=True):
        assert np.array_equal(a, b) and not np.array_equal(a, c)
    run.note([d.get_shape().as_list() for d in draws])
