"""`make demo`: a cluster of two parameter servers and two workers learns MNIST on this machine."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent


def main() -> int:
    """Launches the cluster, and tells how well it did and where its files are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4000, help="steps of both workers (4000)")
    steps = parser.parse_args().steps
    if steps < 1:
        parser.error(f"--steps must be at least 1, not {steps}")
    folder = Path(tempfile.gettempdir()) / "millrace-demo"
    shutil.rmtree(folder, ignore_errors=True)
    logs, train_dir = folder / "logs", folder / "train"
    script = HERE / "mnist_async.py"
    print("Millrace: 2 parameter servers and 2 workers learn MNIST (an MLP, 784-100-10).")
    start = time.perf_counter()
    launch = [sys.executable, "-m", "millrace", "launch", "--ps", "2", "--workers", "2"]
    launch += ["--logs", str(logs), str(script), "--", f"--train_steps={steps}"]
    code = _run([*launch, f"--train_dir={train_dir}"])
    if code:
        return code
    told = (logs / "worker-0.log").read_text()
    accuracy = re.findall(r"test accuracy [\d.]+", told)
    print(f"\n{accuracy[-1]} after {steps} steps, {time.perf_counter() - start:.0f} s in all")
    print(f"checkpoint:       {_newest_checkpoint(train_dir)}")
    print(f"TensorBoard logs: {train_dir}\nlogs of tasks:    {logs}\n\nTry next:")
    millrace = Path(sys.executable).parent / "millrace"
    script, evaluate = script.relative_to(ROOT), (HERE / "evaluate.py").relative_to(ROOT)
    print(f"  {millrace.parent / 'tensorboard'} --logdir {train_dir}")
    print(f"  {millrace} run {evaluate} --train_dir={train_dir} --count=1")
    print(f"  {millrace} launch --ps 1 --workers 2 examples/mnist_sync.py")
    return 0


def _run(command: list[str]) -> int:
    """The exit code; after Ctrl-C, which the command gets too, that of its orderly end."""
    process = subprocess.Popen(command)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def _newest_checkpoint(folder: Path) -> Path:
    """What the file `checkpoint` names first."""
    name = (folder / "checkpoint").read_text().split('"')[1]
    return folder / name


if __name__ == "__main__":
    sys.exit(main())
