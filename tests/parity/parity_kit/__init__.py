"""What a case library needs: declare cases and scenarios, and the inputs they are fed.

Case files import only from here. Nothing in this package imports TensorFlow or Millrace: the
module under test is an argument everywhere, so that one case runs on both.
"""

from parity_kit.inputs import (
    Input,
    array,
    bools,
    complexes,
    floats,
    ints,
    permutation,
    positive,
    strings,
)
from parity_kit.registry import Case, Raises, Scenario, case, cases, scenario

__all__ = [
    "Case",
    "Input",
    "Raises",
    "Scenario",
    "array",
    "bools",
    "case",
    "cases",
    "complexes",
    "floats",
    "ints",
    "permutation",
    "positive",
    "scenario",
    "strings",
]
