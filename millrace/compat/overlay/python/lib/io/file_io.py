"""What programs take from TensorFlow's python.lib.io.file_io that has no public name."""

from typing import Any

from millrace.platform.gfile import FileStatistics, copy, remove, rename, stat, walk
from millrace.platform.gfile import GFile as FileIO
from millrace.platform.gfile import exists as file_exists
from millrace.platform.gfile import glob as get_matching_files
from millrace.platform.gfile import isdir as is_directory
from millrace.platform.gfile import listdir as list_directory
from millrace.platform.gfile import makedirs as recursive_create_dir
from millrace.platform.gfile import mkdir as create_dir
from millrace.platform.gfile import remove as delete_file
from millrace.platform.gfile import rmtree as delete_recursively

file_exists_v2, is_directory_v2, list_directory_v2 = file_exists, is_directory, list_directory
delete_file_v2, delete_recursively_v2 = delete_file, delete_recursively
create_dir_v2, recursive_create_dir_v2 = create_dir, recursive_create_dir
get_matching_files_v2, copy_v2, rename_v2, stat_v2, walk_v2 = (
    get_matching_files,
    copy,
    rename,
    stat,
    walk,
)


def read_file_to_string(filename: str, binary_mode: bool = False) -> Any:
    """What a file holds: text, or bytes if `binary_mode`."""
    with FileIO(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def write_string_to_file(filename: str, file_content: str | bytes) -> None:
    """Writes a file."""
    with FileIO(filename, "wb" if isinstance(file_content, bytes) else "w") as file:
        file.write(file_content)


def atomic_write_string_to_file(
    filename: str, contents: str | bytes, overwrite: bool = True
) -> None:
    """Writes a file that others see whole or not at all."""
    temporary = f"{filename}.tmp"
    write_string_to_file(temporary, contents)
    try:
        rename(temporary, filename, overwrite)
    except Exception:
        delete_file(temporary)
        raise


def filecmp(filename_a: str, filename_b: str) -> bool:
    """Whether two files hold the same."""
    return bool(read_file_to_string(filename_a, True) == read_file_to_string(filename_b, True))
