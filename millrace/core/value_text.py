"""Arrays as text, as TensorFlow writes them in assertions, `tf.Print` and `tf.print`.

`summary` is the old form: the first entries in one line. `pretty` is the form of `tf.print`:
the first and last entries of each dimension, one row a line.

Must not: round what is shown. A float is written with as few digits as give it back.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_ESCAPES = {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    ord('"'): '\\"',
    ord("'"): "\\'",
    ord("\\"): "\\\\",
}


def escape(text: bytes) -> str:
    """Text with control characters, quotes and bytes beyond ASCII written as in C."""
    return "".join(
        _ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in text
    )


def entry(value: Any, quoted: bool = False) -> str:
    """One element.

    Args:
        value: A NumPy scalar, or bytes.
        quoted: Whether text stands in double quotes.
    """
    if isinstance(value, bytes):
        return f'"{escape(value)}"' if quoted else escape(value)
    kind = getattr(value, "dtype", np.dtype(object)).kind
    if kind == "b":
        return "1" if value else "0"
    if kind in "iu":
        return str(int(value))
    if kind == "f" or kind == "V":  # V: bfloat16 and the other types that NumPy lacks
        return _float(float(value), is_double=getattr(value, "dtype", None) == np.float64)
    if kind == "c":
        return "?"  # TensorFlow has no text for complex numbers
    return str(value)


def _float(value: float, is_double: bool) -> str:
    # The shorter form if it reads back as the same number, else one that does.
    short, long = (".15g", ".17g") if is_double else (".6g", ".9g")
    text = format(value, short)
    same = float(text) == value if is_double else np.float32(text) == np.float32(value)
    return text if same or value != value else format(value, long)


def summary(array: Array, max_entries: int = 3, shape: tuple[int, ...] | None = None) -> str:
    """The first entries of an array in one line, without the outermost brackets.

    Args:
        array: The array; strings as an object array of bytes.
        max_entries: How many entries to show; all if negative.
        shape: The shape of the whole, when `array` is only its first entries.
    """
    sizes = array.shape if shape is None else shape
    rank, size = len(sizes), math.prod(sizes)
    limit = size if max_entries < 0 else min(max_entries, size)
    flat = array.reshape(-1)
    parts: list[str] = []
    shown = 0

    def write(axis: int) -> None:
        nonlocal shown
        if shown >= limit:
            return
        if axis >= rank - 1:
            for i in range(sizes[axis] if rank else 1):
                if shown >= limit:
                    if axis:
                        parts.append("...")
                    return
                parts.append((" " if i else "") + entry(flat[shown]))
                shown += 1
            return
        for _ in range(sizes[axis]):
            if shown >= limit:
                return
            parts.append("[")
            write(axis + 1)
            parts.append("]")

    write(0)
    if size > limit:
        parts.append("...")
    return "".join(parts)


def pretty(array: Array, max_entries: int = 3) -> str:
    """An array in brackets, rows under each other, with `...` for the middle of long dimensions.

    Args:
        array: The array; strings as an object array of bytes.
        max_entries: How many entries of each dimension to show at its start and at its end; all
            if negative.
    """
    ends = array.size if max_entries < 0 else min(max_entries, array.size)
    if array.ndim == 0:
        return entry(array[()], quoted=True) if ends else "..."
    return _pretty_axis(array, 0, array.ndim, ends)


def _pretty_axis(array: Array, axis: int, rank: int, ends: int) -> str:
    if axis == rank:
        return entry(array[()] if isinstance(array, np.ndarray) else array, quoted=True)
    space = " " if axis == rank - 1 else "\n" * (rank - axis - 1) + " " * (axis + 1)
    count = len(array)
    positions = range(min(ends, count))
    text = space.join(_pretty_axis(array[i], axis + 1, rank, ends) for i in positions)
    if count > 2 * ends:
        text += space + "..."
    for i in range(max(ends, count - ends), count):
        text += space + _pretty_axis(array[i], axis + 1, rank, ends)
    return f"[{text}]"
