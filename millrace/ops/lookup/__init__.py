"""`tf.lookup`: tables and vocabularies."""
