"""The README's examples run as they stand there, and what the package says of itself is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Box, Web

import gleaner

HERE = Path(__file__).resolve().parents[1]


def examples() -> str:
    """Every block of Python, in lines of their own places, so that an error names the README's line."""
    out, is_code = [], False
    for line in (HERE / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            is_code = line == "```python"
            out.append("")
        else:
            out.append(line if is_code else "")
    return "\n".join(out)


def test_the_examples_run(
    box: Box, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.setenv("GLEANER_URL", box.url)
    monkeypatch.setenv("GLEANER_API_KEY", box.organization("reader"))
    monkeypatch.chdir(tmp_path)
    pages = web.items(12)
    with gleaner.Gleaner(timeout=120) as client:
        client.upload(pages, tags=["spring"], page_type="product")
    code = examples()
    assert code.count("client.") > 15
    exec(compile(code, str(HERE / "README.md"), "exec"), {"pages": pages, "__name__": "readme"})
    printed = capsys.readouterr().out
    for part in ("12 of 12", "Item 1 1.5", "invalid_url jobs[1].url scheme must be http or https", "there is no header webhook-id"):
        assert part in printed, printed
    assert (tmp_path / "prices.parquet").read_bytes()[:4] == b"PAR1"


def test_types_hold_in_the_package_and_in_the_examples(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    # The README's lines are kept, so that an error names its place.
    code = examples().replace("\n", "pages: list[str] = []\n", 1)
    example = tmp_path / "example.py"
    example.write_text(code, encoding="utf-8")
    for arguments in ([], [str(example)]):
        command = [sys.executable, "-m", "mypy", f"--cache-dir={tmp_path}", *arguments]
        loose = ["--allow-untyped-defs", "--allow-untyped-calls"] if arguments else []
        done = subprocess.run(command + loose, cwd=HERE, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_links_lead_somewhere() -> None:
    text = (HERE / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("https://") or (HERE / link).exists(), link


def test_what_is_generated_is_of_this_document() -> None:
    done = subprocess.run([sys.executable, "generate.py", "--check"], cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, f"run python3 generate.py: {done.stdout}"


def test_the_version_is_the_workspaces() -> None:
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8").partition("[workspace.package]")[2]
    assert re.findall(r'^version = "(.+)"$', manifest, re.MULTILINE)[0] == gleaner.__version__


def test_every_exception_is_in_the_readme() -> None:
    text = (HERE / "README.md").read_text(encoding="utf-8")
    names = [name for name in gleaner.__all__ if isinstance(getattr(gleaner, name), type)]
    errors = [name for name in names if issubclass(getattr(gleaner, name), (Exception,)) and name != "GleanerError"]
    assert len(errors) > 15 and not [name for name in errors if f"`{name}`" not in text]


def test_a_wheel_is_built_and_has_everything(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(tmp_path), str(HERE)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    import zipfile

    [wheel] = tmp_path.iterdir()
    assert wheel.name == f"gleaner_client-{gleaner.__version__}-py3-none-any.whl"
    files = set(zipfile.ZipFile(wheel).namelist())
    source = HERE / "src"
    assert {str(path.relative_to(source)) for path in source.rglob("*.py")} | {"gleaner/py.typed"} <= files
