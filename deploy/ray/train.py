"""Trains on a cluster of Ray: `RAY_ADDRESS=head:6379 python train.py trainer.py --lr=0.1`.

A parameter server and a worker, each with a CPU, on as many nodes as there are; what the program
wants is said here. All nodes see the program at the same path.
"""

import sys

import millrace.ray

found = millrace.ray.run(
    sys.argv[1],
    sys.argv[2:],
    ps=1,
    workers=1,
    resources={"worker": {"CPU": 1, "memory": 1e8}},
    strategy=millrace.ray.SPREAD,
)
for name, task in found["tasks"].items():
    print(f"{name} ended with {task['exit_code']} after {task['restarts']} restarts")
sys.exit(found["exit_code"])
