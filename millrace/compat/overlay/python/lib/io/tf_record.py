"""What programs take from TensorFlow's python.lib.io.tf_record that has no public name."""

from millrace.data.tfrecord import TFRecordCompressionType, TFRecordOptions, TFRecordWriter
