"""`tf.contrib.rnn` and `tf.contrib.legacy_seq2seq`, whose figures are TensorFlow 1.15's."""

from parity_kit import scenario

WHY = "TensorFlow 1.15's graph has ops of old that nothing else needs"


def fill(tf, run):
    """Gives every variable values that follow from its place and size; notes its name."""
    import numpy as np

    assigned = []
    for number, variable in enumerate(tf.global_variables()):
        size = variable.shape.num_elements()
        values = np.sin(np.arange(size) * 0.7 + number).reshape(variable.shape.as_list()) * 0.5
        assigned.append(tf.assign(variable, values.astype("float32")))
        run.note([variable.name, variable.shape.as_list()])
    run.value(assigned)


def steps(tf, count, batch=2, depth=3):
    import numpy as np

    return [
        tf.constant(np.cos(np.arange(batch * depth) * 0.3 + t).reshape(batch, depth), tf.float32)
        for t in range(count)
    ]


def _model(name, **options):
    @scenario(name=f"{name}_{len(options)}", replay=WHY)
    def model(run, tf):
        lib = tf.contrib.legacy_seq2seq
        cell = tf.nn.rnn_cell.BasicLSTMCell(4)
        inputs = [tf.constant([1, 2]), tf.constant([0, 3]), tf.constant([2, 2])]
        symbols = [tf.constant([0, 0]), tf.constant([1, 4]), tf.constant([3, 2])]
        if name == "basic_rnn_seq2seq":
            outputs, state = lib.basic_rnn_seq2seq(steps(tf, 2), steps(tf, 3), cell)
        elif name == "tied_rnn_seq2seq":
            outputs, state = lib.tied_rnn_seq2seq(steps(tf, 2), steps(tf, 3), cell)
        elif name == "embedding_tied_rnn_seq2seq":
            outputs, state = lib.embedding_tied_rnn_seq2seq(inputs, symbols, cell, 5, 3, **options)
        else:
            outputs, state = getattr(lib, name)(inputs, symbols, cell, 5, 6, 3, **options)
        run.value(tf.global_variables_initializer())
        fill(tf, run)
        run([outputs, state])
        run(tf.gradients(tf.add_n(outputs), tf.trainable_variables()[-1]))

    return model


for each in ("basic_rnn_seq2seq", "tied_rnn_seq2seq", "embedding_rnn_seq2seq",
             "embedding_tied_rnn_seq2seq", "embedding_attention_seq2seq"):  # fmt: skip
    _model(each)
for each in (
    "embedding_rnn_seq2seq",
    "embedding_tied_rnn_seq2seq",
    "embedding_attention_seq2seq",
):
    _model(each, feed_previous=True)


@scenario(replay=WHY)
def attention_with_a_fed_choice(run, tf):
    own = tf.placeholder_with_default(True, [])
    inputs = [tf.constant([1, 2]), tf.constant([0, 3])]
    symbols = [tf.constant([0, 0]), tf.constant([1, 4]), tf.constant([3, 2])]
    outputs, state = tf.contrib.legacy_seq2seq.embedding_attention_seq2seq(
        inputs, symbols, tf.nn.rnn_cell.GRUCell(4), 5, 6, 3, num_heads=2, feed_previous=own,
        initial_state_attention=True,
    )  # fmt: skip
    run.value(tf.global_variables_initializer())
    fill(tf, run)
    run([outputs, state], {own: True})
    run([outputs, state], {own: False})


@scenario(replay=WHY)
def one_model_per_bucket(run, tf):
    inputs = [tf.constant([1, 2])] * 4
    symbols = [tf.constant([0, 1])] * 4
    weights = [tf.constant([1.0, 0.5])] * 4

    def model(x, y):
        cell = tf.nn.rnn_cell.BasicRNNCell(3)
        return tf.contrib.legacy_seq2seq.embedding_rnn_seq2seq(x, y, cell, 5, 6, 2)

    outputs, losses = tf.contrib.legacy_seq2seq.model_with_buckets(
        inputs, symbols, symbols, weights, [(2, 2), (4, 3)], model
    )
    run.value(tf.global_variables_initializer())
    fill(tf, run)
    run(losses)
    run.note([len(each) for each in outputs])


def _cell(name, make, depth=3, **loop):
    @scenario(name=f"cell_{name}", replay=WHY)
    def cell(run, tf):
        inputs = tf.stack(steps(tf, 3, depth=depth), 1)
        outputs, state = tf.nn.dynamic_rnn(make(tf.contrib.rnn, tf), inputs, dtype=tf.float32)
        run.value(tf.global_variables_initializer())
        fill(tf, run)
        run([outputs, state])

    return cell


_cell("nas", lambda r, tf: r.NASCell(4, num_proj=3, use_bias=True))
_cell("ugrnn", lambda r, tf: r.UGRNNCell(4))
_cell("intersection", lambda r, tf: r.IntersectionRNNCell(4, num_in_proj=4))
_cell("gru_block", lambda r, tf: r.GRUBlockCell(4))
_cell("gru_block_v2", lambda r, tf: r.GRUBlockCellV2(4))
_cell("sru", lambda r, tf: r.SRUCell(4))
_cell("attention", lambda r, tf: r.AttentionCellWrapper(tf.nn.rnn_cell.GRUCell(4), 2))
_cell("highway", lambda r, tf: r.HighwayWrapper(tf.nn.rnn_cell.GRUCell(3)))
_cell(
    "highway_apart",
    lambda r, tf: r.HighwayWrapper(tf.nn.rnn_cell.GRUCell(3), couple_carry_transform_gates=False),
)


@scenario(replay=WHY)
def pictures_over_time(run, tf):
    inputs = tf.reshape(tf.stack(steps(tf, 3, depth=18), 1), [2, 3, 3, 3, 2])
    cell = tf.contrib.rnn.Conv2DLSTMCell(
        input_shape=[3, 3, 2], output_channels=2, kernel_shape=[2, 2], skip_connection=False
    )
    outputs, state = tf.nn.dynamic_rnn(cell, inputs, dtype=tf.float32)
    run.value(tf.global_variables_initializer())
    fill(tf, run)
    run([outputs, state])


@scenario(replay=WHY)
def events_with_times(run, tf):
    times = tf.constant([[[1.0], [2.5], [4.0]], [[0.5], [3.0], [9.0]]])
    inputs = (times, tf.stack(steps(tf, 3), 1))
    cell = tf.contrib.rnn.PhasedLSTMCell(4, use_peepholes=True)
    outputs, state = tf.nn.dynamic_rnn(cell, inputs, dtype=tf.float32)
    run.value(tf.global_variables_initializer())
    fill(tf, run)
    run([outputs, state])
