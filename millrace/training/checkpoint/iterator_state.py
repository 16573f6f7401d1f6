"""Iterators of `tf.data` in checkpoints: a restored one goes on where the saved one was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.graph.defaults import colocate_with
from millrace.graph.tensor import Tensor
from millrace.ops.data import iterator_kernels as kernels
from millrace.training.checkpoint.saveable import SaveableObject, SaveSpec


class IteratorSaveable(SaveableObject):
    """An iterator as something that a Saver saves.

    Args:
      iterator_resource: The iterator as a tensor of the graph.
    """

    def __init__(self, iterator_resource: Tensor) -> None:
        with colocate_with(iterator_resource.op):
            state = kernels.SerializeIterator(iterator_resource)
        name = iterator_resource.name
        super().__init__(iterator_resource, [SaveSpec(state, "", f"{name}-state")], name)

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        """Lets the iterator go on from there; it must have been initialised."""
        with colocate_with(self.op.op):
            return kernels.DeserializeIterator(self.op, restored_tensors[0])


def make_saveable_from_iterator(iterator: Any, external_state_policy: Any = None) -> Any:
    """An iterator as a SaveableObject, for `tf.train.Saver` or the collection of saveables.

    Args:
      iterator: A `tf.data.Iterator`.
      external_state_policy: Not used: what functions of the pipeline hold is not saved.
    """
    return IteratorSaveable(iterator._iterator_resource)
