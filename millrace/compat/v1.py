"""`tf.compat.v1`: the namespace `millrace` itself, which is TensorFlow 1's.

Every look-up goes on to the package, so that both always have the same names.
"""

from __future__ import annotations

import sys
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return [each for each in __dir__() if not each.startswith("_")]
    # The package imports this module while it is itself being imported.
    try:
        return getattr(sys.modules["millrace"], name)
    except AttributeError:
        raise AttributeError(f"module 'millrace.compat.v1' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return dir(sys.modules["millrace"])
