"""What programs take from TensorFlow's python.estimator.model_fn without a public name."""

from millrace.estimator.estimator_spec import (
    AVERAGE_LOSS_METRIC_KEY,
    LOSS_METRIC_KEY,
    verify_model_fn_args,
)
from millrace.estimator.export.signatures import EXPORT_TAGS as EXPORT_TAG_MAP
from millrace.estimator.tpu.tpu_estimator_spec import TPUEstimatorSpec as _TPUEstimatorSpec
