"""What programs take from TensorFlow's python.estimator.training without a public name."""

from millrace.estimator.evaluator import ContinuousEvalListener as _ContinuousEvalListener
from millrace.estimator.evaluator import EvalResult as _EvalResult
from millrace.estimator.evaluator import EvalStatus as _EvalStatus
from millrace.estimator.training import TrainingExecutor as _TrainingExecutor
