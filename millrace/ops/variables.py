"""To be written."""

from __future__ import annotations

from millrace.ops import variable_ops, variable_slices  # noqa: F401

__all__: list[str] = []
