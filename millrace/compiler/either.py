"""NumPy's functions for NumPy's arrays, JAX's for JAX's: for formulas that serve both tiers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.compiler.xla import jax, jnp, lax


class _Either:
    """Stands for the namespace that the arguments of a call belong to."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        on_host, traced = getattr(np, name), getattr(jnp, name)

        def call(*values: Any) -> Any:
            if type(values[0]) is np.ndarray:
                return on_host(*values)
            return (traced if any(isinstance(v, jax.Array) for v in values) else on_host)(*values)

        setattr(self, name, call)
        return call

    def rsqrt(self, x: Any) -> Any:
        """One divided by the square root."""
        return (
            1 / np.sqrt(x)
            if type(x) is np.ndarray or not isinstance(x, jax.Array)
            else lax.rsqrt(x)
        )


either = _Either()
