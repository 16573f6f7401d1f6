"""The one place where jax is configured; ops and runtime import it from here.

64-bit types must be on before the first array is made: TensorFlow's int64, float64 and
complex128 are what they say.
"""

from __future__ import annotations

import logging

import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
# It tells of every kind of device that this machine lacks.
logging.getLogger("jax._src.xla_bridge").setLevel(logging.WARNING)

__all__ = ["jax", "jnp", "lax"]
