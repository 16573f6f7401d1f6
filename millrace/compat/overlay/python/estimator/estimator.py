"""What programs take from TensorFlow's python.estimator.estimator without a public name."""

from millrace.estimator.estimator import Estimator
from millrace.estimator.estimator import Estimator as EstimatorV2
from millrace.estimator.evaluation_results import updates_and_values as _extract_metric_update_ops
from millrace.estimator.evaluation_results import (
    with_loss_metric as _verify_and_create_loss_metric,
)
from millrace.estimator.evaluation_results import (
    write_checkpoint_path as _write_checkpoint_path_to_summary,
)
from millrace.estimator.evaluation_results import write_results as _write_dict_to_summary
from millrace.estimator.given_hooks import check_hooks as _check_hooks_type
from millrace.estimator.given_hooks import check_listeners as _check_listeners_type
from millrace.estimator.model_folder import check_trained as _check_checkpoint_available
from millrace.estimator.model_folder import global_step_of as _load_global_step_from_checkpoint_dir
from millrace.estimator.model_folder import warm_start_settings as _get_default_warm_start_settings
from millrace.estimator.run_config import device_function_of as _get_replica_device_setter
from millrace.estimator.run_config import maybe_overwrite_model_dir_and_session_config
