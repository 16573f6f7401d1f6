"""tf.flags: absl's flags, with the habits of TensorFlow 1.

Three things differ from absl: reading a flag before the command line was parsed parses it (absl
raises), flags that nobody defined are left alone then, and a program may define a flag that absl
defines for itself (`log_dir`, `verbosity`), since TensorFlow programs older than absl do.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from absl import flags as absl_flags
from absl.flags import (
    ArgumentParser,
    ArgumentSerializer,
    BaseListParser,
    BooleanFlag,
    BooleanParser,
    CantOpenFlagFileError,
    CsvListSerializer,
    DuplicateFlagError,
    EnumClassFlag,
    EnumClassListSerializer,
    EnumClassParser,
    EnumClassSerializer,
    EnumFlag,
    EnumParser,
    Error,
    Flag,
    FlagHolder,
    FlagNameConflictsWithMethodError,
    FlagValues,
    FloatParser,
    IllegalFlagValueError,
    IntegerParser,
    ListParser,
    ListSerializer,
    MultiEnumClassFlag,
    MultiFlag,
    UnparsedFlagAccessError,
    UnrecognizedFlagError,
    ValidationError,
    WhitespaceSeparatedListParser,
    adopt_module_key_flags,
    declare_key_flag,
    disclaim_key_flags,
    doc_to_help,
    flag_dict_to_args,
    get_help_width,
    mark_bool_flags_as_mutual_exclusive,
    mark_flag_as_required,
    mark_flags_as_mutual_exclusive,
    mark_flags_as_required,
    multi_flags_validator,
    override_value,
    register_multi_flags_validator,
    register_validator,
    set_default,
    text_wrap,
    validator,
)

__all__ = [
    "DEFINE",
    "FLAGS",
    "ArgumentParser",
    "ArgumentSerializer",
    "BaseListParser",
    "BooleanFlag",
    "BooleanParser",
    "CantOpenFlagFileError",
    "CsvListSerializer",
    "DEFINE_alias",
    "DEFINE_bool",
    "DEFINE_boolean",
    "DEFINE_enum",
    "DEFINE_enum_class",
    "DEFINE_flag",
    "DEFINE_float",
    "DEFINE_integer",
    "DEFINE_list",
    "DEFINE_multi",
    "DEFINE_multi_enum",
    "DEFINE_multi_enum_class",
    "DEFINE_multi_float",
    "DEFINE_multi_integer",
    "DEFINE_multi_string",
    "DEFINE_spaceseplist",
    "DEFINE_string",
    "DuplicateFlagError",
    "EnumClassFlag",
    "EnumClassListSerializer",
    "EnumClassParser",
    "EnumClassSerializer",
    "EnumFlag",
    "EnumParser",
    "Error",
    "Flag",
    "FlagHolder",
    "FlagNameConflictsWithMethodError",
    "FlagValues",
    "FloatParser",
    "IllegalFlagValueError",
    "IntegerParser",
    "ListParser",
    "ListSerializer",
    "MultiEnumClassFlag",
    "MultiFlag",
    "UnparsedFlagAccessError",
    "UnrecognizedFlagError",
    "ValidationError",
    "WhitespaceSeparatedListParser",
    "adopt_module_key_flags",
    "declare_key_flag",
    "disclaim_key_flags",
    "doc_to_help",
    "flag_dict_to_args",
    "get_help_width",
    "mark_bool_flags_as_mutual_exclusive",
    "mark_flag_as_required",
    "mark_flags_as_mutual_exclusive",
    "mark_flags_as_required",
    "multi_flags_validator",
    "override_value",
    "parse",
    "register_multi_flags_validator",
    "register_validator",
    "set_default",
    "text_wrap",
    "validator",
]

# absl asks which module called DEFINE_…; the answer must be the program, not this module.
disclaim_key_flags()

# TensorFlow before 1.5 had these keyword names.
_OLD_KEYWORDS = {"flag_name": "name", "default_value": "default", "docstring": "help"}

_Define = TypeVar("_Define", bound=Callable[..., Any])


def _give_way_to_program(name: str, values: FlagValues) -> None:
    """Withdraws the flag `name` if absl itself defined it."""
    owner = values.find_module_defining_flag(name)
    if owner is not None and owner.startswith("absl."):
        delattr(values, name)


def _as_tensorflow(define: _Define) -> _Define:
    """Wraps one of absl's DEFINE_ functions: old keywords, and the program's flag wins."""

    @functools.wraps(define)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        for old, new in _OLD_KEYWORDS.items():
            if old in kwargs:
                kwargs[new] = kwargs.pop(old)
        name = args[0] if args else kwargs.get("name")
        if isinstance(name, str):
            _give_way_to_program(name, kwargs.get("flag_values", absl_flags.FLAGS))
        return define(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


DEFINE = absl_flags.DEFINE
DEFINE_alias = absl_flags.DEFINE_alias
DEFINE_flag = absl_flags.DEFINE_flag
DEFINE_multi = absl_flags.DEFINE_multi
DEFINE_string = _as_tensorflow(absl_flags.DEFINE_string)
DEFINE_boolean = _as_tensorflow(absl_flags.DEFINE_boolean)
DEFINE_bool = DEFINE_boolean
DEFINE_integer = _as_tensorflow(absl_flags.DEFINE_integer)
DEFINE_float = _as_tensorflow(absl_flags.DEFINE_float)
DEFINE_enum = _as_tensorflow(absl_flags.DEFINE_enum)
DEFINE_enum_class = _as_tensorflow(absl_flags.DEFINE_enum_class)
DEFINE_list = _as_tensorflow(absl_flags.DEFINE_list)
DEFINE_spaceseplist = _as_tensorflow(absl_flags.DEFINE_spaceseplist)
DEFINE_multi_string = _as_tensorflow(absl_flags.DEFINE_multi_string)
DEFINE_multi_integer = _as_tensorflow(absl_flags.DEFINE_multi_integer)
DEFINE_multi_float = _as_tensorflow(absl_flags.DEFINE_multi_float)
DEFINE_multi_enum = _as_tensorflow(absl_flags.DEFINE_multi_enum)
DEFINE_multi_enum_class = _as_tensorflow(absl_flags.DEFINE_multi_enum_class)


def parse(argv: Sequence[str], values: FlagValues = absl_flags.FLAGS) -> list[str]:
    """Parses `argv` and returns what is left of it, the flags that nobody defined included.

    May be called again (first when a flag is read early, then by app.run): a repeated flag then
    has the values of the last parse, where absl would have those of both.
    """
    for name in values:
        flag = values[name]
        if isinstance(flag, MultiFlag) and flag.present:
            flag.unparse()
    return values(list(argv), known_only=True)


class _ParsingFlagValues:
    """absl's FlagValues, except that reading a flag parses sys.argv if nothing did before."""

    __slots__ = ("_values",)
    _values: FlagValues

    def __init__(self, values: FlagValues) -> None:
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        # Reached for everything but `_values`: absl's methods and the flags themselves.
        values = self._values
        if name in values and not values.is_parsed():
            parse(sys.argv, values)
        return getattr(values, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._values, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._values, name)

    def __getitem__(self, name: str) -> Flag[Any]:
        return self._values[name]

    def __setitem__(self, name: str, flag: Flag[Any]) -> None:
        self._values[name] = flag

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return dir(self._values)

    def __str__(self) -> str:
        return str(self._values)

    def __call__(self, argv: Sequence[str], known_only: bool = False) -> list[str]:
        return self._values(list(argv), known_only=known_only)


FLAGS = _ParsingFlagValues(absl_flags.FLAGS)
