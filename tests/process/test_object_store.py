"""Checkpoints on an object store: S3's protocol, spoken by a server on this machine."""

from collections.abc import Iterator

import boto3
import fsspec
import pytest
from moto.server import ThreadedMotoServer

import millrace as tf


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in (
        ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("NO_PROXY", "127.0.0.1"),
    ):
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="bucket")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    try:
        yield "s3://bucket"
    finally:
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        server.stop()


def test_a_training_run_keeps_its_checkpoints_in_a_bucket(bucket: str) -> None:
    folder = f"{bucket}/run"
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(0.0, name="v")
        with tf.device("/cpu:0"):
            tf.Variable([1.0] * 1000, name="w").initializer.run(session=sess)
        for sharded in (False, True):
            saver = tf.train.Saver(sharded=sharded, max_to_keep=2)
            for step in range(3):
                v.load(step + 10.0 * sharded, sess)
                saver.save(sess, f"{folder}/m{sharded}", global_step=step)
            newest = tf.train.latest_checkpoint(folder)
            assert newest == f"{folder}/m{sharded}-2"
            assert not tf.train.checkpoint_exists(f"{folder}/m{sharded}-0")
            v.load(-1.0, sess)
            saver.restore(sess, newest)
            assert sess.run(v) == 2.0 + 10.0 * sharded
            # Over one of the same name.
            for value in (5.0, 6.0):
                v.load(value, sess)
                saver.save(sess, f"{folder}/same", write_meta_graph=False)
                v.load(-1.0, sess)
                saver.restore(sess, f"{folder}/same")
                assert sess.run(v) == value
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.train.import_meta_graph(f"{folder}/mTrue-2.meta").restore(sess, f"{folder}/mTrue-2")
        assert sess.run("v:0") == 12.0
    assert dict(tf.train.list_variables(folder)) == {"v": [], "w": [1000]}
    assert not [name for name in tf.gfile.ListDirectory(folder) if "temp" in name]
