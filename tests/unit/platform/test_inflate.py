"""What a few compressed bytes may become, and what they may not."""

import gzip
import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

import millrace as tf
from millrace.core import errors
from millrace.data.mnist import extract_images
from millrace.platform.inflate import GZIP, ZLIB, inflate


def test_what_was_compressed_comes_back():
    assert inflate(zlib.compress(b"abc" * 1000), ZLIB) == b"abc" * 1000
    assert inflate(gzip.compress(b"a") + gzip.compress(b"b"), GZIP) == b"ab"
    assert inflate(zlib.compress(b""), ZLIB) == b""


@pytest.mark.parametrize("data", [b"\0", b"garbage", zlib.compress(bytes(1000))[:-5]])
def test_what_was_not_compressed_or_cut_off_is_an_error(data):
    with pytest.raises(ValueError, match=r"inflate\(\) failed"):
        inflate(data, ZLIB)


def test_a_bomb_is_refused_at_its_bound():
    bomb = zlib.compress(bytes(10_000_000))
    assert len(inflate(bomb, ZLIB, 10_000_000)) == 10_000_000
    with pytest.raises(errors.ResourceExhaustedError):
        inflate(bomb, ZLIB, 1_000_000)


@pytest.mark.parametrize(("kind", "pack"), [("ZLIB", zlib.compress), ("GZIP", gzip.compress)])
def test_the_op_has_the_bound_of_one_string_and_no_raw_errors(kind, pack, monkeypatch):
    monkeypatch.setenv("MILLRACE_MAX_STRING_LENGTH", "1M")
    with tf.Graph().as_default(), tf.Session() as session:
        data = tf.placeholder(tf.string, [])
        inflated = tf.io.decode_compressed(data, kind)
        assert session.run(inflated, {data: pack(b"text")}) == b"text"
        with pytest.raises(errors.ResourceExhaustedError, match="MILLRACE_MAX_STRING_LENGTH"):
            session.run(inflated, {data: pack(bytes(2_000_000))})
        for broken in (b"garbage", pack(b"text" * 100)[:-9]):
            with pytest.raises(errors.InvalidArgumentError, match="inflate"):
                session.run(inflated, {data: broken})


def animation(frames: int, width: int, height: int) -> bytes:
    """A GIF of small frames on a large screen."""
    images = [Image.fromarray(np.full((4, 4), i, np.uint8)) for i in range(frames)]
    stream = io.BytesIO()
    images[0].save(stream, "GIF", save_all=True, append_images=images[1:])
    content = bytearray(stream.getvalue())
    content[6:10] = struct.pack("<HH", width, height)
    return bytes(content)


def png_of_16_bits(width: int, height: int, content: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(content)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_images_that_grow_without_end_are_refused(monkeypatch):
    monkeypatch.setenv("MILLRACE_MAX_MEMORY_BYTES", "64M")
    with tf.Graph().as_default(), tf.Session() as session:
        data = tf.placeholder(tf.string, [])
        gif, png = tf.image.decode_gif(data), tf.image.decode_png(data, dtype=tf.uint16)
        assert session.run(gif, {data: animation(3, 4, 4)}).shape == (3, 4, 4, 3)
        with pytest.raises(errors.ResourceExhaustedError, match="frames of a GIF"):
            session.run(gif, {data: animation(50, 2000, 2000)})
        assert session.run(png, {data: png_of_16_bits(1, 1, bytes(3))}).shape == (1, 1, 1)
        with pytest.raises(errors.InvalidArgumentError, match="PNG"):
            session.run(png, {data: png_of_16_bits(1, 1, bytes(50_000_000))})
        webp = b"RIFF\x10\0\0\0WEBPVP8 garbage"
        with pytest.raises(errors.InvalidArgumentError):
            session.run(tf.image.decode_image(data), {data: webp})


@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(bytes(100), mtime=0)[:-10],
     gzip.compress(struct.pack(">4I", 2051, 2**32 - 1, 2**32 - 1, 2**32 - 1), mtime=0)],
)  # fmt: skip
def test_an_mnist_file_that_is_none_raises_nothing_raw(content):
    with pytest.raises((ValueError, errors.DataLossError), match="gzip|MNIST"):
        extract_images(io.BytesIO(content))
