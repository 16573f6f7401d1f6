"""Builds the nodes of a Saver: `BaseSaverBuilder`, to be derived from, and `BulkSaverBuilder`.

Under the scope ``save`` there is a placeholder for the file's name, an op that saves everything
(or one for each device, and one that merges what they wrote), one that restores everything, and
an assignment for each variable. A SaverDef has the names of the three nodes that a Saver runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.core.config import SaverDef
from millrace.graph.defaults import control_dependencies, device, name_scope
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.array import constant
from millrace.ops.array import identity as array_identity
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import control_flow
from millrace.ops.io import save_restore
from millrace.ops.strings import strings
from millrace.training.checkpoint import saveable as saveable_module
from millrace.training.checkpoint.saveable import (
    ReferenceVariableSaveable,
    ResourceVariableSaveable,
    SaveableObject,
    SaveSpec,
    group_by_device,
    on_cpu,
)


class BaseSaverBuilder:
    """Builds the nodes that save and restore; restores variable by variable.

    Args:
      write_version: The format of what is saved.
    """

    SaveSpec = SaveSpec
    SaveableObject = SaveableObject
    VariableSaveable = ReferenceVariableSaveable
    ResourceVariableSaveable = ResourceVariableSaveable

    def __init__(self, write_version: int = SaverDef.V2) -> None:
        self._write_version = write_version

    # -- What a derived class may build otherwise ------------------------------------------

    def save_op(self, filename_tensor: Tensor, saveables: Sequence[Any]) -> Operation:
        """An operation that saves all tensors of `saveables`.

        Raises:
          RuntimeError: There is no such format.
        """
        specs = [spec for saveable in saveables for spec in saveable.specs]
        names = [spec.name for spec in specs]
        slices = [spec.slice_spec for spec in specs]
        tensors = [spec.tensor for spec in specs]
        result: Operation
        if self._write_version == SaverDef.V2:
            result = save_restore.SaveV2(filename_tensor, names, slices, tensors)
        elif self._write_version == SaverDef.V1:
            result = save_restore.SaveSlices(filename_tensor, names, slices, tensors, name="save")
        else:
            raise RuntimeError(f"Unexpected write_version: {self._write_version}")
        return result

    def restore_op(
        self, filename_tensor: Tensor, saveable: Any, preferred_shard: int
    ) -> list[Tensor]:
        """What a checkpoint has for the tensors of one saveable."""
        return [
            save_restore.RestoreV2(
                filename_tensor, [spec.name], [spec.slice_spec], dtypes=[spec.dtype.base_dtype]
            )[0]
            for spec in saveable.specs
        ]

    def bulk_restore(
        self,
        filename_tensor: Tensor,
        saveables: Sequence[Any],
        preferred_shard: int,
        restore_sequentially: bool,
    ) -> list[Tensor]:
        """What a checkpoint has for the tensors of all saveables, in order."""
        restored = []
        for saveable in saveables:
            place = on_cpu(saveable.device) if saveable.device else None
            with device(place):
                restored.extend(self.restore_op(filename_tensor, saveable, preferred_shard))
        return restored

    def sharded_filename(self, filename_tensor: Tensor, shard: int, num_shards: Tensor) -> Tensor:
        """The name of one shard."""
        result: Tensor = save_restore.ShardedFilename(filename_tensor, shard, num_shards)
        return result

    # -- Saving ----------------------------------------------------------------------------

    def _add_save_ops(self, filename_tensor: Tensor, saveables: Sequence[Any]) -> Tensor:
        save = self.save_op(filename_tensor, saveables)
        result: Tensor = control_flow.with_dependencies([save], filename_tensor)
        return result

    def _add_sharded_save_ops(
        self, filename_tensor: Tensor, per_device: list[tuple[str, list[Any]]]
    ) -> Tensor:
        if self._write_version == SaverDef.V2:
            return self._add_sharded_save_ops_v2(filename_tensor, per_device)
        num_shards = constant.constant(len(per_device), name="num_shards")
        saves = []
        for shard, (place, saveables) in enumerate(per_device):
            with device(place):
                name = self.sharded_filename(filename_tensor, shard, num_shards)
                saves.append(self._add_save_ops(name, saveables))
        with control_dependencies([save.op for save in saves]):
            result: Tensor = save_restore.ShardedFilespec(filename_tensor, num_shards)
            return result

    def _add_sharded_save_ops_v2(
        self, prefix: Tensor, per_device: list[tuple[str, list[Any]]]
    ) -> Tensor:
        """Every task writes its own part in a folder beside; then the parts become one.

        S3 has no folders, so there the parts have a suffix instead.
        """
        with device("CPU"):
            suffix = array_select.where(
                strings.regex_full_match(prefix, "^s3://.*"),
                constant.constant(".part"),
                constant.constant("_temp/part"),
            )
            temporary = strings.string_join([prefix, suffix])
        num_shards = constant.constant(len(per_device), name="num_shards")
        names, saves = [], []
        for shard, (place, saveables) in enumerate(per_device):
            with device(on_cpu(place)):
                name = self.sharded_filename(temporary, shard, num_shards)
                names.append(name)
                saves.append(self._add_save_ops(name, saveables))
        with control_dependencies([save.op for save in saves]), device(on_cpu(per_device[-1][0])):
            merge = save_restore.MergeV2Checkpoints(names, prefix, delete_old_dirs=True)
            with control_dependencies([merge]):
                result: Tensor = array_identity.identity(prefix)
                return result

    # -- Restoring -------------------------------------------------------------------------

    def _add_restore_ops(
        self,
        filename_tensor: Tensor,
        saveables: Sequence[Any],
        restore_sequentially: bool,
        reshape: bool,
        preferred_shard: int = -1,
        name: str = "restore_all",
    ) -> Operation:
        values = self.bulk_restore(
            filename_tensor, saveables, preferred_shard, restore_sequentially
        )
        assignments = []
        for saveable in saveables:
            count = len(saveable.specs)
            own, values = values[:count], values[count:]
            shapes = [_shape_of(spec.tensor) for spec in saveable.specs] if reshape else None
            assignments.append(saveable.restore(own, shapes))
        return control_flow.group(*assignments, name=name)

    def _add_sharded_restore_ops(
        self,
        filename_tensor: Tensor,
        per_device: list[tuple[str, list[Any]]],
        restore_sequentially: bool,
        reshape: bool,
    ) -> Operation:
        restores = []
        for shard, (place, saveables) in enumerate(per_device):
            with device(place):
                restores.append(
                    self._add_restore_ops(
                        filename_tensor,
                        saveables,
                        restore_sequentially,
                        reshape,
                        preferred_shard=shard,
                        name="restore_shard",
                    )
                )
        return control_flow.group(*restores, name="restore_all")

    # -- Everything ------------------------------------------------------------------------

    def build(
        self,
        names_to_saveables: Any,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        filename: str | None = "model",
    ) -> SaverDef:
        """Adds all nodes to the default graph.

        Args:
          names_to_saveables: Variables and other objects: a list, or a dict by name.
          reshape: Whether what is restored takes the shape of its variable.
          sharded: Whether each device saves its own variables.
          max_to_keep: For the SaverDef.
          keep_checkpoint_every_n_hours: For the SaverDef.
          name: The name scope; ``save`` by default.
          restore_sequentially: Accepted: one op restores everything.
          filename: What to save to and restore from when no name is fed.

        Returns:
          A SaverDef.
        """
        saveables = saveable_module.saveables(names_to_saveables)
        with name_scope(name, "save", [saveable.op for saveable in saveables]):
            filename_tensor = constant.placeholder_with_default(
                filename or "model", shape=(), name="filename"
            )
            filename_tensor = constant.placeholder_with_default(
                filename_tensor, shape=(), name="Const"
            )
            if sharded:
                per_device = group_by_device(saveables)
                save_tensor = self._add_sharded_save_ops(filename_tensor, per_device)
                restore_op = self._add_sharded_restore_ops(
                    filename_tensor, per_device, restore_sequentially, reshape
                )
            else:
                save_tensor = self._add_save_ops(filename_tensor, saveables)
                restore_op = self._add_restore_ops(
                    filename_tensor, saveables, restore_sequentially, reshape
                )
        return SaverDef(
            filename_tensor_name=filename_tensor.name,
            save_tensor_name=save_tensor.name,
            restore_op_name=restore_op.name,
            max_to_keep=max_to_keep or 0,
            sharded=sharded,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            version=self._write_version,
        )


def _shape_of(value: Any) -> Any:
    shape = value.shape
    return shape.as_list() if shape.is_fully_defined() else array_shape.shape(value)


class BulkSaverBuilder(BaseSaverBuilder):
    """As its base, but one op restores all variables of a device: what a Saver uses."""

    def bulk_restore(
        self,
        filename_tensor: Tensor,
        saveables: Sequence[Any],
        preferred_shard: int,
        restore_sequentially: bool,
    ) -> list[Tensor]:
        """What a checkpoint has for the tensors of all saveables, read by one op."""
        specs = [spec for saveable in saveables for spec in saveable.specs]
        with device("CPU:0"):
            result: list[Tensor] = save_restore.RestoreV2(
                filename_tensor,
                [spec.name for spec in specs],
                [spec.slice_spec for spec in specs],
                dtypes=[spec.dtype.base_dtype for spec in specs],
            )
            return result
