"""`tf.contrib`: what TensorFlow 1's programs use of it. Modules load when first asked for."""

from millrace.platform import lazy_import

__getattr__, __dir__ = lazy_import.facade(
    __name__,
    "cluster_resolver crf data distribute distributions estimator feature_column framework image "
    "layers learn legacy_seq2seq lookup losses metrics opt predictor rnn seq2seq signal slim "
    "staging stateless summary tpu training util".split(),
    globals(),
)
