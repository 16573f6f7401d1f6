"""TFRecord files, read and written, against files that TensorFlow 2.21 wrote."""

import gzip
import struct
import zlib

import pytest

from millrace.core import errors
from millrace.data import tfrecord
from millrace.platform import gfile

RECORDS = [b"", b"a", b"hello world"]
# Written by tf.compat.v1.python_io.TFRecordWriter of TensorFlow 2.21 from RECORDS.
WRITTEN_BY_TENSORFLOW = {
    "": "000000000000000029039807d8ea82a201000000000000000175de4161786ee4280b000000000000008615f504"
    "68656c6c6f20776f726c64007ed86d",
    "GZIP": "1f8b0800000000000003636080004de619ec375e352d6284f2194bef392656e43dd1e0860ab4897e65c948"
    "cdc9c95728cf2fca4961a8bb910b005648c18e3c000000",
    "ZLIB": "789c636080004de619ec375e352d6284f2194bef392656e43dd1e0860ab4897e65c948cdc9c95728cf2fca"
    "4961a8bb910b0077980f59",
}
COMPRESSIONS = list(WRITTEN_BY_TENSORFLOW)


def write(path, records, options=None):
    with tfrecord.TFRecordWriter(path, options) as writer:
        for record in records:
            writer.write(record)


def read(path, compression=""):
    return list(tfrecord.tf_record_iterator(path, tfrecord.TFRecordOptions(compression)))


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_file_of_tensorflows_is_read(tmp_path, compression):
    path = tmp_path / "f"
    path.write_bytes(bytes.fromhex(WRITTEN_BY_TENSORFLOW[compression]))
    assert read(path, compression) == RECORDS


def test_an_uncompressed_file_has_the_bytes_of_tensorflows(tmp_path):
    write(tmp_path / "f", RECORDS)
    assert (tmp_path / "f").read_bytes().hex() == WRITTEN_BY_TENSORFLOW[""]


@pytest.mark.parametrize(
    ("compression", "inflate"), [("GZIP", gzip.decompress), ("ZLIB", zlib.decompress)]
)
def test_a_compressed_file_is_the_uncompressed_one_compressed(tmp_path, compression, inflate):
    write(tmp_path / "f", RECORDS, tfrecord.TFRecordOptions(compression))
    assert inflate((tmp_path / "f").read_bytes()).hex() == WRITTEN_BY_TENSORFLOW[""]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_of_all_sizes_come_back(tmp_path, compression):
    # Some are larger than a read, and their borders fall anywhere in it.
    records = [
        bytes([i % 251]) * size for i, size in enumerate([0, 1, 5, 300_000, 7, 262_144, 99] * 3)
    ]
    write(str(tmp_path / "f"), records, compression)
    assert read(str(tmp_path / "f"), compression) == records


def test_files_behind_urls_work_too():
    write("memory://tfrecord-test/f", RECORDS)
    assert read("memory://tfrecord-test/f") == RECORDS
    gfile.DeleteRecursively("memory://tfrecord-test")


def test_compressed_files_joined_together_are_one(tmp_path):
    whole = bytes.fromhex(WRITTEN_BY_TENSORFLOW["GZIP"])
    (tmp_path / "f").write_bytes(whole + whole)
    assert read(tmp_path / "f", "GZIP") == RECORDS * 2


def test_an_empty_file_has_no_records(tmp_path):
    (tmp_path / "f").write_bytes(b"")
    assert read(tmp_path / "f") == []
    write(tmp_path / "g", [], "GZIP")
    assert read(tmp_path / "g", "GZIP") == []


def test_the_masked_checksum_is_tensorflows():
    # The last four bytes of TensorFlow's file: the checksum of "hello world".
    (stored,) = struct.unpack("<I", bytes.fromhex(WRITTEN_BY_TENSORFLOW[""])[-4:])
    assert tfrecord.masked_crc32c(b"hello world") == stored


def test_every_flipped_bit_is_data_loss_that_names_file_and_record(tmp_path):
    whole = bytes.fromhex(WRITTEN_BY_TENSORFLOW[""])
    starts = [0, 16, 33]
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        (tmp_path / "f").write_bytes(damaged)
        start = max(each for each in starts if each <= place)
        with pytest.raises(errors.DataLossError) as caught:
            read(tmp_path / "f")
        assert f"corrupted record at {start} in file '{tmp_path / 'f'}'" in caught.value.message


def test_every_cut_off_file_is_data_loss_unless_it_is_cut_between_records(tmp_path):
    whole = bytes.fromhex(WRITTEN_BY_TENSORFLOW[""])
    complete = {0: 0, 16: 1, 33: 2}
    for length in range(len(whole)):
        (tmp_path / "f").write_bytes(whole[:length])
        if length in complete:
            assert read(tmp_path / "f") == RECORDS[: complete[length]]
            continue
        start = max(each for each in complete if each < length)
        with pytest.raises(errors.DataLossError, match=f"truncated record at {start} in file"):
            read(tmp_path / "f")


def test_the_records_before_the_damage_are_returned(tmp_path):
    (tmp_path / "f").write_bytes(bytes.fromhex(WRITTEN_BY_TENSORFLOW[""])[:-1])
    reader = tfrecord.RecordReader(tmp_path / "f")
    assert [reader.read(), reader.read(), reader.offset] == [b"", b"a", 33]
    with pytest.raises(errors.DataLossError, match="it has 26 of 27 bytes"):
        reader.read()
    reader.close()


def test_a_text_file_is_said_not_to_be_a_tfrecord_file(tmp_path):
    (tmp_path / "f").write_text("name,value\n" * 10)
    with pytest.raises(errors.DataLossError, match="is this even a TFRecord file"):
        read(tmp_path / "f")


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_a_file_that_is_not_compressed_as_said_is_data_loss(tmp_path, compression):
    write(tmp_path / "f", [b"x" * 100])
    with pytest.raises(errors.DataLossError, match="inflate.. failed"):
        read(tmp_path / "f", compression)


def test_a_cut_off_compressed_file_is_data_loss(tmp_path):
    write(tmp_path / "f", [bytes(range(256)) * 100], "GZIP")
    (tmp_path / "f").write_bytes((tmp_path / "f").read_bytes()[:200])
    with pytest.raises(errors.DataLossError, match="truncated record at 0"):
        read(tmp_path / "f", "GZIP")


def test_a_missing_file_is_not_found_before_the_first_record(tmp_path):
    with pytest.raises(errors.NotFoundError, match="none; No such file or directory"):
        tfrecord.tf_record_iterator(str(tmp_path / "none"))
    with pytest.raises(errors.NotFoundError, match="No such file or directory"):
        tfrecord.TFRecordWriter(str(tmp_path / "none" / "f"))


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_was_flushed_can_be_read_while_the_writer_is_open(tmp_path, compression):
    writer = tfrecord.TFRecordWriter(tmp_path / "f", compression)
    writer.write(b"one")
    writer.flush()
    assert read(tmp_path / "f", compression) == [b"one"]
    writer.close()


def test_a_reader_at_the_end_reads_on_when_the_file_grows(tmp_path):
    writer = tfrecord.TFRecordWriter(tmp_path / "f")
    reader = tfrecord.RecordReader(tmp_path / "f")
    assert reader.read() is None
    writer.write(b"late")
    writer.flush()
    assert reader.read() == b"late"
    assert reader.read() is None
    reader.close()
    writer.close()


def test_a_closed_writer_refuses_and_may_be_closed_again(tmp_path):
    writer = tfrecord.TFRecordWriter(tmp_path / "f")
    writer.close()
    writer.close()
    for use in (lambda: writer.write(b"x"), writer.flush):
        with pytest.raises(errors.FailedPreconditionError, match="Writer is closed"):
            use()


def test_a_record_is_bytes_or_text(tmp_path):
    write(tmp_path / "f", ["é"])
    assert read(tmp_path / "f") == ["é".encode()]
    with pytest.raises(TypeError, match="a record is bytes, got int: 3"):
        write(tmp_path / "f", [3])


def test_options_know_the_names_and_numbers_of_the_compressions():
    name = tfrecord.TFRecordOptions.get_compression_type_string
    kinds = tfrecord.TFRecordCompressionType
    assert [name(each) for each in (None, "", "GZIP", "ZLIB")] == ["", "", "GZIP", "ZLIB"]
    assert [name(each) for each in (kinds.NONE, kinds.ZLIB, kinds.GZIP)] == ["", "ZLIB", "GZIP"]
    assert name(tfrecord.TFRecordOptions(kinds.GZIP)) == "GZIP"
    assert name(tfrecord.TFRecordOptions(tfrecord.TFRecordOptions("ZLIB"))) == "ZLIB"
    for wrong in ("FOO", 5):
        with pytest.raises(ValueError, match=f'Not a valid compression_type: "{wrong}"'):
            tfrecord.TFRecordOptions(wrong)


def test_options_reach_zlib(tmp_path):
    data = [bytes(range(256)) * 200]
    write(tmp_path / "none", data, tfrecord.TFRecordOptions("ZLIB", compression_level=0))
    write(
        tmp_path / "best",
        data,
        tfrecord.TFRecordOptions(
            "ZLIB", compression_level=9, window_bits=10, mem_level=9, compression_strategy=1
        ),
    )
    assert (tmp_path / "none").stat().st_size > 50_000 > (tmp_path / "best").stat().st_size
    assert read(tmp_path / "none", "ZLIB") == read(tmp_path / "best", "ZLIB") == data
