"""The other side of test_checkpoints.py: saves or restores the same model with TensorFlow.

checkpoints.py save FOLDER      writes checkpoints and SavedModels, prints the values
checkpoints.py restore FOLDER   reads what Millrace wrote there, prints the values
"""

import json
import os
import sys

import tensorflow as tf2
import tensorflow.compat.v1 as tf

folder = sys.argv[2]


def build(parts):
    rows = tf.reshape(tf.range(28.0), [7, 4]) * 0.5
    variables = {
        "weights": tf.get_variable("weights", initializer=tf.range(6.0)),
        "counts": tf.Variable([[1, 2], [3, 4]], dtype=tf.int64, name="counts"),
        "words": tf.Variable(["ab", "", "é"], name="words"),
        "flags": tf.Variable([True, False], name="flags"),
        "half": tf.Variable([0.5, 1.5], dtype=tf.float16, name="half"),
        "handle": tf.get_variable("handle", initializer=[2.5, 3.5], use_resource=True),
    }
    kind = {"partitioner": tf.fixed_size_partitioner(parts)} if parts > 1 else {}
    with tf.device("/cpu:0"):
        variables["cut"] = tf.get_variable(
            "cut", [7, 4], initializer=tf.zeros_initializer(), **kind
        )
    fill = variables["cut"].assign(rows)
    return variables, tf.group(*fill) if isinstance(fill, list) else fill


def plain(value):
    if value.dtype.kind == "O":
        return [word.decode() for word in value]
    return value.tolist()


def values(sess, variables):
    return {name: plain(sess.run(tf.convert_to_tensor(v))) for name, v in variables.items()}


def save():
    with tf.Graph().as_default(), tf.Session() as sess:
        variables, fill = build(3)
        savers = {
            "whole": tf.train.Saver(),
            "sharded": tf.train.Saver(sharded=True),
            "old": tf.train.Saver(write_version=tf.train.SaverDef.V1),
        }
        sess.run(tf.global_variables_initializer())
        sess.run(fill)
        paths = {
            name: saver.save(sess, os.path.join(folder, name, "model"), global_step=7)
            for name, saver in savers.items()
            if os.makedirs(os.path.join(folder, name)) is None
        }
        result = {"values": values(sess, variables), "paths": paths}
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        w = tf.get_variable("w", initializer=[[1.0], [2.0]])
        y = tf.matmul(x, w)
        sess.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(sess, os.path.join(folder, "model"), {"x": x}, {"y": y})
    return result


def restore():
    result = {}
    for name in ("whole", "sharded", "old", "meta"):
        path = tf.train.latest_checkpoint(os.path.join(folder, name if name != "meta" else "whole"))
        with tf.Graph().as_default(), tf.Session() as sess:
            if name == "meta":
                # The graph, too, is Millrace's.
                saver = tf.train.import_meta_graph(path + ".meta")
                found = tf.global_variables()
                saver.restore(sess, path)
                result[name] = {v.op.name: plain(sess.run(v)) for v in found}
            else:
                variables, _ = build(2)
                tf.train.Saver().restore(sess, path)
                result[name] = values(sess, variables)
    path = tf.train.latest_checkpoint(os.path.join(folder, "compacted"))
    with tf.Graph().as_default(), tf.Session() as sess:
        saver = tf.train.import_meta_graph(path + ".meta")
        saver.restore(sess, path)
        result["compacted"] = {v.op.name: plain(sess.run(v)) for v in tf.global_variables()}
    result["listed"] = tf.train.list_variables(os.path.join(folder, "whole"))
    with tf.Graph().as_default(), tf.Session() as sess:
        loaded = tf.saved_model.loader.load(sess, ["serve"], os.path.join(folder, "model"))
        signature = loaded.signature_def["serving_default"]
        fed, fetched = signature.inputs["x"].name, signature.outputs["y"].name
        result["v1 loader"] = sess.run(fetched, {fed: [[1.0, 1.0]]}).tolist()
    model = tf2.saved_model.load(os.path.join(folder, "model"))
    predicted = model.signatures["serving_default"](x=tf2.constant([[1.0, 1.0]]))
    result["v2 loader"] = predicted["y"].numpy().tolist()
    return result


def remote():
    """The graph of TensorFlow's Saver runs on Millrace; TensorFlow then reads the files."""
    found = {}
    for name, options in (("whole", {}), ("sharded", {"sharded": True})):
        with tf.Graph().as_default():
            variables = []
            for i in range(4):
                with tf.device(f"/job:ps/task:{i % 2}"):
                    variables.append(
                        tf.get_variable(
                            f"v{i}", initializer=tf.fill([3], float(i)), use_resource=i > 1
                        )
                    )
            with tf.device(tf.train.replica_device_setter(ps_tasks=2)):
                cut = tf.get_variable(
                    "cut",
                    initializer=tf.reshape(tf.range(10.0), [5, 2]),
                    partitioner=tf.fixed_size_partitioner(2),
                )
            change = tf.group(*[v.assign(tf.zeros_like(v)) for v in [*variables, *cut]])
            saver = tf.train.Saver(**options)
            with tf.Session(sys.argv[3]) as sess:
                sess.run(tf.global_variables_initializer())
                path = saver.save(sess, os.path.join(folder, name), global_step=1)
                sess.run(change)
                zeros = [plain(v) for v in sess.run([*variables, cut.as_tensor()])]
                saver.restore(sess, path)
                restored = [plain(v) for v in sess.run([*variables, cut.as_tensor()])]
        reader = tf.train.load_checkpoint(path)
        read = [plain(reader.get_tensor(n)) for n in ("v0", "v1", "v2", "v3", "cut")]
        found[name] = {"zeros": zeros, "restored": restored, "read": read}
    return found


print(json.dumps({"remote": remote, "save": save, "restore": restore}[sys.argv[1]]()))
