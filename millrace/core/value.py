"""The values that travel between ops, stages and tasks."""

from __future__ import annotations

from typing import Any, TypeAlias

#: An array of NumPy or JAX, a TensorArray's contents, the identity of a variable (`VariableRef`),
#: what is written when its place is known (`Written`), or DEAD. No common class describes them.
Value: TypeAlias = Any
