"""Connectionist temporal classification at its edges; fake quantization and dilation further."""

from parity_kit import array, case, cases, floats, scenario


def _labels(tf, values):
    return tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant(values, tf.int32), [2, 2])


@cases(
    [
        ("ctc_collapse", {"x": floats(5, 2, 4)}, {"preprocess_collapse_repeated": True}),
        ("ctc_repeated", {"x": floats(5, 2, 4)}, {}),
        ("ctc_repeated_not_merged", {"x": floats(5, 2, 4)}, {"ctc_merge_repeated": False}),
    ],
    grad=True,
    variants=["known"],
    rtol=1e-4,
    atol=1e-5,
)
def ctc_of_repeated_labels(tf, options, x):
    return tf.nn.ctc_loss(_labels(tf, [2, 2, 1]), x, [5, 4], **options)


@case(inputs={"x": floats(2, 5, 4)}, grad=True, variants=["known"], rtol=1e-4, atol=1e-5)
def ctc_batch_major(tf, x):
    return tf.nn.ctc_loss(_labels(tf, [0, 2, 1]), x, [5, 4], time_major=False)


@case(inputs={"x": floats(5, 2, 4)}, grad=True, variants=["known"], rtol=1e-4, atol=1e-5)
def ctc_too_short_ignored(tf, x):
    loss = tf.nn.ctc_loss(_labels(tf, [0, 2, 1]), x, [1, 4], ignore_longer_outputs_than_inputs=True)
    return loss


@case(inputs={"x": floats(5, 2, 4)}, variants=["known"], rtol=1e-4, atol=1e-5)
def ctc_without_a_path(tf, x):
    return tf.nn.ctc_loss(_labels(tf, [2, 2, 1]), x, [2, 4])


@case(
    inputs={"x": floats(5, 2, 4)},
    raises=("InvalidArgumentError", "Not enough time for target transition sequence"),
    variants=["known"],
)
def ctc_too_short(tf, x):
    return tf.nn.ctc_loss(_labels(tf, [0, 2, 1]), x, [1, 4])


@case(
    inputs={"x": floats(5, 2, 4)},
    raises=("InvalidArgumentError", "sequence_length(0) <= 5"),
    variants=["known"],
)
def ctc_longer_than_time(tf, x):
    return tf.nn.ctc_loss(_labels(tf, [0, 2, 1]), x, [6, 4])


@cases(
    [
        ("beam_of_4", {"x": floats(5, 2, 4)}, {"beam_width": 4, "top_paths": 2}),
        (
            "beam_not_merged",
            {"x": floats(6, 2, 3)},
            {"beam_width": 10, "top_paths": 3, "merge_repeated": False},
        ),
        ("beam_of_100", {"x": floats(7, 2, 5)}, {}),
        ("beam_of_1", {"x": floats(7, 2, 5)}, {"beam_width": 1}),
    ],
    variants=["known"],
    rtol=1e-4,
    atol=1e-5,
)
def ctc_beam_search(tf, options, x):
    decoded, scores = tf.nn.ctc_beam_search_decoder(x, [x.shape[0].value, 4], **options)
    return [*decoded, scores]


@case(inputs={"x": floats(6, 2, 3)}, variants=["known"])
def ctc_greedy_not_merged(tf, x):
    decoded, scores = tf.nn.ctc_greedy_decoder(x, [6, 2], merge_repeated=False)
    return [decoded[0], scores]


@case(inputs={"x": floats(2, 6, 7, 2), "w": floats(3, 2, 2)}, grad=True, rtol=1e-5, atol=1e-5)
def dilation_with_strides_and_rates(tf, x, w):
    return [
        tf.nn.dilation2d(x, w, [1, 2, 1, 1], [1, 1, 2, 1], "SAME"),
        tf.nn.dilation2d(x, w, [1, 1, 2, 1], [1, 2, 1, 1], "VALID"),
    ]


@case(inputs={"x": floats(4, 3)}, grad=True, numeric="steps")
def fake_quant_of_an_empty_range(tf, x):
    return tf.fake_quant_with_min_max_vars(x, 0.0, 0.0)


@case(inputs={"x": floats(2, 2, 3), "a": array([0.5, -2.0, -1.0])}, grad=True, numeric="steps")
def fake_quant_away_from_zero(tf, x, a):
    return tf.fake_quant_with_min_max_vars_per_channel(x, a, a + 1.2, num_bits=5)


@scenario
def critical_section_feeds_itself(run, tf):
    v = tf.Variable(1.0, use_resource=True)
    section = tf.CriticalSection(name="section")
    first = section.execute(lambda: v.assign_add(1.0, read_value=True) + 0.0)
    second = section.execute(lambda: v.assign(first * 10.0, read_value=True) + 0.0)
    run.initialize()
    run(second)
    run(v)
