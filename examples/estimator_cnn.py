"""A model function of tf.estimator: a small CNN learns MNIST, and leaves as a SavedModel.

In one process training and evaluation alternate. On a cluster the same program is a ps, the chief,
a worker or the evaluator, as TF_CONFIG says.
"""

import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data

tf.app.flags.DEFINE_string("model_dir", "/tmp/millrace-estimator", "checkpoints and exports")
tf.app.flags.DEFINE_integer("train_steps", 300, "steps of all workers together")
tf.app.flags.DEFINE_integer("checkpoint_steps", 100, "steps between checkpoints")
tf.app.flags.DEFINE_integer("filters", 16, "of the first layer")
FLAGS = tf.app.flags.FLAGS


def model_fn(features, labels, mode, params):
    images = tf.reshape(features["image"], [-1, 28, 28, 1])
    value = images
    for filters in (params["filters"], 2 * params["filters"]):
        value = tf.layers.conv2d(value, filters, 5, padding="same", activation=tf.nn.relu)
        value = tf.layers.max_pooling2d(value, 2, 2)
    value = tf.layers.dense(tf.layers.flatten(value), 128, activation=tf.nn.relu)
    value = tf.layers.dropout(value, 0.4, training=mode == tf.estimator.ModeKeys.TRAIN)
    logits = tf.layers.dense(value, 10)
    classes = tf.argmax(logits, 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        scores = tf.nn.softmax(logits)
        export = tf.estimator.export
        return tf.estimator.EstimatorSpec(
            mode,
            predictions={"class": classes, "scores": scores},
            export_outputs={
                "serving_default": export.PredictOutput({"class": classes, "scores": scores})
            },
        )
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    accuracy = tf.metrics.accuracy(labels, classes)
    tf.summary.scalar("accuracy", accuracy[1])
    train_op = tf.train.AdamOptimizer(1e-3).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops={"accuracy": accuracy}
    )


def digits(images, labels, training):
    """An input function; the images stay outside the graph, which checkpoints come with."""
    return tf.estimator.inputs.numpy_input_fn(
        {"image": images},
        labels.astype("int64"),
        batch_size=100,
        num_epochs=None if training else 1,
        shuffle=training,
        queue_capacity=2000,
    )


def main(_):
    mnist = input_data.read_data_sets("MNIST_data")
    train = digits(mnist.train.images, mnist.train.labels, training=True)
    test = digits(mnist.test.images[:1000], mnist.test.labels[:1000], training=False)
    config = tf.estimator.RunConfig(
        FLAGS.model_dir, save_checkpoints_steps=FLAGS.checkpoint_steps, log_step_count_steps=50
    )
    estimator = tf.estimator.Estimator(model_fn, config=config, params={"filters": FLAGS.filters})
    serving = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        {"image": tf.FixedLenFeature([784], tf.float32)}
    )
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(train, max_steps=FLAGS.train_steps),
        tf.estimator.EvalSpec(
            test,
            steps=None,
            exporters=tf.estimator.FinalExporter("digits", serving),
            throttle_secs=1,
        ),
    )


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.INFO)
    tf.app.run()
