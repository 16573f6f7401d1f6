"""Assertions, check ops, Print, py_func: what only matters when it goes wrong, or to the side."""

import numpy as np
from parity_kit import array, case, cases, floats, scenario

PASSING = {
    "assert_equal": (array([1, 2]), array([1, 2])),
    "assert_none_equal": (array([1, 2]), array([3, 4])),
    "assert_less": (array([1, 2]), array([2, 3])),
    "assert_less_equal": (array([1, 2]), array([1, 3])),
    "assert_greater": (array([5, 5]), array([2, 3])),
    "assert_greater_equal": (array([5, 3]), array([5, 3])),
    "assert_near": (array([1.0, 2.0]), array([1.0, 2.0 + 1e-7])),
}
FAILING = {
    "assert_equal": (array([1, 2]), array([1, 3])),
    "assert_none_equal": (array([1, 2]), array([1, 3])),
    "assert_less": (array([1, 2]), array([2, 2])),
    "assert_less_equal": (array([1, 2]), array([1, 1])),
    "assert_greater": (array([5, 5]), array([2, 5])),
    "assert_greater_equal": (array([5, 3]), array([5, 4])),
    "assert_near": (array([1.0, 2.0]), array([1.0, 2.1])),
}


@cases([(f"{n}_passes", {"x": a, "y": b}, n) for n, (a, b) in PASSING.items()])
def comparisons_pass(tf, function, x, y):
    with tf.control_dependencies([getattr(tf, function)(x, y)]):
        return x + 0


@cases(
    [(f"{n}_fails", {"x": a, "y": b}, n) for n, (a, b) in FAILING.items()],
    raises=("InvalidArgumentError", "the two differ"),
)
def comparisons_fail(tf, function, x, y):
    with tf.control_dependencies([getattr(tf, function)(x, y, message="the two differ")]):
        return x + 0


@cases(
    [
        (f"{n}_fails", {"x": array(v)}, n)
        for n, v in [
            ("assert_positive", [1, 0]),
            ("assert_negative", [-1, 0]),
            ("assert_non_negative", [1, -1]),
            ("assert_non_positive", [1, -1]),
        ]
    ],
    raises=("InvalidArgumentError", "sign"),
)
def signs_fail(tf, function, x):
    with tf.control_dependencies([getattr(tf, function)(x, message="sign")]):
        return x + 0


@cases(
    [
        (f"{n}_passes", {"x": array(v)}, n)
        for n, v in [
            ("assert_positive", [1, 2]),
            ("assert_negative", [-1, -2]),
            ("assert_non_negative", [1, 0]),
            ("assert_non_positive", [0, -1]),
            ("assert_integer", [1, 2]),
        ]
    ]
)
def signs_pass(tf, function, x):
    with tf.control_dependencies([getattr(tf, function)(x)]):
        return x + 0


@cases(
    [
        ("assert_equal_static", {}, lambda tf: tf.assert_equal(tf.constant(1), tf.constant(2))),
        ("assert_positive_static", {}, lambda tf: tf.assert_positive(tf.constant([-1]))),
    ],
    raises=("InvalidArgumentError",),
)
def statically_false(tf, make):
    return make(tf)


@cases(
    [
        ("assert_rank", {"x": floats(2, 3)}, lambda tf, x: tf.assert_rank(x, 3)),
        ("assert_rank_at_least", {"x": floats(2, 3)}, lambda tf, x: tf.assert_rank_at_least(x, 3)),
        ("assert_rank_in", {"x": floats(2, 3)}, lambda tf, x: tf.assert_rank_in(x, [0, 1])),
        ("assert_scalar", {"x": floats(2)}, lambda tf, x: tf.assert_scalar(x)),
    ],
    raises=("ValueError",),
)
def static_ranks_fail(tf, make, x):
    return make(tf, x)


@cases(
    [
        ("assert_rank_at_run_time", {"x": floats(2, 3)}, lambda tf, x: tf.assert_rank(x, 3)),
        (
            "assert_rank_at_least_at_run_time",
            {"x": floats(2, 3)},
            lambda tf, x: tf.assert_rank_at_least(x, 3),
        ),
    ],
    variants=["unknown"],
    raises=("InvalidArgumentError",),
)
def dynamic_ranks_fail(tf, make, x):
    return make(tf, x)


@case(inputs={"x": floats(2, 3)})
def ranks_pass(tf, x):
    checks = [tf.assert_rank(x, 2), tf.assert_rank_at_least(x, 1), tf.assert_rank_in(x, [2, 4])]
    with tf.control_dependencies(checks):
        return tf.identity(x)


@case(inputs={"x": floats(2)}, raises=("TypeError",))
def assert_type_fails(tf, x):
    return tf.assert_type(x, tf.int32)


@case(inputs={"x": floats(2)}, raises=("TypeError",))
def assert_integer_fails(tf, x):
    return tf.assert_integer(x)


@case(inputs={"x": floats(2)}, raises=("ValueError",))
def assert_same_float_dtype_fails(tf, x):
    return tf.assert_same_float_dtype([x, tf.constant(1.0, tf.float64)])


@case(inputs={"x": floats(2)})
def static_questions(tf, x):
    return [
        tf.is_numeric_tensor(x),
        tf.is_numeric_tensor(tf.constant("a")),
        tf.assert_same_float_dtype([x]).name,
        str(tf.assert_proper_iterable([x])),
    ]


@case(inputs={"x": floats(2)}, raises=("TypeError",))
def assert_proper_iterable_fails(tf, x):
    return tf.assert_proper_iterable(x)


@scenario
def assert_prints_its_data(run, tf):
    x = tf.placeholder(tf.float32, [2])
    check = tf.Assert(tf.reduce_all(x > 0.0), ["bad x:", x, tf.constant([7])], summarize=2)
    run.value(check, {x: [1.0, 2.0]})
    run.fails(
        "InvalidArgumentError",
        check,
        {x: [1.0, -2.5]},
        words=["assertion failed", "bad x:", "-2.5", "[7]"],
    )


@scenario
def assert_in_control_dependencies_guards(run, tf):
    v = tf.Variable(0.0)
    limit = tf.placeholder(tf.float32, [])
    with tf.control_dependencies([tf.Assert(limit > 1.0, [limit])]):
        update = tf.assign_add(v, 1.0)
    run.initialize()
    run(update, {limit: 2.0})
    run.fails("InvalidArgumentError", update, {limit: 0.0})
    run(v)


@case(inputs={"x": floats(3)}, grad=True)
def print_passes_through(tf, x):
    return tf.Print(x, [x], "value: ", first_n=0) * 2.0


@scenario
def print_v2_is_an_operation(run, tf):
    x = tf.constant([1.0, 2.0])
    with tf.control_dependencies([tf.print("x", x, output_stream="file:///dev/null")]):
        run(tf.identity(x))


@scenario
def add_check_numerics_ops(run, tf):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.log(x, name="y")
    check = tf.add_check_numerics_ops()
    run.value(check, {x: [1.0, 2.0]})
    run.fails("InvalidArgumentError", [check, y], {x: [-1.0, 2.0]})


# --- Python inside the graph

PYTHON = "the function lives in the client"


@scenario(replay=PYTHON)
def py_func_plain(run, tf):
    x = tf.placeholder(tf.float32, [2])
    y = tf.py_func(lambda a: (a * 2).astype(np.float32), [x], tf.float32)
    run.note(str(y.get_shape()))
    run(y, {x: [1.0, 2.0]})


@scenario(replay=PYTHON)
def py_func_several_outputs_and_strings(run, tf):
    outputs = tf.py_func(
        lambda s, i: (s + b"!", np.int64(i + 1)),
        [tf.constant("hey"), tf.constant(3)],
        [tf.string, tf.int64],
    )
    run(outputs)


@scenario(replay=PYTHON)
def py_func_of_a_wrong_dtype(run, tf):
    y = tf.py_func(lambda: np.int32(1), [], tf.float32)
    run.fails("InvalidArgumentError", y)


@scenario(replay=PYTHON)
def py_func_that_raises(run, tf):
    def broken():
        raise ValueError("out of luck")

    run.fails("InvalidArgumentError", tf.py_func(broken, [], tf.float32), words="out of luck")

    def exhausted():
        raise StopIteration

    run.fails("OutOfRangeError", tf.py_func(exhausted, [], tf.float32))


@scenario(replay=PYTHON)
def py_func_is_called_every_step(run, tf):
    calls = []
    y = tf.py_func(lambda: np.float32(calls.append(1) or len(calls)), [], tf.float32)
    for _ in range(3):
        run(y)


@scenario(replay=PYTHON)
def py_func_has_no_gradient(run, tf):
    x = tf.constant(2.0)
    y = tf.py_func(lambda a: a, [x], tf.float32)
    run.note(str(tf.gradients(y, x)))


@scenario(replay=PYTHON)
def numpy_function_plain(run, tf):
    y = tf.numpy_function(lambda a: np.sort(a), [tf.constant([3.0, 1.0])], tf.float32)
    run(y)
