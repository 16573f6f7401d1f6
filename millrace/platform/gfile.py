"""tf.gfile and tf.io.gfile: files by name, on the local disk or behind a URL.

The functions raise TensorFlow's error classes, never OSError, with TensorFlow's texts
(`path; No such file or directory`). A GFile opens nothing until it is first read or written,
counts positions in bytes in text mode too, and writes by replacing or appending only, as
TensorFlow's does. The lower-case functions are tf.io.gfile's; tf.gfile's
follow at the end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from millrace.core import errors
from millrace.platform.filesystems import (
    FileStatistics,
    FileSystem,
    name_of,
    resolve,
    split_scheme,
)
from millrace.platform.patterns import has_magic, translate

__all__ = [
    "Copy",
    "DeleteRecursively",
    "Exists",
    "FastGFile",
    "FileStatistics",
    "GFile",
    "Glob",
    "IsDirectory",
    "ListDirectory",
    "MakeDirs",
    "MkDir",
    "Open",
    "Remove",
    "Rename",
    "Stat",
    "Walk",
    "copy",
    "exists",
    "glob",
    "isdir",
    "join",
    "listdir",
    "makedirs",
    "mkdir",
    "remove",
    "rename",
    "rmtree",
    "stat",
    "walk",
]

_COPY_BYTES = 1 << 20

Path = str | bytes | os.PathLike[str]

# TensorFlow's status for what the operating system answers; the rest is UNKNOWN.
_CODES_BY_ERRNO = {
    **dict.fromkeys((errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ESRCH), errors.NOT_FOUND),
    **dict.fromkeys((errno.EEXIST, errno.EADDRINUSE, errno.EALREADY), errors.ALREADY_EXISTS),
    **dict.fromkeys((errno.EPERM, errno.EACCES, errno.EROFS), errors.PERMISSION_DENIED),
    **dict.fromkeys(
        (errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR, errno.EBADF, errno.EBUSY, errno.ETXTBSY),
        errors.FAILED_PRECONDITION,
    ),
    **dict.fromkeys(
        (errno.EINVAL, errno.ENAMETOOLONG, errno.ELOOP, errno.ESPIPE), errors.INVALID_ARGUMENT
    ),
    **dict.fromkeys(
        (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EMLINK, errno.ENOMEM),
        errors.RESOURCE_EXHAUSTED,
    ),
    **dict.fromkeys((errno.ENOSYS, errno.EXDEV, errno.ENOTSUP), errors.UNIMPLEMENTED),
    **dict.fromkeys((errno.EFBIG, errno.EOVERFLOW, errno.ERANGE), errors.OUT_OF_RANGE),
    **dict.fromkeys((errno.EAGAIN, errno.EINTR, errno.ECONNRESET), errors.UNAVAILABLE),
    errno.ETIMEDOUT: errors.DEADLINE_EXCEEDED,
    errno.ESTALE: errors.ABORTED,
}
# Remote stores raise the classes without a number.
_ERRNO_BY_CLASS: dict[type[OSError], int] = {
    FileNotFoundError: errno.ENOENT,
    FileExistsError: errno.EEXIST,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
    PermissionError: errno.EACCES,
    TimeoutError: errno.ETIMEDOUT,
}


@contextlib.contextmanager
def tensorflow_errors(name: str) -> Iterator[None]:
    """Turns an OSError about the file `name` into TensorFlow's error for it."""
    try:
        yield
    except OSError as error:
        number = error.errno
        if number is None:
            number = next((n for c, n in _ERRNO_BY_CLASS.items() if isinstance(error, c)), None)
        code = errors.UNKNOWN if number is None else _CODES_BY_ERRNO.get(number, errors.UNKNOWN)
        reason = error.strerror or (os.strerror(number) if number is not None else str(error))
        raise errors.error_from_code(code, f"{name}; {reason}") from error
    except NotImplementedError as error:
        raise errors.UnimplementedError(
            None, None, f"{name}; its file system cannot do this: {error or type(error).__name__}"
        ) from error


class GFile:
    """A file that is opened when it is first used.

    Text mode reads `str` and binary mode (a `b` in the mode) `bytes`; both write either. Sizes and
    positions are bytes in both. As in TensorFlow, the first write in mode `r+` or `w+` empties the
    file, `readline` leaves out carriage returns, and a file that was closed may be used again.

    Args:
      name: Path or URL.
      mode: One of r, w, a, r+, w+, a+, with or without b.

    Raises:
      InvalidArgumentError: Another mode.
    """

    def __init__(self, name: Path, mode: str = "r") -> None:
        self._given_name = name
        self._name = name_of(name)
        self._mode = mode
        self._binary = "b" in mode
        bare = mode.replace("b", "")
        if bare not in ("r", "w", "a", "r+", "w+", "a+"):
            raise errors.InvalidArgumentError(
                None,
                None,
                "mode is not 'r' or 'w' or 'a' or 'r+' or 'w+' or 'a+' "
                f"(with or without 'b'): {mode!r} for file '{self._name}'",
            )
        self._readable = bare != "w" and bare != "a"
        self._writable = bare != "r"
        self._appends = bare.startswith("a")
        # Each is None until first use, and again after close().
        self._reader: BinaryIO | None = None
        self._writer: BinaryIO | None = None
        # Whether something was written since the last read.
        self._written = False

    @property
    def name(self) -> Path:
        """The name as it was given."""
        return self._given_name

    @property
    def mode(self) -> str:
        """The mode as it was given."""
        return self._mode

    def _open_reader(self) -> BinaryIO:
        if not self._readable:
            raise errors.PermissionDeniedError(
                None, None, f"File isn't open for reading: '{self._name}' has mode '{self._mode}'"
            )
        position = 0
        if self._reader is not None and self._written:
            # What it has buffered may be what was there before the write.
            position = self._reader.tell()
            self._reader.close()
            self._reader = None
        if self._writer is not None:
            self._writer.flush()
        if self._reader is None:
            files, path = resolve(self._name)
            self._reader = files.open_for_reading(path)
            self._reader.seek(position)
        self._written = False
        return self._reader

    def _open_writer(self) -> BinaryIO:
        if not self._writable:
            raise errors.PermissionDeniedError(
                None, None, f"File isn't open for writing: '{self._name}' has mode '{self._mode}'"
            )
        if self._writer is None:
            files, path = resolve(self._name)
            self._writer = files.open_for_writing(path, self._appends)
        return self._writer

    def _as_read(self, data: bytes) -> Any:
        return data if self._binary else data.decode("utf-8")

    def size(self) -> int:
        """Returns the size of the file in bytes, without what is written but not flushed."""
        return stat(self._name).length

    def read(self, n: int | None = -1) -> Any:
        """Returns the next `n` bytes, or all that is left for -1, as text or bytes."""
        if n is None:
            n = -1
        if n < -1:
            raise errors.InvalidArgumentError(
                None, None, f"Can't read a negative number of bytes: {n}, file '{self._name}'"
            )
        with tensorflow_errors(self._name):
            data = self._open_reader().read(n)
        return self._as_read(data)

    def readline(self) -> Any:
        """Returns the next line with its newline, and nothing at the end of the file."""
        with tensorflow_errors(self._name):
            line = self._open_reader().readline()
        return self._as_read(line.replace(b"\r", b""))

    def readlines(self) -> list[Any]:
        """Returns all lines that are left."""
        return list(self)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def next(self) -> Any:
        """Returns the next line; raises StopIteration at the end."""
        return self.__next__()

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Sets where the next read begins.

        Args:
          offset: Bytes from the place that `whence` says.
          whence: 0 start of the file, 1 current position, 2 end of the file.
          position: The old name of `offset`.

        Raises:
          OutOfRangeError: That is behind the end; the position is then the end.
          InvalidArgumentError: That is before the start, or `whence` is none of the three.
        """
        if (offset is None) == (position is None):
            raise TypeError(
                "seek(): offset argument required"
                if offset is None
                else "seek(): offset and position may not be set simultaneously."
            )
        target = offset if offset is not None else position
        assert target is not None  # one of the two is, as checked above
        with tensorflow_errors(self._name):
            reader = self._open_reader()
            size = self.size()
            if whence == 1:
                target += reader.tell()
            elif whence == 2:
                target += size
            elif whence != 0:
                raise errors.InvalidArgumentError(
                    None, None, f"Invalid whence argument: {whence}. Valid values are 0, 1, or 2."
                )
            if target < 0:
                raise errors.InvalidArgumentError(
                    None, None, f"Seeking to a negative position: {target}, file '{self._name}'"
                )
            reader.seek(min(target, size))
        if target > size:
            raise errors.OutOfRangeError(
                None,
                None,
                f"reached end of file: '{self._name}' has {size} bytes, asked to seek to {target}",
            )

    def tell(self) -> int:
        """Returns the position in bytes: of the next read if the file is readable, else write."""
        with tensorflow_errors(self._name):
            stream = self._open_reader() if self._readable else self._open_writer()
            return stream.tell()

    def seekable(self) -> bool:
        """Returns True."""
        return True

    def write(self, file_content: str | bytes) -> None:
        """Writes text (as UTF-8) or bytes."""
        if isinstance(file_content, str):
            data = file_content.encode("utf-8")
        elif isinstance(file_content, bytes | bytearray | memoryview):
            data = bytes(file_content)
        else:
            raise TypeError(f"Expected binary or unicode string, got {file_content!r}")
        with tensorflow_errors(self._name):
            self._open_writer().write(data)
        self._written = True

    def flush(self) -> None:
        """Hands what was written to the operating system (or the remote store's buffer)."""
        if self._writer is not None:
            with tensorflow_errors(self._name):
                self._writer.flush()

    def close(self) -> None:
        """Closes the file; what was written is in place when this returns."""
        reader, writer = self._reader, self._writer
        self._reader = self._writer = None
        with tensorflow_errors(self._name):
            if reader is not None:
                reader.close()
            if writer is not None:
                writer.close()

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class FastGFile(GFile):
    """GFile under another name, which TensorFlow kept for old programs."""


Open = GFile


def _ask(path: Path, question: Callable[[FileSystem, str], Any]) -> Any:
    """Asks the file system of `path`, with TensorFlow's errors."""
    name = name_of(path)
    with tensorflow_errors(name):
        files, inner_path = resolve(name)
        return question(files, inner_path)


def exists(path: Path) -> bool:
    """Returns whether a file or directory of that name exists."""
    return bool(_ask(path, lambda files, inner: files.exists(inner)))


def isdir(path: Path) -> bool:
    """Returns whether it is a directory; False if there is nothing of that name."""
    return bool(_ask(path, lambda files, inner: files.is_directory(inner)))


def stat(path: Path) -> FileStatistics:
    """Returns length, mtime_nsec and is_directory; NotFoundError if there is no such file."""
    found: FileStatistics = _ask(path, lambda files, inner: files.stat(inner))
    return found


def listdir(path: Path) -> list[str]:
    """Returns the names in a directory, sorted; NotFoundError if it is not a directory."""
    if not isdir(path):
        raise errors.NotFoundError(None, None, f"Could not find directory {name_of(path)}")
    return sorted(_ask(path, lambda files, inner: files.list_names(inner)))


def mkdir(path: Path) -> None:
    """Makes a directory in one that exists; nothing happens if it is there already."""
    with contextlib.suppress(errors.AlreadyExistsError):
        _ask(path, lambda files, inner: files.make_directory(inner))


def makedirs(path: Path) -> None:
    """Makes a directory and those above it; nothing happens if it is there already."""
    _ask(path, lambda files, inner: files.make_directories(inner))


def remove(path: Path) -> None:
    """Deletes a file; FailedPreconditionError if it is a directory."""
    _ask(path, lambda files, inner: files.remove_file(inner))


def rmtree(path: Path) -> None:
    """Deletes a directory with all that is in it, or a file; NotFoundError if there is none."""
    _ask(path, lambda files, inner: files.remove_tree(inner))


def _refuse_to_replace(name: str, overwrite: bool) -> None:
    if not overwrite and exists(name):
        raise errors.AlreadyExistsError(
            None, None, f"file already exists: '{name}' (overwrite=True replaces it)"
        )


def _kind(name: str) -> str:
    """Names the file system of a name, so that two names can be compared."""
    scheme, _ = split_scheme(name)
    return "" if scheme == "file://" else scheme


def rename(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Gives a file or directory another name; on the local disk at one stroke.

    Raises:
      AlreadyExistsError: The new name is taken and `overwrite` is false.
      UnimplementedError: The two names belong to different file systems.
    """
    source_name, target_name = name_of(src), name_of(dst)
    _refuse_to_replace(target_name, overwrite)
    if _kind(source_name) != _kind(target_name):
        raise errors.UnimplementedError(
            None,
            None,
            f"Renaming {source_name} to {target_name} not implemented because they are in "
            "different file systems; copy it, then remove the original",
        )
    with tensorflow_errors(source_name):
        files, source = resolve(source_name)
        _, target = resolve(target_name)
        files.rename(source, target)


def copy(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Copies one file, also from one file system to another.

    Raises:
      AlreadyExistsError: The new name is taken and `overwrite` is false.
      NotFoundError: There is no such file, or no directory for the copy.
    """
    source_name, target_name = name_of(src), name_of(dst)
    _refuse_to_replace(target_name, overwrite)
    if _kind(source_name) == _kind(target_name):
        with tensorflow_errors(target_name if exists(source_name) else source_name):
            files, source = resolve(source_name)
            _, target = resolve(target_name)
            files.copy_file(source, target)
        return
    with GFile(source_name, "rb") as reader, GFile(target_name, "wb") as writer:
        chunk = reader.read(_COPY_BYTES)
        writer.write(chunk)  # even when there is nothing: an empty file is copied too
        while chunk:
            chunk = reader.read(_COPY_BYTES)
            writer.write(chunk)


def walk(
    top: Path, topdown: bool = True, onerror: Callable[[errors.OpError], Any] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields (directory, names of directories in it, names of files in it) for a tree.

    Args:
      top: Where to begin. Nothing is yielded if it is not a directory.
      topdown: A directory before those in it, else after.
      onerror: Called with the error of a directory that cannot be listed.
    """
    name = name_of(top)
    try:
        names = listdir(name)
    except errors.NotFoundError as error:
        if onerror is not None:
            onerror(error)
        return
    directories = [each for each in names if isdir(join(name, each))]
    files = sorted(set(names) - set(directories))
    if topdown:
        yield name, directories, files
    for each in directories:
        yield from walk(join(name, each), topdown, onerror)
    if not topdown:
        yield name, directories, files


def glob(pattern: Path | Iterable[Path]) -> list[str]:
    """Returns the names that match a pattern, or any of several patterns, sorted per pattern.

    See millrace.platform.patterns for what a pattern may hold.
    """
    if isinstance(pattern, str | bytes | os.PathLike):
        return _glob_one(name_of(pattern))
    return [match for each in pattern for match in _glob_one(name_of(each))]


def _glob_one(pattern: str) -> list[str]:
    if not has_magic(pattern):
        return [pattern] if pattern and exists(pattern) else []
    scheme, path = split_scheme(pattern)
    parts = path.split("/")
    depth = next(i for i, part in enumerate(parts) if has_magic(part))
    # TensorFlow answers a bare pattern with names that begin with "./".
    prefix = "/".join(parts[:depth]) + "/" if depth else ("" if scheme else "./")
    bases = [scheme + prefix]
    for position, part in enumerate(parts[depth:], start=depth):
        matches: list[str] = []
        for base in bases:
            if has_magic(part):
                expression = translate(part)
                names = listdir(base) if isdir(base) else []
                matches += [base + each for each in names if expression.fullmatch(each)]
            elif exists(base + part):
                matches.append(base + part)
        last = position == len(parts) - 1
        bases = matches if last else [match + "/" for match in matches if isdir(match)]
    return sorted(bases)


def join(path: Path, *paths: Path) -> str:
    """Joins the parts of a path or URL with slashes; an absolute part drops those before it."""
    name = name_of(path)
    others = [name_of(each) for each in paths]
    if any(each.startswith("/") for each in others):
        return posixpath.join(name, *others)
    scheme, rest = split_scheme(name)
    return scheme + posixpath.join(rest, *others)


# tf.gfile: TensorFlow 1's names of the functions and of their arguments.


def Exists(filename: Path) -> bool:
    """Returns whether a file or directory of that name exists."""
    return exists(filename)


def IsDirectory(dirname: Path) -> bool:
    """Returns whether it is a directory; False if there is nothing of that name."""
    return isdir(dirname)


def Stat(filename: Path) -> FileStatistics:
    """Returns length, mtime_nsec and is_directory; NotFoundError if there is no such file."""
    return stat(filename)


def ListDirectory(dirname: Path) -> list[str]:
    """Returns the names in a directory, sorted; NotFoundError if it is not a directory."""
    return listdir(dirname)


def MkDir(dirname: Path) -> None:
    """Makes a directory in one that exists; nothing happens if it is there already."""
    mkdir(dirname)


def MakeDirs(dirname: Path) -> None:
    """Makes a directory and those above it; nothing happens if it is there already."""
    makedirs(dirname)


def Remove(filename: Path) -> None:
    """Deletes a file; FailedPreconditionError if it is a directory."""
    remove(filename)


def DeleteRecursively(dirname: Path) -> None:
    """Deletes a directory with all that is in it, or a file; NotFoundError if there is none."""
    rmtree(dirname)


def Rename(oldname: Path, newname: Path, overwrite: bool = False) -> None:
    """Gives a file or directory another name; see `rename`."""
    rename(oldname, newname, overwrite)


def Copy(oldpath: Path, newpath: Path, overwrite: bool = False) -> None:
    """Copies one file; see `copy`."""
    copy(oldpath, newpath, overwrite)


def Walk(top: Path, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields (directory, directories in it, files in it) for a tree; see `walk`."""
    return walk(top, topdown=in_order)


def Glob(filename: Path | Iterable[Path]) -> list[str]:
    """Returns the names that match a pattern, or any of several; see `glob`."""
    return glob(filename)
