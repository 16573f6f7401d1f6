"""Steps over time: `tf.keras.backend.rnn`, and the loop that recurrent layers run."""

from __future__ import annotations

from typing import Any

import millrace as tf


def rnn(
    step_function: Any,
    inputs: Any,
    initial_states: Any,
    go_backwards: bool = False,
    mask: Any = None,
    constants: Any = None,
    unroll: bool = False,
    input_length: Any = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
) -> tuple[Any, Any, Any]:
    """Runs a step over the time axis of tensors.

    Args:
      step_function: ``(inputs of one time, states + constants) -> (output, new states)``.
      inputs: ``[batch, time, …]``, or a structure of such.
      initial_states: The states before the first step.
      go_backwards: Whether time runs from the last to the first.
      mask: ``[batch, time]``: False repeats the output and the states before.
      constants: Values given to each step behind the states.
      unroll: Whether each step is built by itself; needs a known length.
      input_length: Accepted; has no effect.
      time_major: Whether inputs and outputs are ``[time, batch, …]``.
      zero_output_for_mask: Whether a masked step gives zeros instead.

    Returns:
      The last output, all outputs, and the last states.
    """

    def swapped(x: Any) -> Any:
        axes = list(range(x.shape.ndims))
        axes[:2] = [1, 0]
        return tf.transpose(x, axes)

    values = inputs if time_major else tf.nest.map_structure(swapped, inputs)
    masks = None
    if mask is not None:
        masks = tf.cast(mask, tf.bool)
        if masks.shape.ndims == 3:
            masks = tf.squeeze(masks, [-1])
        masks = masks if time_major else tf.transpose(masks, [1, 0])
    if go_backwards:
        values = tf.nest.map_structure(lambda x: tf.reverse(x, [0]), values)
        masks = None if masks is None else tf.reverse(masks, [0])
    fixed = list(constants) if constants is not None else []
    kind = type(initial_states)

    def step(value: Any, states: Any) -> tuple[Any, Any]:
        output, new = step_function(value, kind(states) + kind(fixed))
        return output, kind(new)

    outputs, last, states = run_over_time(
        step, values, masks, initial_states, unroll, zero_output_for_mask
    )
    if not time_major:
        outputs = tf.nest.map_structure(swapped, outputs)
    return last, outputs, states


def run_over_time(
    step: Any,
    values: Any,
    masks: Any,
    initial: Any,
    unroll: bool = False,
    zeros_for_masked: bool = False,
) -> tuple[Any, Any, Any]:
    """(all outputs, the last one, the last states) of a step over the first axis.

    A step whose mask is False repeats the output (or gives zeros) and the states before it.
    """
    leaves = tf.nest.flatten(values)
    static = leaves[0].shape.as_list()[0]
    length = static if static is not None else tf.shape(leaves[0])[0]
    output_like, _ = step(tf.nest.map_structure(lambda x: x[0], values), initial)
    zero = tf.zeros_like(output_like)
    if unroll and static is not None:
        states, last, outputs = initial, zero, []
        for time in range(static):
            now = tf.nest.map_structure(lambda x, i=time: x[i], values)
            before = zero if zeros_for_masked else last
            output, states = _masked(step, now, states, before, masks, time)
            last = output
            outputs.append(output)
        return tf.stack(outputs), last, states
    inputs = [tf.TensorArray(x.dtype, size=length, name="input_ta").unstack(x) for x in leaves]
    array = tf.TensorArray(zero.dtype, size=length, name="output_ta", element_shape=zero.shape)

    def body(time: Any, array: Any, last: Any, states: Any) -> Any:
        now = [each.read(time) for each in inputs]
        for value, whole in zip(now, leaves, strict=True):
            value.set_shape(whole.shape[1:])
        before = zero if zeros_for_masked else last
        packed = tf.nest.pack_sequence_as(values, now)
        output, new = _masked(step, packed, states, before, masks, time)
        return time + 1, array.write(time, output), output, new

    _, array, last, states = tf.while_loop(
        lambda time, *_: time < length, body, (tf.constant(0), array, zero, initial)
    )
    stacked = array.stack()
    stacked.set_shape(tf.TensorShape([static]).concatenate(zero.shape))
    last.set_shape(zero.shape)
    return stacked, last, states


def _masked(
    step: Any, value: Any, states: Any, last: Any, masks: Any, time: Any
) -> tuple[Any, Any]:
    output, new = step(value, states)
    if masks is None:
        return output, new

    def chosen(after: Any, before: Any) -> Any:
        keep = tf.reshape(masks[time], [-1] + [1] * (after.shape.ndims - 1))
        return tf.where(tf.logical_and(keep, tf.ones_like(after, dtype=tf.bool)), after, before)

    return chosen(output, last), tf.nest.map_structure(chosen, new, states)
