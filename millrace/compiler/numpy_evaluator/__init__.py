"""Evaluating what JAX has traced with NumPy: kernels run at any shape without a compiler.

`program.evaluated` turns a jaxpr into a list of NumPy calls. Each primitive of JAX has a rule; the
rules are kept by family: elementwise, shapes, reductions, products, indexing, windows, control,
linalg, random_bits. Importing this package fills the table (`rules.RULES`).
"""

from millrace.compiler.numpy_evaluator import (
    control,
    elementwise,
    indexing,
    linalg,
    products,
    random_bits,
    reductions,
    shapes,
    windows,
)
from millrace.compiler.numpy_evaluator.program import Evaluated, evaluated
from millrace.compiler.numpy_evaluator.rules import RULES, has_rule

__all__ = [
    "RULES",
    "Evaluated",
    "control",
    "elementwise",
    "evaluated",
    "has_rule",
    "indexing",
    "linalg",
    "products",
    "random_bits",
    "reductions",
    "shapes",
    "windows",
]
