"""`tf.metrics`: values that accumulate over batches."""
