"""`tf.keras.estimator`: a name for what is in tf.estimator."""

import millrace as tf

model_to_estimator = tf.estimator.model_to_estimator

__all__ = ["model_to_estimator"]
