"""Undoing compression within bounds: a kilobyte may stand for a megabyte, and so on."""

from __future__ import annotations

import zlib

from millrace.platform import limits

#: zlib's numbers for what surrounds the data.
ZLIB = zlib.MAX_WBITS
GZIP = zlib.MAX_WBITS + 16
#: How much is made in one call.
_PIECE_BYTES = 1 << 22


def inflate(data: bytes, window_bits: int, most: float | None = None) -> bytes:
    """What was compressed; several streams in a row count as one.

    Args:
      data: The compressed bytes.
      window_bits: `ZLIB` or `GZIP`.
      most: How many bytes may come of them; the limit of one string by default.

    Raises:
      ValueError: They are not compressed so, or cut off.
      ResourceExhaustedError: More would come of them.
    """
    bound = limits.STRING_LENGTH.value if most is None else most
    pieces: list[bytes] = []
    size = 0
    while data:
        stream = zlib.decompressobj(window_bits)
        while not stream.eof:
            # With no limit on the length zlib would make room for all of it at once, and it
            # does that while nobody else can run.
            room = int(min(bound - size + 1, _PIECE_BYTES))
            try:
                piece = stream.decompress(data, room)
            except zlib.error as error:
                raise ValueError(f"inflate() failed: {error}") from None
            data = stream.unconsumed_tail
            size += len(piece)
            if size > bound:
                raise limits.STRING_LENGTH.error(size, "Bytes of what was compressed, or more")
            pieces.append(piece)
            if not piece and not data and not stream.eof:
                raise ValueError("inflate() failed: the data are cut off")
        data = stream.unused_data if window_bits == GZIP else b""
    return b"".join(pieces)
