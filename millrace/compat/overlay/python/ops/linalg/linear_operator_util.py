"""What libraries take from TensorFlow's python.ops.linalg.linear_operator_util."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import millrace as tf


def is_ref(x: Any) -> bool:
    """Whether `x` is a variable, whose value another step may change."""
    return isinstance(x, tf.Variable)


def assert_not_ref_type(x: Any, arg_name: str) -> None:
    """Raises TypeError for a variable of the old kind, whose value changes under a reader."""
    if getattr(getattr(x, "dtype", None), "_is_ref_dtype", False):
        raise TypeError(f"Argument {arg_name} cannot be reference type. Found: {type(x)}.")


def convert_nonref_to_tensor(
    value: Any, dtype: Any = None, preferred_dtype: Any = None, name: str | None = None
) -> Any:
    """A tensor of `value`, unless it is a variable: that stays itself."""
    if value is None or is_ref(value):
        return value
    return tf.convert_to_tensor(value, dtype=dtype, preferred_dtype=preferred_dtype, name=name)


def assert_no_entries_with_modulus_zero(
    x: Any, message: str | None = None, name: str = "assert_no_entries_with_modulus_zero"
) -> Any:
    """An op that fails where an entry is zero."""
    with tf.name_scope(name, values=[x]):
        size = tf.abs(tf.convert_to_tensor(x, name="x"))
        return tf.assert_less(tf.zeros([], size.dtype), size, message=message)


def assert_zero_imag_part(
    x: Any, message: str | None = None, name: str = "assert_zero_imag_part"
) -> Any:
    """An op that fails where an entry has an imaginary part."""
    with tf.name_scope(name, values=[x]):
        x = tf.convert_to_tensor(x, name="x")
        if not x.dtype.is_complex:
            return tf.no_op()
        imaginary = tf.imag(x)
        return tf.assert_equal(tf.zeros([], imaginary.dtype), imaginary, message=message)


def assert_compatible_matrix_dimensions(operator: Any, x: Any) -> Any:
    """An op that fails unless `operator` can be multiplied with the matrix `x`."""
    return tf.assert_equal(
        tf.shape(x)[-2], operator.domain_dimension_tensor(),
        message="Dimensions are not compatible: shape[-2] of the argument, and this operator's",
    )  # fmt: skip


def shape_tensor(shape: Any, name: str | None = None) -> Any:
    """A shape as an integer tensor."""
    kind = tf.int32 if isinstance(shape, tuple | list) else None
    return tf.convert_to_tensor(shape, dtype=kind, name=name)


def broadcast_matrix_batch_dims(
    batch_matrices: Sequence[Any], name: str | None = None
) -> list[Any]:
    """Matrices whose leading dimensions were broadcast to one shape.

    Raises:
      ValueError: One has fewer than two dimensions.
    """
    with tf.name_scope(name or "broadcast_matrix_batch_dims", values=list(batch_matrices)):
        matrices = [tf.convert_to_tensor(each) for each in batch_matrices]
        for each in matrices:
            if each.shape.ndims is not None and each.shape.ndims < 2:
                raise ValueError(f"Found batch matrix with < 2 dimensions: {each}")
        statics = [each.shape[:-2] for each in matrices]
        if all(shape.is_fully_defined() and shape == statics[0] for shape in statics):
            return matrices
        common = tf.shape(matrices[0])[:-2]
        for each in matrices[1:]:
            common = tf.broadcast_dynamic_shape(common, tf.shape(each)[:-2])
        return [
            tf.broadcast_to(each, tf.concat([common, tf.shape(each)[-2:]], 0)) for each in matrices
        ]


def matrix_solve_with_broadcast(
    matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None
) -> Any:
    """`tf.linalg.solve`, with leading dimensions broadcast."""
    with tf.name_scope(name or "MatrixSolveWithBroadcast", values=[matrix, rhs]):
        matrix, rhs = broadcast_matrix_batch_dims([matrix, rhs])
        return tf.linalg.solve(matrix, rhs, adjoint=adjoint)


def matrix_triangular_solve_with_broadcast(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Any:
    """`tf.linalg.triangular_solve`, with leading dimensions broadcast."""
    with tf.name_scope(name or "MatrixTriangularSolve", values=[matrix, rhs]):
        matrix, rhs = broadcast_matrix_batch_dims([matrix, rhs])
        return tf.linalg.triangular_solve(matrix, rhs, lower=lower, adjoint=adjoint)


def cholesky_solve_with_broadcast(chol: Any, rhs: Any, name: str | None = None) -> Any:
    """`tf.linalg.cholesky_solve`, with leading dimensions broadcast."""
    with tf.name_scope(name or "CholeskySolveWithBroadcast", values=[chol, rhs]):
        chol, rhs = broadcast_matrix_batch_dims([chol, rhs])
        return tf.linalg.cholesky_solve(chol, rhs)


def use_operator_or_provided_hint_unless_contradicting(
    operator: Any, hint_attr_name: str, provided_hint_value: bool | None, message: str
) -> bool | None:
    """A hint of the operator's, or else the one that was given.

    Raises:
      ValueError: They contradict each other.
    """
    own = getattr(operator, hint_attr_name)
    if own is not None and provided_hint_value is not None and own != provided_hint_value:
        raise ValueError(message)
    return own if own is not None else provided_hint_value
