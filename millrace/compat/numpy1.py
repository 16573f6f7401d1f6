"""What programs of TensorFlow 1's time expect of NumPy, and NumPy 2 no longer does.

Only `millrace run` asks for it; a program that imports Millrace by its name gets NumPy as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.client import fetches

#: Names that NumPy had for Python's own types.
_ALIASES: dict[str, Any] = {
    "bool": np.bool_,
    "complex": complex,
    "float": float,
    "float_": np.float64,
    "int": int,
    "object": object,
    "str": str,
    "unicode_": np.str_,
    "string_": np.bytes_,
    "Inf": np.inf,
    "NaN": np.nan,
    "infty": np.inf,
    "product": np.prod,
    "cumproduct": np.cumprod,
    "sometrue": np.any,
    "alltrue": np.all,
}


class OneElementArray(np.ndarray[Any, Any]):
    """An array of one element, of any rank, that is a number where one is wanted."""

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())


def _as_before(value: Any) -> Any:
    if type(value) is np.ndarray and value.size == 1 and value.ndim:
        return value.view(OneElementArray)
    return value


def install() -> None:
    """Brings the old behaviour back, in this process."""
    for name, value in _ALIASES.items():
        if name not in vars(np):
            setattr(np, name, value)
    fetches.present = _as_before


def uninstall() -> None:
    """Takes the part of `install` back that concerns sessions."""
    fetches.present = None
