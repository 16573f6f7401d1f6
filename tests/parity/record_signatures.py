"""Record the signatures of all of TensorFlow's op types.

Needs an environment with `tensorflow-cpu`; nothing of Millrace is imported. Writes
tests/unit/tf_op_signatures.json.gz, which tests/unit/test_completeness.py compares with.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import tensorflow as tf
from parity_kit.op_table import row
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session

TARGET = Path(__file__).resolve().parents[1] / "unit" / "tf_op_signatures.json.gz"


def main() -> None:
    """Writes the table."""
    buffer = pywrap_tf_session.TF_GetAllOpList()
    ops = op_def_pb2.OpList()
    ops.ParseFromString(pywrap_tf_session.TF_GetBuffer(buffer))
    table = {
        "origin": f"TensorFlow {tf.__version__}, TF_GetAllOpList",
        "ops": {op.name: row(op) for op in sorted(ops.op, key=lambda op: op.name)},
    }
    text = json.dumps(table, separators=(",", ":"), sort_keys=True)
    # Without a time in the header: the same table is the same file.
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(table['ops'])} signatures of {table['origin']} in {TARGET}")


if __name__ == "__main__":
    main()
