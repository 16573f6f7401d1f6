"""What `make release` does around the checks and tests: look, build, tag.

release.py check   the tree is clean, the changelog has a dated section for the version, and
                   the tag is not taken
release.py build   sdists and wheels of millrace-tf and millrace-tf-mnist in dist/, looked into
release.py tag     an annotated tag v<version> with the changelog's section; nothing is pushed
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"


def version() -> str:
    """The version that the package states."""
    text = (ROOT / "millrace" / "platform" / "version.py").read_text()
    found = re.search(r'^MILLRACE = "(.+)"$', text, re.MULTILINE)
    if found is None:
        sys.exit("millrace/platform/version.py states no MILLRACE")
    return found.group(1)


def section(changelog: str, number: str) -> str:
    """The changelog's section of a version, without its heading; empty if there is none."""
    heading = rf"^## {re.escape(number)} \((\d{{4}}-\d\d-\d\d)\)\n"
    found = re.search(rf"{heading}(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found.group(2).strip() if found else ""


def _unreleased(changelog: str) -> str:
    found = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return "\n" + found.group(1) if found else ""


def problems(status: str, changelog: str, tags: list[str], number: str) -> list[str]:
    """Why a version cannot be released now, a sentence each.

    Args:
      status: What `git status --porcelain` prints.
      changelog: CHANGELOG.md.
      tags: The tags that there are.
      number: The version.
    """
    found = []
    if status.strip():
        found.append(f"The tree has changes that are not committed:\n{status.rstrip()}")
    if not section(changelog, number):
        found.append(f"CHANGELOG.md has no entries under `## {number} (YYYY-MM-DD)`.")
    if "\n- " in _unreleased(changelog):
        found.append(f"CHANGELOG.md has entries under Unreleased: move them under {number}.")
    if f"v{number}" in tags:
        found.append(f"The tag v{number} is taken: state the next version in version.py.")
    return found


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout


def check() -> None:
    """Ends with what is wrong, if anything is."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    found = problems(_git("status", "--porcelain"), changelog, _git("tag").split(), version())
    if found:
        sys.exit("\n".join(found))


#: Of the wheel, which has code only: 2.2 MB now. Data are in distributions of their own.
MAX_WHEEL_BYTES = 2_500_000
MNIST = ROOT / "packages" / "mnist"


def build() -> None:
    """Builds into dist/, and ends if a file lacks what it must have, or has more."""
    shutil.rmtree(DIST, ignore_errors=True)
    for folder in (ROOT, MNIST):
        command = [sys.executable, "-m", "build", "--outdir", str(DIST)]
        subprocess.run(command, cwd=folder, check=True)
    (wheel,) = DIST.glob("millrace_tf-*.whl")
    (mnist,) = DIST.glob("millrace_tf_mnist-*.whl")
    (sdist,) = DIST.glob("millrace_tf-*.tar.gz")
    if not wheel.name.startswith(f"millrace_tf-{version()}-"):
        sys.exit(f"{wheel.name} is not millrace_tf {version()}")
    names = zipfile.ZipFile(wheel).namelist()
    _must_have(wheel, names, "millrace/__init__.py", "millrace/py.typed")
    strangers = sorted({n.split("/")[0] for n in names} - {"millrace"})
    if any(not name.endswith(".dist-info") for name in strangers):
        sys.exit(f"{wheel.name} has more than the package: {', '.join(strangers)}")
    if (size := wheel.stat().st_size) > MAX_WHEEL_BYTES:
        sys.exit(f"{wheel.name} has {size} bytes, more than {MAX_WHEEL_BYTES}")
    pictures = "millrace_mnist/train-images-idx3-ubyte.gz"
    _must_have(mnist, zipfile.ZipFile(mnist).namelist(), pictures)
    with tarfile.open(sdist) as archive:
        members = [name.partition("/")[2] for name in archive.getnames()]
    _must_have(sdist, members, "docs/getting-started.md", "examples/demo.py", "Makefile")


def _must_have(file: Path, names: list[str], *needed: str) -> None:
    for name in needed:
        if name not in names:
            sys.exit(f"{file.name} lacks {name}")


def tag() -> None:
    """Tags HEAD."""
    text = section((ROOT / "CHANGELOG.md").read_text(), version())
    message = f"Millrace {version()}\n\n{text}"
    _git("tag", "--annotate", f"v{version()}", "--cleanup=verbatim", "--message", message)
    print(f"Tagged v{version()}. To publish: git push origin v{version()}; dist/ has the files.")


if __name__ == "__main__":
    {"check": check, "build": build, "tag": tag}[sys.argv[1]]()
