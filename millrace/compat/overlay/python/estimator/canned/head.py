"""TensorFlow's python.estimator.canned.head: heads of the first generation."""

from millrace.estimator.heads.checks import called_loss_fn as _call_loss_fn
from millrace.estimator.heads.checks import checked_logits as _check_logits_final_dim
from millrace.estimator.heads.checks import (
    dense_labels as _check_dense_labels_match_logits_and_reshape,
)
from millrace.estimator.heads.checks import (
    example_weights as _get_weights_and_check_match_logits,
)
from millrace.estimator.heads.checks import labels_in_range as _assert_range
from millrace.estimator.heads.classic import (
    LossSpec,
    _binary_logistic_head_with_sigmoid_cross_entropy_loss,
    _binary_logistic_or_multi_class_head,
    _Head,
    _multi_class_head_with_softmax_cross_entropy_loss,
    _regression_head,
)
from millrace.estimator.heads.classic import summary_key as _summary_key
from millrace.estimator.heads.keys import (
    CLASSIFY_SERVING_KEY as _CLASSIFY_SERVING_KEY,
)
from millrace.estimator.heads.keys import DEFAULT_SERVING_KEY as _DEFAULT_SERVING_KEY
from millrace.estimator.heads.keys import PREDICT_SERVING_KEY as _PREDICT_SERVING_KEY
from millrace.estimator.heads.keys import REGRESS_SERVING_KEY as _REGRESS_SERVING_KEY
