"""`tf.estimator.ModeKeys`: what a model is built for."""


class ModeKeys:
    """Training, evaluation or inference."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"
