"""`tf.estimator.experimental`. Re-exports only."""

from millrace.estimator.canned.dnn import dnn_logit_fn_builder as dnn_logit_fn_builder
from millrace.estimator.canned.linear import linear_logit_fn_builder as linear_logit_fn_builder
from millrace.estimator.estimator_spec import call_logit_fn as call_logit_fn
from millrace.estimator.export.receivers import (
    build_raw_supervised_input_receiver_fn as build_raw_supervised_input_receiver_fn,
)
from millrace.estimator.hooks.early_stopping import (
    make_early_stopping_hook as make_early_stopping_hook,
)
from millrace.estimator.hooks.early_stopping import stop_if_higher_hook as stop_if_higher_hook
from millrace.estimator.hooks.early_stopping import stop_if_lower_hook as stop_if_lower_hook
from millrace.estimator.hooks.early_stopping import (
    stop_if_no_decrease_hook as stop_if_no_decrease_hook,
)
from millrace.estimator.hooks.early_stopping import (
    stop_if_no_increase_hook as stop_if_no_increase_hook,
)
from millrace.estimator.hooks.in_memory_evaluator import (
    InMemoryEvaluatorHook as InMemoryEvaluatorHook,
)
from millrace.estimator.hooks.stop_at_checkpoint import (
    make_stop_at_checkpoint_step_hook as make_stop_at_checkpoint_step_hook,
)
