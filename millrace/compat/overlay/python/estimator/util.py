"""What programs take from TensorFlow's python.estimator.util without a public name."""

from millrace.estimator.input_fn import DatasetInitializerHook as _DatasetInitializerHook
from millrace.estimator.input_fn import features_and_labels as parse_iterator_result
from millrace.estimator.input_fn import features_labels_and_hooks as parse_input_fn_result
from millrace.platform.function_arguments import fn_args
