"""A process that ends while a thread is inside XLA."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import threading, time
from millrace.platform import exit_wait

done = threading.Event()
exit_wait.begin(done, lambda: "a test")

def work():
    threading.main_thread().join()
    print("left XLA", flush=True)
    done.set()

threading.Thread(target=work, daemon=True).start()
other = threading.Event()
exit_wait.begin(other, lambda: "nothing")
exit_wait.end(other)
print("ends", flush=True)
"""


def test_the_process_ends_after_the_thread_has_left_xla() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split("\n") == ["ends", "left XLA", ""]
