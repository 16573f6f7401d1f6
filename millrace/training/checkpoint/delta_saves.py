"""Incremental saves of a Saver (``keep_delta=True``): their nodes, and when a full one is due.

A delta has what changed since the newest full checkpoint of the same Saver
(`data.delta_bundle`). When it has grown past half of the size of that one, the next save is full:
so what is written stays in proportion to what changes, and a restore reads at most half as much
again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from millrace.client.session import BaseSession
from millrace.core import errors
from millrace.core.config import GraphDef, SaverDef
from millrace.data import delta_bundle
from millrace.graph.defaults import get_default_graph, name_scope
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.array import constant
from millrace.ops.io import save_restore
from millrace.platform import logging
from millrace.training.checkpoint.saveable import group_by_device, saveables
from millrace.training.checkpoint.saver_builder import BulkSaverBuilder

#: A delta larger than this share of its base is followed by a full save.
_MAX_SHARE = 0.5


class _DeltaBuilder(BulkSaverBuilder):
    """Builds nodes that save what differs from another checkpoint."""

    def __init__(self, base_tensor: Tensor) -> None:
        super().__init__()
        self._base_tensor = base_tensor

    def save_op(self, filename_tensor: Tensor, saveables: Sequence[Any]) -> Operation:
        """An operation that saves what differs in the tensors of `saveables`."""
        specs = [spec for saveable in saveables for spec in saveable.specs]
        result: Operation = save_restore.SaveDelta(
            filename_tensor,
            self._base_tensor,
            [spec.name for spec in specs],
            [spec.slice_spec for spec in specs],
            [spec.tensor for spec in specs],
            name="SaveDelta",
        )
        return result

    def build_saves(self, to_save: Any, saver_def: SaverDef) -> Tensor:
        """The tensor to run; the name is fed as for the SaverDef's own nodes."""
        found = saveables(to_save)
        filename = get_default_graph().get_tensor_by_name(saver_def.filename_tensor_name)
        if saver_def.sharded:
            return self._add_sharded_save_ops(filename, group_by_device(found))
        return self._add_save_ops(filename, found)


class DeltaSaves:
    """The incremental saves of one Saver; adds their nodes to the default graph.

    Args:
      to_save: What the Saver saves.
      saver_def: Its nodes.

    Raises:
      ValueError: It writes the V1 format.
    """

    def __init__(self, to_save: Any, saver_def: SaverDef) -> None:
        if saver_def.version != SaverDef.V2:
            raise ValueError("keep_delta=True needs checkpoints of the V2 format.")
        self._filename_tensor_name = saver_def.filename_tensor_name
        scope, _, _ = saver_def.filename_tensor_name.rpartition("/")
        with name_scope(f"{scope}/delta/" if scope else "delta") as self._scope:
            base = constant.placeholder_with_default("", shape=(), name="base")
            self._save_tensor_name = _DeltaBuilder(base).build_saves(to_save, saver_def).name
            self._base_tensor_name = base.name
        #: The newest full checkpoint, as long as deltas of it are worth while.
        self._base: str | None = None

    def without_nodes(self, graph_def: GraphDef) -> GraphDef:
        """A graph without the nodes that save deltas, which TensorFlow does not know."""
        kept = [node for node in graph_def.node if not node.name.startswith(self._scope)]
        del graph_def.node[:]
        graph_def.node.extend(kept)
        return graph_def

    def save(self, session: BaseSession, checkpoint_file: str) -> str | None:
        """Writes a delta, if one can be written.

        Returns:
          The full checkpoint that it is based on; None if there is none, or it cannot be read.

        Raises:
          OpError: The delta cannot be written.
        """
        base = self._base
        if (
            base is None
            or base == checkpoint_file
            or os.path.dirname(base) != os.path.dirname(checkpoint_file)
        ):
            return None
        feeds = {self._filename_tensor_name: checkpoint_file, self._base_tensor_name: base}
        try:
            session.run(self._save_tensor_name, feeds)
        except (errors.DataLossError, errors.NotFoundError) as error:
            logging.warning(
                "%s cannot be the base of an incremental checkpoint (%s). A full one is written.",
                base,
                error.message,
            )
            return None
        if delta_bundle.data_bytes(checkpoint_file) > _MAX_SHARE * delta_bundle.data_bytes(base):
            self._base = None
        return base

    def note_full(self, checkpoint_file: str) -> None:
        """Later deltas are based on this checkpoint."""
        self._base = checkpoint_file


def base_of(checkpoint: str) -> str | None:
    """The checkpoint that a delta needs; None for a full one, and for one that cannot be read."""
    try:
        return delta_bundle.base_of(checkpoint)
    except errors.OpError:
        return None
