"""Files that belong to a program: read from the folder that the calling module stands in."""

from __future__ import annotations

import inspect
import os
import sys
from typing import Any


def load_resource(path: str) -> bytes:
    """The content of a file, by its path from the folder that holds the package.

    Raises:
      OSError: It cannot be read.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, path), "rb") as file:
        return file.read()


def _folder_of(frame: Any) -> str:
    return os.path.dirname(os.path.abspath(inspect.getfile(frame)))


def get_data_files_path() -> str:
    """The folder of the module that calls this."""
    return _folder_of(sys._getframe(1))


def get_root_dir_with_all_resources() -> str:
    """The folder that paths of resources start from: the calling module's."""
    return _folder_of(sys._getframe(1))


def get_path_to_datafile(path: str) -> str:
    """A file's path, given its path from the folder of the calling module."""
    return os.path.join(_folder_of(sys._getframe(1)), path)


def readahead_file_path(path: str, readahead: str = "128M") -> str:
    """The path itself: reading ahead is left to the operating system."""
    return path
