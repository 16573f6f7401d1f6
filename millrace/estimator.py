"""``tf.estimator``: what of it the training library shares: how a model begins from another's
checkpoint. Re-exports only.
"""

from millrace.training.checkpoint.warm_start import VocabInfo, WarmStartSettings

__all__ = ["VocabInfo", "WarmStartSettings"]
