"""String ops."""

import numpy as np
from parity_kit import array, case, cases, floats, scenario, strings

WORDS = strings(["hello", "", "World 42", "naïve"])
GRID = strings([["a", "b", "c"], ["d", "e", "f"]])


@cases(
    [
        ("join_plain", {"x": strings(["a", "b"]), "y": strings(["c", "d"])}, {}),
        (
            "join_separator",
            {"x": strings(["a", "b"]), "y": strings(["c", "d"])},
            {"separator": "-"},
        ),
        (
            "join_broadcast_scalar",
            {"x": strings(["a", "b"]), "y": strings("z")},
            {"separator": " "},
        ),
    ]
)
def string_join(tf, options, x, y):
    return tf.string_join([x, y], **options)


@case(inputs={"x": strings(["a", "b"]), "y": strings(["c", "d", "e"])}, raises=("ValueError",))
def string_join_mismatch(tf, x, y):
    return tf.string_join([x, y])


@case(inputs={"x": strings(["a", "b"]), "y": strings(["c", "d"])})
def string_plus(tf, x, y):
    return [x + y, x + "!", tf.add(x, y)]


@cases(
    [
        ("split_spaces", {"x": strings(["hello big world", "a  b", ""])}, {}),
        ("split_delimiter", {"x": strings(["a,b,,c", "d"])}, {"delimiter": ","}),
        (
            "split_keep_empty",
            {"x": strings(["a,b,,c", ",d"])},
            {"delimiter": ",", "skip_empty": False},
        ),
        ("split_several_delimiters", {"x": strings(["a,b;c"])}, {"delimiter": ",;"}),
        ("split_into_characters", {"x": strings(["abc", "de"])}, {"delimiter": ""}),
    ]
)
def string_split(tf, options, x):
    return tf.string_split(x, **options)


@case(inputs={"x": strings(["a b  c", " d "])})
def strings_split_v2(tf, x):
    return [
        tf.strings.split(x, result_type="SparseTensor"),
        tf.raw_ops.StringSplitV2(input=x, sep=" ", maxsplit=1),
        tf.raw_ops.StringSplitV2(input=x, sep="", maxsplit=-1),
    ]


@cases(
    [
        ("substr_plain", {"x": strings(["hello", "world!"])}, 1, 3),
        ("substr_negative", {"x": strings(["hello", "world!"])}, -3, 2),
        ("substr_each", {"x": strings(["hello", "world!"])}, [0, 2], [2, 100]),
        ("substr_broadcast", {"x": strings([["hello"], ["world!"]])}, [0, 1], [1, 2]),
        ("substr_scalar", {"x": strings("abcdef")}, 2, 2),
    ]
)
def substr(tf, position, length, x):
    return tf.substr(x, position, length)


@case(inputs={"x": strings(["abc"])}, raises=("InvalidArgumentError", "pos 5 out of range"))
def substr_out_of_range(tf, x):
    return tf.substr(x, 5, 1)


@case(inputs={"x": strings(["héllo", "añb"])})
def substr_by_characters(tf, x):
    return [
        tf.strings.substr(x, 1, 1, unit="UTF8_CHAR"),
        tf.strings.length(x, unit="UTF8_CHAR"),
        tf.strings.length(x),
    ]


@case(inputs={"x": WORDS})
def lengths_and_cases(tf, x):
    return [tf.strings.length(x), tf.strings.upper(x), tf.strings.lower(x)]


@case(inputs={"x": strings(["HÉLLO", "añB"])})
def unicode_cases(tf, x):
    return [tf.strings.lower(x, encoding="utf-8"), tf.strings.upper(x, encoding="utf-8")]


@case(inputs={"x": strings(["  a b ", "\tc\n", ""])})
def string_strip(tf, x):
    return tf.string_strip(x)


@cases(
    [
        ("regex_replace_all", {"x": strings(["a1b22", "zz"])}, r"[0-9]+", "#", {}),
        (
            "regex_replace_first",
            {"x": strings(["a1b22"])},
            r"[0-9]",
            "#",
            {"replace_global": False},
        ),
        ("regex_replace_groups", {"x": strings(["john smith"])}, r"(\w+) (\w+)", r"\2 \1", {}),
    ]
)
def regex_replace(tf, pattern, rewrite, options, x):
    return tf.regex_replace(x, pattern, rewrite, **options)


@case(inputs={"x": strings(["abc", "abcd", "xabc"])})
def regex_full_match(tf, x):
    return tf.strings.regex_full_match(x, "abc.?")


@cases(
    [
        ("reduce_join_all", {"x": GRID}, {}),
        ("reduce_join_axis_0", {"x": GRID}, {"axis": 0}),
        ("reduce_join_separator", {"x": GRID}, {"axis": 1, "separator": "-"}),
        ("reduce_join_keep_dims", {"x": GRID}, {"axis": -1, "keep_dims": True}),
        ("reduce_join_two_axes", {"x": GRID}, {"axis": [0, 1]}),
        ("reduce_join_two_axes_other_order", {"x": GRID}, {"axis": [1, 0]}),
        ("reduce_join_old_name", {"x": GRID}, {"reduction_indices": 1}),
    ]
)
def reduce_join(tf, options, x):
    return tf.reduce_join(x, **options)


@case(inputs={"x": strings(["hello", "", "a", "naïve", "TensorFlow 1.x!"])})
def hash_buckets(tf, x):
    return [
        tf.string_to_hash_bucket_fast(x, 1000),
        tf.string_to_hash_bucket(x, 1000),
        tf.string_to_hash_bucket_strong(x, 1000, [1, 2]),
        tf.string_to_hash_bucket_fast(x, 2**40),
        tf.strings.to_hash_bucket_fast(x, 7),
    ]


@case(
    inputs={
        "x": strings(["x" * n for n in (0, 1, 3, 4, 7, 8, 15, 16, 17, 32, 33, 64, 65, 100, 200)])
    }
)
def hash_buckets_of_every_length(tf, x):
    return [
        tf.string_to_hash_bucket_fast(x, 10**9),
        tf.string_to_hash_bucket(x, 10**9),
        tf.string_to_hash_bucket_strong(x, 10**9, [7, 99]),
    ]


@cases(
    [
        (f"to_number_{d}", {"x": strings(["1", "-2.0" if "float" in d else "-2", " 30 "])}, d)
        for d in ("float32", "float64", "int32", "int64")
    ]
)
def string_to_number(tf, dtype, x):
    return tf.string_to_number(x, getattr(tf, dtype))


@case(inputs={"x": strings(["3e2", "inf", "-0.5", "nan", ".5"])})
def string_to_number_floats(tf, x):
    return [tf.string_to_number(x), tf.strings.to_number(x, tf.float64)]


@case(
    inputs={"x": strings(["12a"])},
    raises=("InvalidArgumentError", "StringToNumberOp could not correctly convert string: 12a"),
)
def string_to_number_of_text(tf, x):
    return tf.string_to_number(x)


@cases(
    [
        ("as_string_floats", {"x": array([1.5, -2.0, 1e-7])}, {}),
        ("as_string_precision", {"x": array([1.5, -2.0])}, {"precision": 2}),
        ("as_string_scientific", {"x": array([1500.0])}, {"scientific": True, "precision": 3}),
        ("as_string_shortest", {"x": array([1500.0, 0.1])}, {"shortest": True}),
        ("as_string_width", {"x": array([1.5])}, {"width": 10, "fill": "0", "precision": 1}),
        ("as_string_ints", {"x": array([12, -3])}, {}),
        ("as_string_int_width", {"x": array([12, -3])}, {"width": 5}),
        ("as_string_int64", {"x": array([2**40], np.int64)}, {}),
        ("as_string_bools", {"x": array([True, False])}, {}),
        ("as_string_double", {"x": array([0.1], np.float64)}, {}),
        ("as_string_complex", {"x": array([1 + 2j], np.complex64)}, {}),
    ]
)
def as_string(tf, options, x):
    return tf.as_string(x, **options)


@case(inputs={"x": strings(["hello", "", "a?b>c"])})
def base64(tf, x):
    encoded = tf.encode_base64(x)
    return [encoded, tf.encode_base64(x, pad=True), tf.decode_base64(encoded)]


@case(inputs={"x": strings(["a!"])}, raises=("InvalidArgumentError",))
def decode_base64_of_garbage(tf, x):
    return tf.decode_base64(x)


@case(inputs={"x": strings(["abc", "de"])})
def bytes_split(tf, x):
    return tf.raw_ops.UnicodeDecode(input=x, input_encoding="UTF-8")


@case(inputs={"x": strings(["abc", "añ"])})
def unicode_transcode(tf, x):
    return tf.strings.unicode_transcode(x, "UTF-8", "UTF-16-BE")


@case(inputs={"x": array([[104, 105], [228, 8364]])})
def unicode_encode(tf, x):
    return tf.strings.unicode_encode(x, "UTF-8")


@case(inputs={"x": strings(["b", "a", "b"]), "y": strings(["b", "b", "a"])})
def compare_strings(tf, x, y):
    return [tf.equal(x, y), tf.not_equal(x, y)]


@case(inputs={"x": floats(2)})
def string_format(tf, x):
    return [
        tf.strings.format("a {} b", tf.constant([1, 2])),
        tf.strings.format("{}, {}", [tf.constant(3), tf.constant("s")]),
        tf.strings.format("{}", tf.range(10), summarize=2),
    ]


@case(inputs={"x": strings([["a", "b", "c", "d"]])})
def ngrams(tf, x):
    return tf.raw_ops.StringNGrams(
        data=tf.reshape(x, [-1]),
        data_splits=tf.constant([0, 4], tf.int64),
        separator=" ",
        ngram_widths=[2, 3],
        left_pad="<",
        right_pad=">",
        pad_width=1,
        preserve_short_sequences=False,
    )


@case(inputs={"x": strings(["a", "b", "c", "d"])})
def unsorted_segment_join(tf, x):
    return tf.strings.unsorted_segment_join(x, [1, 0, 1, 0], 3, separator=",")


@scenario
def strings_are_bytes(run, tf):
    x = tf.placeholder(tf.string, [None])
    value = run(tf.identity(x), {x: np.array([b"text", b"\xff\x00bytes"], dtype=object)})
    run.note([type(v).__name__ for v in value])
