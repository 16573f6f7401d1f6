"""`tf.GradientTape` in graphs: derivatives of what was built while the tape was open.

There is no recording: the graph is the record. The tape remembers which operations the graph had
when it was opened and closed; what lies before counts as constant, as in TensorFlow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from millrace.core import nest
from millrace.graph.constant_value import constant_value
from millrace.graph.defaults import get_default_graph
from millrace.graph.keys import GraphKeys
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.array import join, shape
from millrace.ops.functions.gradients import UnconnectedGradients, gradients

__all__ = ["GradientTape"]


class GradientTape:
    """The context whose operations can be differentiated with `gradient`."""

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        """Opens nothing yet: use it in a ``with``.

        Args:
          persistent: Whether `gradient` may be called several times.
          watch_accessed_variables: Whether trainable variables are watched without being named.
        """
        self._persistent = persistent
        self._watches_variables = watch_accessed_variables
        self._watched: list[Tensor] = []
        self._used = False
        self._spans: list[tuple[int, int]] = []
        self._start: int | None = None

    def __enter__(self) -> GradientTape:
        if self._start is not None:
            raise ValueError("Tape is already recording.")
        self._start = len(get_default_graph().get_operations())
        return self

    def __exit__(self, *_: object) -> None:
        self._pause()

    def _pause(self) -> None:
        if self._start is None:
            raise ValueError("Tape is not recording.")
        self._spans.append((self._start, len(get_default_graph().get_operations())))
        self._start = None

    def watch(self, tensor: Any) -> None:
        """Lets `gradient` be asked for a tensor (or a structure of them)."""
        self._watched.extend(nest.flatten(tensor))

    def watched_variables(self) -> tuple[Any, ...]:
        """The trainable variables that were read while the tape was open."""
        if not self._watches_variables:
            return tuple(v for v in self._watched if not isinstance(v, Tensor))
        inside = self._operations()
        touched = inside | {tensor.op for op in inside for tensor in op.inputs}
        touched |= {t.op for op in touched if op.type == "Identity" for t in op.inputs}
        variables = get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES)
        return tuple(v for v in variables if v.op in touched)

    @contextlib.contextmanager
    def stop_recording(self) -> Iterator[None]:
        """What is built inside counts as constant."""
        if self._start is None:
            raise ValueError("Tape is not recording.")
        self._pause()
        try:
            yield
        finally:
            self.__enter__()

    def reset(self) -> None:
        """Forgets what was built so far."""
        self._spans.clear()
        if self._start is not None:
            self._start = len(get_default_graph().get_operations())

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """Derivatives of the targets' sum, in the structure of the sources.

        Args:
          target: Tensors.
          sources: Tensors or variables.
          output_gradients: A weight per target, of its shape.
          unconnected_gradients: None or zeros for a source that no target depends on.
        """
        self._use()
        wanted = nest.flatten(sources)
        found = gradients(
            nest.flatten(target),
            wanted,
            None if output_gradients is None else nest.flatten(output_gradients),
            stop_gradients=self._constants(wanted),
            unconnected_gradients=unconnected_gradients,
        )
        return nest.pack_sequence_as(sources, found)

    def jacobian(
        self,
        target: Tensor,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """Derivatives of each element of a target whose size is known.

        Args:
          target: A tensor of known shape.
          sources: Tensors or variables.
          unconnected_gradients: See `gradient`.
          parallel_iterations: Accepted; has no effect, as the following.
          experimental_use_pfor: See above.
        """
        self._use()
        wanted = nest.flatten(sources)
        dims = target.shape.as_list()
        stops = self._constants(wanted)
        rows = [
            gradients(
                each, wanted, stop_gradients=stops, unconnected_gradients=unconnected_gradients
            )
            for each in _elements(target)
        ]
        found: list[Any] = []
        for source, column in zip(wanted, zip(*rows, strict=True), strict=True):
            if any(each is None for each in column):
                found.append(None)
                continue
            stacked = join.stack(column)
            found.append(shape.reshape(stacked, join.concat([dims, shape.shape(source)], 0)))
        return nest.pack_sequence_as(sources, found)

    def batch_jacobian(
        self,
        target: Tensor,
        source: Tensor,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Tensor:
        """The Jacobian of each example: ``[b, y1, …]`` by ``[b, x1, …]`` gives ``[b, y…, x…]``.

        Args:
          target: A tensor whose shape is known but for the first dimension.
          source: A tensor of the same first dimension.
          unconnected_gradients: See `gradient`.
          parallel_iterations: Accepted; has no effect, as the following.
          experimental_use_pfor: See above.
        """
        self._use()
        dims = target.shape.as_list()[1:]
        stops = self._constants([source])
        flat = shape.reshape(target, [-1, *([int(_product(dims))])])
        columns = [
            gradients(
                flat[:, i],
                [source],
                stop_gradients=stops,
                unconnected_gradients=UnconnectedGradients.ZERO,
            )[0]
            for i in range(int(_product(dims)))
        ]
        stacked = join.stack(columns, axis=1)
        whole = shape.shape(source)
        return shape.reshape(stacked, join.concat([whole[:1], dims, whole[1:]], 0))

    def _use(self) -> None:
        if self._used and not self._persistent:
            raise RuntimeError(
                "GradientTape.gradient can only be called once on non-persistent tapes."
            )
        self._used = True
        if self._start is not None and not self._persistent:
            self._pause()

    def _operations(self) -> set[Operation]:
        operations = get_default_graph().get_operations()
        spans = list(self._spans)
        if self._start is not None:
            spans.append((self._start, len(operations)))
        return {op for start, end in spans for op in operations[start:end]}

    def _constants(self, sources: list[Any]) -> list[Tensor]:
        """What was there before the tape, is used inside it, and is no source."""
        inside = self._operations()
        own = {id(s if isinstance(s, Tensor) else s.op) for s in sources}
        found: dict[Tensor, None] = {}
        for op in inside:
            for tensor in op.inputs:
                differentiable = tensor.dtype.is_floating or tensor.dtype.is_complex
                if tensor.op in inside or not differentiable or tensor.dtype._is_ref_dtype:
                    continue
                reads = {id(t.op) for t in tensor.op.inputs}
                if not own & ({id(tensor), id(tensor.op)} | reads):
                    found[tensor] = None
        return list(found)


def _elements(target: Tensor) -> list[Tensor]:
    flat = shape.reshape(target, [-1])
    count = flat.shape.as_list()[0]
    if count is None:
        value = constant_value(shape.size(target))
        if value is None:
            raise ValueError(f"jacobian needs a target of known shape, got {target}")
        count = int(value)
    return [flat[i] for i in range(count)]


def _product(dims: list[Any]) -> int:
    result = 1
    for each in dims:
        result *= each
    return result
