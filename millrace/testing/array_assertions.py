"""Assertions about arrays and tensors, as methods of a test case.

Tensors are evaluated first; nested lists, tuples and dicts are compared part by part. A failure
says where the values differ and by how much.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from absl.testing import absltest

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import is_tensor_like
from millrace.graph.slices import IndexedSlices, IndexedSlicesValue, SparseTensor

_MAX_SHOWN = 10


def _is_symbolic(value: Any) -> bool:
    return is_tensor_like(value) or isinstance(value, IndexedSlices | SparseTensor)


class ArrayAssertions(absltest.TestCase):
    """The assertions; `evaluate` comes from the test case."""

    def evaluate(self, tensors: Any) -> Any:
        """The values of tensors."""
        raise NotImplementedError

    def _GetNdArray(self, a: Any) -> np.ndarray:
        """A tensor, list or array as an array."""
        if _is_symbolic(a):
            a = self.evaluate(a)
        if isinstance(a, IndexedSlicesValue):
            a = a.values
        array = np.asarray(a)
        if array.dtype.kind == "U":
            array = np.char.encode(array, "utf-8").astype(object)
        elif array.dtype.kind == "S":
            array = array.astype(object)
        return array

    def _evaluated(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Both values; two tensors are evaluated in one step, so that they agree."""
        if _is_symbolic(a) and _is_symbolic(b):
            a, b = self.evaluate([a, b])
        return a, b

    def evaluate_if_both_tensors(self, a: Any, b: Any) -> tuple[Any, Any]:
        """The values of `a` and `b` if both are tensors, else both as they are."""
        return self._evaluated(a, b)

    # -- Equality --------------------------------------------------------------------------

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Both have the same shape and elements; NaN equals NaN."""
        a, b = self._evaluated(a, b)
        x, y = self._GetNdArray(a), self._GetNdArray(b)
        self._check_same_shape(x, y, msg)
        same = np.asarray(x == y)
        if x.dtype.kind in "fcV" and y.dtype.kind in "fcV":
            same = same | ((x != x) & (y != y))
        if not same.all():
            self.fail(self._mismatch("not equal", x, y, ~same, msg))

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """The two differ somewhere."""
        try:
            self.assertAllEqual(a, b)
        except self.failureException:
            return
        self.fail(self._formatMessage(msg, "The two values are equal at all elements."))

    # -- Closeness -------------------------------------------------------------------------

    def assertAllClose(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """Corresponding arrays of two structures differ by at most ``atol + rtol * |b|``."""
        self._assert_close(a, b, rtol, atol, msg, "")

    def _assert_close(
        self, a: Any, b: Any, rtol: float, atol: float, msg: str | None, path: str
    ) -> None:
        where = f"Mismatch at {path or 'the top'}. "
        a, b = self._evaluated(a, b)
        if isinstance(a, Mapping) or isinstance(b, Mapping):
            if not (isinstance(a, Mapping) and isinstance(b, Mapping)):
                self.fail(self._formatMessage(msg, f"{where}Can't compare a dict with a non-dict."))
            self.assertEqual(set(a), set(b), self._formatMessage(msg, f"{where}Keys differ."))
            for key in a:
                self._assert_close(a[key], b[key], rtol, atol, msg, f"{path}[{key}]")
            return
        if hasattr(a, "_fields") and hasattr(b, "_fields"):
            self.assertEqual(a._fields, b._fields, self._formatMessage(msg, where))
            for name, x, y in zip(a._fields, a, b, strict=True):
                self._assert_close(x, y, rtol, atol, msg, f"{path}.{name}")
            return
        if isinstance(a, list | tuple) and isinstance(b, list | tuple):
            try:
                self._assert_array_close(a, b, rtol, atol, msg, path)
                return
            except (ValueError, TypeError):
                pass  # A ragged list, or one of structures: part by part.
            self.assertEqual(len(a), len(b), self._formatMessage(msg, f"{where}Lengths differ."))
            for i, (x, y) in enumerate(zip(a, b, strict=True)):
                self._assert_close(x, y, rtol, atol, msg, f"{path}[{i}]")
            return
        self._assert_array_close(a, b, rtol, atol, msg, path)

    def _assert_array_close(
        self, a: Any, b: Any, rtol: float, atol: float, msg: str | None, path: str
    ) -> None:
        x, y = _wide(self._GetNdArray(a)), _wide(self._GetNdArray(b))
        if x.dtype == object or y.dtype == object:
            raise TypeError(f"Cannot compare values of type {x.dtype} and {y.dtype} for closeness")
        self._check_same_shape(x, y, msg)
        close = np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=True)
        if close.all():
            return
        text = f"not close (rtol={rtol}, atol={atol})" + (f" at {path}" if path else "")
        self.fail(self._mismatch(text, x, y, ~close, msg))

    def assertNotAllClose(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """The two differ somewhere by more than the tolerance."""
        try:
            self.assertAllClose(a, b, rtol, atol)
        except self.failureException:
            return
        self.fail(self._formatMessage(msg, "The two values are close at all elements."))

    def assertAllCloseAccordingToType(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: str | None = None,
    ) -> None:
        """`assertAllClose` with the tolerance of the coarser of the two types."""
        a, b = self._evaluated(a, b)
        x, y = self._GetNdArray(a), self._GetNdArray(b)
        for kinds, type_rtol, type_atol in (
            ((np.float32, np.complex64), float_rtol, float_atol),
            ((np.float16,), half_rtol, half_atol),
            ((ml_dtypes.bfloat16,), bfloat16_rtol, bfloat16_atol),
        ):
            if any(array.dtype == kind for array in (x, y) for kind in kinds):
                rtol, atol = max(rtol, type_rtol), max(atol, type_atol)
        self.assertAllClose(x, y, rtol=rtol, atol=atol, msg=msg)

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:
        """Two numbers differ by at most `err`."""
        self.assertTrue(
            f1 == f2 or math.fabs(f1 - f2) <= err,
            f"{f1:f} != {f2:f} +/- {err:f}" + (f" ({msg})" if msg is not None else ""),
        )

    def assertArrayNear(
        self, farray1: Sequence[Any], farray2: Sequence[Any], err: float, msg: str | None = None
    ) -> None:
        """Two sequences of numbers differ by at most `err` in each place."""
        self.assertEqual(len(farray1), len(farray2), msg=msg)
        for f1, f2 in zip(farray1, farray2, strict=True):
            self.assertNear(float(f1), float(f2), err, msg=msg)

    def assertNDArrayNear(
        self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None
    ) -> None:
        """The Euclidean distance of two arrays is at most `err`."""
        distance = float(np.linalg.norm(np.asarray(ndarray1) - np.asarray(ndarray2)))
        self.assertLessEqual(distance, err, msg=msg)

    # -- Ranges ----------------------------------------------------------------------------

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        """Every element is greater than the target."""
        self._assert_all(a, lambda x: x > comparison_target, f"greater than {comparison_target}")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        """Every element is less than the target."""
        self._assert_all(a, lambda x: x < comparison_target, f"less than {comparison_target}")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        """Every element is at least the target."""
        self._assert_all(a, lambda x: x >= comparison_target, f"at least {comparison_target}")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        """Every element is at most the target."""
        self._assert_all(a, lambda x: x <= comparison_target, f"at most {comparison_target}")

    def assertAllInRange(
        self,
        target: Any,
        lower_bound: Any,
        upper_bound: Any,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """Every element is between the bounds, which belong to the range unless open."""
        array = self._GetNdArray(target)
        if array.dtype.kind not in "fiu" and array.dtype != ml_dtypes.bfloat16:
            raise AssertionError(
                f"The value of {target} does not have an ordered numeric type: {array.dtype}"
            )
        left, right = "(" if open_lower_bound else "[", ")" if open_upper_bound else "]"

        def inside(x: Any) -> Any:
            low = x > lower_bound if open_lower_bound else x >= lower_bound
            high = x < upper_bound if open_upper_bound else x <= upper_bound
            return low & high

        self._assert_all(array, inside, f"in the range {left}{lower_bound}, {upper_bound}{right}")

    def assertAllInSet(self, target: Any, expected_set: Iterable[Any]) -> None:
        """Every element is a member of the set."""
        found = {item for item in self._GetNdArray(target).reshape(-1).tolist()}
        extra = found - set(expected_set)
        if extra:
            self.fail(f"{len(extra)} unique element(s) are not in the set: {sorted(extra)[:20]}")

    def _assert_all(self, a: Any, holds: Any, what: str) -> None:
        array = self._GetNdArray(a)
        good = np.asarray(holds(_wide(array)))
        if not good.all():
            places = np.argwhere(~good)[:_MAX_SHOWN].tolist()
            values = array[~good][:_MAX_SHOWN].tolist()
            self.fail(
                f"{int((~good).sum())} of {good.size} elements are not {what}: {values} at {places}"
            )

    # -- Shapes and types ------------------------------------------------------------------

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:
        """An array and a tensor (or two of a kind) have the same shape."""
        a, b = _shape_of(input_a), _shape_of(input_b)
        self.assertEqual(a, b, msg=msg)

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        """The element type is the expected one."""
        found = target.dtype if hasattr(target, "dtype") else self._GetNdArray(target).dtype
        self.assertEqual(
            dtypes.as_dtype(found).base_dtype, dtypes.as_dtype(expected_dtype).base_dtype
        )

    def _check_same_shape(self, x: np.ndarray, y: np.ndarray, msg: str | None) -> None:
        if x.shape != y.shape:
            text = f"Shape mismatch: expected {x.shape}, got {y.shape}."
            for name, array in (("expected", x), ("got", y)):
                if array.size <= _MAX_SHOWN:
                    text += f" {name}: {array.tolist()}."
            self.fail(self._formatMessage(msg, text))

    def _mismatch(
        self, what: str, x: np.ndarray, y: np.ndarray, wrong: np.ndarray, msg: str | None
    ) -> str:
        places = np.argwhere(np.atleast_1d(wrong))[:_MAX_SHOWN]
        lines = [f"{int(wrong.sum())} of {wrong.size} elements are {what}:"]
        flat_x, flat_y = np.atleast_1d(x), np.atleast_1d(y)
        for place in places:
            spot = tuple(place)
            index = "" if x.ndim == 0 else f"{[int(i) for i in spot]}: "
            lines.append(f"  {index}{flat_x[spot]!r} != {flat_y[spot]!r}")
        if int(wrong.sum()) > len(places):
            lines.append("  ...")
        if x.dtype.kind in "fiu" and y.dtype.kind in "fiu":
            with np.errstate(all="ignore"):
                off = np.abs(flat_x.astype(np.float64) - flat_y.astype(np.float64))
            lines.append(f"  largest difference: {np.nanmax(off, initial=0.0)}")
        return self._formatMessage(msg, "\n".join(lines))


def _wide(array: np.ndarray) -> np.ndarray:
    """bfloat16 and its like as float32, which NumPy can compare."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _shape_of(value: Any) -> Any:
    shape = getattr(value, "shape", None)
    if isinstance(shape, TensorShape):
        return shape.as_list()
    return list(np.shape(value))
