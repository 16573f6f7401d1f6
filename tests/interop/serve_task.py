"""One task of a Millrace cluster: serves until its standard input is closed.

So no task outlives the test run that started it, however that ends.

Usage: serve_task.py CLUSTER_AS_JSON JOB INDEX
"""

import json
import sys

import millrace as tf


def main() -> None:
    cluster, job, index = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    print("serving", server.target, flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
