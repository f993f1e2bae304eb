"""The tree keeps its promises: CI runs everything, requirements are complete, no registry is named."""

import importlib
import inspect
import os
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ("requirements.txt", "requirements-dev.txt")
REGISTRIES = ("pypi" + ".org", "files.python" + "hosted")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def tracked_files() -> list[Path]:
    """What git tracks or would track; outside a clone (a source archive) there is nothing to say."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listing.returncode != 0:
        pytest.skip("not a git clone")
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def makefile_commands() -> set[str]:
    text = (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin")
    return {line.strip() for line in text.splitlines() if line.startswith("\t")}


def requirement_entries(name: str) -> list[str]:
    """Each requirement with its continuation lines, comments left out."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.lstrip().startswith("#")]
    return [entry for entry in re.split(r"\n(?=\S)", "\n".join(lines)) if entry.strip()]


def test_ci_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text().splitlines() if not line.startswith("#")]
    assert any(re.search(r"\bmake\b.*\btest\b", line) for line in commands)


def test_make_test_runs_every_check() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^test: lint\b", makefile, re.MULTILINE)
    for tool in ("ruff check .", "ruff format --check .", "mypy", "lint-imports", "pytest -n 2 --dist worksteal"):
        assert f".venv/bin/{tool}" in makefile_commands()


def test_pre_commit_runs_what_ci_runs() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    entries = set(re.findall(r"entry: (.+)", text))
    checks = {command for command in makefile_commands() if command.startswith(".venv/bin/")}
    tools = ("ruff", "mypy", "lint-imports")
    assert entries == {c for c in checks if Path(c.split()[0]).name in tools} | {".venv/bin/pytest -n 2"}
    assert set(re.findall(r"repo: (.+)", text)) == {"local"}


def test_no_tracked_file_names_a_package_registry() -> None:
    for path in tracked_files():
        content = path.read_bytes()
        for host in REGISTRIES:
            assert host.encode() not in content, f"{path.relative_to(ROOT)} names {host}"


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_requirement_is_pinned_and_hashed(name: str) -> None:
    entries = requirement_entries(name)
    assert len(entries) > 20
    for entry in entries:
        assert re.match(r"[a-z0-9-]+==\S+", entry), entry
        assert HASH.search(entry), entry


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_requirements_name_no_place(name: str) -> None:
    """A pin, a hash or a remark: no address, no option that leads to one."""
    for line in (ROOT / name).read_text().splitlines():
        pin = re.fullmatch(r"[a-z0-9-]+==[\w.+-]+( ; [^\\]+)? \\", line)
        assert pin or re.fullmatch(r"    (--hash=sha256:[0-9a-f]{64}( \\)?|# [^:/]+)", line), line


def test_development_requirements_contain_the_runtime_ones() -> None:
    runtime, development = (set(requirement_entries(name)) for name in REQUIREMENTS)
    assert runtime <= development


def test_every_dependency_is_pinned() -> None:
    declared = project()["project"]
    extras = declared["optional-dependencies"]
    (own,) = [dependency for dependency in extras["dev"] if dependency.startswith("pgsom[")]
    tested = [*own.removeprefix("pgsom[").removesuffix("]").split(","), "dev"]
    dependencies = [*declared["dependencies"], *(d for name in tested for d in extras[name] if d != own)]
    pinned = {entry.split("==")[0] for entry in requirement_entries("requirements-dev.txt")}
    assert {re.split(r"[<>=]", dependency)[0].lower() for dependency in dependencies} <= pinned


def test_the_installed_versions_are_the_pinned_ones() -> None:
    pins = dict(entry.split()[0].split("==") for entry in requirement_entries("requirements.txt"))
    for name in ("jax", "jaxlib", "numpy", "optax", "gymnax"):
        assert metadata.version(name) == pins[name]


def test_every_test_file_is_collected() -> None:
    """A file with tests in it is under `testpaths`, named so that pytest finds it, and not filtered away."""
    options = project()["tool"]["pytest"]["ini_options"]
    assert "tests" in options["testpaths"] and "src" in options["testpaths"]
    assert not {"norecursedirs", "python_files", "python_functions", "collect_ignore"} & options.keys()
    hidden_folders = {"build", "dist", "venv", "node_modules"}
    for path in tracked_files():
        if path.suffix != ".py":
            continue
        inside = path.relative_to(ROOT)
        if re.search(r"^(?:    )?def test_", path.read_text(), re.MULTILINE):
            assert inside.parts[0] == "tests", f"{inside} has tests, and CI does not look there"
            assert path.name.startswith("test_"), f"{inside} has tests, and pytest does not know its name"
            assert not any(part in hidden_folders or part.startswith(".") for part in inside.parts[:-1])


def test_only_slow_tests_are_left_out() -> None:
    options = project()["tool"]["pytest"]["ini_options"]
    addopts = options["addopts"]
    assert addopts[addopts.index("-m") + 1] == "not slow"
    assert not [option for option in addopts if option.startswith(("--ignore", "--deselect", "-k"))]
    assert "XLA_FLAGS= .venv/bin/pytest -n 2 -m slow" in makefile_commands()


def public_names() -> list[str]:
    return list(getattr(importlib.import_module("pgsom"), "__all__", ()))


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_says_what_it_is(name: str) -> None:
    value = getattr(importlib.import_module("pgsom"), name)
    if inspect.ismodule(value) or inspect.isclass(value) or callable(value):
        assert (inspect.getdoc(value) or "").strip(), f"pgsom.{name} has no docstring"


def test_the_package_ships_its_types() -> None:
    assert (ROOT / "src" / "pgsom" / "py.typed").is_file()


def test_the_version_is_said_once() -> None:
    version = project()["project"]["version"]
    assert metadata.version("pgsom") == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
