"""TensorFlow's V1 checkpoints: one table a shard, with the tensors themselves as values.

The table's empty key has a SavedTensorSlices message that lists the tensors and their parts;
every other key (`data.tensor_slice.slice_key`) one with the values of a part, as a TensorProto.
A sharded checkpoint is named by a pattern, ``model-?????-of-00002``. The format is slow and
holds 2 GiB a tensor at most; it is here for what was saved long ago, and for graphs with the
ops Save and SaveSlices.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError
from tensorboard.compat.proto import tensor_pb2

from millrace.core import dtypes, errors
from millrace.core.dtypes import DType
from millrace.core.tensor_proto import make_ndarray
from millrace.data.messages import declare
from millrace.data.table import TableReader, TableWriter
from millrace.data.tensor_bundle import TensorInfo
from millrace.data.tensor_slice import TensorSlice, overlap, slice_key
from millrace.platform import gfile
from millrace.platform.atomic_file import AtomicFile, sync_names
from millrace.platform.filesystems import resolve

_messages = declare(
    "tensorflow/core/util/saved_tensor_slice.proto",
    "tensorflow",
    {
        "SavedSliceMeta": """
            string name = 1
            BundleShape shape = 2
            int32 type = 3
            repeated TensorSliceProto slice = 4
        """,
        "SavedTensorSliceMeta": """
            repeated SavedSliceMeta tensor = 1
            BundleVersion versions = 2
        """,
        # The data is a TensorProto, parsed when it is wanted.
        "SavedSlice": """
            string name = 1
            TensorSliceProto slice = 2
            bytes data = 3
        """,
        "SavedTensorSlices": """
            SavedTensorSliceMeta meta = 1
            SavedSlice data = 2
        """,
    },
)
SavedTensorSlices: Any = _messages["SavedTensorSlices"]

_META_KEY = b""
_VERSION = 1
#: The field of TensorProto that has the values of each type; TensorFlow saves no others in V1.
_FIELDS = {
    "float32": "float_val",
    "float64": "double_val",
    "string": "string_val",
    "int64": "int64_val",
    "bool": "bool_val",
    "complex64": "scomplex_val",
    "complex128": "dcomplex_val",
    "float16": "half_val",
    **dict.fromkeys(
        "int32 int16 int8 uint16 uint8 qint8 quint8 qint16 quint16 qint32".split(), "int_val"
    ),
}


# -- Writing -------------------------------------------------------------------------------


class PartToSave(NamedTuple):
    """A tensor, or a part of one of `shape`."""

    name: str
    shape: Sequence[int]
    part: TensorSlice
    value: Any
    dtype: DType


def write(filename: str, parts: Sequence[PartToSave]) -> None:
    """Writes one file of a checkpoint; it appears when it is complete.

    Raises:
      UnimplementedError: A type that the format does not have.
      OpError: TensorFlow's class for what the file system says.
    """
    meta = SavedTensorSlices()
    meta.meta.versions.producer = _VERSION
    listed: dict[str, Any] = {}
    contents: dict[bytes, PartToSave] = {}
    for each in sorted(parts, key=lambda part: part.name.encode()):
        entry = listed.get(each.name)
        if entry is None:
            entry = listed[each.name] = meta.meta.tensor.add(
                name=each.name, type=each.dtype.as_datatype_enum
            )
            entry.shape.SetInParent()
            for size in each.shape:
                entry.shape.dim.add(size=size)
        entry.slice.append(each.part.to_proto())
        contents[slice_key(each.name, each.part)] = each
    file = AtomicFile(filename)
    try:
        table = TableWriter(file)
        table.add(_META_KEY, meta.SerializeToString())
        for key in sorted(contents):
            table.add(key, _content(contents[key]))
        table.finish()
        file.commit()
    except BaseException:
        file.discard()
        raise
    sync_names(filename)


def _content(saved: PartToSave) -> bytes:
    field = _FIELDS.get(saved.dtype.name)
    if field is None:
        raise errors.UnimplementedError(
            None,
            None,
            f"V1 checkpoints have no {saved.dtype.name} tensors ({saved.name}); save it with "
            "write_version=tf.train.SaverDef.V2",
        )
    flat = np.ascontiguousarray(saved.value).reshape(-1)
    if field == "half_val":
        flat = flat.view(np.uint16)
    elif saved.dtype.is_complex:
        flat = flat.view(saved.dtype.real_dtype.as_numpy_dtype)
    elif saved.dtype.is_quantized:
        flat = flat.view(flat.dtype[0])
    values = tensor_pb2.TensorProto()
    getattr(values, field).extend(flat.tolist())
    message = SavedTensorSlices()
    message.data.name = saved.name
    message.data.slice.CopyFrom(saved.part.to_proto())
    message.data.data = values.SerializeToString()
    content: bytes = message.SerializeToString()
    return content


# -- Reading -------------------------------------------------------------------------------


class _Stored(NamedTuple):
    """One part of a tensor, and the table that has it."""

    part: TensorSlice
    table: TableReader


class CheckpointV1Reader:
    """Reads tensors and parts of tensors; a context manager.

    Args:
      file_pattern: Name of the file, or a pattern for the files of a sharded checkpoint.

    Raises:
      NotFoundError: No file matches.
      DataLossError: A file is damaged, or something else.
    """

    def __init__(self, file_pattern: str) -> None:
        self._name = file_pattern
        self._streams: list[BinaryIO] = []
        self._infos: dict[str, TensorInfo] = {}
        self._parts: dict[str, list[_Stored]] = {}
        names = gfile.glob(file_pattern)
        if not names:
            raise errors.NotFoundError(
                None,
                None,
                "Unsuccessful TensorSliceReader constructor: Failed to find any matching files "
                f"for {file_pattern}",
            )
        try:
            for name in names:
                self._open(name)
        except BaseException:
            self.close()
            raise

    def _open(self, name: str) -> None:
        with gfile.tensorflow_errors(name):
            files, path = resolve(name)
            if files.is_directory(path):
                raise IsADirectoryError(21, os.strerror(21), name)
            stream = files.open_for_reading(path)
            self._streams.append(stream)
            size = files.stat(path).length
        try:
            table = TableReader(stream, name, size)
            meta = SavedTensorSlices.FromString(table.get(_META_KEY) or b"").meta
            for tensor in meta.tensor:
                self._add(tensor, table)
        except (errors.DataLossError, DecodeError, ValueError, TypeError, OverflowError) as error:
            raise errors.DataLossError(
                None,
                None,
                f"Unable to open table file {name}: {error}: perhaps your file is in a different "
                "file format and you need to use a different restore operator?",
            ) from None

    def _add(self, tensor: Any, table: TableReader) -> None:
        """Notes what a file says of a tensor; ValueError or TypeError if that is damaged."""
        shape = tuple(dim.size for dim in tensor.shape.dim)
        if tensor.shape.unknown_rank or min(shape, default=0) < 0:
            raise ValueError(f"tensor {tensor.name} has the shape {list(shape)}")
        self._infos[tensor.name] = TensorInfo(dtypes.as_dtype(tensor.type), shape)
        parts = [TensorSlice.from_proto(part) for part in tensor.slice]
        for part in parts:
            part.shape_in(shape)  # or it is none of this tensor
        self._parts.setdefault(tensor.name, []).extend(_Stored(part, table) for part in parts)

    def __enter__(self) -> CheckpointV1Reader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the files."""
        while self._streams:
            self._streams.pop().close()

    def names(self) -> Iterator[str]:
        """The tensors, in order."""
        return iter(sorted(self._infos))

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def info(self, name: str) -> TensorInfo:
        """Type and shape of a tensor; NotFoundError if there is none of this name."""
        if name not in self._infos:
            raise errors.NotFoundError(
                None, None, f'Tensor name "{name}" not found in checkpoint files {self._name}'
            )
        return self._infos[name]

    def parts(self, name: str) -> list[TensorSlice]:
        """The parts in which a tensor was saved; none if it was saved whole."""
        sizes = self.info(name).shape
        parts = [stored.part for stored in self._parts[name]]
        return [] if len(parts) == 1 and parts[0].covers(sizes) else parts

    def read(self, name: str) -> Any:
        """The value of a tensor."""
        return self.read_slice(name, TensorSlice.whole(len(self.info(name).shape)))

    def read_slice(self, name: str, part: TensorSlice) -> Any:
        """A part of a tensor, put together from those in which it was saved.

        Raises:
          NotFoundError: There is no such tensor, or the checkpoint lacks some of the part.
        """
        dtype, sizes = self.info(name)
        shape = part.shape_in(sizes)
        try:
            return self._read_slice(name, part, dtype, sizes, shape)
        except (ValueError, TypeError, IndexError, OverflowError, MemoryError) as error:
            raise errors.DataLossError(
                None, None, f"{self._name}: tensor {name}: its entry is damaged: {error}"
            ) from None

    def _read_slice(
        self,
        name: str,
        part: TensorSlice,
        dtype: DType,
        sizes: tuple[int, ...],
        shape: tuple[int, ...],
    ) -> Any:
        count = missing = math.prod(shape)
        pieces = []
        for stored in self._parts[name]:
            common = overlap(part, stored.part, sizes)
            if common is not None or not count:
                into, of = common or (..., ...)
                piece = self._load(name, stored, dtype, stored.part.shape_in(sizes))[of]
                pieces.append((into, piece))
                missing -= piece.size
        if missing > 0:
            raise errors.NotFoundError(
                None,
                None,
                f"Checkpoint {self._name} does not have all of the slice {part or '-'} of tensor "
                f"{name}: {missing} of {count} elements are missing; it has "
                f"{', '.join(str(stored.part) for stored in self._parts[name])}",
            )
        # All of it is there: the sizes are those of what was read.
        value = np.empty(shape, dtype.as_numpy_dtype)
        for into, piece in pieces:
            value[into] = piece
        return value

    def _load(self, name: str, stored: _Stored, dtype: DType, shape: Sequence[int]) -> Any:
        content = stored.table.get(slice_key(name, stored.part))
        try:
            message = SavedTensorSlices.FromString(content or b"").data
            values = tensor_pb2.TensorProto.FromString(message.data)
            count = len(getattr(values, _FIELDS[dtype.name])) // (2 if dtype.is_complex else 1)
            wanted = math.prod(shape)
            if content is None or count != wanted:
                raise ValueError(f"{count} values are there, {wanted} were saved")
        except (KeyError, ValueError, DecodeError) as error:
            raise errors.DataLossError(
                None, None, f"{self._name}: slice {stored.part or '-'} of tensor {name}: {error}"
            ) from None
        values.dtype = dtype.as_datatype_enum
        for size in shape:
            values.tensor_shape.dim.add(size=size)
        return make_ndarray(values)
