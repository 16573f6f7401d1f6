"""Files, checkpoints, summaries and logs as ops."""
