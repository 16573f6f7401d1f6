"""`tf.estimator.export`: what a served model takes and gives. Re-exports only."""

from millrace.estimator.export.export_output import (
    ClassificationOutput,
    EvalOutput,
    ExportOutput,
    PredictOutput,
    RegressionOutput,
)
