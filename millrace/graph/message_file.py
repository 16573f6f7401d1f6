"""Messages in files: in the wire format or as text, on any file system that gfile knows."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from google.protobuf import message as message_module
from google.protobuf import text_format

from millrace.platform import gfile

_M = TypeVar("_M")


def write_message(message: Any, filename: str, as_text: bool) -> None:
    """Writes a message so that readers see the old file or the new one, never a part."""
    if as_text:
        content = text_format.MessageToString(message).encode()
    else:
        content = message.SerializeToString(deterministic=True)
    temporary = f"{filename}.tmp{os.getpid()}"
    with gfile.GFile(temporary, "wb") as file:
        file.write(content)
    gfile.rename(temporary, filename, overwrite=True)


def read_message(kind: type[_M], filename: str) -> _M:
    """Reads a message of class `kind` in either format.

    Raises:
      OSError: There is no such file, or it holds no such message.
    """
    if not gfile.exists(filename):
        raise OSError(f"File does not exist. Received: {filename}.")
    with gfile.GFile(filename, "rb") as file:
        content = file.read()
    made: Any = kind()
    try:
        made.ParseFromString(content)
    except message_module.DecodeError:
        made = kind()
        try:
            text_format.Merge(content.decode(), made)
        except (UnicodeDecodeError, text_format.ParseError) as error:
            raise OSError(f"Cannot parse file {filename}: {error}.") from error
    return made  # type: ignore[no-any-return]
