"""Optimizers outside the graph: SciPy's loop asks sessions for losses and gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize

import millrace as tf


class ExternalOptimizerInterface:
    """Minimizes a loss with an algorithm that runs outside of the graph.

    Args:
      loss: A scalar.
      var_list: What to change; all trainable variables by default.
      equalities: Tensors that are to be zero.
      inequalities: Tensors that are not to be negative.
      var_to_bounds: Least and largest values, by variable.
      optimizer_kwargs: Options of the algorithm.
    """

    def __init__(
        self, loss: Any, var_list: Any = None, equalities: Any = None, inequalities: Any = None,
        var_to_bounds: Any = None, **optimizer_kwargs: Any,
    ) -> None:  # fmt: skip
        self._loss = loss
        self._equalities, self._inequalities = equalities or [], inequalities or []
        self._vars = list(tf.trainable_variables() if var_list is None else var_list)
        self._packed_bounds = self._pack_bounds(var_to_bounds)
        self._update_placeholders = [tf.placeholder(v.dtype.base_dtype) for v in self._vars]
        self._var_updates = [
            v.assign(tf.reshape(fed, v.shape.as_list()))
            for v, fed in zip(self._vars, self._update_placeholders, strict=True)
        ]
        self._packed_loss_grad = self._packed_gradient(loss)
        self._packed_equality_grads = [self._packed_gradient(e) for e in self._equalities]
        self._packed_inequality_grads = [self._packed_gradient(e) for e in self._inequalities]
        self.optimizer_kwargs = optimizer_kwargs
        self._packed_var = self._pack(self._vars)
        ends = np.cumsum([0] + [int(np.prod(v.shape.as_list())) for v in self._vars])
        self._slices = [slice(a, b) for a, b in itertools.pairwise(ends)]

    def minimize(
        self, session: Any = None, feed_dict: Any = None, fetches: Any = None,
        step_callback: Any = None, loss_callback: Any = None, **run_kwargs: Any,
    ) -> None:  # fmt: skip
        """Leaves the variables where the loss is least.

        Args:
          session: The default one, if None.
          feed_dict: Fed in every run.
          fetches: What `loss_callback` is given.
          step_callback: Called with the packed variables after each step.
          loss_callback: Called with `fetches` at each evaluation of loss and gradient.
          run_kwargs: More arguments of `Session.run`.
        """
        session = session or tf.get_default_session()
        feed, fetches = dict(feed_dict or {}), list(fetches or [])
        notify = loss_callback or (lambda *_: None)
        step = step_callback or (lambda _: None)

        def evaluated(
            tensors: Sequence[Any], more: Sequence[Any] = (), tell: Any = None
        ) -> Callable[[Any], list[Any]]:
            def at(x: Any) -> list[Any]:
                fed = {v: x[s].reshape(v.shape.as_list())
                       for v, s in zip(self._vars, self._slices, strict=True)}  # fmt: skip
                found = session.run([*tensors, *more], {**fed, **feed}, **run_kwargs)
                if tell is not None:
                    tell(*found[len(tensors) :])
                return [np.asarray(each) for each in found[: len(tensors)]]

            return at

        start = session.run(self._packed_var, feed, **run_kwargs)
        loss_at = evaluated([self._loss, self._packed_loss_grad], fetches, notify)
        # For constraints the algorithm asks for value and gradient apart.
        constraints = [
            (evaluated([value]), evaluated([slope]))
            for value, slope in zip(
                [*self._equalities, *self._inequalities],
                [*self._packed_equality_grads, *self._packed_inequality_grads],
                strict=True,
            )
        ]
        count = len(self._equalities)
        best = self._minimize(
            initial_val=start,
            loss_grad_func=loss_at,
            equality_funcs=[c[0] for c in constraints[:count]],
            equality_grad_funcs=[c[1] for c in constraints[:count]],
            inequality_funcs=[c[0] for c in constraints[count:]],
            inequality_grad_funcs=[c[1] for c in constraints[count:]],
            packed_bounds=self._packed_bounds,
            step_callback=step,
            optimizer_kwargs=self.optimizer_kwargs,
        )
        fed = {p: best[s] for p, s in zip(self._update_placeholders, self._slices, strict=True)}
        session.run(self._var_updates, fed, **run_kwargs)

    def _minimize(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            "To use ExternalOptimizerInterface, subclass it and implement _minimize"
        )

    def _pack_bounds(self, var_to_bounds: Any) -> Any:
        if var_to_bounds is None:
            return None
        packed: list[Any] = []
        for variable in self._vars:
            shape = variable.shape.as_list()
            least, most = var_to_bounds.get(variable, (-np.inf, np.inf))
            pairs = [np.broadcast_to(end, shape).ravel().tolist() for end in (least, most)]
            packed.extend(zip(*pairs, strict=True))
        return packed

    def _pack(self, tensors: Sequence[Any]) -> Any:
        flat = [tf.reshape(each, [-1]) for each in tensors]
        return flat[0] if len(flat) == 1 else tf.concat(flat, 0)

    def _packed_gradient(self, of: Any) -> Any:
        found = tf.gradients(of, self._vars)
        return self._pack(
            [tf.zeros_like(v) if g is None else tf.convert_to_tensor(g)
             for g, v in zip(found, self._vars, strict=True)]
        )  # fmt: skip


class ScipyOptimizerInterface(ExternalOptimizerInterface):
    """`scipy.optimize.minimize`; ``method`` is L-BFGS-B by default, SLSQP with constraints."""

    _DEFAULT_METHOD = "L-BFGS-B"

    def _minimize(
        self, initial_val: Any, loss_grad_func: Any, equality_funcs: Any, equality_grad_funcs: Any,
        inequality_funcs: Any, inequality_grad_funcs: Any, packed_bounds: Any, step_callback: Any,
        optimizer_kwargs: Any,
    ) -> Any:  # fmt: skip
        def precise(x: Any) -> Any:
            loss, slope = loss_grad_func(x)
            return loss.astype("float64").item(), slope.astype("float64")

        def one(function: Any) -> Any:
            return lambda x: function(x)[0].astype("float64")

        options = dict(optimizer_kwargs.items())
        constraints = [
            {"type": kind, "fun": one(value), "jac": one(slope), "args": []}
            for kind, values, slopes in (
                ("eq", equality_funcs, equality_grad_funcs),
                ("ineq", inequality_funcs, inequality_grad_funcs),
            )
            for value, slope in zip(values, slopes, strict=True)
        ]
        method = options.pop("method", "SLSQP" if constraints else self._DEFAULT_METHOD)
        arguments: dict[str, Any] = {
            "jac": True, "callback": step_callback, "method": method, "bounds": packed_bounds,
        }  # fmt: skip
        if constraints:
            arguments["constraints"] = constraints
        if "callback" in options:
            raise ValueError("Callback must be passed as step_callback to minimize")
        for name in ("jac", "constraints"):
            if name in options:
                raise ValueError(
                    f"Optimizer keyword arg '{name}' is set automatically; do not set it manually"
                )
        arguments.update(options)
        result = scipy.optimize.minimize(
            precise, np.asarray(initial_val, dtype="float64"), **_supported(arguments)
        )
        lines = [f"Optimization terminated with:\n  Message: {result.message}"]
        lines.append(f"  Objective function value: {result.fun:f}")
        lines += [f"  Number of {what}: {getattr(result, name)}"
                  for what, name in (("iterations", "nit"), ("functions evaluations", "nfev"))
                  if hasattr(result, name)]  # fmt: skip
        tf.logging.info("\n".join(lines))
        return result["x"]


#: Options that SciPy no longer knows, and that changed what is printed or approximated only.
_GONE = ("disp", "iprint")


def _supported(arguments: dict[str, Any]) -> dict[str, Any]:
    options = dict(arguments.get("options") or {})
    kept = {k: v for k, v in options.items() if k not in _GONE}
    return {**arguments, "options": kept} if options else arguments
