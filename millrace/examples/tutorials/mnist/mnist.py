"""The network of TensorFlow 1's MNIST tutorial: two hidden layers and a softmax.

Four functions, used in this order: `inference` builds the network up to its logits, `loss` adds
what is minimised, `training` the step that minimises it, `evaluation` counts right answers. Node
and variable names are the tutorial's, so that its checkpoints fit.
"""

import math
from typing import Any

import millrace as tf

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def _linear(scope: str, inputs: Any, inputs_size: int, outputs_size: int, activation: Any) -> Any:
    """Adds `activation(inputs · weights + biases)` under a name scope."""
    with tf.name_scope(scope):
        weights = tf.Variable(
            tf.truncated_normal([inputs_size, outputs_size], stddev=1.0 / math.sqrt(inputs_size)),
            name="weights",
        )
        biases = tf.Variable(tf.zeros([outputs_size]), name="biases")
        return activation(tf.matmul(inputs, weights) + biases)


def inference(images: Any, hidden1_units: int, hidden2_units: int) -> Any:
    """Builds the network.

    Args:
      images: Float tensor [batch, IMAGE_PIXELS].
      hidden1_units: Size of the first hidden layer.
      hidden2_units: Size of the second hidden layer.

    Returns:
      The logits, a float tensor [batch, NUM_CLASSES].
    """
    hidden1 = _linear("hidden1", images, IMAGE_PIXELS, hidden1_units, tf.nn.relu)
    hidden2 = _linear("hidden2", hidden1, hidden1_units, hidden2_units, tf.nn.relu)
    return _linear("softmax_linear", hidden2, hidden2_units, NUM_CLASSES, lambda logits: logits)


def loss(logits: Any, labels: Any) -> Any:
    """Adds the mean cross entropy of the logits [batch, NUM_CLASSES] and integer labels [batch]."""
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.to_int64(labels), logits=logits, name="xentropy"
    )
    return tf.reduce_mean(cross_entropy, name="xentropy_mean")


def training(loss: Any, learning_rate: Any) -> Any:
    """Adds a summary of the loss, a `global_step` and the op that trains one step.

    Args:
      loss: What to minimise, from `loss`.
      learning_rate: Of gradient descent.

    Returns:
      The op to run for a step of training.
    """
    tf.summary.scalar("loss", loss)
    optimizer = tf.train.GradientDescentOptimizer(learning_rate)
    global_step = tf.Variable(0, name="global_step", trainable=False)
    return optimizer.minimize(loss, global_step=global_step)


def evaluation(logits: Any, labels: Any) -> Any:
    """Adds the number of examples whose label has the largest logit, an int32 scalar."""
    correct = tf.nn.in_top_k(logits, labels, 1)
    return tf.reduce_sum(tf.cast(correct, tf.int32))
