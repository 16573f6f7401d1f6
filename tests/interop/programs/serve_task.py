"""One task of TensorFlow's own in a cluster whose other tasks are Millrace's.

It serves until its standard input is closed.

Usage: serve_task.py CLUSTER_AS_JSON JOB INDEX
"""

import json
import os
import sys

import tensorflow.compat.v1 as tf


def main():
    cluster, job, index = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    server = tf.train.Server(tf.train.ClusterSpec(cluster), job, index, protocol="grpc")
    print("serving", server.target, flush=True)
    sys.stdin.read()
    os._exit(0)  # TensorFlow's servers cannot be stopped.


if __name__ == "__main__":
    main()
