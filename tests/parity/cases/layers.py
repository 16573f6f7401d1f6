"""`tf.layers`: every function and class, its names, collections, values, gradients and errors."""

import numpy as np
from parity_kit import scenario
from parity_kit.layer_story import data, ramp, tell

#: name, function of tf.layers, shape of the input, arguments
FUNCTIONS = [
    ("dense", "dense", (3, 4), {"units": 5}),
    ("dense_without_bias", "dense", (3, 4), {"units": 2, "use_bias": False}),
    ("dense_of_three_dimensions", "dense", (2, 3, 4), {"units": 5}),
    ("dense_named", "dense", (3, 4), {"units": 5, "name": "logits"}),
    ("conv1d", "conv1d", (2, 7, 3), {"filters": 4, "kernel_size": 3}),
    (
        "conv1d_same_strided",
        "conv1d",
        (2, 7, 3),
        dict(filters=4, kernel_size=3, strides=2, padding="same"),
    ),
    ("conv1d_dilated", "conv1d", (2, 9, 3), dict(filters=2, kernel_size=3, dilation_rate=2)),
    ("conv2d", "conv2d", (2, 5, 6, 3), {"filters": 4, "kernel_size": 3}),
    (
        "conv2d_same_strided",
        "conv2d",
        (2, 5, 6, 3),
        dict(filters=4, kernel_size=(3, 2), strides=(2, 1), padding="SAME"),
    ),
    (
        "conv2d_dilated",
        "conv2d",
        (2, 7, 7, 2),
        dict(filters=3, kernel_size=3, dilation_rate=(2, 2)),
    ),
    (
        "conv2d_without_bias",
        "conv2d",
        (2, 5, 5, 1),
        dict(filters=2, kernel_size=[2, 2], use_bias=False),
    ),
    ("conv3d", "conv3d", (1, 4, 4, 4, 2), {"filters": 3, "kernel_size": 2}),
    (
        "conv3d_strided",
        "conv3d",
        (1, 5, 4, 4, 2),
        dict(filters=2, kernel_size=2, strides=2, padding="same"),
    ),
    ("separable_conv1d", "separable_conv1d", (2, 7, 3), {"filters": 4, "kernel_size": 3}),
    (
        "separable_conv1d_multiplied",
        "separable_conv1d",
        (2, 8, 2),
        dict(filters=3, kernel_size=3, depth_multiplier=2, padding="same", strides=2),
    ),
    ("separable_conv2d", "separable_conv2d", (2, 5, 5, 2), {"filters": 4, "kernel_size": 3}),
    (
        "separable_conv2d_multiplied",
        "separable_conv2d",
        (1, 6, 6, 2),
        dict(filters=3, kernel_size=2, depth_multiplier=2, strides=(2, 2), padding="same"),
    ),
    ("conv2d_transpose", "conv2d_transpose", (2, 3, 4, 2), {"filters": 3, "kernel_size": 3}),
    (
        "conv2d_transpose_strided",
        "conv2d_transpose",
        (2, 3, 4, 2),
        dict(filters=3, kernel_size=3, strides=(2, 2), padding="same"),
    ),
    ("conv3d_transpose", "conv3d_transpose", (1, 2, 3, 2, 2), {"filters": 2, "kernel_size": 2}),
    ("max_pooling1d", "max_pooling1d", (2, 7, 3), {"pool_size": 2, "strides": 2}),
    ("max_pooling2d", "max_pooling2d", (2, 6, 5, 3), {"pool_size": 2, "strides": 2}),
    (
        "max_pooling2d_same",
        "max_pooling2d",
        (2, 6, 5, 3),
        dict(pool_size=(3, 2), strides=(2, 1), padding="same"),
    ),
    ("max_pooling3d", "max_pooling3d", (1, 4, 4, 4, 2), {"pool_size": 2, "strides": 2}),
    (
        "average_pooling1d",
        "average_pooling1d",
        (2, 7, 3),
        dict(pool_size=3, strides=2, padding="same"),
    ),
    ("average_pooling2d", "average_pooling2d", (2, 6, 5, 3), {"pool_size": 2, "strides": 1}),
    ("average_pooling3d", "average_pooling3d", (1, 4, 4, 4, 2), {"pool_size": 2, "strides": 2}),
    ("flatten", "flatten", (2, 3, 4), {}),
    ("flatten_channels_first", "flatten", (2, 3, 4, 2), {"data_format": "channels_first"}),
    ("dropout_in_inference", "dropout", (2, 3), {"rate": 0.5}),
    ("batch_normalization_in_training", "batch_normalization", (6, 3), {"training": True}),
    ("batch_normalization_in_inference", "batch_normalization", (6, 3), {"training": False}),
    (
        "batch_normalization_of_images",
        "batch_normalization",
        (3, 4, 4, 2),
        dict(training=True, momentum=0.9),
    ),
    (
        "batch_normalization_of_images_by_hand",
        "batch_normalization",
        (3, 4, 4, 2),
        dict(training=True, fused=False),
    ),
    ("batch_normalization_of_images_in_inference", "batch_normalization", (3, 4, 4, 2), {}),
    (
        "batch_normalization_without_scale_and_center",
        "batch_normalization",
        (6, 3),
        dict(training=True, center=False, scale=False),
    ),
    (
        "batch_normalization_of_images_without_scale",
        "batch_normalization",
        (3, 4, 4, 2),
        dict(training=True, scale=False, epsilon=1e-5),
    ),
    (
        "batch_normalization_renormalized",
        "batch_normalization",
        (6, 3),
        dict(training=True, renorm=True, renorm_clipping={"rmax": 1.5, "rmin": 0.5, "dmax": 0.3}),
    ),
    (
        "batch_normalization_of_another_axis",
        "batch_normalization",
        (3, 4, 2),
        dict(training=True, axis=1),
    ),
    (
        "batch_normalization_of_two_axes",
        "batch_normalization",
        (3, 4, 2),
        dict(training=True, axis=[1, 2]),
    ),
    (
        "batch_normalization_in_virtual_batches",
        "batch_normalization",
        (6, 3),
        dict(training=True, virtual_batch_size=3),
    ),
]

_KERNELS = {
    "dense": ["kernel"], "conv1d": ["kernel"], "conv2d": ["kernel"], "conv3d": ["kernel"],
    "conv2d_transpose": ["kernel"], "conv3d_transpose": ["kernel"],
    "separable_conv1d": ["depthwise", "pointwise"], "separable_conv2d": ["depthwise", "pointwise"],
    "batch_normalization": ["gamma", "beta"],
}  # fmt: skip

for _name, _function, _shape, _arguments in FUNCTIONS:

    @scenario(name=_name)
    def layer(run, tf, function=_function, shape=_shape, arguments=_arguments):
        given = {f"{k}_initializer": ramp(tf, 0.2, 1.0) for k in _KERNELS.get(function, [])}
        if arguments.get("use_bias", True) and "kernel" in _KERNELS.get(function, []):
            given["bias_initializer"] = ramp(tf)
        tell(run, tf, lambda x: getattr(tf.layers, function)(x, **{**given, **arguments}), [shape])


@scenario
def regularizers_and_activations(run, tf):
    def network(x):
        x = tf.layers.dense(
            x, 4, activation=tf.nn.relu, kernel_initializer=ramp(tf),
            kernel_regularizer=lambda w: 0.1 * tf.reduce_sum(tf.square(w)),
            bias_regularizer=lambda w: 0.2 * tf.reduce_sum(tf.abs(w)), name="first",
        )  # fmt: skip
        return tf.layers.dense(
            x, 2, activation=tf.tanh, kernel_initializer=ramp(tf),
            activity_regularizer=lambda y: tf.reduce_sum(y), name="second",
        )  # fmt: skip

    tell(run, tf, network, [(3, 4)])


@scenario
def names_count_in_their_scope(run, tf):
    x = tf.placeholder(tf.float32, [None, 3])
    outputs = [tf.layers.dense(x, 2) for _ in range(3)]
    with tf.variable_scope("tower"):
        outputs += [tf.layers.dense(x, 2) for _ in range(2)]
        with tf.variable_scope("inner"):
            outputs.append(tf.layers.dense(x, 2))
    with tf.variable_scope("tower", reuse=True):
        outputs.append(tf.layers.dense(x, 2, name="dense"))
    with tf.name_scope("n"):
        outputs.append(tf.layers.dense(x, 2))
    run.note([o.name for o in outputs])
    run.note([v.name for v in tf.global_variables()])


@scenario
def a_name_twice_needs_reuse(run, tf):
    x = tf.placeholder(tf.float32, [None, 3])
    tf.layers.dense(x, 2, name="shared")
    run.raises("ValueError", lambda: tf.layers.dense(x, 2, name="shared"), words="already exists")
    again = tf.layers.dense(x, 2, name="shared", reuse=True)
    run.note(again.name)
    run.raises("ValueError", lambda: tf.layers.dense(x, 2, name="other", reuse=True))
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        run.note(tf.layers.dense(x, 2, name="shared").name)
        run.note(tf.layers.dense(x, 2, name="fresh").name)
    run.note([v.name for v in tf.global_variables()])


@scenario
def an_object_is_called_twice(run, tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    layer = tf.layers.Dense(2, kernel_initializer=ramp(tf))
    run.note([layer.name, layer.built])
    first, second = layer(x), layer(x * 2)
    run.note([first.name, second.name, layer.name, layer.scope_name, layer.built])
    run.note([v.name for v in layer.variables])
    run.note([v.name for v in layer.trainable_weights])
    run.note([layer.count_params()])
    run.initialize()
    run([first, second], {x: data(2, 3)})


@scenario
def an_object_in_a_scope(run, tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    layer = tf.layers.Dense(2, name="made_here")
    with tf.variable_scope("there"):
        run.note(layer(x).name)
    with tf.variable_scope("elsewhere"):
        run.note(layer(x).name)
    run.note([v.name for v in tf.global_variables()])


@scenario
def own_layer_with_variables_and_updates(run, tf):
    class Scale(tf.layers.Layer):
        def build(self, input_shape):
            self.scale = self.add_variable(
                "scale", [int(input_shape[-1])], initializer=tf.constant_initializer(2.0),
                regularizer=lambda w: tf.reduce_sum(w),
            )  # fmt: skip
            self.count = self.add_weight(
                "count", [], initializer=tf.zeros_initializer(), trainable=False
            )
            super().build(input_shape)

        def call(self, inputs):
            self.add_update(tf.assign_add(self.count, 1.0))
            return inputs * self.scale

    tell(run, tf, Scale(), [(2, 3)])


@scenario
def not_trainable(run, tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    layer = tf.layers.Dense(2, trainable=False)
    layer(x)
    run.note([v.name for v in tf.trainable_variables()])
    run.note([len(layer.trainable_weights), len(layer.non_trainable_weights)])


@scenario
def training_that_is_fed(run, tf):
    training = tf.placeholder(tf.bool, [], name="training")
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    y = tf.layers.batch_normalization(x, training=training, momentum=0.5)
    images = tf.placeholder(tf.float32, [None, 2, 2, 3], name="images")
    z = tf.layers.batch_normalization(images, training=training, momentum=0.5, name="fused")
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    run.note(len(updates))
    run.initialize()
    averages = [v for v in tf.global_variables() if v not in tf.trainable_variables()]
    for value in (True, False, True):
        feed = {x: data(4, 3), images: data(2, 2, 2, 3), training: value}
        run([y, z], feed)
        run.value(updates, feed)
        run(averages)


@scenario
def dropout_that_is_fed(run, tf):
    training = tf.placeholder_with_default(False, [], name="training")
    x = tf.placeholder(tf.float32, [None, 400], name="x")
    y = tf.layers.dropout(x, 0.25, training=training)
    ones = np.ones([1, 400], np.float32)
    run(y, {x: ones})
    kept = run.value(y, {x: ones, training: True})
    assert set(np.unique(kept.round(4))) == {np.float32(0.0), np.float32(1.3333)}
    assert 200 < (kept > 0).sum() < 390


@scenario
def a_scope_cuts_and_regularizes(run, tf):
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    with tf.variable_scope(
        "cut",
        partitioner=tf.fixed_size_partitioner(2),
        regularizer=lambda w: tf.reduce_sum(w),
        initializer=tf.constant_initializer(0.5),
    ):
        y = tf.layers.dense(x, 3)
        z = tf.layers.batch_normalization(y, training=True)
    run.note([v.name for v in tf.global_variables()])
    run.note([loss.name for loss in tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)])
    run.initialize()
    run([y, z], {x: data(3, 4)})


@scenario
def wrong_inputs(run, tf):
    x = tf.placeholder(tf.float32, [None, 3])
    layer = tf.layers.Dense(2)
    layer(x)
    wide = tf.placeholder(tf.float32, [None, 4])
    run.raises("ValueError", lambda: layer(wide), words="incompatible with the layer")
    flat = tf.placeholder(tf.float32, [None])
    run.raises("ValueError", lambda: tf.layers.dense(flat, 2), words="incompatible with the layer")
    run.raises("ValueError", lambda: tf.layers.conv2d(x, 2, 3), words="incompatible with the layer")
    unknown = tf.placeholder(tf.float32, [None, None])
    run.raises("ValueError", lambda: tf.layers.dense(unknown, 2), words="should be defined")
    image = tf.placeholder(tf.float32, [None, 5, 5, 3])
    run.raises("ValueError", lambda: tf.layers.conv2d(image, 2, (3, 3, 3)))
    run.raises("ValueError", lambda: tf.layers.conv2d(image, 2, 3, padding="all"))
    run.raises("ValueError", lambda: tf.layers.max_pooling2d(image, 2, None))
    run.raises("ValueError", lambda: tf.layers.batch_normalization(image, axis=7))
