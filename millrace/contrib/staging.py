"""`tf.contrib.staging`. Re-exports only."""

from millrace.ops.data_flow.staging import StagingArea

__all__ = ["StagingArea"]
