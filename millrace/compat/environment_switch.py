"""Makes ``import tensorflow`` mean Millrace in a whole environment, and takes that back.

Two files in the environment's site-packages do it: a ``.pth`` file, which every start of its
interpreter reads, and the module that it imports. That module is small and imports nothing of
Millrace's before a program asks for TensorFlow, so that other programs start as fast as before.
"""

from __future__ import annotations

import importlib.machinery
from pathlib import Path

_MODULE = "_millrace_as_tensorflow"
_PTH = "millrace_as_tensorflow.pth"

#: What the module in site-packages does. It must work when Millrace has been removed.
_SOURCE = '''\
"""Lets `import tensorflow` import Millrace. `millrace import-hook off` removes this file."""

import sys


class _Finder:
    """Waits for the first import of TensorFlow, and hands over to Millrace."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] != "tensorflow" or _asked_by_tensorboard():
            return None
        sys.meta_path.remove(_Finder)
        try:
            from millrace.compat import numpy1, tensorflow_import
        except ModuleNotFoundError as error:
            if error.name != "millrace":
                raise
            return None
        tensorflow_import.install()
        numpy1.install()
        return tensorflow_import.TensorFlowFinder().find_spec(name, path, target)


def _asked_by_tensorboard():
    """TensorBoard works without TensorFlow, and takes more of it than there is if it finds one."""
    frame = sys._getframe(1)
    while frame is not None and (
        frame.f_globals.get("__name__", "").startswith("importlib.")
        or frame.f_globals.get("__name__") == __name__
    ):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").startswith("tensorboard")


sys.meta_path.insert(0, _Finder)
'''


def is_on(site_packages: Path) -> bool:
    """Whether ``import tensorflow`` means Millrace there."""
    return (site_packages / _PTH).exists()


def real_tensorflow(site_packages: Path) -> Path | None:
    """Where a TensorFlow is installed there, if one is."""
    spec = importlib.machinery.PathFinder.find_spec("tensorflow", [str(site_packages)])
    return Path(spec.origin) if spec is not None and spec.origin else None


def switch_on(site_packages: Path) -> None:
    """Makes it so, also when it is so already.

    Raises:
      OSError: The folder cannot be written to.
    """
    (site_packages / f"{_MODULE}.py").write_text(_SOURCE)
    (site_packages / _PTH).write_text(f"import {_MODULE}\n")


def switch_off(site_packages: Path) -> None:
    """Takes it back; the ``.pth`` first, which without the module would complain at every start.

    Raises:
      OSError: The folder cannot be written to.
    """
    (site_packages / _PTH).unlink(missing_ok=True)
    (site_packages / f"{_MODULE}.py").unlink(missing_ok=True)
    for cached in (site_packages / "__pycache__").glob(f"{_MODULE}.*.pyc"):
        cached.unlink()
