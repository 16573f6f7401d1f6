"""Stored figures: nests of numbers, arrays and bytes, in one compressed file per family.

A family's `.npz` has an `index` (JSON text) in which each array is a reference into one flat array
per dtype, and serialized graphs a reference into one run of bytes. Hundreds of tiny arrays then
share a few zip members, and neighbours compress each other. A `.json` beside it says where the
figures come from.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

FIGURES_FOLDER = Path(__file__).resolve().parent.parent / "figures"
_TAG = "~"


class _Packer:
    def __init__(self) -> None:
        self.columns: dict[str, list[np.ndarray]] = {}
        self.lengths: dict[str, int] = {}
        self.blob = bytearray()

    def pack(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, bytes):
            at = len(self.blob)
            self.blob += value
            return {_TAG: "bytes", "at": at, "size": len(value)}
        if isinstance(value, dict):
            return {str(k): self.pack(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.pack(v) for v in value]
        return value

    def _array(self, array: np.ndarray) -> Any:
        if array.dtype.kind == "O":
            flat = [
                (x if isinstance(x, bytes) else str(x).encode()).decode("latin-1")
                for x in array.ravel()
            ]
            return {_TAG: "string", "shape": list(array.shape), "data": flat}
        name = array.dtype.name
        at = self.lengths.get(name, 0)
        # numpy's file format does not know bfloat16: its bits are stored.
        plain = array.view(np.uint16) if name == "bfloat16" else array
        self.columns.setdefault(name, []).append(np.ascontiguousarray(plain).ravel())
        self.lengths[name] = at + array.size
        return {_TAG: name, "shape": list(array.shape), "at": at}


class _Unpacker:
    def __init__(self, columns: dict[str, np.ndarray], blob: bytes) -> None:
        self.columns = columns
        self.blob = blob

    def unpack(self, value: Any) -> Any:
        if isinstance(value, dict):
            if _TAG in value:
                return self._leaf(value)
            return {k: self.unpack(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.unpack(v) for v in value]
        return value

    def _leaf(self, leaf: dict[str, Any]) -> Any:
        kind = leaf[_TAG]
        if kind == "bytes":
            return self.blob[leaf["at"] : leaf["at"] + leaf["size"]]
        shape = tuple(leaf["shape"])
        if kind == "string":
            array = np.empty(len(leaf["data"]), dtype=object)
            array[:] = [text.encode("latin-1") for text in leaf["data"]]
            return array.reshape(shape)
        size = int(np.prod(shape, dtype=np.int64))
        flat = self.columns[kind][leaf["at"] : leaf["at"] + size]
        if kind == "bfloat16":
            flat = flat.view(ml_dtypes.bfloat16)
        return flat.reshape(shape)


def save(family: str, records: dict[str, Any], origin: dict[str, Any]) -> Path:
    """Write a family's figures and their origin; returns the figures' path."""
    packer = _Packer()
    index = packer.pack(records)
    text = json.dumps(index, separators=(",", ":")).encode()
    assert b"site-packages" not in text and b"site-packages" not in packer.blob, (
        "a stack was stored"
    )
    members = {f"flat_{name}": np.concatenate(parts) for name, parts in packer.columns.items()}
    members["index"] = np.frombuffer(text, dtype=np.uint8)
    members["blob"] = np.frombuffer(bytes(packer.blob), dtype=np.uint8)
    path = FIGURES_FOLDER / f"{family}.npz"
    path.parent.mkdir(exist_ok=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **members)
    path.write_bytes(buffer.getvalue())
    path.with_suffix(".json").write_text(json.dumps(origin, indent=1, sort_keys=True) + "\n")
    return path


def load(family: str) -> dict[str, Any]:
    """A family's figures by case name; empty when none are recorded."""
    path = FIGURES_FOLDER / f"{family}.npz"
    if not path.exists():
        return {}
    with np.load(path) as members:
        index = json.loads(members["index"].tobytes())
        columns = {
            name.removeprefix("flat_"): members[name]
            for name in members.files
            if name.startswith("flat_")
        }
        blob = members["blob"].tobytes()
    unpacked = _Unpacker(columns, blob).unpack(index)
    assert isinstance(unpacked, dict)
    return unpacked
