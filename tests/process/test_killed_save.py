"""A process that is killed while it saves leaves a checkpoint that is complete."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import millrace as tf

PROGRAM = """
import itertools, sys
import numpy as np
from millrace.core import dtypes
from millrace.data.tensor_bundle import BundleWriter, merge_bundles
from millrace.training.checkpoint.state import update_checkpoint_state

folder = sys.argv[1]
for number in itertools.count(int(sys.argv[2])):
    shards = []
    for shard in range(2):
        writer = BundleWriter(f"{folder}/m_temp/part-{shard:05d}-of-00002")
        for i in range(3):
            value = np.full(200_000, number, np.float64)
            writer.add(f"v{shard}{i}", value, dtypes.float64)
        writer.finish()
        shards.append(f"{folder}/m_temp/part-{shard:05d}-of-00002")
    merge_bundles(shards, f"{folder}/m")
    update_checkpoint_state(folder, f"{folder}/m")
    print(number, flush=True)
"""


def test_what_a_killed_process_saved_over_and_over_is_whole(tmp_path: Path) -> None:
    random.seed(7)
    newest = -1
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path), str(newest + 1)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "MILLRACE_FSYNC": "0"},
        )
        assert process.stdout is not None
        told = newest
        for _ in range(random.randrange(2, 5)):
            told = int(process.stdout.readline())
        # It is somewhere in the next save, or at the beginning or end of one.
        process.send_signal(signal.SIGKILL)
        told = max([told, *(int(line) for line in process.stdout)])
        process.wait()
        process.stdout.close()
        reader = tf.train.load_checkpoint(str(tmp_path))
        assert len(reader.get_variable_to_shape_map()) == 6
        (newest,) = {
            int(n)
            for name in reader.get_variable_to_shape_map()
            for n in set(reader.get_tensor(name).tolist())
        }
        assert told <= newest <= told + 1
