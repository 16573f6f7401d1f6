"""`tf.sysconfig`: flags for building C++ ops. There is nothing to build against here."""

from millrace.platform.build_flags import (
    CXX11_ABI_FLAG,
    CXX_VERSION,
    MONOLITHIC_BUILD,
    get_build_info,
    get_compile_flags,
    get_include,
    get_lib,
    get_link_flags,
)

__all__ = [
    "CXX11_ABI_FLAG",
    "CXX_VERSION",
    "MONOLITHIC_BUILD",
    "get_build_info",
    "get_compile_flags",
    "get_include",
    "get_lib",
    "get_link_flags",
]
