"""The one place where jax is configured; ops and runtime import it from here.

64-bit types must be on before the first array is made: TensorFlow's int64, float64 and
complex128 are what they say.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]

__all__ = ["jax", "jnp", "lax"]
