"""The pages of docs/ are all found from its index, and the reference has each public name."""

import pathlib
import re

import framefuse
import pytest

pytestmark = pytest.mark.compiles_nothing("reads pages")

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def test_the_index_has_each_page():
    listed = set(re.findall(r"^([a-z_]+)$", (DOCS / "index.md").read_text(), re.MULTILINE))
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    assert listed == pages


def test_the_reference_has_each_public_name():
    listed = set(re.findall(r"auto(?:function|class|exception|data):: (\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE))
    assert listed == set(framefuse.__all__) - {"config"}
    assert "framefuse._config.Config" in (DOCS / "settings.md").read_text()


def test_links_between_pages_lead_somewhere():
    for page in [DOCS.parent / "README.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_tests_that_a_page_names_are_there():
    tests = DOCS.parent / "tests"
    named = {(page.name, *name) for page in DOCS.rglob("*.md") for name in re.findall(r"`(test_\w+\.py)::(\w+)`", page.read_text())}
    assert len(named) > 30
    for page, file, name in sorted(named):
        texts = [path.read_text() for path in tests.rglob(file)]
        assert any(f"def {name}(" in text for text in texts), f"{page} names {file}::{name}"
