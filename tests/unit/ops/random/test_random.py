"""Random ops: known answers of the generator, seeds, repetition, and the shape of distributions."""

import numpy as np
import pytest

import millrace as tf
from millrace.compiler.xla import jax
from millrace.core import errors
from millrace.ops.random import philox


def words(*values):
    return tuple(np.uint32(v) for v in values)


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (0xFFFFFFFF,) * 2,
            (0xFFFFFFFF,) * 4,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0xA4093822, 0x299F31D0),
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_known_answers_of_its_authors(key, counter, expected):
    assert philox.block(words(*key), words(*counter)) == words(*expected)


def test_a_philox_key_serves_jax_random():
    key = philox.make_key(words(1, 2, 3, 4, 0))
    children = jax.random.split(key, 3)
    draws = [np.asarray(jax.random.uniform(k, (1000,))) for k in children]
    assert all(abs(d.mean() - 0.5) < 0.05 for d in draws)
    assert len({float(d[0]) for d in draws}) == 3
    assert not np.array_equal(
        jax.random.bits(jax.random.fold_in(key, 1), (4,)), jax.random.bits(key, (4,))
    )
    later = philox.make_key(words(1, 2, 3, 4, 1))
    assert not np.array_equal(jax.random.bits(later, (4,)), jax.random.bits(key, (4,)))


def runs(build, count=2, seed=None):
    """What `build()` gives in `count` steps of a new session."""
    with tf.Graph().as_default():
        if seed is not None:
            tf.set_random_seed(seed)
        fetches = build()
        with tf.Session() as session:
            return [session.run(fetches) for _ in range(count)]


def test_a_seeded_graph_repeats_and_each_step_differs():
    def build():
        return [tf.random_uniform([5]), tf.random_normal([5]), tf.random_shuffle(np.arange(9))]

    first, second = runs(build, seed=7), runs(build, seed=7)
    np.testing.assert_array_equal(np.concatenate(first[0]), np.concatenate(second[0]))
    np.testing.assert_array_equal(np.concatenate(first[1]), np.concatenate(second[1]))
    assert not np.array_equal(first[0][0], first[1][0])
    assert not np.array_equal(first[0][0], runs(build, seed=8)[0][0])


def test_two_ops_with_the_same_seeds_draw_the_same_numbers():
    for a, b in runs(lambda: [tf.random_uniform([5], seed=1), tf.random_uniform([5], seed=1)]):
        np.testing.assert_array_equal(a, b)


def test_ops_without_seeds_differ_from_each_other_and_from_session_to_session():
    def build():
        return [tf.random_uniform([5]), tf.random_uniform([5])]

    (a, b), _ = runs(build)
    (c, _), _ = runs(build)
    assert not np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_shuffles_without_seeds_differ():
    (a, b), (c, _) = runs(lambda: [tf.random_shuffle(np.arange(50)) for _ in range(2)])
    assert not np.array_equal(a, b)
    assert not np.array_equal(a, c)
    np.testing.assert_array_equal(np.sort(a), np.arange(50))


def test_both_seeds_zero_is_a_seed():
    with tf.Graph().as_default() as graph:
        graph.seed = 0
        assert tf.get_seed(0) == (0, 2**31 - 1)
        assert tf.get_seed(None) == (0, 2**31 - 1)
        assert tf.get_seed(None) == (0, 1)
    with tf.Graph().as_default():
        assert tf.get_seed(None) == (None, None)
        assert tf.get_seed(5) == (87654321, 5)


def test_a_varying_shape_varies_the_draw():
    with tf.Graph().as_default(), tf.Session() as session:
        sizes = tf.placeholder(tf.int32, [1])
        drawn = tf.random_uniform(sizes, seed=3)
        assert [session.run(drawn, {sizes: [n]}).shape for n in (3, 0, 5)] == [(3,), (0,), (5,)]
        with pytest.raises(errors.InvalidArgumentError, match="must be >= 0"):
            session.run(drawn, {sizes: [-1]})


def test_distributions_have_their_moments():
    def build():
        n = [20000]
        return {
            "uniform": tf.random_uniform(n, -1.0, 3.0, seed=1),
            "normal": tf.random_normal(n, 2.0, 3.0, seed=1),
            "truncated": tf.truncated_normal(n, seed=1),
            "gamma": tf.random_gamma(n, [2.0, 5.0], 2.0, seed=1),
            "poisson": tf.random_poisson([1.5, 40.0], n, seed=1),
            "int": tf.random_uniform(n, 3, 9, tf.int64, seed=1),
        }

    (got,) = runs(build, 1)
    assert got["uniform"].mean() == pytest.approx(1.0, abs=0.03)
    assert got["uniform"].min() >= -1
    assert got["uniform"].max() < 3
    assert got["normal"].mean() == pytest.approx(2.0, abs=0.1)
    assert got["normal"].std() == pytest.approx(3.0, abs=0.1)
    assert np.abs(got["truncated"]).max() < 2
    assert got["truncated"].std() == pytest.approx(0.88, abs=0.02)
    np.testing.assert_allclose(got["gamma"].mean(0), [1.0, 2.5], rtol=0.05)
    np.testing.assert_allclose(got["gamma"].var(0), [0.5, 1.25], rtol=0.1)
    np.testing.assert_allclose(got["poisson"].mean(0), [1.5, 40.0], rtol=0.05)
    np.testing.assert_allclose(got["poisson"].var(0), [1.5, 40.0], rtol=0.1)
    assert set(np.unique(got["int"])) == set(range(3, 9))


def test_static_shapes_are_known():
    with tf.Graph().as_default():
        assert tf.random_gamma([3], [[1.0], [2.0]]).shape.as_list() == [3, 2, 1]
        assert tf.random_poisson([1.0, 2.0], [4]).shape.as_list() == [4, 2]
        assert tf.multinomial([[0.0, 1.0]], 7).shape.as_list() == [1, 7]
        assert tf.random.stateless_binomial([3, 2], [1, 2], 5.0, 0.5).shape.as_list() == [3, 2]


def test_stateless_distributions_are_functions_of_their_seed():
    with tf.Graph().as_default(), tf.Session() as session:
        seed = tf.placeholder(tf.int32, [2])
        made = [
            tf.random.stateless_gamma([500, 2], seed, [1.0, 3.0]),
            tf.random.stateless_parameterized_truncated_normal([500], seed, 0.0, 2.0, -1.0, 1.0),
        ]
        first, same, other = (session.run(made, {seed: s}) for s in ([1, 2], [1, 2], [2, 1]))
    for a, b, c in zip(first, same, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)
    np.testing.assert_allclose(first[0].mean(0), [1.0, 3.0], rtol=0.2)
    assert np.abs(first[1]).max() <= 1


def test_stateless_counts_have_their_means():
    poisson, binomial = runs(
        lambda: [
            tf.random.stateless_poisson([500, 2], [1, 2], [1.0, 3.0]),
            tf.random.stateless_binomial([500], [1, 2], 10.0, 0.3),
        ],
        1,
    )[0]
    np.testing.assert_allclose(poisson.mean(0), [1.0, 3.0], rtol=0.2)
    assert binomial.mean() == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("draw", ["uniform", "normal", "truncated_normal"])
def test_numbers_do_not_depend_on_whether_they_are_drawn_in_a_program(draw, kind):
    shape = (70001,)  # three portions
    dtype = np.dtype(kind)
    key = philox.make_key(words(5, 6, 7, 8, 9))
    function = getattr(philox, draw)
    now = function(philox.generator_of(key, 70001), shape, dtype)
    traced = jax.jit(lambda k: function(philox.generator_of(k, 70001), shape, dtype))(key)
    np.testing.assert_allclose(now, traced, rtol=1e-3 if kind == "float16" else 1e-5, atol=1e-5)


def test_integers_do_not_depend_on_whether_they_are_drawn_in_a_program():
    key = philox.make_key(words(5, 6, 7, 8, 9))
    for kind in (np.uint32, np.int64):
        now = philox.full_integers(philox.generator_of(key, 5000), (5000,), kind)
        traced = jax.jit(
            lambda k, t=kind: philox.full_integers(philox.generator_of(k, 5000), (5000,), t)
        )(key)
        np.testing.assert_array_equal(now, traced)


def test_initializers_share_their_programs():
    with tf.Graph().as_default(), tf.Session() as session:
        sizes = [(3, 4), (5,), (2, 2, 2)]
        made = [tf.Variable(tf.truncated_normal(size, seed=1)) for size in sizes]
        session.run(tf.global_variables_initializer())
        before = philox._drawn_now._cache_size()
        more = [tf.Variable(tf.truncated_normal((7, i), seed=1)) for i in range(2, 6)]
        session.run([v.initializer for v in more])
        assert philox._drawn_now._cache_size() == before
        values = session.run(made + more)
        for value in values:
            count = min(value.size, 5)
            np.testing.assert_array_equal(value.ravel()[:count], values[0].ravel()[:count])


@pytest.mark.parametrize("count", [1, 3, 16, 17, 1001, 40000])
def test_draws_on_numpy_are_those_of_a_compiled_program(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = philox.HostKey(np.array([1, 2, 3, 4, 0xFFFFFFFF], np.uint32))
    generator = philox.generator_of(key, count)
    exact = [
        (philox.uniform, np.float16),
        (philox.uniform, np.float32),
        (philox.uniform, np.float64),
        (philox.full_integers, np.uint32),
        (philox.full_integers, np.int64),
    ]
    rounded = [
        (draw, dtype)
        for draw in (philox.normal, philox.truncated_normal)
        for dtype in (np.float32, np.float64)
    ]
    draws = exact + rounded
    on_numpy = [draw(generator, (count,), dtype) for draw, dtype in draws]
    monkeypatch.setattr(philox, "_ON_NUMPY", 0)
    for ours, (draw, dtype) in zip(on_numpy, draws, strict=True):
        compiled = draw(generator, (count,), dtype)
        if (draw, dtype) in exact:
            np.testing.assert_array_equal(ours, compiled)
        else:
            np.testing.assert_allclose(ours, compiled, rtol=1e-5, atol=2e-6)
        assert ours.dtype == dtype
