"""What programs take from TensorFlow's export_output that has no public name."""

from millrace.estimator.export.export_output import EvalOutput, TrainOutput, _SupervisedOutput
