"""`tf.estimator.inputs`: input functions for arrays and data frames. Re-exports only."""

from millrace.estimator.inputs.numpy_io import numpy_input_fn
from millrace.estimator.inputs.pandas_io import pandas_input_fn
