"""Compare what a module computed with the stored figures; answers in sentences.

Every function returns a list of differences, empty when there is none, so that a failing test says
all that is wrong with a case at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Relative and absolute tolerance by dtype. XLA's and Eigen's elementary functions differ by a few
# units in the last place; sums are added in another order.
TOLERANCES: dict[str, tuple[float, float]] = {
    "float64": (1e-9, 1e-11),
    "complex128": (1e-9, 1e-11),
    "float32": (3e-5, 3e-6),
    "complex64": (3e-5, 3e-6),
    "float16": (4e-3, 4e-3),
    "bfloat16": (3e-2, 3e-2),
}


def differences(
    label: str,
    expected: np.ndarray | None,
    found: Any,
    rtol: float | None = None,
    atol: float | None = None,
) -> list[str]:
    """What is different between two arrays: dtype, shape, then values."""
    if expected is None or found is None:
        if expected is None and found is None:
            return []
        return [f"{label}: expected {_brief(expected)}, found {_brief(found)}"]
    if expected.dtype.kind != "O" and expected.dtype != found.dtype:
        return [f"{label}: dtype is {found.dtype}, TensorFlow's is {expected.dtype}"]
    if expected.shape != found.shape:
        return [f"{label}: shape is {list(found.shape)}, TensorFlow's is {list(expected.shape)}"]
    if expected.dtype.kind == "O":
        same = [
            _as_bytes(a) == _as_bytes(b) for a, b in zip(expected.flat, found.flat, strict=True)
        ]
        wrong = ~np.array(same, dtype=bool).reshape(expected.shape)
    elif expected.dtype.name in TOLERANCES:
        default_rtol, default_atol = TOLERANCES[expected.dtype.name]
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        left, right = expected.astype(wide), found.astype(wide)
        wrong = ~np.isclose(
            right,
            left,
            rtol=default_rtol if rtol is None else rtol,
            atol=default_atol if atol is None else atol,
            equal_nan=True,
        )
    else:
        wrong = np.asarray(expected != found)
    if not np.any(wrong):
        return []
    where = np.argwhere(wrong)
    first = tuple(int(i) for i in where[0])
    return [
        f"{label}: {len(where)} of {expected.size} values differ, first at {list(first)}: "
        f"{found[first]!r}, TensorFlow's is {expected[first]!r}\n"
        f"    ours: {_brief(found)}\n    TensorFlow's: {_brief(expected)}"
    ]


def shape_differences(
    label: str,
    expected: list[int | None] | None,
    found: list[int | None] | None,
    actual: tuple[int, ...] | None,
) -> list[str]:
    """What is wrong with an inferred static shape.

    All that TensorFlow infers must be inferred. Knowing more is no fault, as long as it is true of
    the value that came out.
    """
    if expected is not None and actual is not None and not _could_be(expected, actual):
        expected = None  # TensorFlow itself is wrong about some diagonals of unknown length.
    if expected is not None and found is None:
        return [f"{label}: static shape is unknown, TensorFlow's is {expected}"]
    if found is None:
        return []
    if expected is not None and len(expected) != len(found):
        return [f"{label}: static shape is {found}, TensorFlow's is {expected}"]
    if expected is not None:
        missed = [e is not None and e != f for e, f in zip(expected, found, strict=True)]
        if any(missed):
            return [f"{label}: static shape is {found}, TensorFlow's is {expected}"]
    if actual is not None and not _could_be(found, actual):
        return [f"{label}: static shape is {found}, but the value has shape {list(actual)}"]
    return []


def _could_be(shape: list[int | None], actual: tuple[int, ...]) -> bool:
    return len(shape) == len(actual) and all(
        size in (None, real) for size, real in zip(shape, actual, strict=True)
    )


def _as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _brief(value: Any) -> str:
    if value is None:
        return "nothing"
    return np.array2string(np.asarray(value), threshold=24, precision=7).replace("\n", "")
