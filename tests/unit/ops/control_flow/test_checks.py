"""Assertions and checks: what is decided while the graph is built, and what in the step."""

import numpy as np
import pytest

import millrace as tf


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as session:
        yield session


# -- Assert ------------------------------------------------------------------------------


def test_an_assertion_that_fails_shows_its_data(session):
    x = tf.placeholder(tf.float32)
    check = tf.Assert(tf.reduce_all(x > 0), ["bad x:", x, tf.constant([7])], summarize=2)
    session.run(check, {x: [1.0]})
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"^assertion failed: \[bad x:\] \[\[1 -2...\]...\] \[7\]\n",
    ):
        session.run(check, {x: [[1.0, -2.0, 3.0], [4.0, 5.0, 6.0]]})


def test_an_assertion_with_constant_texts_is_part_of_the_xla_program(session):
    x = tf.placeholder(tf.float32, [3])
    with tf.control_dependencies([tf.assert_positive(x)]):
        y = x * 2.0
    for calls in (1, 2):
        assert session.run(y, {x: [1.0, 2.0, 3.0]}).tolist() == [2, 4, 6]
        assert session._backend.xla_calls == calls
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[0 1 2\]"):
        session.run(y, {x: [0.0, 1.0, 2.0]})


def test_an_assertion_with_computed_texts_runs_on_the_host(session):
    text = tf.placeholder(tf.string, [])
    check = tf.Assert(tf.equal(text, "ok"), ["found", text])
    session.run(check, {text: "ok"})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[found\] \[no\]"):
        session.run(check, {text: "no"})


def test_a_variable_behind_a_failed_assertion_keeps_its_value(session):
    variable = tf.Variable([1.0, 2.0])
    limit = tf.placeholder(tf.float32, [])
    with tf.control_dependencies([tf.Assert(limit > 1.0, [limit])]):
        update = tf.assign_add(variable, [1.0, 1.0])
        scatter = tf.scatter_update(variable, [0], [9.0])
    session.run(variable.initializer)
    for change in (update, scatter):
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(change, {limit: 0.0})
    assert session.run(variable).tolist() == [1, 2]
    session.run(update, {limit: 2.0})
    assert session.run(variable).tolist() == [2, 3]


def test_a_condition_is_a_scalar(session):
    condition = tf.placeholder(tf.bool)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"In\[0\] should be a scalar: \[1\]"):
        session.run(tf.Assert(condition, ["a"]), {condition: [True]})
    with pytest.raises(TypeError, match="Expected list for 'data' argument to 'Assert' Op"):
        tf.Assert(condition, "a")


# -- Comparisons -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (tf.assert_equal, (1, 1), (1, 2)),
        (tf.assert_none_equal, (1, 2), (1, 1)),
        (tf.assert_less, (1, 2), (2, 2)),
        (tf.assert_less_equal, (2, 2), (3, 2)),
        (tf.assert_greater, (3, 2), (2, 2)),
        (tf.assert_greater_equal, (2, 2), (1, 2)),
        (tf.assert_near, (2.0, 2.0), (1.0, 2.0)),
        (tf.assert_positive, (1,), (0,)),
        (tf.assert_negative, (-1,), (0,)),
        (tf.assert_non_negative, (0,), (-1,)),
        (tf.assert_non_positive, (0,), (1,)),
    ],
)
def test_checks_hold_or_fail_in_the_step(session, check, good, bad):
    kind = tf.float32 if isinstance(good[0], float) else tf.int32
    inputs = [tf.placeholder(kind) for _ in good]
    operation = check(*inputs, message="the message")
    session.run(operation, dict(zip(inputs, good, strict=True)))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"assertion failed: \[the message"):
        session.run(operation, dict(zip(inputs, bad, strict=True)))


def test_constants_are_compared_while_the_graph_is_built():
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="hey\nCondition x == y did not hold element-wise:"
    ):
        tf.assert_equal([1, 2], [1, 3], message="hey")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"hey.  \nCondition x > 0 did not"):
        tf.assert_positive([1, -1], message="hey")
    with pytest.raises(tf.errors.InvalidArgumentError, match="^custom\n5$"):
        tf.assert_less(2, 1, data=["custom", tf.constant(5)])


def test_comparing_a_tensor_with_itself_costs_nothing():
    x = tf.placeholder(tf.float32)
    assert tf.assert_equal(x, x).type == "NoOp"


# -- Ranks, shapes, types ----------------------------------------------------------------


def test_static_ranks_are_checked_while_the_graph_is_built():
    x = tf.placeholder(tf.float32, [None], name="x")
    for check in (
        lambda: tf.assert_rank(x, 1),
        lambda: tf.assert_rank_at_least(x, 0),
        lambda: tf.assert_rank_in(x, [1, 2]),
    ):
        assert check().type == "NoOp"
    with pytest.raises(ValueError, match=r"m.  Tensor x:0 must have rank 2.  Received rank 1"):
        tf.assert_rank(x, 2, message="m")
    with pytest.raises(ValueError, match=r"must have rank at least 2.  Received rank 1, shape"):
        tf.assert_rank_at_least(x, 2)
    with pytest.raises(ValueError, match=r"must have rank in \(2, 3\).  Received rank 1"):
        tf.assert_rank_in(x, [2, 3])
    with pytest.raises(ValueError, match="Rank must be a scalar."):
        tf.assert_rank(x, [1])


def test_ranks_that_are_not_known_are_checked_in_the_step(session):
    x, rank = tf.placeholder(tf.float32), tf.placeholder(tf.int32, [])
    check = tf.assert_rank(x, rank)
    session.run(check, {x: [1.0], rank: 1})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must have rank\] \[2\]"):
        session.run(check, {x: [1.0], rank: 2})
    either = tf.assert_rank_in(x, [2, 3])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"rank in\] \[2\] \[3\]"):
        session.run(either, {x: [1.0]})


def test_names_in_shapes_stand_for_equal_sizes(session):
    assert_shapes = tf.debugging.assert_shapes
    with pytest.raises(ValueError, match="must have size 2.  Received size 3"):
        assert_shapes([(tf.zeros([2, 3]), ("N", "M")), (tf.zeros([3, 4]), ("N", "K"))])
    x = tf.placeholder(tf.float32)
    check = assert_shapes([(x, ("N", 2)), (tf.zeros([3]), ("N",))])
    session.run(check, {x: np.zeros((3, 2))})
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have size"):
        session.run(check, {x: np.zeros((4, 2))})
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have rank"):
        session.run(check, {x: np.zeros(4)})
    session.run(assert_shapes({x: (..., "K")}), {x: np.zeros((2, 3, 4))})
    with pytest.raises(ValueError, match="only allowed as the first entry"):
        assert_shapes([(tf.zeros([2, 3]), ("N", "*"))])
    with pytest.raises(ValueError, match="must be an iterable"):
        assert_shapes([(tf.zeros([2]), 2)])


def test_types_are_checked_while_the_graph_is_built():
    x = tf.constant([1], name="x")
    assert tf.assert_type(x, tf.int32).type == "NoOp"
    assert tf.assert_integer(x).type == "NoOp"
    with pytest.raises(TypeError, match="x:0 must be of type tf.float32; got tf.int32"):
        tf.assert_type(x, tf.float32)
    with pytest.raises(TypeError, match='Expected "x" to be integer type.'):
        tf.assert_integer(tf.constant(1.0))
    with pytest.raises(ValueError, match="Expected scalar shape for x:0, saw shape: "):
        tf.assert_scalar(x)
    assert tf.assert_scalar(3).dtype == tf.int32


def test_floating_types_must_agree():
    one, double = tf.constant(1.0, name="one"), tf.constant(1.0, tf.float64, name="double")
    assert tf.assert_same_float_dtype([one, None]) == tf.float32
    assert tf.assert_same_float_dtype() == tf.float32
    assert tf.assert_same_float_dtype([double], tf.float64) == tf.float64
    with pytest.raises(ValueError, match="double:0, type=.*must be of the same type .* as one:0"):
        tf.assert_same_float_dtype([one, double])
    with pytest.raises(ValueError, match="Expected floating point type"):
        tf.assert_same_float_dtype([tf.constant(1)])


def test_iterables_that_are_values_are_not_proper():
    tf.assert_proper_iterable([1])
    for value in (tf.constant([1]), np.zeros(2), "text", 3):
        with pytest.raises(TypeError, match="iterable"):
            tf.assert_proper_iterable(value)


def test_numeric_tensors_are_told_from_others():
    assert tf.is_numeric_tensor(tf.constant(1.0))
    assert not tf.is_numeric_tensor(tf.constant("a"))
    assert not tf.is_numeric_tensor(1.0)


@pytest.mark.parametrize(
    ("values", "increasing", "non_decreasing"),
    [([1, 2], True, True), ([1, 1], False, True), ([2, 1], False, False), ([3], True, True)],
)
def test_order_is_told(session, values, increasing, non_decreasing):
    x = tf.placeholder(tf.int32)
    questions = [tf.is_strictly_increasing(x), tf.is_non_decreasing(x)]
    assert session.run(questions, {x: values}) == [increasing, non_decreasing]
    assert session.run(questions, {x: np.zeros(0, np.int32)}) == [True, True]


# -- Finite numbers ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "old", "new"),
    [
        ([np.nan], "NaN", "NaN"),
        ([np.inf], "Inf", r"\+Inf"),
        ([-np.inf], "Inf", "-Inf"),
        ([np.nan, np.inf], "Inf and NaN", r"\+Inf and NaN"),
        ([np.nan, np.inf, -np.inf], "Inf and NaN", r"-Inf, \+Inf, and NaN"),
    ],
)
def test_numbers_that_are_not_finite_fail_the_step(session, values, old, new):
    x = tf.placeholder(tf.float32)
    for check, kinds in (
        (tf.check_numerics(x, "m"), old),
        (tf.verify_tensor_all_finite(x, "m"), old),
        (tf.raw_ops.CheckNumericsV2(tensor=x, message="m"), new),
    ):
        assert session.run(check, {x: [1.0, 2.0]}).tolist() == [1, 2]
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=f"^m : Tensor had {kinds} values\n"
        ):
            session.run(check, {x: values})


def test_gradients_are_checked_too(session):
    x = tf.placeholder(tf.float32, [])
    (gradient,) = tf.gradients(tf.check_numerics(tf.sqrt(x), "root"), x)
    assert session.run(gradient, {x: 4.0}) == 0.25
    (bad,) = tf.gradients(tf.sqrt(tf.check_numerics(x, "root")), x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="gradient. root : Tensor had Inf"):
        session.run(bad, {x: 0.0})


def test_all_tensors_of_a_graph_can_be_checked(session):
    x = tf.placeholder(tf.float32, [2], name="x")
    tf.log(x, name="y")
    check = tf.add_check_numerics_ops()
    session.run(check, {x: [1.0, 2.0]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="y:0 : Tensor had NaN"):
        session.run(check, {x: [-1.0, 2.0]})


def test_old_and_new_names_of_arguments_exclude_each_other():
    with pytest.raises(ValueError, match="Cannot specify both 't' and 'x'"):
        tf.verify_tensor_all_finite(1.0, "m", x=2.0)
