"""Where the files of tf.gfile live: the local disk, or whatever fsspec can reach by URL.

`resolve` turns a name into a file system and a path in it. Both kinds answer the same questions
and raise OSError; tf.gfile turns that into TensorFlow's error classes. The local disk does not go
through fsspec, because a rename must be atomic there (checkpoints rely on it), a relative name
must stay relative and `~` is an ordinary character, as in TensorFlow.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import shutil
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO, Protocol, cast

from millrace.core import errors
from millrace.platform import file_access, lazy_import

fsspec = lazy_import.module("fsspec")

# `scheme://rest`; a Windows drive or a name with a colon is no scheme.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
# TensorFlow's name for a file system in memory, which fsspec knows by another.
_FSSPEC_SCHEMES = {"ram": "memory"}

_SYNC_FILE_RANGE_WRITE = 2


def _find_sync_file_range() -> Any:
    """Linux's call to begin writing a part of a file to the disk, or None elsewhere."""
    found = getattr(ctypes.CDLL(None), "sync_file_range", None) if os.name == "posix" else None
    if found is not None:
        found.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return found


_sync_file_range = _find_sync_file_range()


@dataclass(frozen=True)
class FileStatistics:
    """What tf.gfile.Stat tells.

    Attributes:
      length: Size in bytes.
      mtime_nsec: Time of the last change in nanoseconds since 1970; 0 where it is not known.
      is_directory: Whether it is a directory.
    """

    length: int
    mtime_nsec: int
    is_directory: bool


class FileSystem(Protocol):
    """What tf.gfile needs of a place for files. Every method may raise OSError."""

    def open_for_reading(self, path: str) -> BinaryIO: ...
    def open_for_writing(self, path: str, append: bool) -> BinaryIO: ...
    def exists(self, path: str) -> bool: ...
    def is_directory(self, path: str) -> bool: ...
    def stat(self, path: str) -> FileStatistics: ...
    def list_names(self, path: str) -> list[str]:
        """Returns the bare names in a directory, in no particular order."""
        ...

    def make_directory(self, path: str) -> None: ...
    def make_directories(self, path: str) -> None: ...
    def remove_file(self, path: str) -> None: ...
    def remove_tree(self, path: str) -> None: ...
    def rename(self, source: str, target: str) -> None:
        """Moves a file or directory, replacing a file that is in the way."""
        ...

    def copy_file(self, source: str, target: str) -> None: ...
    def start_sync(self, stream: BinaryIO, offset: int, size: int) -> None:
        """Has the disk begin with a part of what was written, and does not wait for it."""
        ...

    def sync_file(self, stream: BinaryIO) -> None:
        """Waits until what was written to an open file would survive a loss of power."""
        ...

    def sync_directory(self, path: str) -> None:
        """The same for the names in a directory: new, changed and removed ones."""
        ...

    def link(self, source: str, target: str) -> None:
        """Gives a file a second name; NotImplementedError where a file has one only."""
        ...


class LocalFiles:
    """The operating system's own files."""

    def open_for_reading(self, path: str) -> BinaryIO:
        return open(path, "rb")

    def open_for_writing(self, path: str, append: bool) -> BinaryIO:
        return open(path, "ab" if append else "wb")

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def stat(self, path: str) -> FileStatistics:
        found = os.stat(path)
        return FileStatistics(found.st_size, found.st_mtime_ns, os.path.isdir(path))

    def list_names(self, path: str) -> list[str]:
        return os.listdir(path)

    def make_directory(self, path: str) -> None:
        os.mkdir(path)

    def make_directories(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except FileExistsError as error:
            # TensorFlow's status for a file where the directory should be.
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from error

    def remove_file(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def copy_file(self, source: str, target: str) -> None:
        # A file copied onto itself is already the copy.
        with contextlib.suppress(shutil.SameFileError):
            shutil.copyfile(source, target)

    def start_sync(self, stream: BinaryIO, offset: int, size: int) -> None:
        if _sync_file_range is not None:
            # What it answers does not matter: `sync_file` finds what went wrong.
            _sync_file_range(stream.fileno(), offset, size, _SYNC_FILE_RANGE_WRITE)

    def sync_file(self, stream: BinaryIO) -> None:
        stream.flush()
        os.fsync(stream.fileno())

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)


class FsspecFiles:
    """Files behind one fsspec file system.

    Listings that fsspec may have cached are dropped before every question: another task writes
    the checkpoint that this one waits for.
    """

    def __init__(self, fsspec_filesystem: Any) -> None:
        self._files = fsspec_filesystem

    def open_for_reading(self, path: str) -> BinaryIO:
        return cast(BinaryIO, self._files.open(path, "rb"))

    def open_for_writing(self, path: str, append: bool) -> BinaryIO:
        # A store of objects would let a file and a directory have the same name.
        self._refuse_directory(path)
        return cast(BinaryIO, self._files.open(path, "ab" if append else "wb"))

    def _refuse_directory(self, path: str) -> None:
        if self.is_directory(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)

    def exists(self, path: str) -> bool:
        self._files.invalidate_cache()
        return bool(self._files.exists(path))

    def is_directory(self, path: str) -> bool:
        self._files.invalidate_cache()
        return bool(self._files.isdir(path))

    def stat(self, path: str) -> FileStatistics:
        self._files.invalidate_cache()
        found = self._files.info(path)
        is_directory = found["type"] == "directory"
        changed = None
        # Many stores keep no time for a directory, some for nothing at all.
        with contextlib.suppress(NotImplementedError, OSError, KeyError, TypeError):
            changed = self._files.modified(path)
        nanoseconds = int(changed.timestamp() * 1e9) if isinstance(changed, datetime) else 0
        return FileStatistics(int(found["size"] or 0), nanoseconds, is_directory)

    def list_names(self, path: str) -> list[str]:
        self._files.invalidate_cache()
        here = path.rstrip("/")
        names = (entry.rstrip("/") for entry in self._files.ls(path, detail=False))
        # An object store lists the object that marks the directory among its contents.
        return [name.rsplit("/", 1)[-1] for name in names if name != here]

    def make_directory(self, path: str) -> None:
        self._files.mkdir(path, create_parents=False)

    def make_directories(self, path: str) -> None:
        if self._files.isfile(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        self._files.makedirs(path, exist_ok=True)

    def remove_file(self, path: str) -> None:
        self._refuse_directory(path)
        self._files.rm_file(path)

    def remove_tree(self, path: str) -> None:
        self._files.rm(path, recursive=True)

    def rename(self, source: str, target: str) -> None:
        if self.is_directory(source):
            # The slash makes fsspec move the contents, not the directory into the target.
            self._files.mv(source.rstrip("/") + "/", target, recursive=True)
        else:
            self._files.mv(source, target)

    def copy_file(self, source: str, target: str) -> None:
        self._refuse_directory(target)
        self._files.cp_file(source, target)

    def start_sync(self, stream: BinaryIO, offset: int, size: int) -> None:
        """Nothing to do: a remote store takes what it is sent."""

    def sync_file(self, stream: BinaryIO) -> None:
        """Nothing to do: a remote store keeps a file once it is closed."""

    def sync_directory(self, path: str) -> None:
        """Nothing to do: a remote store keeps a name once it is given."""

    def link(self, source: str, target: str) -> None:
        raise NotImplementedError("a file behind a URL has one name only")


_LOCAL = LocalFiles()


def name_of(path: Any) -> str:
    """Returns a path given as text, bytes or os.PathLike as text.

    Raises:
      TypeError: It is none of these.
    """
    return os.fsdecode(path)


def split_scheme(name: str) -> tuple[str, str]:
    """Splits "s3://bucket/key" into "s3://" and "bucket/key"; a local name has the scheme ""."""
    url = _URL.match(name)
    return (f"{url[1]}://", url[2]) if url else ("", name)


def resolve(name: str) -> tuple[FileSystem, str]:
    """Returns the file system that holds `name`, and the path in it.

    Raises:
      UnimplementedError: No file system answers to the scheme of the URL.
      PermissionDeniedError: The step that runs may not touch it; see `file_access`.
    """
    scheme, rest = split_scheme(name)
    file_access.check(scheme, rest)
    if scheme in ("", "file://"):
        return _LOCAL, rest
    protocol = scheme.removesuffix("://")
    protocol = _FSSPEC_SCHEMES.get(protocol, protocol)
    try:
        files, path = fsspec.core.url_to_fs(f"{protocol}://{rest}")
    except ImportError as error:
        raise errors.UnimplementedError(
            None,
            None,
            f"File system scheme '{protocol}' needs a package that is not installed "
            f"(file: '{name}'): {error}",
        ) from error
    except ValueError as error:
        raise errors.UnimplementedError(
            None,
            None,
            f"File system scheme '{protocol}' not implemented (file: '{name}'); "
            "fsspec.available_protocols() lists those there are",
        ) from error
    return FsspecFiles(files), path
