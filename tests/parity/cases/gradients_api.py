"""tf.gradients itself: incoming gradients, stops, aggregation, IndexedSlices; tf.hessians."""

import numpy as np
from parity_kit import array, case, cases, floats, scenario

X = {"x": floats(3)}
XY = {"x": floats(3), "y": floats(3)}


@case(inputs=XY)
def several_ys_add_up(tf, x, y):
    return tf.gradients([x * y, x * x, tf.reduce_sum(y)], [x, y])


@case(inputs=XY)
def grad_ys_weigh(tf, x, y):
    return tf.gradients([x * y, x * x], [x, y], grad_ys=[tf.constant([1.0, 2.0, 3.0]), None])


@case(inputs=XY)
def single_arguments_need_no_lists(tf, x, y):
    return [tf.gradients(x * y, x), tf.gradients(x * y, [x]), tf.gradients([x * y], x, [y])]


@case(inputs=XY)
def unconnected_gradients_are_none(tf, x, y):
    found = tf.gradients(x * 2.0, [x, y])
    return [found[0], str(found[1])]


@case(inputs=XY)
def unconnected_gradients_as_zeros(tf, x, y):
    return tf.gradients(x * 2.0, [x, y], unconnected_gradients=tf.UnconnectedGradients.ZERO)


@case(inputs=XY)
def stop_gradients_cuts(tf, x, y):
    a = x * 2.0
    b = a * y
    return [tf.gradients(b + a, [x, y, a], stop_gradients=[a])[1:], tf.gradients(b + a, [a, y])]


@case(inputs=X)
def gradients_by_an_intermediate(tf, x):
    middle = tf.exp(x)
    return [tf.gradients(tf.square(middle), [middle, x])]


@case(inputs=X)
def gradient_of_x_by_x(tf, x):
    return tf.gradients(x, x)


@case(inputs=X)
def gradient_by_the_same_twice(tf, x):
    return tf.gradients(x * x, [x, x])


@case(inputs=X)
def gradients_of_gradients(tf, x):
    first = tf.gradients(x**3, x)[0]
    second = tf.gradients(first, x)[0]
    third = tf.gradients(second, x)[0]
    return [first, second, third, str(tf.gradients(third, x)[0] is None)]


@cases(
    [
        (f"aggregation_{n}", X, n)
        for n in ("ADD_N", "DEFAULT", "EXPERIMENTAL_TREE", "EXPERIMENTAL_ACCUMULATE_N")
    ]
)
def aggregation(tf, method, x):
    y = x * 2.0 + tf.exp(x) + tf.sin(x) + x * x
    return tf.gradients(y, x, aggregation_method=getattr(tf.AggregationMethod, method))


@case(inputs=X)
def gradients_with_gate(tf, x):
    return tf.gradients(tf.exp(x) * x, x, gate_gradients=True, colocate_gradients_with_ops=True)


@case(inputs={"x": floats(4, 2)})
def gather_gives_indexed_slices(tf, x):
    gradient = tf.gradients(tf.gather(x, [2, 0, 2]), x)[0]
    return [
        isinstance(gradient, tf.IndexedSlices),
        gradient.values,
        gradient.indices,
        gradient.dense_shape,
    ]


@case(inputs={"x": floats(4, 2)})
def two_gathers_concatenate_their_slices(tf, x):
    y = tf.reduce_sum(tf.gather(x, [2, 0])) + 3.0 * tf.reduce_sum(tf.gather(x, [3, 2]))
    gradient = tf.gradients(y, x)[0]
    return [isinstance(gradient, tf.IndexedSlices), tf.convert_to_tensor(gradient)]


@case(inputs={"x": floats(4, 2)})
def a_gather_and_a_dense_use_make_a_dense_gradient(tf, x):
    gradient = tf.gradients(tf.reduce_sum(tf.gather(x, [2, 0])) + tf.reduce_sum(x * x), x)[0]
    return [isinstance(gradient, tf.IndexedSlices), tf.convert_to_tensor(gradient)]


@case(inputs={"x": floats(4, 2)})
def a_gather_behind_another_op_is_densified(tf, x):
    gradient = tf.gradients(tf.gather(x * 2.0, [1, 1]), x)[0]
    return [isinstance(gradient, tf.IndexedSlices), tf.convert_to_tensor(gradient)]


@case(inputs={"x": floats(4, 2), "i": array([1, 1])})
def grad_ys_may_be_indexed_slices(tf, x, i):
    incoming = tf.IndexedSlices(tf.ones([2, 2]), i, tf.constant([4, 2]))
    return tf.gradients(x * 1.0, x, grad_ys=[incoming])


@cases(
    [
        ("hessian_of_square", X, lambda tf, x: tf.reduce_sum(x**3)),
        ("hessian_of_product", X, lambda tf, x: tf.reduce_prod(x)),
        ("hessian_of_softmax", X, lambda tf, x: tf.nn.softmax(x)[0]),
        ("hessian_of_quadratic", X, lambda tf, x: tf.square(tf.reduce_sum(x * [1.0, 2.0, 3.0]))),
        ("hessian_of_matrix", {"x": floats(2, 2)}, lambda tf, x: tf.reduce_sum(x * x * x)),
    ],
    variants=["known"],
)
def hessians(tf, function, x):
    return tf.hessians(function(tf, x), x)


@case(inputs=XY, variants=["known"])
def hessians_of_two(tf, x, y):
    return tf.hessians([tf.reduce_sum(x * x * y * y)], [x, y])


@case(inputs=X, raises=("TypeError",))
def grad_ys_of_another_dtype(tf, x):
    return tf.gradients(x * 2.0, x, grad_ys=[tf.constant([1, 2, 3])])


@case(inputs=X, raises=("ValueError",))
def grad_ys_of_another_length(tf, x):
    return tf.gradients([x * 2.0, x], x, grad_ys=[x])


@case(inputs=X, raises=("LookupError", "No gradient defined for operation"))
def gradient_of_an_op_that_has_none(tf, x):
    return tf.gradients(tf.truncatemod(x, 2.0), x)


@case(inputs={"i": array([1, 2])})
def integers_have_no_gradient(tf, i):
    return [str(tf.gradients(i * 2, i)), str(tf.gradients(tf.cast(i, tf.float32) * 2.0, i))]


@case(inputs=X)
def through_integers_nothing_flows(tf, x):
    return str(tf.gradients(tf.cast(tf.cast(x, tf.int32), tf.float32), x))


@case(inputs=X, grad=True, numeric="the gradient is a made-up one")
def custom_gradient(tf, x):
    @tf.custom_gradient
    def clipped(v):
        def backward(dy):
            return tf.clip_by_value(dy, -0.1, 0.1)

        return tf.identity(v) * 1.0, backward

    return clipped(x)


@case(inputs=XY, grad=True, numeric="the gradient is a made-up one")
def custom_gradient_of_two(tf, x, y):
    @tf.custom_gradient
    def product(a, b):
        return a * b, lambda dy: (dy * b * 2.0, dy * a * 3.0)

    return product(x, y)


@case(
    inputs=X,
    grad=True,
    numeric="the gradient is a made-up one",
    replay="a gradient by name needs the name",
)
def gradient_override_map(tf, x):
    name = f"ParityNegated{id(x)}"

    @tf.RegisterGradient(name)
    def _negated(op, dy):
        return -dy

    with tf.get_default_graph().gradient_override_map({"Identity": name}):
        y = tf.identity(x)
    return y * 2.0


@scenario
def gradients_of_variables(run, tf):
    w = tf.Variable([1.0, 2.0])
    r = tf.Variable([3.0], use_resource=True)
    loss = tf.reduce_sum(w * w) * r
    gradients = tf.gradients(loss, [w, r])
    run.note([isinstance(g, tf.IndexedSlices) for g in gradients])
    run.initialize()
    run(gradients)


@scenario
def gradient_names(run, tf):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.multiply(tf.exp(x, name="e"), 2.0, name="m")
    gradient = tf.gradients(y, x)[0]
    again = tf.gradients(y, x, name="other")[0]
    run.note([gradient.op.name, again.op.name])


@case(inputs={"x": floats(2, 3), "w": floats(3, 4), "b": floats(4)}, grad=True, second_order=True)
def a_layer_twice(tf, x, w, b):
    return tf.nn.softmax(tf.nn.bias_add(tf.matmul(x, w), b))


@case(inputs={"x": floats(3, dtype=np.float64)})
def jacobian_row_by_row(tf, x):
    y = tf.stack([x[0] * x[1], tf.sin(x[2])])
    return [tf.gradients(y[i], x)[0] for i in range(2)]
