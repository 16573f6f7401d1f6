"""What the distribution is called, and that nothing sends people to somebody else's package."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The import name as a requirement: alone behind `pip install`, or with extras.
_FOREIGN = re.compile(r"pip3? install[^\n]*?[\s'\"]millrace(?![\w/.-])|\bmillrace\[\w")


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_distribution_has_a_name_of_its_own():
    assert project()["name"] == "millrace-tf"


def test_nothing_tells_to_install_the_package_that_has_the_import_name_in_the_registry():
    assert _FOREIGN.search("pip install 'mill" + "race[zookeeper]'")
    assert _FOREIGN.search("python -m pip install -U mill" + "race")
    assert not _FOREIGN.search("pip install -e .[test]; pip install millrace-tf")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    names = [name for name in listed.stdout.split("\0") if name]
    if not names:  # an unpacked archive
        names = [str(path.relative_to(ROOT)) for path in ROOT.glob("*/**/*") if path.is_file()]
    found = []
    for name in names:
        try:
            text = (ROOT / name).read_text()
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        found += [f"{name}: {match.group()}" for match in _FOREIGN.finditer(text)]
    assert found == []
