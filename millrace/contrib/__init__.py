"""`tf.contrib`: what TensorFlow 1's programs use of it. Modules load when first asked for."""

from millrace.platform import deferred

__getattr__, __dir__ = deferred.facade(
    __name__, "data framework layers losses metrics rnn signal slim training".split(), globals()
)
