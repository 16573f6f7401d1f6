"""Training: optimizers, savers, sessions that recover; `tf.train`."""
