"""Segment sums and their kin: sorted, unsorted, sparse."""

import numpy as np
from parity_kit import array, case, cases, floats, ints

ROWS = {"x": floats(5, 2)}
IDS = [0, 0, 1, 3, 3]
UNSORTED = [2, 0, 2, 1, 0]
NEGATIVE = [2, -1, 2, 1, 0]
SUM_LIKE = ("segment_sum", "segment_mean", "segment_max", "segment_min")


@cases(
    [(f"{f}_rows", ROWS, f) for f in SUM_LIKE]
    + [(f"{f}_vector", {"x": floats(5)}, f) for f in SUM_LIKE],
    grad=True,
)
def segments(tf, function, x):
    return getattr(tf, function)(x, IDS)


@cases(
    [(f"segment_prod_{n}", {"x": s}) for n, s in (("rows", floats(5, 2)), ("vector", floats(5)))]
)
def segment_prod(tf, x):
    return tf.segment_prod(x, IDS)


@cases(
    [(f"{f}_fed_ids", {"x": floats(4), "i": array([0, 1, 1, 2], np.int64)}, f) for f in SUM_LIKE],
    grad=["x"],
)
def segments_fed(tf, function, x, i):
    return getattr(tf, function)(x, i)


@case(inputs={"x": ints(5), "i": array(IDS)})
def segments_of_ints(tf, x, i):
    return [tf.segment_sum(x, i), tf.segment_max(x, i), tf.segment_prod(x, i)]


@case(
    inputs={"x": floats(3), "i": array([0, 2, 1])},
    raises=("InvalidArgumentError", "segment ids are not increasing"),
)
def segment_ids_not_sorted(tf, x, i):
    return tf.segment_sum(x, i)


@case(
    inputs={"x": floats(3)},
    raises=("InvalidArgumentError", "segment_ids should be the same size as dimension 0"),
)
def segment_ids_too_few(tf, x):
    return tf.segment_sum(x, [0, 1])


UNSORTED_KINDS = ("sum", "mean", "max", "min", "prod", "sqrt_n")


@cases(
    [(f"unsorted_{k}_rows", ROWS, k, UNSORTED, 3) for k in UNSORTED_KINDS]
    + [(f"unsorted_{k}_negative_ids", ROWS, k, NEGATIVE, 4) for k in ("sum", "mean", "max")]
    + [(f"unsorted_{k}_vector", {"x": floats(5)}, k, UNSORTED, 3) for k in UNSORTED_KINDS],
    grad=True,
)
def unsorted(tf, kind, ids, count, x):
    return getattr(tf, f"unsorted_segment_{kind}")(x, ids, count)


@cases(
    [(f"unsorted_{k}_empty_segment", ROWS, k) for k in ("max", "min", "sum", "prod", "mean")],
)
def unsorted_with_an_empty_segment(tf, kind, x):
    return getattr(tf, f"unsorted_segment_{kind}")(x, [0, 0, 3, 3, 3], 5)


@cases(
    [(f"unsorted_{k}_matrix_of_ids", {"x": floats(2, 2, 3)}, k) for k in ("sum", "max")], grad=True
)
def unsorted_matrix_of_ids(tf, kind, x):
    return getattr(tf, f"unsorted_segment_{kind}")(x, [[0, 1], [1, 2]], 3)


@case(inputs={"x": floats(3), "n": array(4)}, grad=["x"])
def unsorted_fed_count(tf, x, n):
    return tf.unsorted_segment_sum(x, [3, 1, 3], n)


@case(
    inputs={"x": floats(2), "i": array([0, 5])}, raises=("InvalidArgumentError", "is out of range")
)
def unsorted_id_out_of_range(tf, x, i):
    return tf.unsorted_segment_sum(x, i, 3)


SPARSE_KINDS = ("sum", "mean", "sqrt_n")


@cases([(f"sparse_segment_{k}", {"x": floats(4, 2)}, k, {}) for k in SPARSE_KINDS], grad=True)
def sparse_segments(tf, kind, options, x):
    return getattr(tf, f"sparse_segment_{kind}")(x, [3, 0, 0, 2], [0, 0, 1, 3], **options)


@cases(
    [(f"sparse_segment_{k}_num_segments", {"x": floats(4, 2)}, k) for k in SPARSE_KINDS], grad=True
)
def sparse_segments_counted(tf, kind, x):
    return getattr(tf, f"sparse_segment_{kind}")(x, [3, 0, 0], [0, 0, 2], num_segments=5)


@cases(
    [
        (
            f"sparse_segment_{k}_fed",
            {"x": floats(4, 2), "i": array([1, 3, 2]), "s": array([0, 1, 1])},
            k,
        )
        for k in SPARSE_KINDS
    ],
    grad=["x"],
)
def sparse_segments_fed(tf, kind, x, i, s):
    return getattr(tf, f"sparse_segment_{kind}")(x, i, s)


@case(inputs={"x": floats(4, 2), "i": array([9])}, raises=("InvalidArgumentError",))
def sparse_segment_index_out_of_range(tf, x, i):
    return tf.sparse_segment_sum(x, i, [0])
