"""tf.nn without windows: cross-entropies in both styles, dropout, biases, normalisation."""

import numpy as np
import pytest

import millrace as tf
from millrace import losses as losses_facade
from millrace import nn as nn_facade


def run(*fetches):
    with tf.Session() as session:
        return session.run(list(fetches))


LOGITS = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]], np.float32)
LABELS = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]], np.float32)


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


# -- Names ---------------------------------------------------------------------------------

NN_NAMES = """
    all_candidate_sampler atrous_conv2d atrous_conv2d_transpose avg_pool avg_pool1d avg_pool2d
    avg_pool3d avg_pool_v2 batch_norm_with_global_normalization batch_normalization bias_add
    bias_add_v1 compute_accidental_hits conv1d conv1d_transpose conv2d conv2d_backprop_filter
    conv2d_backprop_input conv2d_transpose conv3d conv3d_backprop_filter conv3d_backprop_filter_v2
    conv3d_transpose conv_transpose convolution crelu depth_to_space depthwise_conv2d
    depthwise_conv2d_backprop_filter depthwise_conv2d_backprop_input depthwise_conv2d_native
    depthwise_conv2d_native_backprop_filter depthwise_conv2d_native_backprop_input dropout elu
    embedding_lookup embedding_lookup_sparse fixed_unigram_candidate_sampler fused_batch_norm
    in_top_k l2_loss l2_normalize leaky_relu learned_unigram_candidate_sampler
    local_response_normalization log_poisson_loss log_sigmoid log_softmax
    log_uniform_candidate_sampler lrn max_pool max_pool1d max_pool2d max_pool3d max_pool_v2
    max_pool_with_argmax moments nce_loss normalize_moments pool relu relu6 relu_layer
    safe_embedding_lookup_sparse sampled_softmax_loss selu separable_conv2d sigmoid
    sigmoid_cross_entropy_with_logits silu softmax softmax_cross_entropy_with_logits
    softmax_cross_entropy_with_logits_v2 softplus softsign space_to_batch space_to_depth
    sparse_softmax_cross_entropy_with_logits sufficient_statistics swish tanh top_k
    uniform_candidate_sampler weighted_cross_entropy_with_logits weighted_moments
    with_space_to_batch xw_plus_b zero_fraction
""".split()

LOSSES_NAMES = """
    Reduction absolute_difference add_loss compute_weighted_loss cosine_distance get_losses
    get_regularization_loss get_regularization_losses get_total_loss hinge_loss huber_loss log_loss
    mean_pairwise_squared_error mean_squared_error sigmoid_cross_entropy softmax_cross_entropy
    sparse_softmax_cross_entropy
""".split()


def test_tf_nn_has_the_promised_names():
    missing = [name for name in NN_NAMES if not hasattr(nn_facade, name)]
    assert not missing
    assert set(NN_NAMES) <= set(nn_facade.__all__)


def test_tf_losses_has_exactly_the_promised_names():
    assert sorted(losses_facade.__all__) == sorted(LOSSES_NAMES)


# -- Cross-entropies -----------------------------------------------------------------------


def test_positions_mean_logits_before_labels_as_in_tensorflow_0():
    old, new = run(
        tf.nn.softmax_cross_entropy_with_logits(LOGITS, LABELS),
        tf.nn.softmax_cross_entropy_with_logits(labels=LABELS, logits=LOGITS),
    )
    np.testing.assert_array_equal(old, new)
    np.testing.assert_allclose(new, -(LABELS * np.log(softmax(LOGITS))).sum(-1), rtol=1e-5)


def test_positions_and_names_may_be_mixed_and_all_arguments_given_by_position():
    found = run(
        tf.nn.softmax_cross_entropy_with_logits(LOGITS, labels=LABELS),
        tf.nn.softmax_cross_entropy_with_logits(LOGITS.T, LABELS.T, 0, "loss"),
        tf.nn.softmax_cross_entropy_with_logits(_sentinel=None, labels=LABELS, logits=LOGITS),
    )
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    np.testing.assert_array_equal(found[2], found[0])


def test_sparse_and_logistic_cross_entropies_take_tensorflow_0s_order_too():
    sparse_old, sparse_new, old, new, targets = run(
        tf.nn.sparse_softmax_cross_entropy_with_logits(LOGITS, [2, 0]),
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[2, 0], logits=LOGITS),
        tf.nn.sigmoid_cross_entropy_with_logits(LOGITS, LABELS),
        tf.nn.sigmoid_cross_entropy_with_logits(labels=LABELS, logits=LOGITS),
        tf.nn.sigmoid_cross_entropy_with_logits(logits=LOGITS, targets=LABELS),
    )
    np.testing.assert_array_equal(sparse_old, sparse_new)
    np.testing.assert_array_equal(old, new)
    np.testing.assert_array_equal(targets, new)


@pytest.mark.parametrize(
    "function",
    [
        "softmax_cross_entropy_with_logits",
        "sparse_softmax_cross_entropy_with_logits",
        "sigmoid_cross_entropy_with_logits",
    ],
)
def test_an_argument_given_twice_or_not_at_all_is_refused(function):
    call = getattr(tf.nn, function)
    with pytest.raises(TypeError, match="multiple values for argument 'logits'"):
        call(LOGITS, logits=LOGITS, labels=LABELS)
    with pytest.raises(TypeError, match="multiple values for argument 'labels'"):
        call(LOGITS, LABELS, labels=LABELS)
    with pytest.raises(ValueError, match="Both `labels` and `logits` must be provided"):
        call(LOGITS)


def test_labels_get_a_gradient_from_the_second_version_only():
    labels, logits = tf.constant(LABELS), tf.constant(LOGITS)
    first = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    second = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)
    assert tf.gradients(first, labels) == [None]
    (gradient,) = run(tf.gradients(second, labels)[0])
    np.testing.assert_allclose(gradient, -np.log(softmax(LOGITS)), rtol=1e-5)


def test_half_precision_is_computed_in_single_precision_and_returned_as_half():
    logits = tf.constant(LOGITS * 1000, tf.float16)
    loss = tf.nn.softmax_cross_entropy_with_logits(labels=LABELS, logits=logits)
    sparse = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 0], logits=logits)
    assert loss.dtype == sparse.dtype == tf.float16
    assert np.isfinite(run(loss, sparse)).all()


def test_integer_labels_are_cast():
    (loss,) = run(tf.nn.softmax_cross_entropy_with_logits(LOGITS, [[0, 1, 0], [1, 0, 0]]))
    np.testing.assert_allclose(loss, -np.log(softmax(LOGITS)[[0, 1], [1, 0]]), rtol=1e-5)


def test_a_label_out_of_range_is_told_while_running():
    labels = tf.placeholder(tf.int64, [2])
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=LOGITS)
    with tf.Session() as session:
        for wrong in ([0, 3], [-1, 0]):
            with pytest.raises(tf.errors.InvalidArgumentError, match="outside the valid range"):
                session.run(loss, {labels: wrong})
        assert session.run(loss, {labels: [0, 1]}).shape == (2,)


def test_softmax_along_an_axis_of_an_unknown_rank():
    x = tf.placeholder(tf.float32)
    y = tf.nn.softmax(x, axis=0)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(y, {x: LOGITS}), softmax(LOGITS.T).T, rtol=1e-6)


def test_softmax_with_two_axes_or_a_missing_one_is_refused():
    with pytest.raises(ValueError, match="Cannot specify both 'dim' and 'axis'"):
        tf.nn.softmax(LOGITS, axis=0, dim=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be in the range"):
        tf.nn.log_softmax(LOGITS, axis=-3)
    with pytest.raises(ValueError, match="at least rank 1"):
        tf.nn.softmax(tf.constant(1.0))


# -- Dropout -------------------------------------------------------------------------------


def test_dropout_repeats_for_a_seed_and_scales_what_it_keeps(graph):
    tf.set_random_seed(1)
    x = tf.ones([100])
    one, two = run(tf.nn.dropout(x, 0.5, seed=3), tf.nn.dropout(x, rate=0.5, seed=3))
    np.testing.assert_array_equal(one, two)
    assert set(one) == {0.0, 2.0}


def test_a_none_in_the_noise_shape_is_the_size_of_the_input():
    y = tf.nn.dropout(tf.ones([20, 3]), 0.5, noise_shape=[None, 1], seed=1)
    (value,) = run(y)
    assert y.shape == (20, 3)
    assert all(len(set(row)) == 1 for row in value)
    x = tf.placeholder(tf.float32, [None, 3])
    z = tf.nn.dropout(x, 0.5, noise_shape=[None, 1], seed=1)
    with tf.Session() as session:
        assert all(len(set(row)) == 1 for row in session.run(z, {x: np.ones((20, 3))}))


def test_dropout_that_drops_nothing_is_its_input():
    x = tf.ones([3])
    assert tf.nn.dropout(x, 1.0) is x and tf.nn.dropout(x, rate=0) is x


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "`rate` must be provided"),
        ({"keep_prob": 0.5, "rate": 0.5}, "Cannot specify both"),
        ({"rate": -0.1}, "in the range"),
        ({"keep_prob": 0.0}, "in the range"),
    ],
)
def test_dropout_refuses_probabilities_that_make_no_sense(arguments, text):
    with pytest.raises(ValueError, match=text):
        tf.nn.dropout(tf.ones([3]), **arguments)


def test_dropout_of_integers_is_refused():
    with pytest.raises(ValueError, match="floating point"):
        tf.nn.dropout(tf.constant([1, 2]), 0.5)


# -- Biases and activations ----------------------------------------------------------------


def test_the_gradient_of_a_bias_gradient_spreads_over_the_channels():
    grad = tf.placeholder(tf.float32, [2, 3, 4, 5])
    bias = tf.raw_ops.BiasAddGrad(out_backprop=grad, data_format="NCHW")
    (second,) = tf.gradients(bias, grad, [tf.constant([1.0, 2.0, 3.0])])
    with tf.Session() as session:
        value = session.run(second, {grad: np.zeros((2, 3, 4, 5))})
    np.testing.assert_array_equal(value[1, :, 2, 3], [1, 2, 3])


def test_the_first_form_of_bias_add_has_a_gradient():
    x, b = tf.ones([2, 3, 4]), tf.ones([4])
    y = tf.nn.bias_add_v1(x, b)
    value, gradient = run(y, tf.gradients(y, b)[0])
    assert y.op.type == "BiasAddV1"
    np.testing.assert_array_equal(value, np.full((2, 3, 4), 2.0))
    np.testing.assert_array_equal(gradient, np.full(4, 6.0))


def test_leaky_relu_takes_a_slope_that_is_a_tensor():
    slope = tf.placeholder(tf.float32, [])
    y = tf.nn.leaky_relu([-2.0, 4.0], alpha=slope)
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(y, {slope: 0.5}), [-1.0, 4.0])


def test_softplus_and_its_gradient_do_not_overflow():
    x = tf.constant([1000.0, -1000.0])
    y = tf.nn.softplus(x)
    value, gradient = run(y, tf.gradients(y, x)[0])
    np.testing.assert_array_equal(value, [1000.0, 0.0])
    np.testing.assert_array_equal(gradient, [1.0, 0.0])


# -- Normalisation -------------------------------------------------------------------------


def test_local_response_of_many_channels_is_that_of_few(monkeypatch):
    from millrace.ops.nn import normalization

    x = np.random.RandomState(0).randn(1, 2, 2, 12).astype(np.float32)

    def compute():
        with tf.Graph().as_default():
            image = tf.constant(x)
            y = tf.nn.lrn(image, 2, 1.0, 0.5, 0.75)
            return run(y, tf.gradients(tf.square(y), image)[0])

    few = compute()
    monkeypatch.setattr(normalization, "_MOST_CHANNELS", 4)
    many = compute()
    np.testing.assert_allclose(few[0], many[0], rtol=1e-5)
    np.testing.assert_allclose(few[1], many[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_fused_batch_norm_is_the_plain_one_with_the_moments_of_the_batch(layout):
    x = np.random.RandomState(0).randn(3, 4, 5, 2).astype(np.float32)
    scale, offset = tf.constant([1.5, 0.5]), tf.constant([0.1, -0.2])
    plain_input = tf.constant(x)
    mean, variance = tf.nn.moments(plain_input, [0, 1, 2])
    plain = tf.nn.batch_normalization(plain_input, mean, variance, offset, scale, 0.001)
    image = tf.constant(x if layout == "NHWC" else np.moveaxis(x, 3, 1))
    fused, running_mean, running_variance = tf.nn.fused_batch_norm(
        image, scale, offset, data_format=layout
    )
    a = tf.gradients(tf.sin(plain), [scale, offset, plain_input])
    b = tf.gradients(tf.sin(fused), [scale, offset, image])
    values = run(plain, fused, mean, running_mean, variance, running_variance, *a, *b)
    last = (lambda v: v) if layout == "NHWC" else (lambda v: np.moveaxis(v, 1, 3))
    near = {"rtol": 1e-3, "atol": 1e-4}
    np.testing.assert_allclose(last(values[1]), values[0], **near)
    np.testing.assert_allclose(values[3], values[2], **near)
    np.testing.assert_allclose(values[5], values[4] * 60 / 59, **near)
    np.testing.assert_allclose(values[9], values[6], **near)
    np.testing.assert_allclose(values[10], values[7], **near)
    np.testing.assert_allclose(last(values[11]), values[8], **near)


def test_the_oldest_batch_norm_op_and_its_gradient_agree():
    x = tf.constant(np.random.RandomState(0).randn(2, 2, 2, 3).astype(np.float32))
    m, v, b, g = (tf.constant(c) for c in ([0.1, 0.2, 0.3], [1.0, 2.0, 3.0], [0.0] * 3, [2.0] * 3))
    attrs = {"variance_epsilon": 0.01, "scale_after_normalization": True}
    y = tf.raw_ops.BatchNormWithGlobalNormalization(t=x, m=m, v=v, beta=b, gamma=g, **attrs)
    automatic = tf.gradients(y, [x, m, v, b, g])
    named = tf.raw_ops.BatchNormWithGlobalNormalizationGrad(
        t=x, m=m, v=v, gamma=g, backprop=tf.ones_like(y), **attrs
    )
    values = run(*automatic, *named)
    for ours, theirs in zip(values[:5], values[5:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_moments_from_collected_sums_are_the_moments():
    x = tf.placeholder(tf.float32)
    sums = tf.nn.sufficient_statistics(x, [0], shift=0.5)
    mean, variance = tf.nn.normalize_moments(*sums)
    values = np.random.RandomState(0).randn(7, 3).astype(np.float32)
    with tf.Session() as session:
        mean, variance = session.run([mean, variance], {x: values})
    np.testing.assert_allclose(mean, values.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(variance, values.var(0), rtol=1e-4)


def test_weighted_moments_count_rows_as_often_as_their_weight():
    x = np.array([[1.0, 2.0], [3.0, 5.0]], np.float32)
    mean, variance = run(*tf.nn.weighted_moments(x, [0], [[1.0], [3.0]]))
    repeated = np.repeat(x, [1, 3], axis=0)
    np.testing.assert_allclose(mean, repeated.mean(0))
    np.testing.assert_allclose(variance, repeated.var(0), rtol=1e-6)
