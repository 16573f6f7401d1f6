"""cond, case, switch_case, while_loop with gradients, TensorArray, map_fn, scan, folds."""

import numpy as np
from parity_kit import array, bools, case, cases, floats, ints, scenario, strings

XP = {"p": bools(), "x": floats(3)}


# --- cond and case


@cases(
    [
        ("cond_simple", XP, lambda tf, p, x: tf.cond(p, lambda: x * 2.0, lambda: x + 1.0)),
        ("cond_identity_branch", XP, lambda tf, p, x: tf.cond(p, lambda: x, lambda: -x)),
        (
            "cond_several_outputs",
            XP,
            lambda tf, p, x: tf.cond(p, lambda: [x * 2.0, x[0]], lambda: [x + 1.0, x[1]]),
        ),
        (
            "cond_constant_branch",
            XP,
            lambda tf, p, x: tf.cond(p, lambda: tf.ones_like(x), lambda: x * x),
        ),
        (
            "cond_nested",
            XP,
            lambda tf, p, x: tf.cond(
                p,
                lambda: tf.cond(x[0] > 0.0, lambda: x * 2.0, lambda: x * 3.0),
                lambda: tf.cond(x[0] > 0.0, lambda: x * 5.0, lambda: x * 7.0),
            ),
        ),
        (
            "cond_old_names",
            XP,
            lambda tf, p, x: tf.cond(pred=p, fn1=lambda: x * 2.0, fn2=lambda: x),
        ),
        (
            "cond_on_tensor_value",
            XP,
            lambda tf, p, x: tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.exp(x), lambda: tf.sin(x)),
        ),
        (
            "cond_with_outer_work",
            XP,
            lambda tf, p, x: tf.exp(tf.cond(p, lambda: x * x, lambda: x)) * x,
        ),
        (
            "cond_python_true",
            XP,
            lambda tf, p, x: tf.cond(tf.constant(True), lambda: x, lambda: -x),
        ),
    ],
    grad=["x"],
)
def conds(tf, function, p, x):
    return function(tf, p, x)


@cases(
    [
        ("cond_both_ways_true", {"x": floats(3)}, True),
        ("cond_both_ways_false", {"x": floats(3)}, False),
    ],
    grad=True,
)
def cond_both_ways(tf, way, x):
    p = tf.placeholder_with_default(way, [])
    return tf.cond(p, lambda: tf.square(x), lambda: tf.reduce_sum(x) * x)


@case(inputs=XP)
def cond_second_order(tf, p, x):
    y = tf.cond(p, lambda: x**3, lambda: tf.sin(x))
    g = tf.gradients(y, x)[0]
    return [g, tf.gradients(g, x)[0]]


@case(inputs={"p": bools(), "x": floats(3)}, variants=["known"])
def cond_of_different_shapes(tf, p, x):
    return tf.cond(p, lambda: x, lambda: x[:2])


@case(inputs={"p": bools(), "x": strings(["a", "b"])})
def cond_of_strings(tf, p, x):
    return tf.cond(p, lambda: x, lambda: tf.string_join([x, x]))


@case(inputs={"p": bools(), "x": floats(3)})
def cond_returns_dictionaries_and_singletons(tf, p, x):
    return [
        tf.cond(p, lambda: [x], lambda: [x * 2.0]),
        tf.cond(p, lambda: [x], lambda: [x * 2.0], strict=True),
    ]


@case(inputs=XP, raises=("ValueError",))
def cond_with_different_numbers_of_outputs(tf, p, x):
    return tf.cond(p, lambda: [x, x], lambda: [x])


@case(inputs=XP, raises=("ValueError",))
def cond_with_different_dtypes(tf, p, x):
    return tf.cond(p, lambda: x, lambda: tf.cast(x, tf.int32))


@case(inputs=XP, raises=("TypeError", "'false_fn' must be callable"))
def cond_without_a_function(tf, p, x):
    return tf.cond(p, lambda: x, x)


@case(raises=("TypeError", "'pred' must not be a Python bool"))
def cond_with_a_python_bool(tf):
    return tf.cond(True, lambda: tf.constant(1), lambda: tf.constant(2))


@cases([(f"case_branch_{i}", {"i": array(i), "x": floats(2)}) for i in (0, 1, 2)], grad=["x"])
def case_by_predicates(tf, i, x):
    pairs = [(tf.equal(i, 0), lambda: x * 2.0), (tf.equal(i, 1), lambda: x * 3.0)]
    return tf.case(pairs, default=lambda: x * 5.0)


@case(inputs={"x": floats(2)}, grad=True)
def case_exclusive(tf, x):
    total = tf.reduce_sum(x)
    pairs = [(total > 0.0, lambda: x), (total <= 0.0, lambda: -x)]
    return tf.case(pairs, exclusive=True)


@cases(
    [
        (f"switch_case_{i}".replace("-", "m"), {"i": array(i), "x": floats(2)})
        for i in (0, 1, 2, 9, -1)
    ],
    grad=["x"],
)
def switch_case(tf, i, x):
    return tf.switch_case(i, [lambda: x, lambda: x * 2.0, lambda: x * x])


@case(inputs={"i": array(7), "x": floats(2)}, grad=["x"])
def switch_case_default(tf, i, x):
    return tf.switch_case(i, {0: lambda: x, 1: lambda: x * 2.0}, default=lambda: -x)


# --- while_loop


def _power(tf, x, n):
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), [0, x])[1]


LOOPS = {
    "power": lambda tf, x: _power(tf, x, 3),
    "no_iterations": lambda tf, x: _power(tf, x, 0),
    "sum_of_sines": lambda tf, x: tf.while_loop(
        lambda i, y: i < 4, lambda i, y: (i + 1, tf.sin(y) + x), [0, x]
    )[1],
    "value_decides": lambda tf, x: tf.while_loop(
        lambda y: tf.reduce_sum(tf.abs(y)) < 50.0, lambda y: y * 1.7, [x]
    ),
    "two_states": lambda tf, x: tf.while_loop(
        lambda i, a, b: i < 3, lambda i, a, b: (i + 1, a + b, a * 0.5), [0, x, x * 2.0]
    )[1:],
    "captured_only": lambda tf, x: tf.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, y + tf.reduce_sum(x)), [0, tf.zeros([], x.dtype)]
    )[1],
    "nested": lambda tf, x: tf.while_loop(
        lambda i, y: i < 2,
        lambda i, y: (
            i + 1,
            tf.while_loop(lambda j, z: j < 3, lambda j, z: (j + 1, z * 1.1 + x), [0, y])[1],
        ),
        [0, x],
    )[1],
    "cond_inside": lambda tf, x: tf.while_loop(
        lambda i, y: i < 4,
        lambda i, y: (
            i + 1,
            tf.cond(tf.equal(tf.floormod(i, 2), 0), lambda: y * x, lambda: y + x),
        ),
        [0, x],
    )[1],
    "inside_cond": lambda tf, x: tf.cond(
        tf.reduce_sum(x) < 1000.0, lambda: _power(tf, x, 2), lambda: x
    ),
    "matmul_chain": lambda tf, x: tf.while_loop(
        lambda i, y: i < 3,
        lambda i, y: (i + 1, tf.matmul(y, tf.ones([3, 3], x.dtype) * 0.3) + x),
        [0, tf.expand_dims(x, 0)],
    )[1],
    "gather_by_counter": lambda tf, x: tf.while_loop(
        lambda i, y: i < 3,
        lambda i, y: (i + 1, y + x[i] * tf.gather(x, 2 - i)),
        [0, tf.zeros([], x.dtype)],
    )[1],
    "parallel_one": lambda tf, x: tf.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x], parallel_iterations=1
    )[1],
    "back_to_back": lambda tf, x: _power(tf, _power(tf, x, 1), 1),
}


@cases([(f"while_{n}", {"x": floats(3)}, f) for n, f in LOOPS.items()], grad=True)
def while_loops(tf, function, x):
    return function(tf, x)


@case(inputs={"x": floats(3), "n": array(4)}, grad=["x"])
def while_with_fed_count(tf, x, n):
    return _power(tf, x, n)


@case(inputs={"x": floats(2)}, variants=["known"])
def while_with_shape_invariants(tf, x):
    result = tf.while_loop(
        lambda i, y: i < 3,
        lambda i, y: (i + 1, tf.concat([y, y[:1]], 0)),
        [tf.constant(0), x],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )
    return result


@case(inputs={"x": floats(2)})
def while_with_maximum_iterations(tf, x):
    return tf.while_loop(lambda y: True, lambda y: y * 2.0, [x], maximum_iterations=3)


@case(inputs={"x": floats(2)})
def while_return_same_structure(tf, x):
    return [
        tf.while_loop(
            lambda y: tf.reduce_sum(tf.abs(y)) < 9.0,
            lambda y: [y * 2.0],
            [x],
            return_same_structure=True,
        ),
        tf.while_loop(
            lambda s: s["i"] < 2,
            lambda s: [{"i": s["i"] + 1, "v": s["v"] * 2.0}],
            [{"i": 0, "v": x}],
        ),
    ]


@case(inputs={"x": strings(["a", "b"])})
def while_of_strings(tf, x):
    return tf.while_loop(lambda i, s: i < 2, lambda i, s: (i + 1, tf.string_join([s, x])), [0, x])[
        1
    ]


@case(inputs={"x": floats(3)})
def while_gradient_with_maximum_iterations(tf, x):
    y = tf.while_loop(
        lambda i, y: i < 3, lambda i, y: [i + 1, y * x], [0, x], maximum_iterations=5
    )[1]
    return tf.gradients(y, x)


@case(inputs={"x": ints()})
def while_fibonacci(tf, x):
    return tf.while_loop(lambda i, a, b: i < 10, lambda i, a, b: (i + 1, b, a + b), [0, x, x + 1])


@case(inputs={"x": floats(2)}, raises=("ValueError", "shape"))
def while_that_changes_its_shape(tf, x):
    return tf.while_loop(lambda y: tf.shape(y)[0] < 5, lambda y: tf.concat([y, y], 0), [x])


@case(raises=("ValueError", "'loop_vars' must be provided"))
def while_without_variables(tf):
    return tf.while_loop(lambda: True, lambda: [], [])


@case(raises=("TypeError", "must be callable"))
def while_without_functions(tf):
    return tf.while_loop(True, lambda i: i + 1, [0])


# --- TensorArray


@case(inputs={"x": floats(3, 2)}, grad=True)
def tensor_array_unstack_read(tf, x):
    ta = tf.TensorArray(x.dtype, size=3).unstack(x)
    return [ta.read(2), ta.read(0) * 2.0, ta.size() + 0]


@case(inputs={"x": floats(2)}, grad=True)
def tensor_array_write_stack(tf, x):
    ta = tf.TensorArray(x.dtype, size=3, clear_after_read=False)
    ta = ta.write(0, x).write(1, x * x).write(2, x + 1.0)
    return [ta.stack(), ta.gather([2, 0]), ta.concat()]


@case(inputs={"x": floats(5, 2)}, grad=True)
def tensor_array_split_concat(tf, x):
    ta = tf.TensorArray(x.dtype, size=2, infer_shape=False).split(x, [2, 3])
    return [ta.concat() * 2.0]


@case(inputs={"x": floats(3, 2)}, grad=True)
def tensor_array_scatter(tf, x):
    return tf.TensorArray(x.dtype, size=3).scatter([2, 0, 1], x).stack()


@case(inputs={"x": floats(3, 2)}, grad=True)
def tensor_array_in_a_loop(tf, x):
    source = tf.TensorArray(x.dtype, size=3, clear_after_read=False).unstack(x)
    sink = tf.TensorArray(x.dtype, size=3)
    _, state, out = tf.while_loop(
        lambda i, s, ta: i < 3,
        lambda i, s, ta: (
            i + 1,
            s + source.read(i),
            ta.write(i, tf.tanh(s + source.read(i) * 0.0 + x[i])),
        ),
        [0, tf.zeros([2], x.dtype), sink],
    )
    return [state, out.stack()]


@case(inputs={"n": array(4)}, variants=["known"])
def tensor_array_dynamic_size(tf, n):
    ta = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
    _, ta = tf.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t.write(i, i * i)), [0, ta])
    return [ta.stack(), ta.size()]


@case(inputs={"x": strings(["a", "b"])})
def tensor_array_of_strings(tf, x):
    return tf.TensorArray(tf.string, size=2).unstack(x).gather([1, 0])


@case(inputs={"x": floats(2)}, raises=("InvalidArgumentError",))
def tensor_array_read_out_of_range(tf, x):
    return tf.TensorArray(tf.float32, size=2).unstack(x).read(5)


@case(inputs={"x": floats(2)}, raises=("InvalidArgumentError",))
def tensor_array_write_twice(tf, x):
    return tf.TensorArray(tf.float32, size=2).write(0, x).write(0, x).write(1, x).stack()


@case(inputs={"x": floats(2)}, raises=("InvalidArgumentError", "Could not read index 0 twice"))
def tensor_array_read_twice(tf, x):
    ta = tf.TensorArray(tf.float32, size=2).unstack(x)
    first = ta.read(0)
    with tf.control_dependencies([first]):
        return first + ta.read(0)


# --- map_fn, scan, folds


FUNCTIONAL = {
    "map_fn": lambda tf, x: tf.map_fn(lambda r: tf.reduce_sum(r * r) * r, x),
    "map_fn_scalar_out": lambda tf, x: tf.map_fn(tf.reduce_prod, x),
    "map_fn_captures": lambda tf, x: tf.map_fn(lambda r: r * x[0], x),
    "foldl": lambda tf, x: tf.foldl(lambda a, r: a * r + r, x),
    "foldl_initializer": lambda tf, x: tf.foldl(
        lambda a, r: a * 0.5 + r, x, initializer=x[0] * 2.0
    ),
    "foldr": lambda tf, x: tf.foldr(lambda a, r: a * r + r, x),
    "foldr_initializer": lambda tf, x: tf.foldr(lambda a, r: a - r, x, initializer=x[1]),
    "scan": lambda tf, x: tf.scan(lambda a, r: a * r + r, x),
    "scan_initializer": lambda tf, x: tf.scan(lambda a, r: tf.tanh(a + r), x, initializer=x[0]),
    "scan_reverse": lambda tf, x: tf.scan(lambda a, r: a + r * r, x, reverse=True),
}


@cases([(n, {"x": floats(4, 2)}, f) for n, f in FUNCTIONAL.items()], grad=True)
def functional(tf, function, x):
    return function(tf, x)


@case(inputs={"x": ints(3), "y": floats(3, 2)})
def map_fn_of_several(tf, x, y):
    return tf.map_fn(lambda e: (e[0] * 2, e[1] + 1.0), (x, y), dtype=(tf.int32, tf.float32))


@case(inputs={"x": ints(3)})
def map_fn_to_another_dtype(tf, x):
    return tf.map_fn(lambda e: tf.cast(e, tf.float32) / 2.0, x, dtype=tf.float32)


@case(inputs={"x": floats(3, 2)})
def scan_of_several(tf, x):
    return tf.scan(lambda a, e: (a[0] + e, a[1] * 2.0), x, initializer=(tf.zeros([2]), tf.ones([])))


@case(inputs={"x": ints(4)})
def scan_of_ints(tf, x):
    return [tf.scan(lambda a, e: a + e, x), tf.foldl(tf.add, x), tf.foldr(tf.subtract, x)]


@case(inputs={"x": floats(0, 2)}, variants=["known"])
def map_fn_of_nothing(tf, x):
    return tf.map_fn(lambda r: r * 2.0, x)


@case(inputs={"x": ints(3)}, raises=("InvalidArgumentError",))
def map_fn_with_a_wrong_dtype(tf, x):
    return tf.map_fn(lambda e: tf.cast(e, tf.float32), x)


# --- ordering


@case(inputs={"x": floats(2), "y": floats(2)}, grad=True)
def tuple_of_tensors(tf, x, y):
    return tf.tuple([x * 2.0, y * 3.0])


@case(inputs={"x": floats(2)})
def tuple_keeps_none(tf, x):
    result = tf.tuple([x, None])
    return [result[0], str(result[1])]


@scenario
def control_dependencies_order_assignments(run, tf):
    v = tf.Variable(1.0)
    first = tf.assign_add(v, 2.0)
    with tf.control_dependencies([first]):
        second = tf.assign(v, v * 10.0)
    with tf.control_dependencies([second]):
        read = tf.identity(v)
    run.initialize()
    run(read)
    run(read)


@scenario
def group_runs_everything(run, tf):
    a, b = tf.Variable(0), tf.Variable(0)
    both = tf.group(tf.assign_add(a, 1), tf.assign_add(b, 2))
    run.note([both.type, tf.group().type, tf.no_op().type])
    run.initialize()
    run(both)
    run([a, b])


@scenario
def cond_runs_only_one_branch(run, tf):
    p = tf.placeholder(tf.bool, [])
    a, b = tf.Variable(0), tf.Variable(0)
    result = tf.cond(p, lambda: tf.assign_add(a, 1), lambda: tf.assign_add(b, 10))
    run.initialize()
    for way in (True, False, True):
        run(result, {p: way})
        run([a, b])


@scenario
def cond_of_an_op_outside_runs_it_anyway(run, tf):
    p = tf.placeholder(tf.bool, [])
    v = tf.Variable(0)
    outside = tf.assign_add(v, 1)
    result = tf.cond(p, lambda: tf.identity(outside), lambda: tf.constant(-1))
    run.initialize()
    run(result, {p: False})
    run(v)


@scenario
def cond_of_operations_only(run, tf):
    p = tf.placeholder(tf.bool, [])
    v = tf.Variable(5)
    result = tf.cond(p, lambda: tf.group(tf.assign(v, 7)), lambda: tf.no_op())
    run.initialize()
    run.value(result, {p: False})
    run(v)
    run.value(result, {p: True})
    run(v)


@scenario
def cond_fails_only_where_it_is_taken(run, tf):
    p = tf.placeholder(tf.bool, [])
    bad = lambda: tf.check_numerics(tf.constant(np.nan), "bad branch")  # noqa: E731
    result = tf.cond(p, bad, lambda: tf.constant(1.0))
    run(result, {p: False})
    run.fails("InvalidArgumentError", result, {p: True}, words="bad branch")


@scenario
def while_updates_a_variable(run, tf):
    v = tf.Variable(1.0)

    def body(i):
        with tf.control_dependencies([tf.assign_add(v, 1.0)]):
            return i + 1

    loop = tf.while_loop(lambda i: i < 5, body, [0])
    run.initialize()
    run(loop)
    run(v)


@scenario
def while_with_a_resource_variable_differentiates(run, tf):
    w = tf.Variable([2.0, 3.0], use_resource=True)
    y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * w), [0, tf.ones([2])])[1]
    gradient = tf.gradients(y, w)[0]
    run.initialize()
    run([y, gradient])


@scenario
def while_gradient_of_a_ref_variable(run, tf):
    w = tf.Variable([2.0, 3.0])
    y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * w), [0, tf.ones([2])])[1]
    gradient = tf.gradients(y, w)[0]
    run.initialize()
    run([y, gradient])


@scenario
def raw_switch_and_merge(run, tf):
    p = tf.placeholder(tf.bool, [])
    x = tf.constant([1.0, 2.0])
    false_out, true_out = tf.raw_ops.Switch(data=x, pred=p)
    merged = tf.raw_ops.Merge(inputs=[false_out * 10.0, true_out + 1.0])
    for way in (True, False):
        run([merged.output, merged.value_index], {p: way})


@scenario
def fetching_a_dead_branch_fails(run, tf):
    p = tf.placeholder(tf.bool, [])
    _, true_out = tf.raw_ops.Switch(data=tf.constant(1.0), pred=p)
    dead = true_out * 2.0
    run(dead, {p: True})
    run.fails("InvalidArgumentError", dead, {p: False}, words="Retval[0] does not have value")


@scenario
def loop_frames_by_hand(run, tf):
    raw = tf.raw_ops
    zero = raw.Enter(data=tf.constant(0), frame_name="loop")
    limit = raw.Enter(data=tf.constant(5), frame_name="loop", is_constant=True)
    one = raw.Enter(data=tf.constant(1), frame_name="loop", is_constant=True)
    merge = raw.Merge(inputs=[zero, zero])
    keep_going = raw.LoopCond(input=raw.Less(x=merge.output, y=limit))
    leave, stay = raw.Switch(data=merge.output, pred=keep_going)
    following = raw.NextIteration(data=raw.AddV2(x=stay, y=one))
    merge.output.op._update_input(1, following)
    run(raw.Exit(data=leave))
