"""Check a module's analytic gradients against numeric differentiation of the same module.

For a scalar L = sum of (incoming gradient * output), the derivative along a random direction v is
compared with <gradient, v>. Two random directions per input meet any wrong element with
probability one, and need four runs where element by element would need two runs per element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parity_kit.execution import Built, add_gradients, arrays_of, build, initialize, run
from parity_kit.inputs import generator
from parity_kit.registry import Case

DIRECTIONS = 2
# Step and tolerances: the error of a central difference is step^2 plus rounding over step.
SETTINGS = {"float64": (1e-5, 2e-5, 1e-6), "float32": (5e-3, 3e-2, 1e-2)}


def numeric_differences(
    tf: Any, case: Case, precision: str, shapes: dict[str, tuple[int, ...]] | None
) -> list[str]:
    """Where analytic and numeric derivatives of a case disagree.

    Args:
        precision: "float64" builds the case with float64 in place of float32 inputs.
        shapes: the outputs' run-time shapes by path, if known.
    """
    step, rtol, atol = SETTINGS[precision]
    arrays = arrays_of(case, double=precision == "float64")
    built = build(tf, case, arrays, "known")
    with tf.Session(graph=built.graph) as session:
        initialize(tf, built.graph, session)
        if shapes is None:
            forward = run(tf, built, arrays, session)["outputs"]
            shapes = {path: np.shape(value) for path, value in forward.items()}
        add_gradients(tf, case, built, shapes, "known")
        initialize(tf, built.graph, session)
        exact = run(tf, built, arrays, session)
        found = []
        for order in ("first", "second") if case.second_order else ("first",):
            gradients = exact["gradients" if order == "first" else "second"]
            for name in case.grad:
                if arrays[name].dtype.kind != "f":
                    continue
                gradient = gradients.get(name, np.zeros_like(arrays[name]))
                for number in range(DIRECTIONS):
                    rng = generator(case.id, "direction", order, name, str(number))
                    direction = rng.uniform(-1.0, 1.0, size=arrays[name].shape)
                    slope = _slope(tf, built, arrays, session, name, direction, step, order)
                    analytic = float(np.sum(gradient.astype(np.float64) * direction))
                    if not np.isclose(analytic, slope, rtol=rtol, atol=atol, equal_nan=False):
                        found.append(
                            f"{order} derivative along a direction of {name}: "
                            f"analytic {analytic!r}, numeric {slope!r}"
                        )
        return found


def _slope(
    tf: Any,
    built: Built,
    arrays: dict[str, np.ndarray],
    session: Any,
    name: str,
    direction: np.ndarray,
    step: float,
    order: str,
) -> float:
    ends = []
    for sign in (1.0, -1.0):
        moved = dict(arrays)
        moved[name] = np.asarray(
            (arrays[name] + sign * step * direction).astype(arrays[name].dtype)
        )
        values = run(tf, built, moved, session)
        total = 0.0
        for key, (_, seed) in built.seeds.items():
            if order == "first" and key.startswith("output"):
                value = values["outputs"][key.removeprefix("output")]
            elif order == "second" and key.startswith("gradient/"):
                value = values["gradients"][key.removeprefix("gradient/")]
            else:
                continue
            # Where there was nothing to reduce over, the lowest number there is comes out.
            value = np.where(np.abs(value) < 1e30, value, 0.0)
            # For complex outputs TensorFlow's gradient is that of the real part of conj(seed)*out.
            product = np.conj(seed.astype(np.complex128)) * value.astype(np.complex128)
            total += float(np.sum(product.real))
        ends.append(total)
    return (ends[0] - ends[1]) / (2.0 * step)
