"""`tf.io`: files, records, and what is parsed from them."""

# ruff: noqa: F401 - this module re-exports

from millrace.data.tfrecord import (
    TFRecordCompressionType,
    TFRecordOptions,
    TFRecordWriter,
    tf_record_iterator,
)
from millrace.ops.data_flow.queues import (
    PaddingFIFOQueue,
    PriorityQueue,
    QueueBase,
    RandomShuffleQueue,
)
from millrace.ops.image.codec import (
    decode_and_crop_jpeg,
    decode_bmp,
    decode_gif,
    decode_image,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
    extract_jpeg_shape,
    is_jpeg,
)
from millrace.ops.io.io import matching_files, read_file, write_file
from millrace.ops.parsing.parsing import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
    decode_json_example,
    parse_example,
    parse_sequence_example,
    parse_single_example,
    parse_single_sequence_example,
)
from millrace.ops.sparse.serialization import (
    deserialize_many_sparse,
    serialize_many_sparse,
    serialize_sparse,
)
from millrace.ops.strings.conversion import (
    decode_compressed,
    decode_csv,
    decode_raw,
    parse_tensor,
    serialize_tensor,
)
from millrace.ops.strings.strings import decode_base64, encode_base64
from millrace.platform import gfile
from millrace.training.input.input import match_filenames_once
from millrace.training.sessions.write_graph import write_graph
