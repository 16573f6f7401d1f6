"""Checkpoints as ops: what a Saver puts into the graph.

Host kernels, functions of their inputs and the file system only: they run in whichever task the
graph places them. SaveV2, RestoreV2 and MergeV2Checkpoints have the V2 format
(`data.tensor_bundle`); Save, SaveSlices, Restore and RestoreSlice the V1 format
(`data.checkpoint_v1`). RestoreV2 reads both. _SaveDelta, which TensorFlow does not have, writes
incremental checkpoints (`data.delta_bundle`), which RestoreV2 reads as well.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.compiler.xla import jax
from millrace.core import errors
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape, scalar, unknown_shape
from millrace.data import checkpoint_v1, tensor_bundle
from millrace.data.checkpoint_v1 import CheckpointV1Reader, PartToSave
from millrace.data.delta_bundle import DeltaWriter, open_bundle
from millrace.data.tensor_bundle import BundleReader, BundleWriter
from millrace.data.tensor_slice import TensorSlice, parse_shape_and_slice
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, none
from millrace.ops.array.rules import shape_text
from millrace.platform import gfile

__all__: list[str] = []


# -- Checks of what the ops are given ------------------------------------------------------


def _check_ranks(c: ShapeContext, **ranks: int) -> None:
    for name, rank in ranks.items():
        found = c.shape(name).ndims
        if found not in (None, rank):
            raise ValueError(f"Shape must be rank {rank} but is rank {found}")


def _check_count(c: ShapeContext, name: str, wanted: int) -> None:
    sizes = c.shape(name).sizes
    if sizes is not None and sizes[0] not in (None, wanted):
        raise ValueError(f"Dimension must be {wanted} but is {sizes[0]}")


def _one_name(value: Any, what: str) -> str:
    if value.size != 1:
        raise ValueError(f"Input {what} should have a single element, got {value.size} instead.")
    name: bytes = value.item()
    return name.decode()


def _texts(value: Any, what: str, count: int) -> list[str]:
    if value.shape != (count,):
        raise ValueError(
            f"Input {what} must be a vector with one element for each of the {count} tensors, "
            f"got shape {shape_text(value.shape)}"
        )
    return [text.decode() for text in value]


def _part(spec: str, value: Any) -> tuple[tuple[int, ...], TensorSlice]:
    """The shape of the whole of which `value` is a part, and which part that is."""
    if not spec:
        return value.shape, TensorSlice.whole(value.ndim)
    shape, part, part_shape = parse_shape_and_slice(spec)
    if part_shape != value.shape:
        raise ValueError(
            "Slice in shape_and_slice specification does not match the shape of the tensor to "
            f"save: {spec}, tensor: {shape_text(value.shape)}"
        )
    return shape, part


# -- V2 ------------------------------------------------------------------------------------


def _save_v2_shape(c: ShapeContext) -> list[TensorShape]:
    _check_ranks(c, prefix=0, tensor_names=1, shape_and_slices=1)
    for name in ("tensor_names", "shape_and_slices"):
        _check_count(c, name, len(c.attr("dtypes")))
    return []


@op(
    "SaveV2(prefix: string, tensor_names: string, shape_and_slices: string, tensors: [dtypes]) "
    "where dtypes: list(type) >= 1",
    shape=_save_v2_shape,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def SaveV2(
    prefix: Any,
    tensor_names: Any,
    shape_and_slices: Any,
    tensors: list[Any],
    *,
    dtypes: list[DType],
) -> None:
    """Writes tensors, or parts of tensors, as a checkpoint of the V2 format."""
    name = _one_name(prefix, "prefix")
    names = _texts(tensor_names, "tensor_names", len(tensors))
    specs = _texts(shape_and_slices, "shape_and_slices", len(tensors))
    parts = [_part(spec, value) for spec, value in zip(specs, tensors, strict=True)]
    writer = BundleWriter(name)
    try:
        for each, spec, part, value, dtype in zip(
            names, specs, parts, tensors, dtypes, strict=True
        ):
            if spec:
                writer.add_slice(each, *part, value, dtype)
            else:
                writer.add(each, value, dtype)
    except BaseException:
        writer.discard()
        raise
    writer.finish()


@op(
    "_SaveDelta(prefix: string, base: string, tensor_names: string, shape_and_slices: string, "
    "tensors: [dtypes]) where dtypes: list(type) >= 1",
    shape=_save_v2_shape,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def SaveDelta(
    prefix: Any,
    base: Any,
    tensor_names: Any,
    shape_and_slices: Any,
    tensors: list[Any],
    *,
    dtypes: list[DType],
) -> None:
    """Writes what of the tensors differs from another checkpoint; not in TensorFlow."""
    names = _texts(tensor_names, "tensor_names", len(tensors))
    specs = _texts(shape_and_slices, "shape_and_slices", len(tensors))
    parts = [_part(spec, value) for spec, value in zip(specs, tensors, strict=True)]
    writer = DeltaWriter(_one_name(prefix, "prefix"), _one_name(base, "base"))
    try:
        for name, (shape, part), value, dtype in zip(names, parts, tensors, dtypes, strict=True):
            writer.add(name, shape, part, value, dtype)
    except BaseException:
        writer.discard()
        raise
    writer.finish()


def _restored_shape(spec: str) -> TensorShape:
    return TensorShape(parse_shape_and_slice(spec)[2]) if spec else unknown_shape()


def _restore_v2_shapes(c: ShapeContext) -> list[TensorShape]:
    _check_ranks(c, prefix=0, tensor_names=1, shape_and_slices=1)
    count = len(c.attr("dtypes"))
    names, specs = c.shape("tensor_names"), c.shape("shape_and_slices")
    names.merge_with(specs)
    known = c.value("shape_and_slices")
    if known is None:
        return [unknown_shape()] * count
    if known.size != count:
        raise ValueError(
            f"The number of shape_and_slice doesn't match tensor outputs: {known.size} against "
            f"{count}"
        )
    return [_restored_shape(spec.decode()) for spec in known]


@op(
    "RestoreV2(prefix: string, tensor_names: string, shape_and_slices: string) -> "
    "tensors: [dtypes] where dtypes: list(type) >= 1",
    shape=_restore_v2_shapes,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def RestoreV2(
    prefix: Any, tensor_names: Any, shape_and_slices: Any, *, dtypes: list[DType]
) -> list[Any]:
    """Reads tensors, or parts of tensors, from a checkpoint of either format."""
    name = _one_name(prefix, "prefix")
    names = _texts(tensor_names, "tensor_names", len(dtypes))
    specs = _texts(shape_and_slices, "shape_and_slices", len(dtypes))
    if not tensor_bundle.exists(name):
        with CheckpointV1Reader(name) as old:
            return [_restore_v1(old, *each) for each in zip(names, specs, dtypes, strict=True)]
    with open_bundle(name) as reader:
        _check_present(reader, name, names)
        found = (_restore(reader, *each) for each in zip(names, specs, dtypes, strict=True))
        # XLA takes the memory of what was read as its own, so that no copy is made of it.
        return [value if value.dtype.hasobject else jax.device_put(value) for value in found]


def _check_present(reader: BundleReader, prefix: str, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in reader]
    if missing:
        others = f"; neither are {', '.join(missing[1:])}" if missing[1:] else ""
        raise errors.NotFoundError(
            None,
            None,
            f"Key {missing[0]} not found in checkpoint {prefix}{others} "
            f"({len(missing)} of {len(names)} tensors are missing; "
            f"tf.train.list_variables('{prefix}') lists what there is)",
        )


def _restore(reader: BundleReader, name: str, spec: str, dtype: DType) -> Any:
    stored = reader.info(name)
    if stored.dtype != dtype.base_dtype:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"tensor_name = {name}; expected dtype {_type_text(dtype)} does not equal original "
            f"dtype {_type_text(stored.dtype)}",
        )
    if not spec:
        return reader.read(name)
    shape, part, _ = parse_shape_and_slice(spec)
    if shape != stored.shape:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"tensor_name = {name}; shape in shape_and_slice spec {shape_text(shape)} does not "
            f"match the shape stored in checkpoint: {shape_text(stored.shape)}",
        )
    return reader.read_slice(name, part)


def _type_text(dtype: DType) -> str:
    """A type as TensorFlow's errors name it."""
    return {"float32": "float", "float64": "double", "float16": "half"}.get(dtype.name, dtype.name)


def _merge_shape(c: ShapeContext) -> list[TensorShape]:
    _check_ranks(c, checkpoint_prefixes=1, destination_prefix=0)
    return []


@op(
    "MergeV2Checkpoints(checkpoint_prefixes: string, destination_prefix: string) where "
    "delete_old_dirs: bool = true; allow_missing_files: bool = false",
    shape=_merge_shape,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def MergeV2Checkpoints(
    checkpoint_prefixes: Any,
    destination_prefix: Any,
    *,
    delete_old_dirs: bool,
    allow_missing_files: bool,
) -> None:
    """Makes one checkpoint of those that several tasks wrote."""
    prefixes = [prefix.decode() for prefix in checkpoint_prefixes.ravel()]
    destination = _one_name(destination_prefix, "destination_prefix")
    tensor_bundle.merge_bundles(prefixes, destination, allow_missing_files)
    if delete_old_dirs:
        folders = {os.path.dirname(prefix) for prefix in prefixes}
        for folder in folders - {os.path.dirname(destination), ""}:
            _remove_empty(folder)


def _remove_empty(folder: str) -> None:
    """Removes a folder that is empty, but for what killed writers left; failing does no harm."""
    try:
        names = gfile.listdir(folder) if gfile.isdir(folder) else ["?"]
        if all(".tempstate" in name for name in names):
            gfile.rmtree(folder)
    except errors.OpError:
        pass


@op(
    "DisableCopyOnRead(resource: resource)",
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def DisableCopyOnRead(resource: Any) -> None:
    """Nothing: TensorFlow's clients put it before the reads of a save, to spare a copy.

    Here reads share the variable's memory anyhow, and writers copy while they last.
    """


# -- Names of shards -----------------------------------------------------------------------


@op(
    "ShardedFilename(basename: string, shard: int32, num_shards: int32) -> filename: string",
    shape=lambda c: scalar(),
    gradient=NO_GRADIENT,
    host=True,
)
def ShardedFilename(basename: Any, shard: Any, num_shards: Any, *, xp: Any) -> Any:
    """``name-00003-of-00012``."""
    text = f"{_one_name(basename, 'basename')}-{int(shard):05d}-of-{int(num_shards):05d}"
    return np.array(text.encode(), object)


@op(
    "ShardedFilespec(basename: string, num_shards: int32) -> filename: string",
    shape=lambda c: scalar(),
    gradient=NO_GRADIENT,
    host=True,
)
def ShardedFilespec(basename: Any, num_shards: Any, *, xp: Any) -> Any:
    """The pattern ``name-?????-of-00012``."""
    text = f"{_one_name(basename, 'basename')}-?????-of-{int(num_shards):05d}"
    return np.array(text.encode(), object)


# -- V1 ------------------------------------------------------------------------------------


def _save_shape(c: ShapeContext) -> list[TensorShape]:
    _check_ranks(c, filename=0, tensor_names=1)
    _check_count(c, "tensor_names", len(c.attr("T")))
    return []


def _save_slices_shape(c: ShapeContext) -> list[TensorShape]:
    _save_shape(c)
    _check_ranks(c, shapes_and_slices=1)
    _check_count(c, "shapes_and_slices", len(c.attr("T")))
    return []


def _save_v1(filename: Any, tensor_names: Any, specs: Any, data: list[Any], T: list[DType]) -> None:
    names = _texts(tensor_names, "tensor_names", len(data))
    texts = _texts(specs, "shapes_and_slices", len(data))
    checkpoint_v1.write(
        _one_name(filename, "filename"),
        [
            PartToSave(name, *_part(spec, value), value, dtype)
            for name, spec, value, dtype in zip(names, texts, data, T, strict=True)
        ],
    )


@op(
    "Save(filename: string, tensor_names: string, data: [T]) where T: list(type) >= 1",
    shape=_save_shape,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def Save(filename: Any, tensor_names: Any, data: list[Any], *, T: list[DType]) -> None:
    """Writes tensors as a checkpoint of the V1 format."""
    _save_v1(filename, tensor_names, np.array([b""] * len(data), object), data, T)


@op(
    "SaveSlices(filename: string, tensor_names: string, shapes_and_slices: string, data: [T]) "
    "where T: list(type) >= 1",
    shape=_save_slices_shape,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def SaveSlices(
    filename: Any, tensor_names: Any, shapes_and_slices: Any, data: list[Any], *, T: list[DType]
) -> None:
    """Writes tensors, or parts of tensors, as a checkpoint of the V1 format."""
    _save_v1(filename, tensor_names, shapes_and_slices, data, T)


def _restore_v1(reader: CheckpointV1Reader, name: str, spec: str, dtype: DType) -> Any:
    stored = reader.info(name)
    if stored.dtype != dtype.base_dtype:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Expected to restore a tensor of type {_type_text(dtype)}, got a tensor of type "
            f"{_type_text(stored.dtype)} instead: tensor_name = {name}",
        )
    if not spec:
        return reader.read(name)
    shape, part, _ = parse_shape_and_slice(spec)
    if shape != stored.shape:
        raise errors.InvalidArgumentError(
            None,
            None,
            "Shape in shape_and_slice spec does not match the shape in the save file: "
            f"{shape_text(shape)}, save file shape: {shape_text(stored.shape)}, tensor {name}",
        )
    return reader.read_slice(name, part)


def _restore_slice_shape(c: ShapeContext) -> TensorShape:
    _check_ranks(c, file_pattern=0, tensor_name=0, shape_and_slice=0)
    known = c.value("shape_and_slice")
    return unknown_shape() if known is None else _restored_shape(known.item().decode())


def _restore_shape(c: ShapeContext) -> TensorShape:
    _check_ranks(c, file_pattern=0, tensor_name=0)
    return unknown_shape()


@op(
    "Restore(file_pattern: string, tensor_name: string) -> tensor: dt where dt: type; "
    "preferred_shard: int = -1",
    shape=_restore_shape,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def Restore(file_pattern: Any, tensor_name: Any, *, dt: DType) -> Any:
    """Reads a tensor from a checkpoint of the V1 format."""
    with CheckpointV1Reader(_one_name(file_pattern, "file_pattern")) as reader:
        return _restore_v1(reader, _one_name(tensor_name, "tensor_name"), "", dt)


@op(
    "RestoreSlice(file_pattern: string, tensor_name: string, shape_and_slice: string) -> "
    "tensor: dt where dt: type; preferred_shard: int = -1",
    shape=_restore_slice_shape,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def RestoreSlice(file_pattern: Any, tensor_name: Any, shape_and_slice: Any, *, dt: DType) -> Any:
    """Reads a part of a tensor from a checkpoint of the V1 format."""
    with CheckpointV1Reader(_one_name(file_pattern, "file_pattern")) as reader:
        name = _one_name(tensor_name, "tensor_name")
        return _restore_v1(reader, name, _one_name(shape_and_slice, "shape_and_slice"), dt)
