"""`tf.keras` in graphs: layers, losses, optimizers, models."""

import numpy as np
from parity_kit import scenario
from parity_kit.layer_story import data, ramp, tell

#: name, layer of tf.keras.layers, shapes of the inputs, arguments
LAYERS = [
    ("dense", "Dense", [(3, 4)], {"units": 5, "activation": "tanh"}),
    ("conv1d_causal", "Conv1D", [(2, 6, 3)], dict(filters=2, kernel_size=3, padding="causal")),
    ("conv2d", "Conv2D", [(2, 5, 5, 2)], dict(filters=3, kernel_size=3, activation="relu")),
    ("depthwise_conv2d", "DepthwiseConv2D", [(2, 5, 5, 2)], {"kernel_size": 3}),
    (
        "conv2d_transpose",
        "Conv2DTranspose",
        [(1, 3, 3, 2)],
        dict(filters=2, kernel_size=2, strides=2),
    ),
    ("layer_normalization", "LayerNormalization", [(3, 4)], {}),
    ("flatten", "Flatten", [(2, 3, 4)], {}),
    ("reshape", "Reshape", [(2, 6)], {"target_shape": (3, -1)}),
    ("permute", "Permute", [(2, 3, 4)], {"dims": (2, 1)}),
    ("repeat_vector", "RepeatVector", [(2, 3)], {"n": 2}),
    ("max_pooling2d", "MaxPooling2D", [(2, 4, 4, 2)], {}),
    ("global_average_pooling2d", "GlobalAveragePooling2D", [(2, 4, 4, 2)], {}),
    ("global_max_pooling1d", "GlobalMaxPooling1D", [(2, 4, 3)], {}),
    ("zero_padding2d", "ZeroPadding2D", [(1, 2, 3, 1)], {"padding": ((1, 0), (2, 1))}),
    ("cropping2d", "Cropping2D", [(1, 5, 6, 1)], {"cropping": ((1, 0), (2, 1))}),
    ("up_sampling2d", "UpSampling2D", [(1, 2, 3, 1)], {"size": (2, 3)}),
    ("leaky_relu", "LeakyReLU", [(2, 3)], {"alpha": 0.2}),
    ("prelu", "PReLU", [(2, 3)], {}),
    ("elu", "ELU", [(2, 3)], {"alpha": 0.5}),
    ("softmax", "Softmax", [(2, 3)], {}),
    ("relu_capped", "ReLU", [(2, 3)], dict(max_value=1.0, negative_slope=0.1)),
    ("simple_rnn", "SimpleRNN", [(2, 4, 3)], {"units": 2}),
    ("gru", "GRU", [(2, 4, 3)], {"units": 2}),
    ("gru_reset_after", "GRU", [(2, 4, 3)], {"units": 2, "reset_after": True}),
    ("lstm", "LSTM", [(2, 4, 3)], {"units": 2}),
    ("lstm_sequences", "LSTM", [(2, 4, 3)], {"units": 2, "return_sequences": True}),
    ("lstm_backwards", "LSTM", [(2, 4, 3)], {"units": 2, "go_backwards": True}),
]

_INITIALIZERS = {
    "Dense": ["kernel", "bias"], "Conv1D": ["kernel"], "Conv2D": ["kernel"],
    "Conv2DTranspose": ["kernel"], "DepthwiseConv2D": ["depthwise"],
    "LayerNormalization": ["gamma", "beta"], "SimpleRNN": ["kernel", "recurrent"],
    "GRU": ["kernel", "recurrent", "bias"], "LSTM": ["kernel", "recurrent"], "PReLU": ["alpha"],
}  # fmt: skip

for _name, _layer, _shapes, _arguments in LAYERS:

    @scenario(name=_name)
    def layer(run, tf, layer=_layer, shapes=_shapes, arguments=_arguments):
        given = {f"{k}_initializer": ramp(tf, 0.1, 0.9) for k in _INITIALIZERS.get(layer, [])}
        made = getattr(tf.keras.layers, layer)(**{**given, **arguments})
        tell(run, tf, made, shapes, names=False)


for _merge in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"):

    @scenario(name=f"merge_{_merge.lower()}")
    def merge(run, tf, kind=_merge):
        made = getattr(tf.keras.layers, kind)()
        tell(run, tf, lambda a, b: made([a, b]), [(2, 3), (2, 3)], names=False)


@scenario
def dot_of_vectors_and_sequences(run, tf):
    layers = tf.keras.layers
    tell(run, tf, lambda a, b: layers.Dot(axes=1)([a, b]), [(2, 3), (2, 3)], names=False)


@scenario
def attention_over_values(run, tf):
    made = tf.keras.layers.Attention()
    tell(run, tf, lambda q, v: made([q, v]), [(2, 3, 4), (2, 5, 4)], names=False)


@scenario
def bidirectional_lstm(run, tf):
    inner = tf.keras.layers.LSTM(
        2, return_sequences=True, kernel_initializer="ones", recurrent_initializer="ones"
    )
    tell(run, tf, tf.keras.layers.Bidirectional(inner), [(2, 4, 3)], names=False)


@scenario
def time_distributed_dense(run, tf):
    inner = tf.keras.layers.Dense(2, kernel_initializer="ones")
    tell(run, tf, tf.keras.layers.TimeDistributed(inner), [(2, 4, 3)], names=False)


@scenario
def a_mask_ends_sequences(run, tf):
    ids = tf.placeholder(tf.int32, [None, 4], name="ids")
    embed = tf.keras.layers.Embedding(5, 3, embeddings_initializer="ones", mask_zero=True)
    lstm = tf.keras.layers.LSTM(2, kernel_initializer="ones", recurrent_initializer="ones")
    y = lstm(embed(ids))
    run.initialize()
    run(y, {ids: [[1, 2, 0, 0], [1, 2, 3, 4]]})


@scenario
def names_and_shared_variables(run, tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    layer = tf.keras.layers.Dense(2)
    outputs = [layer(x), layer(x), tf.keras.layers.Dense(2, name="named")(x)]
    with tf.name_scope("scope"):
        outputs.append(tf.keras.layers.Dense(2)(x))
    with tf.variable_scope("variables"):
        outputs.append(tf.keras.layers.Dense(2)(x))
    run.note([o.name for o in outputs])
    run.note([v.name for v in tf.global_variables()])
    run.note([layer.name, layer.count_params(), len(layer.trainable_weights)])


@scenario
def own_layer(run, tf):
    class Scale(tf.keras.layers.Layer):
        def __init__(self, factor, **kwargs):
            super().__init__(**kwargs)
            self.factor = factor
            self.inner = tf.keras.layers.Dense(2, kernel_initializer="ones")

        def build(self, input_shape):
            self.w = self.add_weight(
                "w", shape=[int(input_shape[-1])], initializer="ones", regularizer="l2"
            )
            super().build(input_shape)

        def call(self, inputs):
            return self.inner(inputs * self.w * self.factor)

        def get_config(self):
            return {**super().get_config(), "factor": self.factor}

    layer = Scale(3.0)
    tell(run, tf, layer, [(2, 3)], names=False)
    run.note([v.name for v in layer.weights])
    run.note(len(layer.losses))
    again = Scale.from_config(layer.get_config())
    run.note([again.factor, again.name])


@scenario
def a_functional_model_is_called_again(run, tf):
    keras = tf.keras
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    shared = keras.layers.Dense(2, kernel_initializer=ramp(tf), name="shared")
    joined = keras.layers.concatenate([shared(a), shared(b)])
    model = keras.Model([a, b], keras.layers.Dense(1, kernel_initializer=ramp(tf))(joined))
    run.note([layer.name for layer in model.layers])
    run.note([model.input_names, model.output_names, model.count_params()])
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    y = model([x, x * 2])
    run.initialize()
    run([model.outputs[0]], {a: data(2, 3), b: data(2, 3)})
    run(y, {x: data(2, 3)})


_PROBABILITIES = np.array([[0.1, 0.7, 0.2], [0.5, 0.25, 0.25]], np.float32)
_LABELS = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], np.float32)

for _loss in (
    "mean_squared_error", "mean_absolute_error", "mean_absolute_percentage_error",
    "mean_squared_logarithmic_error", "hinge", "squared_hinge", "categorical_hinge", "logcosh",
    "categorical_crossentropy", "binary_crossentropy", "kullback_leibler_divergence", "poisson",
    "cosine_similarity",
):  # fmt: skip

    @scenario(name=f"loss_{_loss}")
    def loss(run, tf, name=_loss):
        y = tf.placeholder(tf.float32, [None, 3], name="y")
        p = tf.placeholder(tf.float32, [None, 3], name="p")
        value = getattr(tf.keras.losses, name)(y, p)
        run([value, *tf.gradients(tf.reduce_sum(value), [p])], {y: _LABELS, p: _PROBABILITIES})


@scenario
def losses_are_weighted_and_reduced(run, tf):
    y, p = tf.constant(_LABELS), tf.constant(_PROBABILITIES)
    losses = tf.keras.losses
    for reduction in ("none", "sum", "sum_over_batch_size"):
        loss = losses.CategoricalCrossentropy(from_logits=True, reduction=reduction)
        run([loss(y, p), loss(y, p, sample_weight=tf.constant([1.0, 3.0]))])
    run(losses.SparseCategoricalCrossentropy()(tf.constant([1, 2]), p))
    run(losses.CategoricalCrossentropy(label_smoothing=0.1)(y, p))


for _optimizer, _options in {
    "SGD": {"learning_rate": 0.1},
    "SGD_momentum": {"learning_rate": 0.1, "momentum": 0.9},
    "SGD_nesterov": {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True},
    "RMSprop": {"learning_rate": 0.01},
    "Adagrad": {"learning_rate": 0.1},
    "Adadelta": {"learning_rate": 1.0},
    "Adam": {"learning_rate": 0.01},
    "Adam_amsgrad": {"learning_rate": 0.01, "amsgrad": True},
    "Adamax": {"learning_rate": 0.01},
}.items():

    @scenario(name=f"optimizer_{_optimizer.lower()}", replay="Its variables have other names.")
    def optimizer(run, tf, name=_optimizer, options=_options):
        v = tf.Variable([1.0, -2.0, 3.0], use_resource=True, dtype=tf.float32)
        loss = tf.reduce_sum(tf.square(v - [0.5, 0.5, 0.5]) * [1.0, 2.0, 0.5])
        made = getattr(tf.keras.optimizers, name.partition("_")[0])(**options)
        updates = made.get_updates(loss, [v])
        run.initialize()
        for _ in range(4):
            run.value(updates)
            run(v)
