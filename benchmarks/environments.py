"""The environments of the libraries that Millrace is measured against; made when missing.

    python benchmarks/environments.py tensorflow|pytorch

prints the path of the interpreter. Each library is pinned, and has a folder of its own in `.bench`.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import venv

from rich.console import Console

FOLDER = pathlib.Path(__file__).parent.parent / ".bench"
PACKAGES = {
    "tensorflow": ["tensorflow-cpu==2.21.*"],
    "pytorch": ["torch==2.13.0", "numpy==2.4.*"],
}


def python_of(library: str, console: Console) -> str:
    """The interpreter of an environment that has a library, made when missing."""
    folder = FOLDER / library
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        packages = PACKAGES[library]
        console.print(f"Making {folder} with {' and '.join(packages)} (once; a few minutes) …")
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
        (folder / "ready").touch()
    return str(python)


if __name__ == "__main__":
    print(python_of(sys.argv[1], Console(stderr=True)))
