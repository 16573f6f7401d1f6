"""Recurrent cells (`tf.nn.rnn_cell`): one step of a recurrent network each.

A cell makes its variables at its first call, in the variable scope of that call, and uses
them again at every later one.
"""

from __future__ import annotations

import hashlib
import numbers
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from millrace.core import dtypes, nest
from millrace.core.tensor_shape import TensorShape, as_shape
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.tensor import Tensor
from millrace.ops.array import fill as array_fill
from millrace.ops.array import join as array_join
from millrace.ops.array import shape as array_shape
from millrace.ops.linalg import linear_algebra
from millrace.ops.math import clip, elementwise
from millrace.ops.nn import activation, bias, dropout
from millrace.ops.random import random
from millrace.ops.state import initializers, variable_scope


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM: cell value `c` and output `h`."""

    c: Any
    h: Any

    @property
    def dtype(self) -> Any:
        """The common type of both."""
        if self.c.dtype != self.h.dtype:
            raise TypeError(f"Inconsistent internal state: {self.c.dtype} vs {self.h.dtype}")
        return self.c.dtype


def _concat_batch(batch: Any, size: Any) -> Any:
    """The shape ``[batch, *size]``, static where it can be, and as a tensor."""
    tail = as_shape(size if isinstance(size, TensorShape | list | tuple) else [size]).as_list()
    if isinstance(batch, int):
        return [batch, *tail]
    return array_join.concat([array_shape.expand_dims(batch, 0), tail], 0)


def zeros_for(state_size: Any, batch: Any, dtype: Any) -> Any:
    """Zeros for every size in a structure of sizes."""

    def zeros(size: Any) -> Tensor:
        made: Tensor = array_fill.zeros(_concat_batch(batch, size), dtype=dtype)
        static = batch if isinstance(batch, int) else None
        tail = as_shape(size if isinstance(size, TensorShape | list | tuple) else [size])
        made.set_shape(TensorShape([static]).concatenate(tail))
        return made

    if isinstance(state_size, TensorShape):
        return zeros(state_size)
    flat = [zeros(size) for size in nest.flatten(state_size)]
    return nest.pack_sequence_as(state_size, flat)


class RNNCell:
    """One step of a recurrent network: ``(inputs, state) -> (output, state)``."""

    def __init__(
        self, _reuse: Any = None, name: str | None = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        self._trainable = kwargs.pop("trainable", True)
        kwargs.pop("activity_regularizer", None)
        if kwargs:
            raise TypeError(f"Unexpected keyword arguments: {', '.join(kwargs)}")
        self._reuse = _reuse
        self._name = name
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype)
        self._scope: Any = None
        #: Whether a call of the cell is under way, inside its scope.
        self._is_inside = False
        self.built = False

    @property
    def name(self) -> str:
        """The name of the cell's variable scope."""
        return self._name or _snake_case(type(self).__name__)

    @property
    def state_size(self) -> Any:
        """Sizes of the state, without the batch."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self) -> Any:
        """Size of the output, without the batch."""
        raise NotImplementedError("Abstract method")

    @property
    def variables(self) -> list[Any]:
        """The variables in the cell's scope."""
        return [] if self._scope is None else list(self._scope.global_variables())

    weights = variables
    trainable_variables = variables
    trainable_weights = variables

    def build(self, inputs_shape: TensorShape) -> None:
        """Makes the variables; called once, inside the cell's scope."""

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """The step itself."""
        raise NotImplementedError("A cell must define call()")

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Runs one step.

        Args:
          inputs: [batch, size].
          state: In the structure of `state_size`.
          scope: A variable scope to use instead of the cell's own.
        """
        if self._scope is None:
            with variable_scope.variable_scope(
                scope, default_name=self.name, reuse=self._reuse
            ) as captured:
                self._scope = captured
                return self._run(inputs, state)
        with (
            variable_scope.variable_scope(
                self._scope, reuse=self.built or self._reuse, auxiliary_name_scope=False
            ),
            name_scope(self.name),
        ):
            return self._run(inputs, state)

    def _run(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        self._is_inside = True
        try:
            return self._build_and_call(inputs, state)
        finally:
            self._is_inside = False

    def _build_and_call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        if not self.built:
            if isinstance(inputs, Tensor) or hasattr(inputs, "dtype"):
                self._dtype = self._dtype or inputs.dtype.base_dtype
                shape = convert_to_tensor(inputs).shape
            else:
                shape = TensorShape(None)
            self.build(shape)
            self.built = True
        return self.call(inputs, state)

    @property
    def dtype(self) -> Any:
        """The type of the variables; that of the first inputs unless it was given."""
        return self._dtype

    def add_variable(
        self, name: str, shape: Any, dtype: Any = None, initializer: Any = None, **kwargs: Any
    ) -> Any:
        """A variable of the cell; further arguments are those of `tf.get_variable`."""
        if dtype is not None and not isinstance(dtype, str | dtypes.DType):
            dtype, initializer = None, dtype  # The initializer by its place.
        kwargs.setdefault("trainable", self._trainable)
        kwargs |= {"shape": shape, "dtype": dtype or self._dtype, "initializer": initializer}
        if self._is_inside:
            return variable_scope.get_variable(name, **kwargs)
        # The program has called `build` itself.
        with variable_scope.variable_scope(
            self._scope, default_name=self.name, reuse=self._reuse
        ) as captured:
            self._scope, self.built = captured, True
            return variable_scope.get_variable(name, **kwargs)

    add_weight = add_variable

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """A state of zeros."""
        with name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            return zeros_for(self.state_size, batch_size, dtype)

    def get_initial_state(
        self, inputs: Any = None, batch_size: Any = None, dtype: Any = None
    ) -> Any:
        """A state of zeros, for the batch of `inputs` or of the given size."""
        if inputs is not None:
            inputs = convert_to_tensor(inputs)
            batch_size, dtype = _batch_size(inputs), inputs.dtype.base_dtype
        if batch_size is None or dtype is None:
            raise ValueError("batch_size and dtype cannot be None while constructing initial state")
        return self.zero_state(batch_size, dtype)


def _batch_size(inputs: Tensor) -> Any:
    static = inputs.shape.sizes
    if static is not None and static[0] is not None:
        return static[0]
    return array_shape.shape(inputs)[0]


def _snake_case(name: str) -> str:
    spaced = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    snake = re.sub(r"([a-z])([A-Z])", r"\1_\2", spaced).lower()
    # No scope may begin with an underscore.
    return f"private{snake}" if snake.startswith("_") else snake


def _depth(inputs_shape: Any) -> int:
    shape = as_shape(inputs_shape)  # A caller of `build` may give a list.
    if shape.sizes is None or shape.sizes[-1] is None:
        raise ValueError(f"Expected inputs.shape[-1] to be known, saw shape: {shape}")
    return shape.sizes[-1]


def _function(activation_: Any, default: Callable[..., Any]) -> Callable[..., Any]:
    if activation_ is None:
        return default
    if isinstance(activation_, str):
        return getattr(activation, activation_, None) or getattr(elementwise, activation_)
    return activation_


class LayerRNNCell(RNNCell):
    """A cell whose `build` makes its variables with `add_variable`: any may."""


class BasicRNNCell(RNNCell):
    """``output = state = activation(W [inputs, state] + b)``."""

    def __init__(
        self, num_units: int, activation: Any = None, reuse: Any = None, name: str | None = None,
        dtype: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._activation = _function(activation, elementwise.tanh)

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._num_units

    def build(self, inputs_shape: TensorShape) -> None:
        """Makes kernel and bias."""
        depth = _depth(inputs_shape)
        self._kernel = self.add_variable("kernel", [depth + self._num_units, self._num_units])
        self._bias = self.add_variable("bias", [self._num_units], initializers.zeros_initializer())

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        total = linear_algebra.matmul(array_join.concat([inputs, state], 1), self._kernel)
        output = self._activation(bias.bias_add(total, self._bias))
        return output, output


class GRUCell(RNNCell):
    """Gated recurrent unit (Cho et al., 2014)."""

    def __init__(
        self, num_units: int, activation: Any = None, reuse: Any = None,
        kernel_initializer: Any = None, bias_initializer: Any = None, name: str | None = None,
        dtype: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._activation = _function(activation, elementwise.tanh)
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._num_units

    def build(self, inputs_shape: TensorShape) -> None:
        """Makes kernels and biases of the gates and of the candidate."""
        depth, units = _depth(inputs_shape), self._num_units
        first = self._bias_initializer
        self._gate_kernel = self.add_variable(
            "gates/kernel", [depth + units, 2 * units], self._kernel_initializer
        )
        self._gate_bias = self.add_variable(
            "gates/bias", [2 * units],
            initializers.constant_initializer(1.0) if first is None else first,
        )  # fmt: skip
        self._candidate_kernel = self.add_variable(
            "candidate/kernel", [depth + units, units], self._kernel_initializer
        )
        self._candidate_bias = self.add_variable(
            "candidate/bias", [units], initializers.zeros_initializer() if first is None else first
        )

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        gates = linear_algebra.matmul(array_join.concat([inputs, state], 1), self._gate_kernel)
        value = elementwise.sigmoid(bias.bias_add(gates, self._gate_bias))
        reset, update = array_join.split(value, 2, 1)
        candidate = linear_algebra.matmul(
            array_join.concat([inputs, reset * state], 1), self._candidate_kernel
        )
        new = self._activation(bias.bias_add(candidate, self._candidate_bias))
        output = update * state + (1 - update) * new
        return output, output


class LSTMCell(RNNCell):
    """Long short-term memory, with optional peepholes, projection and clipping."""

    def __init__(
        self, num_units: int, use_peepholes: bool = False, cell_clip: float | None = None,
        initializer: Any = None, num_proj: int | None = None, proj_clip: float | None = None,
        num_unit_shards: Any = None, num_proj_shards: Any = None, forget_bias: float = 1.0,
        state_is_tuple: bool = True, activation: Any = None, reuse: Any = None,
        name: str | None = None, dtype: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = initializer
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = _function(activation, elementwise.tanh)

    @property
    def output_size(self) -> int:
        """The number of units, or of projections."""
        return self._num_proj or self._num_units

    @property
    def state_size(self) -> Any:
        """Sizes of `c` and `h`."""
        if self._state_is_tuple:
            return LSTMStateTuple(self._num_units, self.output_size)
        return self._num_units + self.output_size

    def build(self, inputs_shape: TensorShape) -> None:
        """Makes kernel and bias, and what peepholes and projection need."""
        depth, units = _depth(inputs_shape), self._num_units
        self._kernel = self.add_variable(
            "kernel", [depth + self.output_size, 4 * units], self._initializer
        )
        self._bias = self.add_variable("bias", [4 * units], initializers.zeros_initializer())
        if self._use_peepholes:
            self._w_f, self._w_i, self._w_o = (
                self.add_variable(f"w_{gate}_diag", [units], self._initializer) for gate in "fio"
            )
        if self._num_proj is not None:
            self._projection = self.add_variable(
                "projection/kernel", [units, self._num_proj], self._initializer
            )

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        if self._state_is_tuple:
            c, h = state
        else:
            c, h = array_join.split(state, [self._num_units, self.output_size], 1)
        gates = linear_algebra.matmul(array_join.concat([inputs, h], 1), self._kernel)
        i, j, f, o = array_join.split(bias.bias_add(gates, self._bias), 4, 1)
        if self._use_peepholes:
            i, f = i + self._w_i * c, f + self._w_f * c
        new_c = c * elementwise.sigmoid(f + self._forget_bias) + elementwise.sigmoid(
            i
        ) * self._activation(j)
        if self._cell_clip is not None:
            new_c = clip.clip_by_value(new_c, -self._cell_clip, self._cell_clip)
        if self._use_peepholes:
            o = o + self._w_o * new_c
        new_h = elementwise.sigmoid(o) * self._activation(new_c)
        if self._num_proj is not None:
            new_h = linear_algebra.matmul(new_h, self._projection)
            if self._proj_clip is not None:
                new_h = clip.clip_by_value(new_h, -self._proj_clip, self._proj_clip)
        if self._state_is_tuple:
            return new_h, LSTMStateTuple(new_c, new_h)
        return new_h, array_join.concat([new_c, new_h], 1)


class BasicLSTMCell(LSTMCell):
    """An LSTM without peepholes, projection or clipping."""

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, state_is_tuple: bool = True,
        activation: Any = None, reuse: Any = None, name: str | None = None, dtype: Any = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            num_units, forget_bias=forget_bias, state_is_tuple=state_is_tuple,
            activation=activation, reuse=reuse, name=name, dtype=dtype, **kwargs,
        )  # fmt: skip


class MultiRNNCell(RNNCell):
    """Cells one upon the other."""

    def __init__(self, cells: Sequence[RNNCell], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        self._cells = list(cells)
        self._state_is_tuple = state_is_tuple
        if not state_is_tuple and any(nest.is_nested(c.state_size) for c in cells):
            raise ValueError("Some cells return tuples of states, but state_is_tuple is not set.")

    @property
    def state_size(self) -> Any:
        """The sizes of all cells' states."""
        sizes = [cell.state_size for cell in self._cells]
        return tuple(sizes) if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        """The output size of the last cell."""
        return self._cells[-1].output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """States of zeros."""
        if not self._state_is_tuple:
            return super().zero_state(batch_size, dtype)
        return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step through all cells."""
        states = (
            state
            if self._state_is_tuple
            else array_join.split(state, [c.state_size for c in self._cells], 1)
        )
        new_states = []
        for i, (cell, cell_state) in enumerate(zip(self._cells, states, strict=True)):
            with variable_scope.variable_scope(f"cell_{i}"):
                inputs, new_state = cell(inputs, cell_state)
            new_states.append(new_state)
        return inputs, tuple(new_states) if self._state_is_tuple else array_join.concat(
            new_states, 1
        )


class _Wrapper(RNNCell):
    """A cell around another one, without variables of its own."""

    def __init__(self, cell: RNNCell) -> None:
        super().__init__()
        self._cell = cell

    @property
    def state_size(self) -> Any:
        """That of the wrapped cell."""
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        """That of the wrapped cell."""
        return self._cell.output_size

    @property
    def variables(self) -> list[Any]:
        """Those of the wrapped cell."""
        return self._cell.variables

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """That of the wrapped cell."""
        return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Runs one step."""
        return self._wrapped(inputs, state, scope)

    def _wrapped(self, inputs: Any, state: Any, scope: Any) -> tuple[Any, Any]:
        raise NotImplementedError


class DropoutWrapper(_Wrapper):
    """Drops parts of the inputs, outputs or states of a cell.

    With `variational_recurrent` the same parts are dropped at all times of a sequence (Gal and
    Ghahramani, 2015): the choice is made once in a step, for the whole batch.
    """

    def __init__(
        self, cell: RNNCell, input_keep_prob: Any = 1.0, output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0, variational_recurrent: bool = False, input_size: Any = None,
        dtype: Any = None, seed: int | None = None, dropout_state_filter_visitor: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(cell)
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise TypeError("dropout_state_filter_visitor must be callable")
        self._keep = {
            "input": input_keep_prob,
            "output": output_keep_prob,
            "state": state_keep_prob,
        }
        for which, keep in self._keep.items():
            known = keep if isinstance(keep, numbers.Real) else constant_value(keep)
            if known is not None and not 0 <= float(known) <= 1:
                raise ValueError(
                    f"Parameter {which}_keep_prob must be between 0 and 1: {float(known)}"
                )
        self._seed = seed
        self._keeps_whole = dropout_state_filter_visitor
        #: For each of the places the random numbers of all times; empty if they are drawn each
        #: time.
        self._noise: dict[str, list[Tensor]] = {}
        if variational_recurrent:
            self._draw(input_size, dtype)

    def _draw(self, input_size: Any, dtype: Any) -> None:
        if dtype is None:
            raise ValueError("When variational_recurrent=True, dtype must be provided")
        sizes = {"state": self._cell.state_size, "output": self._cell.output_size}
        if self._drops("input"):
            if input_size is None:
                raise ValueError(
                    "When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, "
                    "input_size must be provided"
                )
            sizes["input"] = input_size
        for which in ("input", "state", "output"):
            if which in sizes:
                self._noise[which] = [
                    random.random_uniform(
                        _concat_batch(1, size), seed=self._seed_of(which, i), dtype=dtype
                    )
                    for i, size in enumerate(nest.flatten(sizes[which]))
                ]

    def _drops(self, which: str) -> bool:
        keep = self._keep[which]
        return not (isinstance(keep, numbers.Real) and float(keep) >= 1.0)

    def _seed_of(self, which: str, index: int) -> int | None:
        """A seed of its own for each place, from the wrapper's seed, as TensorFlow makes it."""
        if self._seed is None:
            return None
        text = f"{self._seed}{which}_{index}".encode()
        return int(hashlib.md5(text, usedforsecurity=False).hexdigest()[:8], 16) & 0x7FFFFFFF

    def _drop(self, value: Any, which: str, chosen: list[bool] | None = None) -> Any:
        """`value` with parts dropped; of those tensors only that are chosen."""
        if not self._drops(which):
            return value
        keep = self._keep[which]
        flat = list(nest.flatten(value))
        for i, tensor in enumerate(flat):
            if chosen is not None and not chosen[i]:
                continue
            if which in self._noise:
                # floor(keep + noise) is 1 with the probability `keep`, else 0.
                mask = elementwise.floor(keep + self._noise[which][i])
                dropped = (tensor / keep) * mask
                dropped.set_shape(tensor.shape)
            else:
                dropped = dropout.dropout(tensor, keep_prob=keep, seed=self._seed_of(which, i))
            flat[i] = dropped
        return nest.pack_sequence_as(value, flat)

    def _chosen(self, state: Any) -> list[bool]:
        """Which tensors of a state are dropped: not the memory of an LSTM cell."""
        if self._keeps_whole is not None:
            return _visited(state, self._keeps_whole)
        return _visited(state, lambda part: True, spare_memory=True)

    def _wrapped(self, inputs: Any, state: Any, scope: Any) -> tuple[Any, Any]:
        output, new_state = self._cell(self._drop(inputs, "input"), state, scope=scope)
        if self._drops("state"):
            new_state = self._drop(new_state, "state", self._chosen(new_state))
        return self._drop(output, "output"), new_state


def _visited(state: Any, visitor: Callable[[Any], Any], spare_memory: bool = False) -> list[bool]:
    """For each tensor of a state whether the visitor wants it dropped.

    For a structure the visitor answers for all of it, or with a structure of answers for its
    parts.
    """
    if spare_memory and isinstance(state, LSTMStateTuple):
        return [False] * len(nest.flatten(state.c)) + [True] * len(nest.flatten(state.h))
    if not nest.is_nested(state):
        return [bool(visitor(state))]
    answer = visitor(state)
    parts = list(state.values()) if isinstance(state, dict) else list(state)
    if nest.is_nested(answer):
        answers = list(nest.flatten(answer))
        found: list[bool] = []
        for part, wanted in zip(parts, answers, strict=True):
            found += [bool(wanted)] * len(nest.flatten(part))
        return found
    if not answer:
        return [False] * len(nest.flatten(state))
    return [wanted for part in parts for wanted in _visited(part, visitor, spare_memory)]


class ResidualWrapper(_Wrapper):
    """Adds the inputs to the outputs of a cell."""

    def __init__(self, cell: RNNCell, residual_fn: Callable[..., Any] | None = None) -> None:
        super().__init__(cell)
        self._residual_fn = residual_fn

    def _wrapped(self, inputs: Any, state: Any, scope: Any) -> tuple[Any, Any]:
        outputs, new_state = self._cell(inputs, state, scope=scope)
        if self._residual_fn is not None:
            return self._residual_fn(inputs, outputs), new_state
        return nest.map_structure(lambda i, o: i + o, inputs, outputs), new_state


class DeviceWrapper(_Wrapper):
    """Runs a cell on a device."""

    def __init__(self, cell: RNNCell, device: Any) -> None:
        super().__init__(cell)
        self._device = device

    def _wrapped(self, inputs: Any, state: Any, scope: Any) -> tuple[Any, Any]:
        with convert_to_tensor(nest.flatten(inputs)[0]).graph.device(self._device):
            return self._cell(inputs, state, scope=scope)
