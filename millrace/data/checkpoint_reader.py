"""Reads checkpoints of either format by the names of their tensors: `CheckpointReader`."""

from __future__ import annotations

import os
from typing import Any

from millrace.core.dtypes import DType
from millrace.data import tensor_bundle
from millrace.data.checkpoint_v1 import CheckpointV1Reader
from millrace.data.delta_bundle import open_bundle
from millrace.data.tensor_bundle import BundleReader, TensorInfo


def open_checkpoint(prefix: str) -> BundleReader | CheckpointV1Reader:
    """A reader for the format that a checkpoint has; to be closed.

    Raises:
      NotFoundError: There is no such checkpoint.
      DataLossError: It is damaged, or something else.
    """
    return open_bundle(prefix) if tensor_bundle.exists(prefix) else CheckpointV1Reader(prefix)


class CheckpointReader:
    """What a checkpoint has: names, types, shapes and values. Holds no file open.

    Args:
      filepattern: Name of the checkpoint; a pattern for a sharded one of the V1 format.

    Raises:
      NotFoundError: There is no such checkpoint.
      DataLossError: It is damaged, or something else.
    """

    def __init__(self, filepattern: Any) -> None:
        self._prefix = os.fsdecode(filepattern)
        with open_checkpoint(self._prefix) as reader:
            self._infos: dict[str, TensorInfo] = {
                name: reader.info(name) for name in reader.names()
            }
            self._part_counts = {name: len(reader.parts(name)) for name in self._infos}

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """The shape of each tensor."""
        return {name: list(info.shape) for name, info in self._infos.items()}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """The type of each tensor."""
        return {name: info.dtype for name, info in self._infos.items()}

    def has_tensor(self, tensor_str: str) -> bool:
        """Whether there is a tensor of this name."""
        return tensor_str in self._infos

    def get_tensor(self, tensor_str: str) -> Any:
        """The value of a tensor; a NumPy scalar, or bytes, if it has no axes.

        Raises:
          NotFoundError: There is none of this name.
          DataLossError: It is damaged.
        """
        with open_checkpoint(self._prefix) as reader:
            value = reader.read(tensor_str)
        # A scalar is a NumPy scalar or bytes, as in TensorFlow.
        return value if value.ndim else value[()]

    def debug_string(self) -> bytes:
        """A line for each tensor: name, type, shape."""
        lines = []
        for name, info in sorted(self._infos.items()):
            sizes = ",".join(str(size) for size in info.shape)
            kind = {"float32": "float", "float64": "double", "float16": "half"}.get(
                info.dtype.name, info.dtype.name
            )
            parts = self._part_counts[name]
            slices = f", {parts} slices" if parts else ""
            lines.append(f"{name} (DT_{kind.upper()}) [{sizes}]{slices}\n")
        return "".join(lines).encode()
