"""Records what TensorFlow 1.15's modules hold, from its wheels, unpacked into one folder.

    python docs/tools/record_tensorflow_tree.py FOLDER

Writes millrace/compat/tensorflow_tree.txt, one line per module: its path, then its names, each
with the public name under which TensorFlow offers the same object;
millrace/compat/generated_ops.txt, the functions of the gen_*_ops modules; and
docs/tools/tensorflow_names.txt, all public names. Only facts are recorded: which name is where.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

from tensorflow_sources import Name, Sources

HERE = Path(__file__).parent
TREE = HERE.parents[1] / "millrace/compat/tensorflow_tree.txt"
GENERATED = TREE.with_name("generated_ops.txt")
NAMES = HERE / "tensorflow_names.txt"
#: Packages whose modules declare public names, and the prefix of these.
_FACADES = (
    ("tensorflow._api.v1", ""),
    ("tensorflow.python.keras.api._v1.keras", "keras"),
    ("tensorflow_estimator.python.estimator.api._v1.estimator", "estimator"),
)
_FACADE_OF_2 = "tensorflow._api.v1.compat.v2"
#: Modules that no program imports: tests, the makers of the facades, what drives TensorFlow.
_LEFT_OUT = re.compile(
    r"\.(api|_api|kernel_tests|testing|tests)(\.|$)|_test$|\.python\.(autograph|compiler|tpu)\."
    r"|_pb2$|_pb2_grpc$|\.gen_\w+_ops$|tensorflow\.contrib\.quantization"
)
#: Names that modules have only because they import them to be built with.
_NOISE = {"absolute_import", "collections_abc", "division", "print_function", "tf_export"}
_GENERATED = re.compile(r"tensorflow\.python(\.\w+)*\.gen_\w+")


def public_names(sources: Sources) -> dict[str, Name]:
    """``train.Saver`` to where it is defined, for all that TensorFlow exports."""
    found: dict[str, Name] = {}
    for facade, prefix in _FACADES:
        for module in sources.modules:
            if module != facade and not module.startswith(f"{facade}."):
                continue
            inner = module[len(facade) + 1 :]
            if inner.startswith(("compat.v1", "compat.v2")):
                continue
            path = ".".join(p for p in (prefix, "" if inner == "v1" else inner) if p)
            for name, origin in sources.names(module).items():
                if origin.name and not name.startswith("_") and name not in _NOISE:
                    found[f"{path}.{name}".lstrip(".")] = origin
    for module in sources.packages:
        if re.fullmatch(r"tensorflow\.contrib(\.\w+)+", module) and ".python" not in module:
            path = module.removeprefix("tensorflow.")
            for name, origin in sources.documented_names(module).items():
                if origin.name and name not in _NOISE and not _LEFT_OUT.search(module):
                    found.setdefault(f"{path}.{name}", origin)
    return found


def names_of_2(sources: Sources) -> dict[Name, str]:
    """Where a name of TensorFlow 2's interface is defined, to that name."""
    found: dict[Name, str] = {}
    for module in sources.modules:
        if module == _FACADE_OF_2 or module.startswith(f"{_FACADE_OF_2}."):
            inner = module[len(_FACADE_OF_2) + 1 :]
            for name, origin in sources.names(module).items():
                if origin.name and not name.startswith("_"):
                    found.setdefault(origin, f"{inner}.{name}".lstrip("."))
    return found


def _parameters(statement: ast.stmt | None) -> list[str] | None:
    if isinstance(statement, ast.ClassDef):
        for each in statement.body:
            if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                return _parameters(each)
        return None
    if not isinstance(statement, ast.FunctionDef):
        return None
    given = statement.args
    return [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def tree(sources: Sources) -> list[str]:
    """The lines of the record."""
    public = public_names(sources)
    by_origin: dict[Name, list[str]] = defaultdict(list)
    for name, origin in public.items():
        by_origin[origin].append(name)
    best = {origin: min(names, key=_rank) for origin, names in by_origin.items()}
    for origin, name in names_of_2(sources).items():
        # TensorFlow 2's function stands for 1's where it takes the same arguments in order.
        if origin in best or name not in public:
            continue
        theirs = _parameters(sources.definitions.get((origin.module, origin.name)))
        first = public[name]
        ours = _parameters(sources.definitions.get((first.module, first.name)))
        if theirs is not None and ours is not None and ours[: len(theirs)] == theirs:
            best[origin] = name
    lines = []
    for module in sources.modules:
        path = module.removeprefix("tensorflow.").replace("tensorflow_estimator.", "estimator::")
        if _LEFT_OUT.search(module) or not path.startswith(("python", "contrib", "core", "tools")):
            continue
        found = []
        for name, origin in sorted(sources.names(module).items()):
            if origin in best and not best[origin].startswith("raw_ops."):
                found.append(name if best[origin] == name else f"{name}={best[origin]}")
        generated = [s for s in sources.star_imports(module) if _GENERATED.fullmatch(s)]
        found += [f"*{each.removeprefix('tensorflow.')}" for each in generated]
        if found or module in sources.packages:
            lines.append(" ".join((path, *found)))
    return lines


def generated_ops(sources: Sources) -> list[str]:
    """The functions of ops: ``gen_math_ops sum Sum input axis:reduction_indices keep_dims?``.

    A parameter is followed by the op's own name of it where that differs, and by ``?`` where it
    has a default, which is the op's.
    """
    lines = []
    for module in filter(_GENERATED.fullmatch, sources.modules):
        for name in sorted(sources.names(module)):
            function = sources.definitions.get((module, name))
            if not isinstance(function, ast.FunctionDef) or name.endswith("_eager_fallback"):
                continue
            call = next((c for c in ast.walk(function) if _is_helper_call(c)), None)
            if call is None:
                continue
            renamed = {k.value.id: k.arg for k in call.keywords if isinstance(k.value, ast.Name)}
            given = function.args.args
            required = len(given) - len(function.args.defaults)
            words = []
            for i, parameter in enumerate(a.arg for a in given if a.arg != "name"):
                own = renamed.get(parameter, parameter)
                words.append(
                    parameter + (f":{own}" if own != parameter else "") + "?" * (i >= required)
                )
            lines.append(
                " ".join((module.removeprefix("tensorflow."), name, call.args[0].value, *words))
            )
    return lines


def _is_helper_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "_apply_op_helper"


def _rank(name: str) -> tuple[bool, int, str]:
    """``tf.x`` before ``tf.math.x``; what came later offers what was there before it."""
    return name.startswith(("contrib", "estimator", "keras")), name.count("."), name


if __name__ == "__main__":
    found = Sources(Path(sys.argv[1]))
    TREE.write_text("\n".join(tree(found)) + "\n")
    GENERATED.write_text("\n".join(generated_ops(found)) + "\n")
    NAMES.write_text("".join(f"tf.{name}\n" for name in sorted(public_names(found))))
