"""`tf.contrib.estimator`: where parts of tf.estimator were before. Re-exports only."""

from millrace.estimator.canned.boosted_trees import (
    boosted_trees_classifier_train_in_memory,
    boosted_trees_regressor_train_in_memory,
)
from millrace.estimator.canned.dnn import DNNEstimator, dnn_logit_fn_builder
from millrace.estimator.canned.dnn_linear_combined import DNNLinearCombinedEstimator
from millrace.estimator.canned.linear import LinearEstimator, linear_logit_fn_builder
from millrace.estimator.estimator_spec import call_logit_fn
from millrace.estimator.export.receivers import (
    build_raw_supervised_input_receiver_fn,
    build_supervised_input_receiver_fn_from_input_fn,
)
from millrace.estimator.extenders import add_metrics, clip_gradients_by_norm, forward_features
from millrace.estimator.heads.classic import (
    binary_classification_head,
    logistic_regression_head,
    multi_class_head,
    multi_label_head,
    poisson_regression_head,
    regression_head,
)
from millrace.estimator.heads.multi import multi_head
from millrace.estimator.hooks.early_stopping import (
    make_early_stopping_hook,
    stop_if_higher_hook,
    stop_if_lower_hook,
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
)
from millrace.estimator.hooks.in_memory_evaluator import InMemoryEvaluatorHook
from millrace.estimator.hooks.stop_at_checkpoint import make_stop_at_checkpoint_step_hook
from millrace.estimator.saved_model_export import (
    export_all_saved_models,
    export_saved_model_for_mode,
)

__all__ = [
    "DNNEstimator",
    "DNNLinearCombinedEstimator",
    "InMemoryEvaluatorHook",
    "LinearEstimator",
    "add_metrics",
    "binary_classification_head",
    "boosted_trees_classifier_train_in_memory",
    "boosted_trees_regressor_train_in_memory",
    "build_raw_supervised_input_receiver_fn",
    "build_supervised_input_receiver_fn_from_input_fn",
    "call_logit_fn",
    "clip_gradients_by_norm",
    "dnn_logit_fn_builder",
    "export_all_saved_models",
    "export_saved_model_for_mode",
    "forward_features",
    "linear_logit_fn_builder",
    "logistic_regression_head",
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "multi_class_head",
    "multi_head",
    "multi_label_head",
    "poisson_regression_head",
    "regression_head",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
]
