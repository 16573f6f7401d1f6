"""PNG files of 8 and 16 bits a channel, which Pillow cannot write, or read in colour."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from millrace.platform.inflate import ZLIB, inflate

_MAGIC = b"\x89PNG\r\n\x1a\n"
#: Channels to the colour type of the header.
_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}


def encode(pixels: Any, compression: int) -> bytes:
    """An array [height, width, channels] of uint8 or uint16 as a PNG file."""
    height, width, channels = pixels.shape
    depth = pixels.dtype.itemsize * 8
    rows = np.ascontiguousarray(pixels.astype(pixels.dtype.newbyteorder(">"))).view(np.uint8)
    rows = rows.reshape(height, -1)
    # Filter 2 (each byte minus the one above) packs photographs better than none at all.
    filtered = np.empty((height, rows.shape[1] + 1), np.uint8)
    filtered[:, 0] = 2
    filtered[0, 1:] = rows[0]
    filtered[1:, 1:] = rows[1:] - rows[:-1]
    header = struct.pack(">IIBBBBB", width, height, depth, _COLOR_TYPES[channels], 0, 0, 0)
    data = zlib.compress(filtered.tobytes(), compression)
    return _MAGIC + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _chunks(content: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    position = len(_MAGIC)
    while position + 8 <= len(content):
        (size,) = struct.unpack_from(">I", content, position)
        kind = content[position + 4 : position + 8]
        found[kind] = found.get(kind, b"") + content[position + 8 : position + 8 + size]
        position += size + 12
    return found


def decode_deep(content: bytes) -> Any:
    """The pixels of a PNG of 16 bits a channel; None for others and for interlaced ones."""
    chunks = _chunks(content)
    if len(chunks.get(b"IHDR", b"")) < 13:
        return None
    width, height, depth, color, _, _, interlace = struct.unpack(">IIBBBBB", chunks[b"IHDR"][:13])
    channels = {kind: count for count, kind in _COLOR_TYPES.items()}.get(color)
    if depth != 16 or interlace or channels is None:
        return None
    stride = width * channels * 2
    wanted = height * (stride + 1)
    data = np.frombuffer(inflate(chunks[b"IDAT"], ZLIB, wanted), np.uint8)
    lines = data.reshape(height, stride + 1)
    rows = np.zeros((height, stride), np.uint8)
    above = np.zeros(stride, np.uint8)
    for i, line in enumerate(lines):
        above = rows[i] = _unfiltered(line[0], line[1:], above, channels * 2)
    return rows.view(">u2").astype(np.uint16).reshape(height, width, channels)


def _unfiltered(kind: int, line: Any, above: Any, step: int) -> Any:
    if kind == 0:
        return line
    if kind == 2:
        return line + above
    result = line.astype(np.int32)
    up = above.astype(np.int32)
    for i in range(len(result)):
        left = result[i - step] if i >= step else 0
        corner = up[i - step] if i >= step else 0
        if kind == 1:
            guess = left
        elif kind == 3:
            guess = (left + up[i]) // 2
        else:
            guess = _paeth(left, up[i], corner)
        result[i] = (result[i] + guess) & 0xFF
    return result.astype(np.uint8)


def _paeth(left: int, up: int, corner: int) -> int:
    estimate = left + up - corner
    distances = abs(estimate - left), abs(estimate - up), abs(estimate - corner)
    return (left, up, corner)[distances.index(min(distances))]
