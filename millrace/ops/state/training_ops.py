"""Op types that apply a gradient to a variable: one rule each, in up to four forms.

``ApplyX`` updates a whole variable by reference, ``ResourceApplyX`` through a handle, and
``SparseApplyX`` and ``ResourceSparseApplyX`` only the rows that a sparse gradient names. A
sparse update gathers those rows of the variable and its slots, applies the rule, and scatters
them back into the donated buffers; nothing of the variable's size is made. Rows that are named
more than once are updated once for each time, in order, as TensorFlow's kernels do. (Its
optimizers add such gradients up beforehand.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.compiler import one_pass
from millrace.compiler.xla import jnp, lax
from millrace.core.tensor_shape import TensorShape
from millrace.graph.constant_value import check_now
from millrace.graph.define import Op, op
from millrace.graph.registry import NO_GRADIENT, HostRule
from millrace.graph.shape_inference import ShapeContext, ShapeRule, merge_shapes
from millrace.ops.array.rules import are_rows
from millrace.ops.cluster import few_unique as _few  # noqa: F401 - registers itself
from millrace.ops.cluster import routed_rows as _between_tasks  # noqa: F401 - registers itself
from millrace.ops.cluster.padded_unique import padding
from millrace.ops.state import training_rules as rules
from millrace.ops.state.row_updates import (
    DENSE_UPDATES,
    ROW_UPDATES,
    DenseUpdate,
    RowUpdate,
)
from millrace.ops.state.variable_ops import shape_behind_handle, shape_text
from millrace.ops.state.variable_slices import in_bounds

__all__: list[str] = []

#: Rows are told apart in a table of at most this many entries; see `_one_by_one`.
_MAX_TABLE = 1 << 20

Rule = Callable[..., tuple[Any, ...]]


class _Algorithm:
    """One optimizer's update, from which its op types are made.

    Attributes:
      name: The part of the op types' names that is its own.
      slots: Names of the slot inputs.
      inputs: Names of the further inputs of the dense forms, in order.
      flags: Attributes that the rule takes.
      gradient: The input that is the gradient.
    """

    def __init__(
        self, name: str, rule: Rule, slots: str, inputs: str, flags: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.rule = rule
        self.slots = slots.split()
        self.inputs = inputs.split()
        self.flags = tuple(flags)
        self.gradient = "delta" if "delta" in self.inputs else "grad"

    @property
    def variables(self) -> list[str]:
        """The variable and its slots."""
        return ["var", *self.slots]

    def signature(self, by_handle: bool, sparse: bool) -> str:
        """The signature of one form."""
        kind = "resource" if by_handle else "ref(T)"
        parts = [f"{name}: {kind}" for name in self.variables]
        for name in self.inputs:
            if name == self.gradient and sparse:
                parts += ["grad: T", "indices: Tindices"]
            else:
                parts.append(f"{name}: {'int64' if name == 'global_step' else 'T'}")
        text = f"{'Resource' if by_handle else ''}{'Sparse' if sparse else ''}Apply{self.name}"
        text += f"({', '.join(parts)})" + ("" if by_handle else " -> out: ref(T)")
        text += " where T: number" + ("; Tindices: index" if sparse else "")
        text += "; use_locking: bool = false"
        for flag in self.flags:
            text += f"; {flag}: bool = {'true' if flag == 'update_slots' else 'false'}"
        return text

    def bind(self, inputs: Sequence[Any], node: Any, sparse: bool) -> tuple[Any, Any, Any, Any]:
        """(variables, gradient, indices or None, other arguments of the rule) of a call."""
        names = list(self.inputs)
        if sparse:
            place = names.index(self.gradient)
            names[place : place + 1] = [self.gradient, "indices"]
        count = len(self.variables)
        given = dict(zip(names, inputs[count:], strict=True))
        gradient, indices = given.pop(self.gradient), given.pop("indices", None)
        for name, value in given.items():
            if value.ndim:
                raise ValueError(f"{name} is not a scalar: {shape_text(value.shape)}")
        given.update({flag: bool(node.attrs[flag]) for flag in self.flags})
        return list(inputs[:count]), gradient, indices, given

    def new_rows(self, rows: Sequence[Any], given: Sequence[Any], node: Any) -> Sequence[Any]:
        """What becomes of rows of the variable and its slots; see `RowUpdate`."""
        _, gradient, _, hyper = self.bind([*rows, *given], node, sparse=True)
        new = one_pass.apply(self.rule, gradient, rows, hyper)
        return [part.astype(old.dtype) for part, old in zip(new, rows, strict=True)]


# -- Shapes --------------------------------------------------------------------------------


def _shape_rule(algorithm: _Algorithm, by_handle: bool, sparse: bool) -> ShapeRule:
    def rule(c: ShapeContext) -> Any:
        shape = TensorShape(None)
        for i, name in enumerate(algorithm.variables):
            if by_handle:
                behind = c.handle(i)
                own = TensorShape(None) if behind is None else behind[0]
                if i == 0:
                    own = shape_behind_handle(c, c.attr("T"))
            else:
                own = c.shape(name)
            shape = merge_shapes(shape, own)
        for name in algorithm.inputs:
            if name == algorithm.gradient:
                continue
            given = c.shape(name)
            if given.ndims not in (None, 0):
                raise ValueError(f"Shape must be rank 0 but is rank {given.ndims}")
        if not sparse:
            shape = merge_shapes(shape, c.shape(algorithm.gradient))
        elif shape.ndims:
            indices = c.shape("indices").with_rank(1)
            merge_shapes(c.shape("grad"), indices.concatenate(shape[1:]))
        return [] if by_handle else shape

    return rule


# -- Kernels -------------------------------------------------------------------------------


def _update(algorithm: _Algorithm, inputs: Sequence[Any], node: Any) -> None:
    """Applies the rule to a whole variable."""
    variables, gradient, _, hyper = algorithm.bind(inputs, node, sparse=False)
    values = [variable.read() for variable in variables]
    _check_shapes(values[0].shape, algorithm.slots, values[1:])
    _check_shapes(values[0].shape, [algorithm.gradient], [gradient])
    new = one_pass.apply(algorithm.rule, gradient, values, hyper)
    for variable, value in zip(variables, new, strict=True):
        variable.write(value)


def _check_shapes(wanted: Any, names: Sequence[str], values: Sequence[Any]) -> None:
    for name, value in zip(names, values, strict=True):
        if value.shape != wanted:
            raise ValueError(
                f"var and {name} do not have the same shape {shape_text(wanted)} "
                f"{shape_text(value.shape)}"
            )


def _check_sparse_shapes(
    algorithm: _Algorithm, values: Sequence[Any], gradient: Any, indices: Any
) -> None:
    shape = values[0].shape
    _check_shapes(shape, algorithm.slots, values[1:])
    if not shape:
        raise ValueError("var must be at least 1 dimensional")
    if indices.ndim != 1:
        raise ValueError(f"indices must be one-dimensional, not {shape_text(indices.shape)}")
    if gradient.shape != indices.shape + shape[1:]:
        raise ValueError(
            f"grad must have the shape {shape_text(indices.shape + shape[1:])}, one slice of var "
            f"for each index, but has {shape_text(gradient.shape)}"
        )


def _update_rows(algorithm: _Algorithm, inputs: Sequence[Any], node: Any, check: Any) -> None:
    """Applies the rule to the rows that a sparse gradient names."""
    variables, gradient, indices, hyper = algorithm.bind(inputs, node, sparse=True)
    values = [jnp.asarray(variable.read()) for variable in variables]
    _check_sparse_shapes(algorithm, values, gradient, indices)
    count = values[0].shape[0]
    _check_rows(indices, count, check, bool(node.attrs.get("_padded")))
    if not indices.shape[0]:
        return
    rows = in_bounds(jnp.asarray(indices), count)

    def apply(tables: Sequence[Any], places: Any) -> tuple[Any, ...]:
        """The tables with the rows at `places` updated; places past the end are left out."""
        source = jnp.minimum(places, count - 1)
        old = [table.at[source].get(mode="promise_in_bounds") for table in tables]
        new = algorithm.rule(old[0], gradient, *old[1:], **hyper)
        # All rows are read before the first is written: so XLA writes in place.
        new = lax.optimization_barrier(tuple(new))  # type: ignore[no-untyped-call]
        return tuple(
            table.at[places].set(part.astype(table.dtype), mode="drop")
            for table, part in zip(tables, new, strict=True)
        )

    if _are_unique(node, len(variables) + _position_of_indices(algorithm)):
        results = apply(values, rows)
    else:
        results = _one_by_one(apply, tuple(values), rows, count)
    for variable, value in zip(variables, results, strict=True):
        variable.write(value)


def _update_rows_on_host(
    algorithm: _Algorithm, inputs: Sequence[Any], node: Any, check: Any
) -> None:
    """As `_update_rows`, on NumPy: only the rows are read and written."""
    variables, gradient, indices, hyper = algorithm.bind(inputs, node, sparse=True)
    tables = [variable.read() for variable in variables]
    is_padded = bool(node.attrs.get("_padded"))
    _check_sparse_shapes(algorithm, tables, gradient, indices)
    _check_rows(indices, len(tables[0]), check, is_padded)
    if is_padded:
        named = indices != padding(indices.dtype)
        indices, gradient = indices[named], gradient[named]
    unique = _are_unique(node, len(variables) + _position_of_indices(algorithm))
    rounds = [slice(None)] if unique else _rounds(indices)
    for chosen in rounds:
        rows = indices[chosen]
        old = [variable.read()[rows] for variable in variables]
        new = algorithm.rule(old[0], gradient[chosen], *old[1:], **hyper)
        for variable, part, before in zip(variables, new, old, strict=True):
            variable.write_rows(rows, np.asarray(part).astype(before.dtype, copy=False))


def _on_host(algorithm: _Algorithm, sparse: bool) -> HostRule:
    """States how to make the kernel of a node for NumPy: an update in place, block by block."""

    def rule(node: Any, known: Sequence[Any]) -> Callable[..., Any] | None:
        count = len(algorithm.variables)
        names = list(algorithm.inputs)
        gradient = count + names.index(algorithm.gradient)
        if sparse:
            names.insert(gradient - count + 1, "indices")
        is_padded = bool(node.attrs.get("_padded"))
        indices = gradient + 1
        hyper = [
            (name, count + i)
            for i, name in enumerate(names)
            if name not in (algorithm.gradient, "indices")
        ]
        flags = {flag: bool(node.attrs[flag]) for flag in algorithm.flags}
        unique = sparse and _are_unique(node, indices)
        formula = algorithm.rule

        def update(*inputs: Any) -> Any:
            variables, grad = inputs[:count], inputs[gradient]
            given = {name: inputs[i] for name, i in hyper}
            shape = variables[0].read().shape
            if any(v.read().shape != shape for v in variables[1:]) or any(
                value.ndim for value in given.values()
            ):
                raise ValueError("Shapes differ")
            given.update(flags)
            if not sparse:
                if grad.shape != shape:
                    raise ValueError("Shapes differ")
                variables[0].change(variables[1:], lambda t: _in_blocks(formula, t, grad, given))
                return variables[0]
            rows = inputs[indices]
            if rows.ndim != 1 or not shape or grad.shape != rows.shape + shape[1:]:
                raise ValueError("Shapes differ")
            if is_padded:
                named = rows != padding(rows.dtype)
                rows, grad = rows[named], grad[named]
            if not are_rows(rows, shape[0]):
                raise ValueError("Some are no rows")
            rounds = [slice(None)] if unique else _rounds(rows)
            variables[0].change(
                variables[1:], lambda t: _in_rows(formula, t, grad, rows, rounds, given)
            )
            return variables[0]

        return update

    return rule


#: So many elements of a variable, its slots, its gradient and what lies between fit a core's cache.
_BLOCK = 1 << 14


def _in_blocks(rule: Rule, tables: Sequence[Any], gradient: Any, hyper: dict[str, Any]) -> None:
    """Applies a rule to whole tables, in place."""
    if tables[0].size <= _BLOCK:
        for table, new in zip(tables, rule(tables[0], gradient, *tables[1:], **hyper), strict=True):
            table[...] = new
        return
    flat = [table.reshape(-1) for table in tables]
    if not all(np.may_share_memory(a, b) for a, b in zip(flat, tables, strict=True)):
        for table, new in zip(tables, rule(tables[0], gradient, *tables[1:], **hyper), strict=True):
            table[...] = new
        return
    gradient = gradient.reshape(-1)
    for begin in range(0, gradient.size, _BLOCK):
        block = slice(begin, begin + _BLOCK)
        old = [table[block] for table in flat]
        for part, new in zip(old, rule(old[0], gradient[block], *old[1:], **hyper), strict=True):
            part[...] = new


def _in_rows(
    rule: Rule,
    tables: Sequence[Any],
    gradient: Any,
    rows: Any,
    rounds: Sequence[Any],
    hyper: dict[str, Any],
) -> None:
    """Applies a rule to rows of tables, in place."""
    for chosen in rounds:
        places = rows[chosen]
        old = [table.take(places, 0) for table in tables]
        new = rule(old[0], gradient[chosen], *old[1:], **hyper)
        for table, part in zip(tables, new, strict=True):
            table[places] = part


def _rounds(rows: Any) -> list[Any]:
    """Positions, so that no round has a row twice and rows keep their order."""
    order = np.argsort(rows, kind="stable")
    ranked = rows[order]
    begins = np.concatenate([[True], ranked[1:] != ranked[:-1]]) if len(rows) else ranked == 0
    place = np.arange(len(rows))
    rank = place - np.maximum.accumulate(np.where(begins, place, 0))
    return [order[rank == turn] for turn in range(int(rank.max(initial=-1)) + 1)]


def _position_of_indices(algorithm: _Algorithm) -> int:
    return algorithm.inputs.index(algorithm.gradient) + 1


def _check_rows(indices: Any, count: int, check: Any, padded: bool) -> None:
    none = padding(indices.dtype) if padded else -1

    def message(found: Any) -> str:
        bad = int(np.argmax(((found < 0) | (found >= count)) & ~(padded & (found == none))))
        return (
            f"Index {found[bad]} at offset {bad} in indices is out of range: var has {count} rows"
        )

    if check is check_now and not padded:
        if not are_rows(indices, count):
            raise ValueError(message(indices))
        return
    good = (indices >= 0) & (indices < count)
    check(good | (indices == none) if padded else good, message, indices)


def _are_unique(node: Any, position: int) -> bool:
    """Whether no index can repeat: they are what Unique found, as optimizers see to."""
    if node.attrs.get("_distinct"):
        return True
    edge = node.inputs[position]
    while edge.node.type == "Identity":
        edge = edge.node.inputs[0]
    return edge.node.type in ("Unique", "UniqueV2", "_PaddedUnique") and edge.index == 0


def _one_by_one(
    apply: Callable[[Sequence[Any], Any], tuple[Any, ...]],
    tables: tuple[Any, ...],
    rows: Any,
    count: int,
) -> tuple[Any, ...]:
    """Applies in rounds, so that a row which is named twice is updated twice.

    Each round takes the earliest of those that wait for one entry of a small table; without
    repetition (and with few enough rows) there is one round.
    """
    size = min(count, _MAX_TABLE)
    place = jnp.arange(rows.shape[0], dtype=jnp.int32)
    entry = (rows % size).astype(jnp.int32)

    def body(state: Any) -> Any:
        values, waiting = state
        table = jnp.full(size, rows.shape[0], jnp.int32)
        table = table.at[jnp.where(waiting, entry, size)].min(place, mode="drop")
        turn = waiting & (table[entry] == place)
        return apply(values, jnp.where(turn, rows, count)), waiting & ~turn

    values, _ = lax.while_loop(lambda state: state[1].any(), body, (tables, rows < count))
    return tuple(values)


# -- Op types ------------------------------------------------------------------------------


def _form(algorithm: _Algorithm, by_handle: bool, sparse: bool) -> Op:
    decorate = op(
        algorithm.signature(by_handle, sparse),
        shape=_shape_rule(algorithm, by_handle, sparse),
        gradient=NO_GRADIENT,
        updates=algorithm.variables,
        stateful=by_handle,
    )
    if sparse:

        def update_rows(*inputs: Any, node: Any, check: Any, xp: Any) -> Any:
            update = _update_rows_on_host if xp is np else _update_rows
            update(algorithm, inputs, node, check)
            return None if by_handle else inputs[0]

        update_rows.__doc__ = algorithm.rule.__doc__
        made = decorate(update_rows)
        made.on_host(_on_host(algorithm, sparse=True))
        gradient = len(algorithm.variables) + algorithm.inputs.index(algorithm.gradient)
        ROW_UPDATES[made.name] = RowUpdate(
            len(algorithm.variables), gradient, gradient + 1, algorithm.new_rows
        )
        return made

    def update(*inputs: Any, node: Any, xp: Any) -> Any:
        _update(algorithm, inputs, node)
        return None if by_handle else inputs[0]

    update.__doc__ = algorithm.rule.__doc__
    made = decorate(update)
    made.on_host(_on_host(algorithm, sparse=False))
    one_pass.UPDATES.add(made.name)
    first = len(algorithm.variables)
    places = {name: first + i for i, name in enumerate(algorithm.inputs)}
    gradient = places.pop(algorithm.gradient)
    DENSE_UPDATES[made.name] = DenseUpdate(
        first, gradient, tuple(places.items()), algorithm.flags, algorithm.rule
    )
    return made


def _dense(algorithm: _Algorithm) -> tuple[Op, Op]:
    """The reference and resource forms for whole variables."""
    return _form(algorithm, False, False), _form(algorithm, True, False)


def _sparse(algorithm: _Algorithm) -> tuple[Op, Op]:
    """The reference and resource forms for rows of variables."""
    return _form(algorithm, False, True), _form(algorithm, True, True)


_gradient_descent = _Algorithm("GradientDescent", rules.gradient_descent, "", "alpha delta")
ApplyGradientDescent, ResourceApplyGradientDescent = _dense(_gradient_descent)

_momentum = _Algorithm("Momentum", rules.momentum, "accum", "lr grad momentum", ["use_nesterov"])
ApplyMomentum, ResourceApplyMomentum = _dense(_momentum)
SparseApplyMomentum, ResourceSparseApplyMomentum = _sparse(_momentum)

_keras = _Algorithm(
    "KerasMomentum", rules.keras_momentum, "accum", "lr grad momentum", ["use_nesterov"]
)
ResourceApplyKerasMomentum = _form(_keras, True, False)
ResourceSparseApplyKerasMomentum = _form(_keras, True, True)

_adagrad = _Algorithm("Adagrad", rules.adagrad, "accum", "lr grad", ["update_slots"])
ApplyAdagrad, ResourceApplyAdagrad = _dense(_adagrad)
SparseApplyAdagrad, ResourceSparseApplyAdagrad = _sparse(_adagrad)

_adagrad_v2 = _Algorithm(
    "AdagradV2", rules.adagrad_v2, "accum", "lr epsilon grad", ["update_slots"]
)
ApplyAdagradV2, ResourceApplyAdagradV2 = _dense(_adagrad_v2)
SparseApplyAdagradV2, ResourceSparseApplyAdagradV2 = _sparse(_adagrad_v2)

_adagrad_da = _Algorithm(
    "AdagradDA",
    rules.adagrad_da,
    "gradient_accumulator gradient_squared_accumulator",
    "grad lr l1 l2 global_step",
)
ApplyAdagradDA, ResourceApplyAdagradDA = _dense(_adagrad_da)
SparseApplyAdagradDA, ResourceSparseApplyAdagradDA = _sparse(_adagrad_da)

_adadelta = _Algorithm("Adadelta", rules.adadelta, "accum accum_update", "lr rho epsilon grad")
ApplyAdadelta, ResourceApplyAdadelta = _dense(_adadelta)
SparseApplyAdadelta, ResourceSparseApplyAdadelta = _sparse(_adadelta)

_adam = _Algorithm(
    "Adam",
    rules.adam,
    "m v",
    "beta1_power beta2_power lr beta1 beta2 epsilon grad",
    ["use_nesterov"],
)
ApplyAdam, ResourceApplyAdam = _dense(_adam)

ResourceApplyAdamWithAmsgrad = _form(
    _Algorithm(
        "AdamWithAmsgrad",
        rules.amsgrad,
        "m v vhat",
        "beta1_power beta2_power lr beta1 beta2 epsilon grad",
    ),
    True,
    False,
)

_adamax = _Algorithm("AdaMax", rules.adamax, "m v", "beta1_power lr beta1 beta2 epsilon grad")
ApplyAdaMax, ResourceApplyAdaMax = _dense(_adamax)

_rmsprop = _Algorithm("RMSProp", rules.rmsprop, "ms mom", "lr rho momentum epsilon grad")
ApplyRMSProp, ResourceApplyRMSProp = _dense(_rmsprop)
SparseApplyRMSProp, ResourceSparseApplyRMSProp = _sparse(_rmsprop)

_centered = _Algorithm(
    "CenteredRMSProp", rules.centered_rmsprop, "mg ms mom", "lr rho momentum epsilon grad"
)
ApplyCenteredRMSProp, ResourceApplyCenteredRMSProp = _dense(_centered)
SparseApplyCenteredRMSProp, ResourceSparseApplyCenteredRMSProp = _sparse(_centered)

_ftrl = _Algorithm(
    "Ftrl", rules.ftrl, "accum linear", "grad lr l1 l2 lr_power", ["multiply_linear_by_lr"]
)
ApplyFtrl, ResourceApplyFtrl = _dense(_ftrl)
SparseApplyFtrl, ResourceSparseApplyFtrl = _sparse(_ftrl)

_ftrl_v2 = _Algorithm(
    "FtrlV2",
    rules.ftrl,
    "accum linear",
    "grad lr l1 l2 l2_shrinkage lr_power",
    ["multiply_linear_by_lr"],
)
ApplyFtrlV2, ResourceApplyFtrlV2 = _dense(_ftrl_v2)
SparseApplyFtrlV2, ResourceSparseApplyFtrlV2 = _sparse(_ftrl_v2)

_proximal = _Algorithm(
    "ProximalGradientDescent", rules.proximal_gradient_descent, "", "alpha l1 l2 delta"
)
ApplyProximalGradientDescent, ResourceApplyProximalGradientDescent = _dense(_proximal)
SparseApplyProximalGradientDescent, ResourceSparseApplyProximalGradientDescent = _sparse(_proximal)

_proximal_adagrad = _Algorithm("ProximalAdagrad", rules.proximal_adagrad, "accum", "lr l1 l2 grad")
ApplyProximalAdagrad, ResourceApplyProximalAdagrad = _dense(_proximal_adagrad)
SparseApplyProximalAdagrad, ResourceSparseApplyProximalAdagrad = _sparse(_proximal_adagrad)

_add_sign = _Algorithm("AddSign", rules.add_sign, "m", "lr alpha sign_decay beta grad")
ApplyAddSign, ResourceApplyAddSign = _dense(_add_sign)

_power_sign = _Algorithm("PowerSign", rules.power_sign, "m", "lr logbase sign_decay beta grad")
ApplyPowerSign, ResourceApplyPowerSign = _dense(_power_sign)
