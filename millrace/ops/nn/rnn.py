"""Recurrent networks over time: `dynamic_rnn`, `static_rnn`, and both directions.

The loop runs over all time steps, which XLA knows while tracing; where a sequence is shorter,
its state is carried through and its outputs are zero, so the results are TensorFlow's.
"""

from __future__ import annotations

from typing import Any

from millrace.core import dtypes, nest
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import control_dependencies
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import join as array_join
from millrace.ops.array import layout as array_layout
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.array.identity import identity
from millrace.ops.control_flow.loops import while_loop
from millrace.ops.control_flow.tensor_array import TensorArray
from millrace.ops.math import comparison, reduction
from millrace.ops.nn.rnn_cells import zeros_for
from millrace.ops.state import variable_scope


def _swap_batch_and_time(value: Tensor) -> Tensor:
    rank = value.shape.ndims
    if rank is None:
        return value
    swapped: Tensor = array_layout.transpose(value, [1, 0, *range(2, rank)])
    return swapped


def _carried(finished: Any, old: Any, new: Any) -> Any:
    """`old` for sequences that have ended, `new` for the others."""
    new.set_shape(old.shape)
    return array_select.where(finished, old, new)


def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Any, Any]:
    """Runs a cell over time.

    Args:
      cell: An `RNNCell`.
      inputs: [batch, time, ...] (or [time, batch, ...] when `time_major`), or a structure.
      sequence_length: Lengths of the sequences, int32 [batch]; outputs past the end are zero
        and the state stays as it was.
      initial_state: The first state; zeros of `dtype` when None.
      dtype: The type of a zero first state.
      parallel_iterations: Accepted; has no effect.
      swap_memory: Accepted; has no effect.
      time_major: Whether time comes before the batch.
      scope: The variable scope, ``rnn`` by default.

    Returns:
      Outputs for all times, in the layout of `inputs`, and the last state.
    """
    with variable_scope.variable_scope(scope or "rnn") as varscope:
        del varscope
        flat = [convert_to_tensor(i) for i in nest.flatten(inputs)]
        if not time_major:
            flat = [_swap_batch_and_time(i) for i in flat]
        static_time, static_batch = _static_sizes(flat)
        batch: Any = static_batch if static_batch is not None else array_shape.shape(flat[0])[1]
        time_steps: Any = array_shape.shape(flat[0])[0]
        if sequence_length is not None:
            sequence_length = cast.cast(convert_to_tensor(sequence_length), dtypes.int32)
            if sequence_length.shape.ndims not in (None, 1):
                raise ValueError(
                    "sequence_length must be a vector of length batch_size, but saw shape: "
                    f"{sequence_length.shape}"
                )
        if initial_state is None:
            if dtype is None:
                raise ValueError("If there is no initial_state, you must give a dtype.")
            state = cell.zero_state(batch, dtype)
        else:
            state = nest.map_structure(convert_to_tensor, initial_state)
        outputs, final = _loop(
            cell, inputs, flat, state, time_steps, static_time, batch, sequence_length
        )
        if not time_major:
            outputs = nest.map_structure(_swap_batch_and_time, outputs)
        return outputs, final


def _static_sizes(flat: list[Tensor]) -> tuple[int | None, int | None]:
    time = batch = None
    for value in flat:
        sizes = value.shape.sizes
        if sizes is None or len(sizes) < 2:
            raise ValueError(
                f"Inputs must have at least 2 dimensions (time and batch), saw shape {value.shape}"
            )
        time = sizes[0] if time is None else time
        batch = sizes[1] if batch is None else batch
    return time, batch


def _loop(
    cell: Any,
    inputs: Any,
    flat: list[Tensor],
    state: Any,
    time_steps: Any,
    static_time: int | None,
    batch: Any,
    sequence_length: Any,
) -> tuple[Any, Any]:
    count = convert_to_tensor(static_time) if static_time is not None else time_steps
    sources = [
        TensorArray(i.dtype.base_dtype, size=count, element_shape=i.shape[1:]).unstack(i)
        for i in flat
    ]
    output_sizes = nest.flatten(cell.output_size)
    first_type = nest.flatten(state)[0].dtype.base_dtype if nest.flatten(state) else flat[0].dtype
    kind = flat[0].dtype.base_dtype if flat[0].dtype.base_dtype.is_floating else first_type
    results = [TensorArray(kind, size=count) for _ in output_sizes]
    static_batch = batch if isinstance(batch, int) else None

    def body(time: Any, arrays: Any, flat_state: Any) -> Any:
        values = [source.read(time) for source in sources]
        element = nest.pack_sequence_as(inputs, values)
        packed = nest.pack_sequence_as(state, flat_state)
        output, new_state = cell(element, packed)
        nest.assert_same_structure(state, new_state)
        flat_output, flat_new = nest.flatten(output), nest.flatten(new_state)
        if sequence_length is not None:
            finished = time >= sequence_length
            flat_output = [
                array_select.where(finished, array_fill.zeros_like(o), o) for o in flat_output
            ]
            flat_new = [
                _carried(finished, old, new) for old, new in zip(flat_state, flat_new, strict=True)
            ]
        written = [a.write(time, o) for a, o in zip(arrays, flat_output, strict=True)]
        return time + 1, written, flat_new

    _, results, flat_final = while_loop(
        lambda time, *_: time < count,
        body,
        (convert_to_tensor(0, name="time"), results, nest.flatten(state)),
        name="while",
    )
    outputs = []
    for result, size in zip(results, output_sizes, strict=True):
        stacked = result.stack()
        tail = size if isinstance(size, TensorShape) else TensorShape([size])
        stacked.set_shape(TensorShape([static_time, static_batch]).concatenate(tail))
        outputs.append(stacked)
    final = nest.pack_sequence_as(state, flat_final)
    return nest.pack_sequence_as(cell.output_size, outputs), final


def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Any, Any]:
    """`dynamic_rnn` forwards and backwards; pairs of outputs and of last states."""
    time_axis, batch_axis = (0, 1) if time_major else (1, 0)

    def backwards(value: Any) -> Any:
        if sequence_length is not None:
            return array_layout.reverse_sequence(
                value, seq_lengths=sequence_length, seq_axis=time_axis, batch_axis=batch_axis
            )
        return array_layout.reverse(value, axis=[time_axis])

    options: dict[str, Any] = {
        "sequence_length": sequence_length,
        "dtype": dtype,
        "time_major": time_major,
    }
    with variable_scope.variable_scope(scope or "bidirectional_rnn"):
        with variable_scope.variable_scope("fw") as fw:
            output_fw, state_fw = dynamic_rnn(
                cell_fw, inputs, initial_state=initial_state_fw, scope=fw, **options
            )
        with variable_scope.variable_scope("bw") as bw:
            reversed_inputs = nest.map_structure(backwards, inputs)
            output_bw, state_bw = dynamic_rnn(
                cell_bw, reversed_inputs, initial_state=initial_state_bw, scope=bw, **options
            )
    return (output_fw, nest.map_structure(backwards, output_bw)), (state_fw, state_bw)


def static_rnn(
    cell: Any,
    inputs: Any,
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Runs a cell over a list of inputs, one graph node set a time step."""
    if not isinstance(inputs, list | tuple):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    with variable_scope.variable_scope(scope or "rnn"):
        first = convert_to_tensor(nest.flatten(inputs)[0])
        sizes = first.shape.sizes
        static = sizes[0] if sizes else None
        batch: Any = static if static is not None else array_shape.shape(first)[0]
        if initial_state is not None:
            state = initial_state
        else:
            if dtype is None:
                raise ValueError("If no initial_state is provided, dtype must be specified")
            state = cell.zero_state(batch, dtype)
        outputs = []
        for time, value in enumerate(inputs):
            output, new_state = cell(value, state)
            if sequence_length is not None:
                lengths = cast.cast(convert_to_tensor(sequence_length), dtypes.int32)
                finished = convert_to_tensor(time) >= lengths
                output = nest.map_structure(
                    lambda o, f=finished: array_select.where(f, array_fill.zeros_like(o), o),
                    output,
                )
                new_state = nest.map_structure(
                    lambda old, new, f=finished: _carried(f, old, new), state, new_state
                )
            outputs.append(output)
            state = new_state
        return outputs, state


def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any, Any]:
    """(outputs of both directions joined, last state forwards, last state backwards)."""
    if not isinstance(inputs, list | tuple):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    options = {"dtype": dtype, "sequence_length": sequence_length}

    def backwards(values: Any) -> list[Any]:
        if sequence_length is None:
            return list(reversed(values))
        stacked = array_join.stack(values)
        reverse = array_layout.reverse_sequence(stacked, sequence_length, seq_axis=0, batch_axis=1)
        results = array_join.unstack(reverse, num=len(values))
        for result, value in zip(results, values, strict=True):
            result.set_shape(value.shape)
        return list(results)

    with variable_scope.variable_scope(scope or "bidirectional_rnn"):
        with variable_scope.variable_scope("fw") as fw:
            output_fw, state_fw = static_rnn(cell_fw, inputs, initial_state_fw, scope=fw, **options)
        with variable_scope.variable_scope("bw") as bw:
            found, state_bw = static_rnn(
                cell_bw, backwards(inputs), initial_state_bw, scope=bw, **options
            )
    output_bw = backwards(found)
    joined = [array_join.concat([f, b], 1) for f, b in zip(output_fw, output_bw, strict=True)]
    return joined, state_fw, state_bw


def static_state_saving_rnn(
    cell: Any,
    inputs: Any,
    state_saver: Any,
    state_name: Any,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """`static_rnn` whose state is kept from one run to the next.

    Args:
      cell: An `RNNCell`.
      inputs: A list of ``[batch, size]``, one per step.
      state_saver: Has ``state(name)`` and ``save_state(name, value)``.
      state_name: The name of the state, or a structure of names as the cell's states.
      sequence_length: The length of each sequence.
      scope: The variable scope, ``rnn`` by default.
    """
    names = nest.flatten(state_name)
    if nest.is_nested(cell.state_size) != nest.is_nested(state_name) or len(names) != len(
        nest.flatten(cell.state_size)
    ):
        raise ValueError(f"#elems(state_name) != #elems(cell.state_size): {state_name}")
    initial = nest.pack_sequence_as(cell.state_size, [state_saver.state(name) for name in names])
    outputs, state = static_rnn(cell, inputs, initial, None, sequence_length, scope)
    saves = [
        state_saver.save_state(name, value)
        for name, value in zip(names, nest.flatten(state), strict=True)
    ]
    with control_dependencies(saves):
        outputs[-1] = nest.map_structure(identity, outputs[-1])
    return outputs, state


def raw_rnn(
    cell: Any,
    loop_fn: Any,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Runs a cell in a loop whose inputs, states and outputs `loop_fn` decides.

    Args:
      cell: An `RNNCell`.
      loop_fn: ``(time, cell_output, cell_state, loop_state) -> (finished, next_input,
        next_cell_state, emit_output, next_loop_state)``. In the first call, at time 0, the last
        three arguments are None, and `emit_output` gives the shape of what is emitted (the
        cell's output when None).
      parallel_iterations: Accepted; has no effect.
      swap_memory: Accepted; has no effect.
      scope: The variable scope, ``rnn`` by default.

    Returns:
      TensorArrays of what was emitted, zero for sequences that had ended; the last state; and
      the last loop state.
    """
    if not callable(loop_fn):
        raise TypeError("Argument `loop_fn` must be a callable.")
    with variable_scope.variable_scope(scope or "rnn"):
        time = convert_to_tensor(0, name="time")
        finished, first_input, state, emitted, loop_state = loop_fn(time, None, None, None)
        first_inputs = [convert_to_tensor(i) for i in nest.flatten(first_input)]
        batch = _batch_of(first_inputs)
        state = nest.map_structure(convert_to_tensor, state)
        has_loop_state = loop_state is not None
        kept: Any = loop_state if has_loop_state else convert_to_tensor(0)
        zeros = _zero_emission(cell, emitted, state, batch)
        arrays = nest.map_structure(
            lambda zero: TensorArray(
                zero.dtype, size=0, dynamic_size=True, element_shape=zero.shape, name="rnn_output"
            ),
            zeros,
        )

        def body(time: Any, finished: Any, value: Any, arrays: Any, state: Any, kept: Any) -> Any:
            output, cell_state = cell(value, state)
            nest.assert_same_structure(state, cell_state)
            following = time + 1
            given = kept if has_loop_state else None
            ended, next_value, next_state, emission, next_kept = loop_fn(
                following, output, cell_state, given
            )
            nest.assert_same_structure(state, next_state)
            nest.assert_same_structure(value, next_value)
            nest.assert_same_structure(zeros, emission)
            emission = nest.map_structure(
                lambda zero, new: array_select.where(finished, zero, new), zeros, emission
            )
            next_state = nest.map_structure(
                lambda old, new: _carried(finished, old, new), state, next_state
            )
            written = nest.map_structure(lambda a, e: a.write(time, e), arrays, emission)
            if next_kept is None:
                next_kept = kept
            ended = comparison.logical_or(ended, finished)
            return following, ended, next_value, written, next_state, next_kept

        _, _, _, arrays, final, kept = while_loop(
            lambda time, finished, *_: comparison.logical_not(reduction.reduce_all(finished)),
            body,
            (time, finished, first_input, arrays, state, kept),
            name="while",
        )
        return arrays, final, kept if has_loop_state else None


def _batch_of(values: list[Tensor]) -> Any:
    for value in values:
        sizes = value.shape.sizes
        if sizes and sizes[0] is not None:
            return sizes[0]
    return array_shape.shape(values[0])[0]


def _zero_emission(cell: Any, emitted: Any, state: Any, batch: Any) -> Any:
    """Zeros in the structure of what is emitted."""
    if emitted is None:
        kind = nest.flatten(state)[0].dtype.base_dtype
        return zeros_for(cell.output_size, batch, kind)

    def zeros(value: Any) -> Any:
        tensor = convert_to_tensor(value)
        return zeros_for(tensor.shape, batch, tensor.dtype.base_dtype)

    return nest.map_structure(zeros, emitted)
