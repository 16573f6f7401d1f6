"""Writes the tables of passes, stages and modules into docs/architecture.md, from the code.

python docs/tools/pass_tables.py            # writes them
python docs/tools/pass_tables.py --check    # fails if they are not what the code says
"""

from __future__ import annotations

import argparse
import ast
import pathlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
sys.path.insert(0, str(ROOT))

from millrace.passes import pipeline  # noqa: E402
from millrace.runtime import stages  # noqa: E402


def table_of_passes(passes: Iterable[Callable[..., object]]) -> Iterator[str]:
    """A row per pass: its name, what it does, and where it is."""
    yield "| pass | what it does | in |"
    yield "| --- | --- | --- |"
    for each in passes:
        does = (each.__doc__ or "").strip().splitlines()[0]
        place = each.__module__.removeprefix("millrace.").replace(".", "/") + ".py"
        yield f"| `{each.__name__}` | {does} | `{place}` |"


def table_of_stages() -> Iterator[str]:
    """A row per kind of group: what it is, and the stage that it becomes."""
    yield "| a group of nodes that is | becomes |"
    yield "| --- | --- |"
    for row in stages.TABLE:
        # What a row makes is in the code that makes it: the first name that it calls.
        made = [name for name in row.make.__code__.co_names if name in MAKERS]
        yield f"| {row.what} | {MAKERS[made[0]] if made else 'nothing'} |"


#: The folders whose modules are listed, in the order in which a step passes through them.
FOLDERS = ("passes", "protocol", "runtime", "rpc", "server")


def table_of_modules() -> Iterator[str]:
    """A row per module: its name, and the first sentence that it says of itself."""
    yield "| module | role |"
    yield "| --- | --- |"
    for folder in FOLDERS:
        for path in sorted((ROOT / "millrace" / folder).rglob("*.py")):
            if path.name != "__init__.py":
                says = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0]
                name = path.relative_to(ROOT / "millrace")
                yield f"| `{name}` | {' '.join(says.split())} |"


#: The stages, by what makes them.
MAKERS = {
    "AssignStage": "`AssignStage` (`stages/update.py`)",
    "CountStage": "`CountStage` (`stages/update.py`)",
    "CompiledStage": "`CompiledStage` (`compiled_stage.py`)",
    "RegionStage": "`RegionStage` (`interpreter.py`)",
    "sent_rows": "`SentRowsStage` (`stages/rows.py`)",
    "row_stage": "`TakeStage`, `UpdateStage`, `StitchStage`, `PlainStage` (`stages/rows.py`)",
    "function_stage": "`BranchStage`, `LoopStage` and their gradients (`stages/control.py`)",
    "ReceiveStage": "`ReceiveStage` (`stages/transfer.py`)",
    "SendStage": "`SendStage` (`stages/transfer.py`)",
    "gradients_stage": "`ApplyGradientsStage`, `TakeGradientsStage` (`stages/accumulate.py`)",
    "handle_stage": "`DequeueStage`, `EnqueueManyStage` (`stages/queue.py`), `HandleStage`",
    "HostStage": "`HostStage` (`stages/host.py`)",
}
TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "CLUSTER": lambda: table_of_passes(pipeline.CLUSTER),
    "TASK": lambda: table_of_passes(pipeline.TASK),
    "STAGES": table_of_stages,
    "MODULES": table_of_modules,
}


def with_tables(text: str) -> str:
    """The page with each table between its two marks."""
    for name, rows in TABLES.items():
        first, last = f"<!-- table {name} -->", f"<!-- end of table {name} -->"
        if first not in text or last not in text:
            raise SystemExit(f"{PAGE.name} has no place for the table {name}: {first} … {last}")
        between = re.compile(f"{re.escape(first)}.*?{re.escape(last)}", re.DOTALL)
        table = "\n".join([first, *rows(), last])
        text = between.sub(lambda _, table=table: table, text)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    text = PAGE.read_text()
    wanted = with_tables(text)
    if options.check:
        if wanted != text:
            print(f"The tables of {PAGE.name} are not those of the code. Run `make docs`.")
            return 1
    else:
        PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
