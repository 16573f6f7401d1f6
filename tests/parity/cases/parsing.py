"""Decoding: raw bytes, CSV, Example messages, images, files and readers."""

import io
import os
import tempfile

import numpy as np
from parity_kit import array, case, cases, scenario, strings

A_FILE = "the graph names a file of this run"


@cases(
    [
        (
            f"decode_raw_{d}",
            {"x": strings([np.arange(4).astype(d).tobytes(), np.arange(5, 9).astype(d).tobytes()])},
            d,
        )
        for d in ("float32", "float64", "int32", "int64", "uint8", "int16", "bool")
    ]
)
def decode_raw(tf, dtype, x):
    return tf.decode_raw(x, getattr(tf, dtype))


@case(inputs={"x": strings([b"\x00\x01\x00\x02"])})
def decode_raw_big_endian(tf, x):
    return tf.decode_raw(x, tf.int16, little_endian=False)


@case(inputs={"x": strings([b"abc"])}, raises=("InvalidArgumentError", "multiple of 4"))
def decode_raw_of_a_wrong_length(tf, x):
    return tf.decode_raw(x, tf.int32)


@case(inputs={"x": strings([b"abcd", b"ab"])}, raises=("InvalidArgumentError",))
def decode_raw_of_different_lengths(tf, x):
    return tf.decode_raw(x, tf.uint8)


@cases(
    [
        ("csv_types", {"x": strings(["1,2.5,a", "3,4.5,b"])}, [[0], [0.0], [""]], {}),
        ("csv_defaults", {"x": strings([",,", "3,,b"])}, [[7], [0.5], ["none"]], {}),
        (
            "csv_int64",
            {"x": strings(["1,2"])},
            [np.array([], np.int64), np.array([5], np.int64)],
            {},
        ),
        (
            "csv_double",
            {"x": strings(["1,2"])},
            [np.array([], np.float64), np.array([5.0], np.float64)],
            {},
        ),
        ("csv_quotes", {"x": strings(['1,"a,""b"""', "2,plain"])}, [[0], [""]], {}),
        ("csv_delimiter", {"x": strings(["1;2", "3;4"])}, [[0], [0]], {"field_delim": ";"}),
        ("csv_na_value", {"x": strings(["NA,2"])}, [[9], [9]], {"na_value": "NA"}),
        ("csv_select", {"x": strings(["1,2,3"])}, [[0], [0]], {"select_cols": [0, 2]}),
        ("csv_no_quotes", {"x": strings(['"a,b"'])}, [[""], [""]], {"use_quote_delim": False}),
        ("csv_matrix", {"x": strings([["1,2"], ["3,4"]])}, [[0], [0]], {}),
        ("csv_scalar", {"x": strings("5,6")}, [[0], [0]], {}),
    ]
)
def decode_csv(tf, defaults, options, x):
    return tf.decode_csv(x, defaults, **options)


for _name, _text, _words in [
    ("csv_fails_on_missing", ",2", "Field 0 is required but missing in record 0"),
    ("csv_fails_on_too_few", "1", "Expect 2 fields but have 1 in record 0"),
    ("csv_fails_on_text", "x,2", "Field 0 in record 0 is not a valid int32: x"),
]:

    @case(_name, {"x": strings([_text])}, raises=("InvalidArgumentError", _words))
    def decode_csv_error(tf, x):
        return tf.decode_csv(x, [np.array([], np.int32), np.array([0], np.int32)])


# --- Example messages


def _varint(n):
    out = b""
    while True:
        n, low = n >> 7, n & 0x7F
        out += bytes([low | (0x80 if n else 0)])
        if not n:
            return out


def _field(number, payload):
    return bytes([number << 3 | 2]) + _varint(len(payload)) + payload


def example(**features):
    """A serialized tf.train.Example, written by hand so that no module is needed for it."""
    entries = b""
    for name, values in sorted(features.items()):
        if values and isinstance(values[0], bytes):
            kind, packed = 1, b"".join(_field(1, v) for v in values)
        elif values and isinstance(values[0], float):
            kind, packed = 2, _field(1, np.array(values, "<f4").tobytes())
        else:
            kind, packed = 3, _field(1, b"".join(_varint(v & (2**64 - 1)) for v in values))
        feature = _field(kind, packed)
        entries += _field(1, _field(1, name.encode()) + _field(2, feature))
    return _field(1, entries)


FIRST = example(i=[3], f=[0.5, 1.5], s=[b"one"], v=[1, 2, 3], w=[0.25])
SECOND = example(i=[-4], f=[2.5, 3.5], s=[b"two"], v=[9])
THIRD = example(f=[7.0, 8.0], s=[b""], w=[1.0, 2.0])
TWO = {"x": strings([FIRST, SECOND])}
THREE = {"x": strings([FIRST, SECOND, THIRD])}


@case(inputs=TWO)
def parse_fixed(tf, x):
    return tf.parse_example(
        x,
        {
            "i": tf.FixedLenFeature([], tf.int64),
            "f": tf.FixedLenFeature([2], tf.float32),
            "s": tf.FixedLenFeature([1], tf.string),
        },
    )


@case(inputs=THREE)
def parse_defaults(tf, x):
    return tf.parse_example(
        x,
        {
            "i": tf.FixedLenFeature([], tf.int64, default_value=-1),
            "missing": tf.FixedLenFeature([2], tf.float32, default_value=[0.5, 0.6]),
            "s": tf.FixedLenFeature([], tf.string, default_value="none"),
        },
    )


@case(inputs=THREE)
def parse_variable(tf, x):
    return tf.parse_example(
        x,
        {
            "v": tf.VarLenFeature(tf.int64),
            "w": tf.VarLenFeature(tf.float32),
            "none": tf.VarLenFeature(tf.string),
        },
    )


@case(inputs=THREE)
def parse_sequence_feature(tf, x):
    return tf.parse_example(
        x,
        {
            "v": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
            "w": tf.FixedLenSequenceFeature([], tf.float32, allow_missing=True, default_value=-1.0),
        },
    )


@case(inputs=TWO)
def parse_matrix_feature(tf, x):
    return tf.parse_example(x, {"f": tf.FixedLenFeature([2, 1], tf.float32)})


@case(inputs={"x": strings([example(idx=[0, 3], val=[1.0, 2.0]), example(idx=[5], val=[3.0])])})
def parse_sparse_feature(tf, x):
    return tf.parse_example(x, {"sp": tf.SparseFeature("idx", "val", tf.float32, 6)})


@case(inputs={"x": strings(FIRST)})
def parse_single(tf, x):
    return tf.parse_single_example(
        x,
        {
            "i": tf.FixedLenFeature([], tf.int64),
            "f": tf.FixedLenFeature([2], tf.float32),
            "v": tf.VarLenFeature(tf.int64),
            "gone": tf.FixedLenFeature([1], tf.string, default_value="d"),
            "q": tf.FixedLenSequenceFeature([], tf.float32, allow_missing=True),
        },
    )


@case(
    inputs=THREE,
    raises=(
        "InvalidArgumentError",
        "Feature: i (data type: int64) is required but could not be found",
    ),
)
def parse_without_a_required_feature(tf, x):
    return tf.parse_example(x, {"i": tf.FixedLenFeature([], tf.int64)})


@case(inputs=TWO, raises=("InvalidArgumentError", "Key: f"))
def parse_of_a_wrong_length(tf, x):
    return tf.parse_example(x, {"f": tf.FixedLenFeature([3], tf.float32)})


@case(inputs=TWO, raises=("InvalidArgumentError", "Data types don't match"))
def parse_of_a_wrong_type(tf, x):
    return tf.parse_example(x, {"f": tf.FixedLenFeature([2], tf.int64)})


@case(
    inputs={"x": strings([b"garbage!"])},
    raises=("InvalidArgumentError", "Could not parse example input"),
)
def parse_of_garbage(tf, x):
    return tf.parse_example(x, {"i": tf.FixedLenFeature([], tf.int64)})


@case(raises=("ValueError",))
def parse_without_features(tf):
    return tf.parse_example(["x"], {})


def _sequence_example():
    context = _field(1, _field(1, b"id") + _field(2, _field(3, _field(1, _varint(7)))))
    step = lambda *v: _field(3, _field(1, b"".join(_varint(n) for n in v)))  # noqa: E731
    steps = b"".join(_field(1, step(*v)) for v in ([1, 2], [3, 4], [5, 6]))
    lists = _field(1, _field(1, b"t") + _field(2, steps))
    return _field(1, context) + _field(2, lists)


@case(inputs={"x": strings(_sequence_example())})
def parse_single_sequence_example(tf, x):
    return tf.parse_single_sequence_example(
        x,
        context_features={"id": tf.FixedLenFeature([], tf.int64)},
        sequence_features={"t": tf.FixedLenSequenceFeature([2], tf.int64)},
    )


@case(inputs={"x": array([[1.0, 2.0], [3.0, 4.0]])})
def serialize_and_parse_tensor(tf, x):
    text = tf.serialize_tensor(x)
    return [tf.parse_tensor(text, tf.float32), text]


@case(inputs={"x": strings(['{"features": {"feature": {"i": {"int64List": {"value": ["5"]}}}}}'])})
def decode_json_example(tf, x):
    return tf.parse_example(tf.decode_json_example(x), {"i": tf.FixedLenFeature([], tf.int64)})


@scenario
def example_messages(run, tf):
    made = tf.train.Example(
        features=tf.train.Features(
            feature={
                "i": tf.train.Feature(int64_list=tf.train.Int64List(value=[5])),
                "f": tf.train.Feature(float_list=tf.train.FloatList(value=[1.5])),
                "s": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x"])),
            }
        )
    )
    parsed = tf.parse_single_example(
        tf.constant(made.SerializeToString(deterministic=True)),
        {
            "i": tf.FixedLenFeature([], tf.int64),
            "f": tf.FixedLenFeature([], tf.float32),
            "s": tf.FixedLenFeature([], tf.string),
        },
    )
    run(parsed)


# --- files and readers


def _record_file(tf, path, records):
    with tf.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)


def _read_all(run, tf, reader, paths, count):
    names = tf.FIFOQueue(10, tf.string, shapes=[[]])
    run.value(names.enqueue_many([tf.constant(paths)]))
    run.value(names.close())
    read = reader.read(names)
    for _ in range(count):
        key, value = run.session.run(read)
        run.note([key.decode().replace(os.path.dirname(paths[0]), "DIR"), value])
    run.fails("OutOfRangeError", read)
    run([reader.num_records_produced(), reader.num_work_units_completed()])


@scenario(replay=A_FILE)
def record_reader(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, n) for n in ("a.rec", "b.rec")]
        _record_file(tf, paths[0], [b"one", b"two"])
        _record_file(tf, paths[1], [b"", b"three"])
        _read_all(run, tf, tf.TFRecordReader(), paths, 4)


@scenario(replay=A_FILE)
def record_reader_gzip(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.rec")
        options = tf.io.TFRecordOptions(tf.io.TFRecordCompressionType.GZIP)
        with tf.io.TFRecordWriter(path, options) as writer:
            writer.write(b"packed")
        _read_all(run, tf, tf.TFRecordReader(options=options), [path], 1)


@scenario(replay=A_FILE)
def text_line_reader(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.txt")
        with open(path, "w", newline="") as file:
            file.write("header\nfirst\r\n\nlast without end")
        _read_all(run, tf, tf.TextLineReader(skip_header_lines=1), [path], 3)


@scenario(replay=A_FILE)
def fixed_length_reader(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.bin")
        with open(path, "wb") as file:
            file.write(b"HHaabbccF")
        _read_all(run, tf, tf.FixedLengthRecordReader(2, header_bytes=2, footer_bytes=1), [path], 3)


@scenario(replay=A_FILE)
def whole_file_and_identity_readers(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.bin")
        with open(path, "wb") as file:
            file.write(b"all of it")
        _read_all(run, tf, tf.WholeFileReader(), [path], 1)
        names = tf.FIFOQueue(10, tf.string, shapes=[[]])
        run.value(names.enqueue("work"))
        run(tf.IdentityReader().read(names))


@scenario(replay=A_FILE)
def reader_read_up_to_and_reset(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.txt")
        with open(path, "w") as file:
            file.write("1\n2\n3\n")
        reader = tf.TextLineReader()
        names = tf.FIFOQueue(10, tf.string, shapes=[[]])
        run.value(names.enqueue(path))
        _, values = reader.read_up_to(names, 2)
        run.note(run.session.run(values).tolist())
        run.value(reader.reset())
        run.value(names.enqueue(path))
        run.note(run.session.run(values).tolist())


@scenario(replay=A_FILE)
def read_write_match_files(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "deep", "a.txt")
        run.value(tf.write_file(path, "content"))
        run(tf.read_file(path))
        run.value(tf.write_file(os.path.join(folder, "b.txt"), "b"))
        found = run.session.run(tf.matching_files(os.path.join(folder, "*.txt")))
        run.note([os.path.basename(f.decode()) for f in found])
        run.fails("NotFoundError", tf.read_file(os.path.join(folder, "missing")))


# --- encoded images


def _png(pixels):
    import struct
    import zlib

    height, width, channels = pixels.shape
    rows = b"".join(b"\x00" + pixels[y].tobytes() for y in range(height))

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    colour = {1: 0, 3: 2, 4: 6}[channels]
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


PIXELS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 13
GREY = np.arange(6, dtype=np.uint8).reshape(2, 3, 1) * 40
RGBA = np.arange(16, dtype=np.uint8).reshape(2, 2, 4) * 15


@cases(
    [
        ("decode_png_rgb", {"x": strings(_png(PIXELS))}, {}),
        ("decode_png_grey", {"x": strings(_png(GREY))}, {}),
        ("decode_png_grey_as_rgb", {"x": strings(_png(GREY))}, {"channels": 3}),
        ("decode_png_rgba", {"x": strings(_png(RGBA))}, {}),
        ("decode_png_rgba_as_rgb", {"x": strings(_png(RGBA))}, {"channels": 3}),
        ("decode_png_uint16", {"x": strings(_png(GREY))}, {"dtype": np.uint16}),
    ]
)
def decode_png(tf, options, x):
    if "dtype" in options:
        options = {**options, "dtype": tf.uint16}
    return [tf.image.decode_png(x, **options), tf.image.decode_image(x, options.get("channels"))]


@case(inputs={"x": array(PIXELS)})
def png_round_trip(tf, x):
    return tf.image.decode_png(tf.image.encode_png(x))


@case(inputs={"x": strings(b"not an image")}, raises=("InvalidArgumentError",))
def decode_png_of_garbage(tf, x):
    return tf.image.decode_png(x)


@scenario
def jpeg_round_trip_is_close(run, tf):
    y, x = np.mgrid[0:16, 0:16]
    pixels = np.stack([y * 8, x * 8, (x + y) * 4], -1).astype(np.uint8)
    encoded = tf.image.encode_jpeg(pixels, quality=100)
    decoded = tf.image.decode_jpeg(encoded, channels=3)
    value, shape, flag = run.value(
        [decoded, tf.image.extract_jpeg_shape(encoded), tf.image.is_jpeg(encoded)]
    )
    assert np.abs(value.astype(int) - pixels).max() < 12
    run.note([value.shape, value.dtype.name, shape, bool(flag), decoded.get_shape().as_list()])


@case(inputs={"x": strings([io.BytesIO(b"zip").getvalue()])})
def decode_compressed_none(tf, x):
    return tf.decode_compressed(x)
