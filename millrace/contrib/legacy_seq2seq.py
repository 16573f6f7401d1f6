"""`tf.contrib.legacy_seq2seq`: the loss of lists of steps. Re-exports only."""

from millrace.contrib.seq2seq.legacy import sequence_loss, sequence_loss_by_example

__all__ = ["sequence_loss", "sequence_loss_by_example"]
