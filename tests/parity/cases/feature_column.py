"""Feature columns: what they make of a batch, their variables, gradients, parse specs, errors.

Recorded from TensorFlow 2.15, the last release with feature columns of the first generation's
functions and the Estimator (README.md says how).
"""

import numpy as np
from parity_kit import scenario
from parity_kit.layer_story import ramp


def batch(tf):
    """Features of three examples: dense and sparse, texts and numbers, with gaps."""

    def sparse(values, dtype):
        where = [[0, 0], [0, 1], [2, 0]]
        return tf.SparseTensor(where, tf.constant(values, dtype), [3, 2])

    return {
        "age": tf.constant([[17.0, 0.5], [40.0, -1.5], [66.0, 2.0]]),
        "hours": tf.constant([4, 20, 80]),
        "city": sparse(["rome", "oslo", "bergen"], tf.string),
        "job": tf.constant([["smith"], [""], ["a longer name of a profession than others"]]),
        "tags": sparse([3, 700, 12], tf.int64),
        "level": tf.constant([[1], [9], [-1]]),
        "ids": sparse([1, 2, 4], tf.int64),
        "weights": sparse([0.5, 2.0, 1.5], tf.float32),
        "counts": sparse([2, 1, 3], tf.int64),
        "clicks": tf.SparseTensor([[0, 0], [0, 1], [2, 0], [2, 2]], [0, 3, 2, 1], [3, 4]),
        "prices": tf.SparseTensor([[0, 0], [0, 1], [2, 0], [2, 2]], [1.0, 2.0, 3.0, 4.0], [3, 4]),
    }


def _list(fc, **options):
    return fc.categorical_column_with_vocabulary_list("city", ["oslo", "rome", "bonn"], **options)


def _ages(fc):
    return fc.bucketized_column(fc.numeric_column("age", shape=2), [0.0, 18.0, 50.0])


def _ids(fc):
    return fc.categorical_column_with_identity("ids", 6)


#: Categorical columns, by name.
CATEGORICAL = {
    "bucketized": _ages,
    "hash_bucket": lambda fc, tf: fc.categorical_column_with_hash_bucket("city", 11),
    "hash_bucket_of_dense": lambda fc, tf: fc.categorical_column_with_hash_bucket("job", 50),
    "hash_bucket_of_integers": lambda fc, tf: fc.categorical_column_with_hash_bucket(
        "tags", 13, dtype=tf.int64
    ),
    "vocabulary_list": lambda fc, tf: _list(fc),
    "vocabulary_list_default": lambda fc, tf: _list(fc, default_value=2),
    "vocabulary_list_oov": lambda fc, tf: _list(fc, num_oov_buckets=3),
    "vocabulary_list_of_integers": lambda fc, tf: fc.categorical_column_with_vocabulary_list(
        "tags", [12, 700], num_oov_buckets=1
    ),
    "identity": lambda fc, tf: _ids(fc),
    "identity_default": lambda fc, tf: fc.categorical_column_with_identity("level", 4, 0),
    "weighted": lambda fc, tf: fc.weighted_categorical_column(_ids(fc), "weights"),
    "weighted_by_integers": lambda fc, tf: fc.weighted_categorical_column(
        _ids(fc), "counts", dtype=tf.int64
    ),
    "crossed": lambda fc, tf: fc.crossed_column(["city", "job"], 17),
    "crossed_with_salt": lambda fc, tf: fc.crossed_column(["city", "job"], 10**9, hash_key=7),
    "crossed_columns": lambda fc, tf: fc.crossed_column(["city", _ages(fc), _ids(fc)], 10**6),
    "crossed_twice": lambda fc, tf: fc.crossed_column(
        [fc.crossed_column(["city", "job"], 5), _ids(fc)], 10**5
    ),
}
#: The ids, and the models of several columns, are run from TensorFlow's own graphs too.
_REPLAY = "values were loaded by hand, which is not in the graph's story"
#: Too many ids for a table.
_LARGE = ("crossed_with_salt", "crossed_columns", "crossed_twice")


def _made(make, tf):
    return make(tf.feature_column, tf) if make.__code__.co_argcount == 2 else make(
        tf.feature_column
    )  # fmt: skip


def _learn(run, tf, output):
    """Values, gradients and names of a model of columns whose variables are ramps."""
    run.note([v.name for v in tf.global_variables()])
    run.note([v.name for v in tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)])
    run.note(output.shape.as_list()[1:])
    run.initialize()
    for i, variable in enumerate(tf.global_variables()):
        size = int(np.prod(variable.shape.as_list()))
        values = np.linspace(-0.5, 1.0 + i, size, dtype=np.float32)
        variable.load(values.reshape(variable.shape.as_list()), run.session)
    loss = tf.reduce_sum(tf.square(output) * 0.1)
    gradients = tf.gradients(loss, tf.trainable_variables()) if tf.trainable_variables() else []
    run([output, *map(tf.convert_to_tensor, gradients)])


for _name, _make in CATEGORICAL.items():

    @scenario(name=f"ids_of_{_name}")
    def ids(run, tf, make=_make):
        column = _made(make, tf)
        run.note(column.name)
        run.note(sorted(tf.feature_column.make_parse_example_spec([column])))
        features = batch(tf)
        builder = _builder(tf, features)
        pair = column._get_sparse_tensors(builder)
        run.initialize()
        run([pair.id_tensor] + [pair.weight_tensor] * (pair.weight_tensor is not None))

    if _name in _LARGE:
        continue

    @scenario(name=f"linear_{_name}", replay=_REPLAY)
    def linear(run, tf, make=_make):
        _learn(run, tf, tf.feature_column.linear_model(batch(tf), [_made(make, tf)], units=2))

    @scenario(name=f"indicator_{_name}", replay=_REPLAY)
    def indicator(run, tf, make=_make):
        column = tf.feature_column.indicator_column(_made(make, tf))
        _learn(run, tf, tf.feature_column.input_layer(batch(tf), [column]))

    @scenario(name=f"embedding_{_name}", replay=_REPLAY)
    def embedding(run, tf, make=_make):
        column = tf.feature_column.embedding_column(
            _made(make, tf), 3, initializer=tf.zeros_initializer()
        )
        _learn(run, tf, tf.feature_column.input_layer(batch(tf), [column]))


def _builder(tf, features):
    if hasattr(tf, "__internal__") or "tensorflow" in tf.__name__:
        from tensorflow.python.feature_column.feature_column import _LazyBuilder
    else:
        from millrace.feature_column.transformation import _LazyBuilder
    return _LazyBuilder(features)


for _combiner in ("sum", "mean", "sqrtn"):

    @scenario(name=f"combiner_{_combiner}", replay=_REPLAY)
    def combiner(run, tf, combiner=_combiner):
        fc = tf.feature_column
        column = fc.weighted_categorical_column(_ids(fc), "weights")
        embedding = fc.embedding_column(
            column, 2, combiner, initializer=tf.ones_initializer(), max_norm=1.0
        )
        _learn(run, tf, fc.input_layer(batch(tf), [embedding]))

    @scenario(name=f"sparse_combiner_{_combiner}", replay=_REPLAY)
    def sparse_combiner(run, tf, combiner=_combiner):
        fc = tf.feature_column
        columns = [fc.weighted_categorical_column(_ids(fc), "weights"), _list(fc)]
        _learn(run, tf, fc.linear_model(batch(tf), columns, sparse_combiner=combiner))


@scenario
def numeric(run, tf):
    fc = tf.feature_column
    columns = [
        fc.numeric_column("age", shape=(2,), normalizer_fn=lambda x: (x - 30.0) / 10.0),
        fc.numeric_column("hours", dtype=tf.int64),
    ]
    outputs = {}
    run(fc.input_layer(batch(tf), columns, cols_to_output_tensors=outputs))
    run([outputs[column] for column in columns])


@scenario(replay=_REPLAY)
def all_in_one_model(run, tf):
    fc = tf.feature_column
    wide = [_ages(fc), _list(fc), fc.crossed_column(["city", _ages(fc)], 9)]
    deep = [
        fc.numeric_column("hours", dtype=tf.int64),
        fc.embedding_column(_list(fc), 2, initializer=tf.ones_initializer()),
        fc.indicator_column(_ids(fc)),
    ]
    features = batch(tf)
    found = {}
    with tf.variable_scope("wide"):
        left = fc.linear_model(features, wide, cols_to_vars=found)
    run.note({str(getattr(k, "name", k)): [v.name for v in vs] for k, vs in found.items()})
    deep_found = {}
    with tf.variable_scope("deep"):
        right = fc.input_layer(features, deep, cols_to_vars=deep_found)
    run.note({k.name: [v.name for v in vs] for k, vs in deep_found.items()})
    _learn(run, tf, left + tf.reduce_sum(right, axis=1, keepdims=True))


@scenario(replay=_REPLAY)
def partitioned_variables(run, tf):
    fc = tf.feature_column
    parts = tf.fixed_size_partitioner(2)
    found = {}
    with tf.variable_scope("parts", partitioner=parts):
        features = batch(tf)
        linear = fc.linear_model(features, [_list(fc), _ids(fc)], units=2, cols_to_vars=found)
        deep = fc.input_layer(
            features, [fc.embedding_column(_ids(fc), 4, initializer=tf.ones_initializer())]
        )
    run.note({str(getattr(k, "name", k)): [v.name for v in vs] for k, vs in found.items()})
    _learn(run, tf, tf.concat([linear, deep], 1))


@scenario(replay=_REPLAY)
def two_models_have_names_of_their_own(run, tf):
    fc = tf.feature_column
    features = batch(tf)
    column = fc.embedding_column(_ids(fc), 2, initializer=tf.ones_initializer())
    one, two = fc.input_layer(features, [column]), fc.input_layer(features, [column])
    three, four = fc.linear_model(features, [_ids(fc)]), fc.linear_model(features, [_ids(fc)])
    _learn(run, tf, tf.concat([one, two, three, four], 1))


@scenario(replay=_REPLAY)
def shared_embedding_columns(run, tf):
    fc = tf.feature_column
    columns = fc.shared_embedding_columns(
        [_ids(fc), fc.categorical_column_with_identity("clicks", 6)],
        2,
        initializer=tf.ones_initializer(),
    )
    run.note([column.name for column in columns])
    output = fc.input_layer(batch(tf), columns)
    run.note([v.name for v in tf.get_collection("clicks_ids_shared_embedding")])
    _learn(run, tf, output)


@scenario(replay=_REPLAY)
def frozen_embedding(run, tf):
    fc = tf.feature_column
    column = fc.embedding_column(_ids(fc), 2, initializer=tf.ones_initializer(), trainable=False)
    output = fc.input_layer(batch(tf), [column])
    run.note([v.name for v in tf.trainable_variables()])
    _learn(run, tf, output)


@scenario(replay=_REPLAY)
def unsafe_lookup(run, tf):
    fc = tf.feature_column
    column = fc.embedding_column(
        fc.categorical_column_with_identity("clicks", 5),
        2,
        initializer=tf.ones_initializer(),
        use_safe_embedding_lookup=False,
    )
    _learn(run, tf, fc.input_layer(batch(tf), [column]))


@scenario
def dense_features(run, tf):
    fc = tf.feature_column
    layer = tf.keras.layers.DenseFeatures(
        [
            fc.numeric_column("age", shape=2),
            fc.embedding_column(_list(fc), 2, initializer=ramp(tf, -1.0, 1.0)),
            fc.indicator_column(_ids(fc)),
        ],
        name="columns",
    )
    output = layer(batch(tf))
    run.note([v.name for v in layer.trainable_weights])
    run.note(output.shape.as_list())
    run.initialize()
    run(output)


@scenario
def sequence_features(run, tf):
    fc = tf.feature_column
    layer = tf.keras.experimental.SequenceFeatures(
        [
            fc.sequence_numeric_column("prices"),
            fc.embedding_column(
                fc.sequence_categorical_column_with_identity("clicks", 5),
                2,
                initializer=ramp(tf, -1.0, 1.0),
            ),
            fc.indicator_column(fc.sequence_categorical_column_with_identity("clicks", 5)),
        ],
        name="steps",
    )
    output, lengths = layer(batch(tf))
    run.note([v.name for v in layer.trainable_weights])
    run.initialize()
    run([output, lengths])


@scenario(replay=_REPLAY)
def examples_are_parsed(run, tf):
    fc = tf.feature_column
    columns = [
        fc.numeric_column("x", shape=2, default_value=[1.0, 2.0]),
        fc.embedding_column(
            fc.categorical_column_with_vocabulary_list("city", ["oslo", "rome"]),
            2,
            initializer=tf.ones_initializer(),
        ),
        fc.indicator_column(
            fc.weighted_categorical_column(fc.categorical_column_with_identity("id", 3), "w")
        ),
        fc.indicator_column(fc.crossed_column(["city", "street"], 4)),
    ]
    spec = fc.make_parse_example_spec(columns)
    run.note({key: type(value).__name__ for key, value in sorted(spec.items())})

    def example(**features):
        kinds = {str: "bytes_list", int: "int64_list", float: "float_list"}
        message = tf.train.Example()
        for key, values in features.items():
            plain = [v.encode() if isinstance(v, str) else v for v in values]
            getattr(message.features.feature[key], kinds[type(values[0])]).value.extend(plain)
        return message.SerializeToString()

    texts = tf.constant(
        [
            example(x=[0.5, 1.5], city=["rome"], id=[1, 2], w=[0.5, 0.25], street=["a", "b"]),
            example(city=["oslo", "rome"], street=["c"]),
        ]
    )
    features = tf.parse_example(texts, spec)
    _learn(run, tf, fc.input_layer(features, columns))


#: What is wrong, the error, words of its message.
MISTAKES = [
    ("missing", "ValueError", "Feature x is not in features dictionary",
     lambda fc, tf: fc.input_layer({"y": tf.zeros([2, 1])}, [fc.numeric_column("x")])),
    ("scalar", "ValueError", "cannot have rank 0",
     lambda fc, tf: fc.input_layer({"x": tf.constant(1.0)}, [fc.numeric_column("x")])),
    ("not_dense", "ValueError", "must be a _DenseColumn",
     lambda fc, tf: fc.input_layer(batch(tf), [_ids(fc)])),
    ("no_columns", "ValueError", "feature_columns must not be empty",
     lambda fc, tf: fc.input_layer(batch(tf), [])),
    ("a_dict", "ValueError", "found dict",
     lambda fc, tf: fc.input_layer(batch(tf), {"a": fc.numeric_column("age")})),
    ("same_name", "ValueError", "Duplicate feature column name",
     lambda fc, tf: fc.linear_model(batch(tf), [_ids(fc), _ids(fc)])),
    ("no_column", "ValueError", "must be a _FeatureColumn",
     lambda fc, tf: fc.linear_model(batch(tf), ["ids"])),
    ("sparse_number", "ValueError", "SparseTensor is not supported",
     lambda fc, tf: fc.input_layer(batch(tf), [fc.numeric_column("weights")])),
    ("wrong_type", "ValueError", "Column dtype and SparseTensors dtype must be compatible",
     lambda fc, tf: fc.linear_model(
         batch(tf), [fc.categorical_column_with_hash_bucket("tags", 5)])),
    ("batch_sizes", "ValueError", "Batch size (first dimension) of each feature must be same",
     lambda fc, tf: fc.input_layer(
         {"a": tf.zeros([2, 1]), "b": tf.zeros([3, 1])},
         [fc.numeric_column("a"), fc.numeric_column("b")])),
    ("no_buckets", "ValueError", "hash_bucket_size must be at least 1",
     lambda fc, tf: fc.categorical_column_with_hash_bucket("a", 0)),
    ("boundaries", "ValueError", "boundaries must be a sorted list",
     lambda fc, tf: fc.bucketized_column(fc.numeric_column("a"), [2.0, 1.0])),
    ("dimension", "ValueError", "Invalid dimension 0",
     lambda fc, tf: fc.embedding_column(_ids(fc), 0)),
    ("half_a_checkpoint", "ValueError", "Must specify both `ckpt_to_load_from`",
     lambda fc, tf: fc.embedding_column(_ids(fc), 2, ckpt_to_load_from="there")),
    ("twice_in_vocabulary", "ValueError", "Duplicate keys in vocabulary_list",
     lambda fc, tf: fc.categorical_column_with_vocabulary_list("a", ["x", "x"])),
    ("no_vocabulary_file", "ValueError", "does not exist",
     lambda fc, tf: fc.categorical_column_with_vocabulary_file("a", "/no/such/file")),
    ("cross_of_hashes", "ValueError", "is not supported for crossing",
     lambda fc, tf: fc.crossed_column(
         [fc.categorical_column_with_hash_bucket("a", 5), "b"], 5)),
    ("cross_of_one", "ValueError", "keys must be a list with length > 1",
     lambda fc, tf: fc.crossed_column(["a"], 5)),
    ("sequence_in_input_layer", "ValueError", "must not be of type",
     lambda fc, tf: fc.input_layer(batch(tf), [fc.embedding_column(
         fc.sequence_categorical_column_with_identity("clicks", 5), 2)])),
    ("weights_of_wrong_type", "ValueError", "Bad dtype",
     lambda fc, tf: fc.linear_model(
         batch(tf), [fc.weighted_categorical_column(_ids(fc), "counts")])),
    ("identity_of_texts", "ValueError", "Invalid input, not integer",
     lambda fc, tf: fc.linear_model(
         batch(tf), [fc.categorical_column_with_identity("city", 5)])),
    ("shape", "TypeError", "shape dimensions must be integer",
     lambda fc, tf: fc.numeric_column("a", shape=1.5)),
    ("default_shape", "ValueError", "The shape of default_value must be equal to given shape",
     lambda fc, tf: fc.numeric_column("a", shape=2, default_value=[1.0])),
    ("normalizer", "TypeError", "must be a callable",
     lambda fc, tf: fc.numeric_column("a", normalizer_fn=3)),
    ("parse_specs", "ValueError", "feature_columns contain different parse_spec",
     lambda fc, tf: fc.make_parse_example_spec(
         [fc.numeric_column("ids"), _ids(fc)])),
]  # fmt: skip

for _name, _error, _words, _call in MISTAKES:

    @scenario(name=f"error_{_name}")
    def mistake(run, tf, error=_error, words=_words, call=_call):
        run.raises(error, lambda: call(tf.feature_column, tf), words)
