"""The ensemble of a graph: its handle, how it is initialized, saved and restored."""

from __future__ import annotations

from typing import Any, NamedTuple

from millrace.graph.defaults import add_to_collection, colocate_with, control_dependencies
from millrace.graph.keys import GraphKeys
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.boosted_trees import kernels
from millrace.ops.lookup.tables import SaveSpec


class _Resource(NamedTuple):
    """What initializes a resource of the graph, as its collection holds it."""

    handle: Tensor
    create: Operation
    is_initialized: Tensor


class TreeEnsemble:
    """A tree ensemble that Savers and supervised sessions know.

    Attributes:
      handle: Its handle.
      name: What its names in checkpoints begin with.
      op: What a Saver calls it.
      specs: The tensors to save.
    """

    def __init__(self, name: str) -> None:
        self.handle = kernels.BoostedTreesEnsembleResourceHandleOp(shared_name=name, name=name)
        self.name = self.handle.name
        self.op = self.handle
        with colocate_with(self.handle.op):
            self._create = kernels.BoostedTreesCreateEnsemble(self.handle, 0, b"")
            ready = kernels.IsBoostedTreesEnsembleInitialized(self.handle)
            stamp, content = kernels.BoostedTreesSerializeEnsemble(self.handle)
        self.specs = [
            SaveSpec(stamp, "", f"{self.name}_stamp"),
            SaveSpec(content, "", f"{self.name}_serialized"),
        ]
        add_to_collection(GraphKeys.SAVEABLE_OBJECTS, self)
        resource = _Resource(self.handle, self._create, ready)
        add_to_collection(GraphKeys.RESOURCES, resource)

    @property
    def device(self) -> str:
        """Where the ensemble is."""
        return self.handle.device

    def restore(self, restored_tensors: list[Tensor], restored_shapes: Any) -> Operation:
        """The operation that gives the ensemble the trees that were saved."""
        with control_dependencies([self._create]), colocate_with(self.handle.op):
            restored: Operation = kernels.BoostedTreesDeserializeEnsemble(
                self.handle, *restored_tensors
            )
            return restored
