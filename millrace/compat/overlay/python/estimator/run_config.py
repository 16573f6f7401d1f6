"""What programs take from TensorFlow's python.estimator.run_config without a public name."""

from millrace.estimator.cluster_place import TaskType
from millrace.estimator.run_config import get_default_session_config, path_to_str
