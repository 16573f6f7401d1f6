"""Files beside the calling program, and flags of a build that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

import millrace as tf


def test_paths_start_at_the_callers_folder() -> None:
    here = str(Path(__file__).resolve().parent)
    assert tf.resource_loader.get_data_files_path() == here
    assert tf.resource_loader.get_root_dir_with_all_resources() == here
    assert tf.resource_loader.get_path_to_datafile("a/b") == f"{here}/a/b"
    assert tf.resource_loader.readahead_file_path("x") == "x"


def test_a_resource_is_found_from_the_folder_of_the_package() -> None:
    assert b"MILLRACE" in tf.resource_loader.load_resource("millrace/platform/version.py")
    with pytest.raises(OSError):
        tf.resource_loader.load_resource("millrace/no_such_file")


def test_there_is_nothing_to_build_against() -> None:
    assert tf.sysconfig.get_compile_flags() == tf.sysconfig.get_link_flags() == []
    assert not tf.sysconfig.get_build_info()["is_cuda_build"]
    for ask in (tf.sysconfig.get_include, tf.sysconfig.get_lib):
        with pytest.raises(tf.errors.NotFoundError, match="Python function"):
            ask()
