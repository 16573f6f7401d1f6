"""What a stock TensorFlow does with the model of an Estimator: serves it, or trains it on."""

import json
import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def examples(rows):
    """Serialized Examples of words and numbers."""
    return [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    "word": tf.train.Feature(bytes_list=tf.train.BytesList(value=[word.encode()])),
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                }
            )
        ).SerializeToString()
        for word, x in rows
    ]


def plain(value):
    value = np.asarray(value)
    return value.astype(str).tolist() if value.dtype.kind in "OSU" else value.tolist()


def serve(folder, rows):
    """The answers of all signatures: in a session, as TensorFlow Serving, and as a function."""
    answers = {}
    with tf.Session(graph=tf.Graph()) as session:
        graph = tf.saved_model.loader.load(session, ["serve"], folder)
        for key, signature in graph.signature_def.items():
            if key.startswith("__"):
                continue
            (fed,) = signature.inputs.values()
            fetched = session.run(
                {name: info.name for name, info in signature.outputs.items()},
                {fed.name: examples(rows)},
            )
            answers[key] = {
                "method": signature.method_name,
                **{name: plain(value) for name, value in fetched.items()},
            }
    return answers


def train(checkpoint, target, rows):
    """A few more steps of the same model, built without Estimator."""
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.create_global_step()
        with tf.variable_scope("linear"):
            table = tf.get_variable("table", [4, 1])
            weights = tf.get_variable("weights", [2, 1])
        words = {"cat": 0, "dog": 1, "bird": 2}
        ids = tf.constant([words.get(word, 3) for word, _ in rows])
        value = tf.gather(table, ids) + tf.matmul(tf.constant([x for _, x in rows]), weights)
        loss = tf.reduce_mean(tf.square(value - 1.0))
        train_op = tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)
        saver = tf.train.Saver()
        saver.restore(session, checkpoint)
        for _ in range(3):
            session.run(train_op)
        path = saver.save(session, target, global_step=step)
        return {
            "path": path,
            "step": int(session.run(step)),
            "values": {v.op.name: plain(session.run(v)) for v in tf.global_variables()},
        }


if __name__ == "__main__":
    action, *words = sys.argv[1:]
    arguments = [json.loads(word) for word in words]
    print(json.dumps({"serve": serve, "train": train}[action](*arguments)))
