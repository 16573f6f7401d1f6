"""What the distribution is called, and that nothing sends people to somebody else's package."""

from __future__ import annotations

import re
import runpy
import subprocess
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
#: The import name as a requirement: alone behind `pip install`, or with extras.
_FOREIGN = re.compile(r"pip3? install[^\n]*?[\s'\"]millrace(?![\w/.-])|\bmillrace\[\w")


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_distribution_has_a_name_of_its_own():
    assert project()["name"] == "millrace-tf"


def test_nothing_tells_to_install_the_package_that_has_the_import_name_in_the_registry():
    name = "millrace"
    assert _FOREIGN.search(f"pip install '{name}[zookeeper]'")
    assert _FOREIGN.search(f"python -m pip install -U {name}")
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


def test_the_package_is_described_for_the_registry():
    described = project()
    assert described["readme"] == "README.md"
    assert {"Homepage", "Documentation", "Changelog"} <= set(described["urls"])
    assert all(url.startswith("https://") for url in described["urls"].values())


def test_mnist_is_a_distribution_of_its_own_and_an_extra():
    own = tomllib.loads((ROOT / "packages/mnist/pyproject.toml").read_text())["project"]
    assert project()["optional-dependencies"]["mnist"] == [own["name"]]
    assert not list((ROOT / "millrace").rglob("*.gz"))


def test_make_demo_installs_what_runs_and_nothing_that_only_tests_need():
    dry = subprocess.run(
        ["make", "-n", "demo", "VENV=no-such-environment"], cwd=ROOT, capture_output=True, text=True
    )
    installs = [line for line in dry.stdout.splitlines() if "pip install" in line]
    assert [line.split("--editable ")[1] for line in installs] == ["."]
    assert "-q" not in installs[0]


RELEASE = runpy.run_path(str(ROOT / ".ci" / "release.py"))
READY = """# Changelog

## Unreleased

## 1.2.3 (2026-01-31)

- A change.

## 1.2.2 (2026-01-01)
"""


def test_a_version_that_is_ready_can_be_released():
    assert RELEASE["problems"]("", READY, ["v1.2.2"], "1.2.3") == []
    assert RELEASE["section"](READY, "1.2.3") == "- A change."


def test_what_is_not_ready_is_told_before_anything_is_done():
    def told(status="", changelog=READY, tags=(), number="1.2.3"):
        (found,) = RELEASE["problems"](status, changelog, list(tags), number)
        return found

    assert "not committed:\n M README.md" in told(status=" M README.md\n")
    assert "## 1.2.4 (YYYY-MM-DD)" in told(number="1.2.4")
    assert "v1.2.3 is taken" in told(tags=["v1.2.3"])
    assert "## 1.2.3 (YYYY-MM-DD)" in told(changelog=READY.replace(" (2026-01-31)", ""))
    late = READY.replace("## Unreleased\n", "## Unreleased\n\n- A late change.\n")
    assert "move them under 1.2.3" in told(changelog=late)


def test_the_changelog_has_a_dated_section_of_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert RELEASE["section"](changelog, RELEASE["version"]()).startswith("Graphs")
    assert changelog.index("## Unreleased") < changelog.index(f"## {RELEASE['version']()}")


def test_supported_pythons_are_the_same_in_the_package_and_the_workflow():
    named = [c.rpartition(" ")[2] for c in project()["classifiers"] if "Python :: 3." in c]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    run = workflow["jobs"]["run"]
    assert run["strategy"]["matrix"]["python"] == named
    assert any(step.get("run") == ".ci/run" for step in run["steps"])
    assert project()["requires-python"] == f">={named[0]}"


def test_hooks_before_a_commit_are_the_checks_of_make_check():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = {hook["id"] for repo in config["repos"] for hook in repo["hooks"]}
    assert hooks == {"ruff-check", "ruff-format", "mypy", "import-linter"}
    for repo in config["repos"]:
        for hook in repo["hooks"]:
            assert hook["entry"].startswith(".venv/bin/")
