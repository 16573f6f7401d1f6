"""The environment with a stock TensorFlow, for `make bench` and `make interop`; made when missing.

Run by itself, it prints the path of the interpreter.
"""

from __future__ import annotations

import pathlib
import subprocess
import venv

from rich.console import Console

ENVIRONMENT = pathlib.Path(__file__).parent.parent / ".bench" / "tensorflow"


def tensorflow_python(console: Console) -> str:
    """The interpreter of an environment with TensorFlow, made when missing."""
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / "ready").exists():
        console.print(f"Making {ENVIRONMENT} with tensorflow-cpu (once; a few minutes) …")
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "tensorflow-cpu==2.21.*"], check=True)
        (ENVIRONMENT / "ready").touch()
    return str(python)


if __name__ == "__main__":
    print(tensorflow_python(Console(stderr=True)))
