"""What `tf.sysconfig` tells a build of C++ ops.

Millrace has no C++ library: ops are Python functions (`docs/adding-an-op.md`). The flags are
empty, so that a setup script that only prints or joins them goes on; the folders raise.
"""

from __future__ import annotations

import collections
from typing import Any

from millrace.core import errors

CXX11_ABI_FLAG = 1
CXX_VERSION = 201703
MONOLITHIC_BUILD = 0


def get_compile_flags() -> list[str]:
    """No flags."""
    return []


def get_link_flags() -> list[str]:
    """No flags."""
    return []


def get_include() -> str:
    """Raises NotFoundError: there are no headers."""
    raise errors.NotFoundError(
        None, None, "Millrace has no C++ headers: write an op as a Python function instead"
    )


def get_lib() -> str:
    """Raises NotFoundError: there is no shared library."""
    raise errors.NotFoundError(
        None, None, "Millrace has no C++ library: write an op as a Python function instead"
    )


def load_library(library_location: str) -> None:
    """Raises NotFoundError: there is nothing that could load C++ kernels."""
    raise errors.NotFoundError(
        None,
        None,
        f"{library_location}: Millrace loads no C++ kernels; write the op as a Python function, or "
        "use tf.py_func",
    )


def load_op_library(library_filename: str) -> None:
    """Raises NotFoundError: there is nothing that could load C++ kernels."""
    load_library(library_filename)


def load_file_system_library(library_filename: str) -> None:
    """Raises NotFoundError: file systems come from fsspec."""
    load_library(library_filename)


def get_build_info() -> dict[str, Any]:
    """That neither CUDA nor ROCm was built in; devices are XLA's."""
    return collections.OrderedDict(
        is_cuda_build=False, is_rocm_build=False, is_tensorrt_build=False
    )
