"""Neural-network functions: activations, softmax, bias, top-k, dropout's fixed parts."""

import numpy as np
from parity_kit import array, bools, case, cases, floats, ints, positive, scenario

X = {"x": floats(3, 4)}
F64 = np.float64

ACTIVATIONS = [
    "relu",
    "relu6",
    "elu",
    "selu",
    "crelu",
    "leaky_relu",
    "softplus",
    "softsign",
    "sigmoid",
    "tanh",
    "swish",
]


@cases(
    [
        (f"activation_{n}", {"x": floats(3, 4, low=-4, high=8)}, n)
        for n in ACTIVATIONS
        if n != "softsign"
    ],
    grad=True,
    second_order=True,
)
def activations(tf, function, x):
    return getattr(tf.nn, function)(x)


@cases(
    [
        (f"activation_{n}_float64", {"x": floats(5, low=-4, high=8, dtype=F64)}, n)
        for n in ACTIVATIONS
    ],
    grad=True,
)
def activations_double(tf, function, x):
    return getattr(tf.nn, function)(x)


@cases(
    [
        (f"activation_{n}_float16", {"x": floats(5, low=-4, high=8, dtype=np.float16)}, n)
        for n in ACTIVATIONS
        if n != "swish"
    ]
)
def activations_half(tf, function, x):
    return getattr(tf.nn, function)(x)


@cases(
    [
        (f"activation_{n}_at_zero", {"x": array([0.0, -0.0, 6.0])}, n)
        for n in ("relu", "relu6", "elu", "leaky_relu")
    ],
    grad=True,
    numeric="kinks",
)
def activations_at_kinks(tf, function, x):
    return getattr(tf.nn, function)(x)


@case(inputs={"x": ints(3, 2)})
def relu_of_ints(tf, x):
    return [tf.nn.relu(x), tf.nn.relu6(x)]


@case(inputs={"x": array([np.nan, np.inf, -np.inf])})
def relu_of_nan(tf, x):
    return [tf.nn.relu(x), tf.nn.relu6(x), tf.nn.elu(x)]


@cases([("leaky_relu_alpha", X, 0.3), ("leaky_relu_zero", X, 0.0)], grad=True)
def leaky_relu_alpha(tf, alpha, x):
    return tf.nn.leaky_relu(x, alpha=alpha)


@case(inputs=X, grad=True)
def crelu_axis(tf, x):
    return tf.nn.crelu(x, axis=0)


@cases(
    [
        ("softmax_plain", X, {}),
        ("softmax_axis_0", X, {"axis": 0}),
        ("softmax_dim_old", X, {"dim": 0}),
        ("softmax_3d_middle", {"x": floats(2, 3, 2)}, {"axis": 1}),
        ("softmax_vector", {"x": floats(4)}, {}),
    ],
    grad=True,
    second_order=True,
)
def softmax(tf, options, x):
    return [tf.nn.softmax(x, **options), tf.nn.log_softmax(x, **options)]


@case(inputs={"x": array([[1000.0, 0.0], [-1000.0, -1000.0]])}, grad=True, numeric="saturated")
def softmax_of_large_logits(tf, x):
    return [tf.nn.softmax(x), tf.nn.log_softmax(x)]


@case(inputs={"x": floats(2, 3, dtype=F64)}, grad=True)
def softmax_float64(tf, x):
    return [tf.nn.softmax(x), tf.nn.log_softmax(x)]


@case(inputs={"x": floats(2, 3, dtype=np.float16)})
def softmax_float16(tf, x):
    return [tf.nn.softmax(x), tf.nn.log_softmax(x)]


@case(inputs={"x": floats(0, 3)})
def softmax_empty(tf, x):
    return tf.nn.softmax(x)


@case(inputs={"x": floats(2, 3)}, raises=("InvalidArgumentError",))
def softmax_axis_out_of_range(tf, x):
    return tf.nn.softmax(x, axis=2)


@cases(
    [
        ("bias_add_2d", {"x": floats(3, 4), "b": floats(4)}, {}),
        ("bias_add_4d", {"x": floats(2, 2, 2, 3), "b": floats(3)}, {}),
        ("bias_add_3d", {"x": floats(2, 2, 3), "b": floats(3)}, {}),
        ("bias_add_nchw", {"x": floats(2, 3, 2, 2), "b": floats(3)}, {"data_format": "NCHW"}),
        ("bias_add_nhwc", {"x": floats(2, 2, 2, 3), "b": floats(3)}, {"data_format": "NHWC"}),
    ],
    grad=True,
    second_order=True,
)
def bias_add(tf, options, x, b):
    return tf.nn.bias_add(x, b, **options)


@case(inputs={"x": ints(2, 3), "b": ints(3)})
def bias_add_ints(tf, x, b):
    return tf.nn.bias_add(x, b)


@case(inputs={"x": floats(3, 4), "b": floats(3)}, raises=("ValueError",))
def bias_add_mismatch(tf, x, b):
    return tf.nn.bias_add(x, b)


@case(inputs={"x": floats(2, 3), "w": floats(3, 4), "b": floats(4)}, grad=True)
def xw_plus_b(tf, x, w, b):
    return [tf.nn.xw_plus_b(x, w, b), tf.nn.relu_layer(x, w, b)]


@cases(
    [
        ("l2_loss_matrix", X),
        ("l2_loss_vector", {"x": floats(3)}),
        ("l2_loss_scalar", {"x": floats()}),
    ],
    grad=True,
    second_order=True,
)
def l2_loss(tf, x):
    return tf.nn.l2_loss(x)


@cases(
    [
        ("l2_normalize_axis", X, {"axis": 1}),
        ("l2_normalize_dim_old", X, {"dim": 0}),
        ("l2_normalize_all", X, {}),
        ("l2_normalize_two_axes", {"x": floats(2, 2, 3)}, {"axis": [1, 2]}),
        ("l2_normalize_epsilon", X, {"axis": 1, "epsilon": 5.0}),
    ],
    grad=True,
)
def l2_normalize(tf, options, x):
    return tf.nn.l2_normalize(x, **options)


@case(inputs={"x": array([[0.0, 0.0], [3.0, 4.0]])})
def l2_normalize_of_zero(tf, x):
    return tf.nn.l2_normalize(x, 1)


@case(inputs={"x": array([0.0, 1.0, 0.0, -2.0])})
def zero_fraction(tf, x):
    return [
        tf.nn.zero_fraction(x),
        tf.nn.zero_fraction(tf.cast(x, tf.int32)),
        tf.nn.zero_fraction(x[:0]),
    ]


# --- top-k


@cases(
    [
        ("top_k_default", X, {}),
        ("top_k_two", X, {"k": 2}),
        ("top_k_all", X, {"k": 4}),
        ("top_k_vector", {"x": floats(5)}, {"k": 3}),
        ("top_k_3d", {"x": floats(2, 2, 3)}, {"k": 2}),
    ],
    grad=True,
)
def top_k(tf, options, x):
    values, indices = tf.nn.top_k(x, **options)
    return [values, indices]


@case(inputs={"x": ints(3, 5, low=0, high=4)})
def top_k_of_ties_takes_the_lower_index(tf, x):
    return tf.nn.top_k(x, k=3)


@case(inputs={"x": floats(3, 4), "k": array(2)}, grad=["x"])
def top_k_fed_k(tf, x, k):
    return tf.nn.top_k(x, k).values


@case(inputs={"x": floats(3, 4)}, raises=("ValueError", "must have last dimension >= k = 5"))
def top_k_too_many(tf, x):
    return tf.nn.top_k(x, k=5)


@case(
    inputs={
        "p": array([[0.1, 0.3, 0.3, 0.2], [0.9, 0.1, 0.5, np.inf], [0.1, np.nan, 0.2, 0.3]]),
        "t": array([2, 1, 3]),
    }
)
def in_top_k(tf, p, t):
    return [tf.nn.in_top_k(p, t, k) for k in (1, 2, 3)]


@case(inputs={"p": floats(2, 3), "t": array([7, -1], np.int64)})
def in_top_k_of_classes_out_of_range(tf, p, t):
    return tf.nn.in_top_k(p, t, 1)


# --- dropout (what does not depend on the random bits)


@case(inputs=X, grad=True)
def dropout_that_keeps_all(tf, x):
    return [tf.nn.dropout(x, keep_prob=1.0), tf.nn.dropout(x, rate=0.0)]


@case(inputs=X, raises=("ValueError",))
def dropout_rate_out_of_range(tf, x):
    return tf.nn.dropout(x, rate=1.0)


@case(inputs=X, raises=("ValueError",))
def dropout_keep_prob_out_of_range(tf, x):
    return tf.nn.dropout(x, keep_prob=1.5)


@scenario
def dropout_drops_and_scales(run, tf):
    x = tf.ones([50, 40])
    y = tf.nn.dropout(x, keep_prob=0.8, seed=3)
    gradient = tf.gradients(y, x)[0]
    for _ in range(2):
        value, slope = run.value([y, gradient])
        kept = value != 0
        assert np.allclose(value[kept], 1.25)
        assert abs(kept.mean() - 0.8) < 0.04
        assert np.array_equal(slope != 0, kept) and np.allclose(slope[kept], 1.25)
    run.note(value.shape)


@scenario
def dropout_noise_shape_drops_whole_rows(run, tf):
    y = tf.nn.dropout(tf.ones([30, 7]), rate=0.5, noise_shape=[30, 1], seed=1)
    value = run.value(y)
    assert all(len(set(row)) == 1 for row in value)
    assert set(value[:, 0]) == {0.0, 2.0}
    run.note([d for d in y.get_shape().as_list()])


@scenario
def dropout_with_fed_keep_prob(run, tf):
    keep = tf.placeholder(tf.float32, [])
    y = tf.nn.dropout(tf.ones([10]), keep)
    run(y, {keep: 1.0})
    value = run.value(y, {keep: 0.5})
    assert set(np.round(value, 4)) <= {0.0, 2.0}


# --- gradient kernels by name: a stock client's graphs contain them


@cases(
    [
        (f"raw_{n}", {"dy": floats(3, 4), "x": floats(3, 4, low=-4, high=8)}, n, names)
        for n, names in [
            ("ReluGrad", ("gradients", "features")),
            ("Relu6Grad", ("gradients", "features")),
            ("EluGrad", ("gradients", "outputs")),
            ("SeluGrad", ("gradients", "outputs")),
            ("SoftplusGrad", ("gradients", "features")),
            ("LeakyReluGrad", ("gradients", "features")),
        ]
    ],
    grad=True,
)
def raw_activation_gradients(tf, op, names, dy, x):
    return getattr(tf.raw_ops, op)(**{names[0]: dy, names[1]: x})


@cases(
    [
        (f"raw_{n}", {"y": positive(3), "dy": floats(3)}, n)
        for n in ("SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad", "InvGrad", "ReciprocalGrad")
    ],
    grad=True,
)
def raw_math_gradients(tf, op, y, dy):
    return getattr(tf.raw_ops, op)(y=y, dy=dy)


@cases(
    [
        ("raw_BiasAddGrad_2d", {"dy": floats(3, 4)}, "NHWC"),
        ("raw_BiasAddGrad_nchw", {"dy": floats(2, 3, 2, 2)}, "NCHW"),
    ],
    grad=True,
)
def raw_bias_add_grad(tf, data_format, dy):
    return tf.raw_ops.BiasAddGrad(out_backprop=dy, data_format=data_format)


@case(inputs={"dy": floats(3), "x": floats(3)})
def raw_softsign_grad(tf, dy, x):
    return tf.raw_ops.SoftsignGrad(gradients=dy, features=x)


@case(inputs={"x": array([2, 1, 3]), "y": array([1, 3])})
def raw_broadcast_gradient_args(tf, x, y):
    return tf.raw_ops.BroadcastGradientArgs(s0=x, s1=y)


# --- quantisation stand-ins


@cases(
    [
        ("fake_quant_args", {"x": floats(3, 4, low=-8, high=8)}, {}),
        ("fake_quant_args_range", {"x": floats(3, 4)}, {"min": -1.0, "max": 0.5, "num_bits": 4}),
        (
            "fake_quant_args_narrow",
            {"x": floats(3, 4)},
            {"min": -1.0, "max": 1.0, "narrow_range": True},
        ),
    ],
    grad=True,
    numeric="steps",
)
def fake_quant_args(tf, options, x):
    return tf.fake_quant_with_min_max_args(x, **options)


@case(inputs={"x": floats(3, 4), "a": array(-1.0), "b": array(0.7)}, grad=True, numeric="steps")
def fake_quant_vars(tf, x, a, b):
    return tf.fake_quant_with_min_max_vars(x, a, b)


@case(
    inputs={"x": floats(3, 2), "a": array([-1.0, -0.5]), "b": array([0.7, 1.0])},
    grad=True,
    numeric="steps",
)
def fake_quant_vars_per_channel(tf, x, a, b):
    return tf.fake_quant_with_min_max_vars_per_channel(x, a, b)


# --- recurrent loops over a cell that is written here


class TinyCell:
    """h' = tanh(x w + h u): what dynamic_rnn asks of a cell, and no more."""

    state_size = 2
    output_size = 2

    def __init__(self, tf, w, u):
        self.tf, self.w, self.u = tf, w, u

    def __call__(self, x, h, scope=None):
        new = self.tf.tanh(self.tf.matmul(x, self.w) + self.tf.matmul(h, self.u))
        return new, new

    def zero_state(self, batch_size, dtype):
        return self.tf.zeros([batch_size, 2], dtype)


RNN = {"x": floats(3, 4, 2), "w": floats(2, 2), "u": floats(2, 2)}
RNN_TIME_FIRST = {"x": floats(4, 3, 2), "w": floats(2, 2), "u": floats(2, 2)}


@cases(
    [
        ("dynamic_rnn_plain", RNN, {}),
        ("dynamic_rnn_lengths", RNN, {"sequence_length": [4, 1, 2]}),
        (
            "dynamic_rnn_time_major",
            RNN_TIME_FIRST,
            {"time_major": True, "sequence_length": [2, 4, 3]},
        ),
    ],
    grad=True,
    variants=["known"],
)
def dynamic_rnn(tf, options, x, w, u):
    return tf.nn.dynamic_rnn(TinyCell(tf, w, u), x, dtype=x.dtype, **options)


@case(inputs=RNN, grad=True, variants=["known"])
def static_rnn(tf, x, w, u):
    outputs, state = tf.nn.static_rnn(TinyCell(tf, w, u), tf.unstack(x, axis=1), dtype=x.dtype)
    return [*outputs, state]


@case(inputs=RNN, grad=True, variants=["known"])
def static_rnn_lengths(tf, x, w, u):
    outputs, state = tf.nn.static_rnn(
        TinyCell(tf, w, u), tf.unstack(x, axis=1), dtype=x.dtype, sequence_length=[1, 4, 0]
    )
    return [*outputs, state]


@case(inputs=RNN, grad=True, variants=["known"])
def bidirectional_dynamic_rnn(tf, x, w, u):
    forward, backward = TinyCell(tf, w, u), TinyCell(tf, u, w)
    return tf.nn.bidirectional_dynamic_rnn(
        forward, backward, x, sequence_length=[2, 4, 1], dtype=x.dtype
    )


@case(inputs=RNN, grad=True, variants=["known"])
def raw_rnn(tf, x, w, u):
    cell = TinyCell(tf, w, u)
    inputs = tf.TensorArray(x.dtype, size=4).unstack(tf.transpose(x, [1, 0, 2]))

    def loop(time, output, state, loop_state):
        finished = time >= tf.constant([4, 2, 3])
        following = cell.zero_state(3, x.dtype) if output is None else state
        all_done = tf.reduce_all(finished)
        entry = tf.cond(all_done, lambda: tf.zeros([3, 2], x.dtype), lambda: inputs.read(time))
        return finished, entry, following, output, None

    outputs, state, _ = tf.nn.raw_rnn(cell, loop)
    return [outputs.stack(), state]


@case(inputs={"c": bools(3), "x": floats(3)}, grad=["x"])
def masked_loss_by_where(tf, c, x):
    return tf.reduce_sum(tf.where(c, tf.log(tf.abs(x) + 1.0), tf.zeros_like(x)))
