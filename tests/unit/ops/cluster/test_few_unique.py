"""What stands for the gradient of sparse segments where the number of ids is left open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.ops.cluster.few_unique import SparseSegmentGradOnHost

GRAD = np.arange(12, dtype=np.float32).reshape(3, 2, 2)


def on_host(grad: Any, indices: Any, ids: Any, rows: int, norm: str) -> Any:
    return SparseSegmentGradOnHost.kernel(
        grad, np.array(indices), np.array(ids), np.array(rows), norm=norm.encode()
    )


@pytest.mark.parametrize("norm", ["Sum", "Mean", "SqrtN"])
def test_the_gradient_is_that_of_the_op_that_it_stands_for(norm: str) -> None:
    indices, ids = [3, 0, 3, 1, 3], [0, 0, 0, 2, 2]
    with tf.Graph().as_default(), tf.Session() as session:
        build = getattr(tf.raw_ops, f"SparseSegment{norm}Grad")
        wanted = session.run(
            build(grad=GRAD, indices=indices, segment_ids=ids, output_dim0=tf.constant(5))
        )
    np.testing.assert_allclose(on_host(GRAD, indices, ids, 5, norm), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("indices", "ids", "words"),
    [
        ([0, 5], [0, 0], r"Bad: indices\[1\] == 5 out of range \[0, 5\)"),
        ([-1, 0], [0, 0], r"Bad: indices\[0\] == -1"),
        ([0, 1], [0, 3], r"Bad: segment_ids\[1\] == 3 out of range \[0, 3\)"),
        ([0, 1], [0], "should have same size"),
    ],
)
def test_what_is_out_of_range_is_an_error(indices: Any, ids: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        on_host(GRAD, indices, ids, 5, "Sum")


def test_no_ids_have_no_gradient() -> None:
    none = np.zeros(0, np.int32)
    assert not on_host(GRAD, none, none, 2, "Mean").any()
    assert on_host(GRAD[:0], none, none, 0, "Mean").shape == (0, 2, 2)
