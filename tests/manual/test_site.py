"""The site: links and anchors that lead nowhere end its build, and it asks the network for nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.manual.test_sentences import pages
from tests.node.browser import CHROMIUM, browse

ROOT = Path(__file__).parents[2]
MKDOCS = Path(os.environ.get("MKDOCS", ROOT / ".venv-manual/bin/mkdocs"))
pytestmark = pytest.mark.skipif(not MKDOCS.exists(), reason="no mkdocs here: `make manual` installs it")
#: What a page loads when it is opened: scripts, styles, pictures, fonts.
_LOADED = re.compile(r"<(?:script|img|iframe)[^>]*\bsrc=\"?([^\s\">]+)|<link[^>]*\bhref=\"?([^\s\">]+)")


def build(to: Path, of: Path = ROOT / "docs") -> subprocess.CompletedProcess[str]:
    """`mkdocs build --strict` of a folder of pages, by the manual's own configuration."""
    configuration = to.parent / "mkdocs.yml"
    configuration.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {of}\nsite_dir: {to}\n")
    argv = [str(MKDOCS), "build", "--strict", "--config-file", str(configuration)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120, env=env)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("manual") / "site"
    done = build(to)
    assert done.returncode == 0, done.stderr
    return to


def test_every_page_of_docs_is_in_the_site_and_in_its_navigation(site: Path) -> None:
    configuration = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    named = set(re.findall(r"[\w/-]+\.md", json.dumps(configuration["nav"])))
    pages = {str(each.relative_to(ROOT / "docs")) for each in (ROOT / "docs").rglob("*.md")}
    assert named == {each for each in pages if not each.startswith("gpu/runs/")}
    for name in named:
        assert (site / name.replace("README.md", "index.md")).with_suffix(".html").stat().st_size > 5000, name


def test_nothing_that_a_page_loads_comes_from_elsewhere(site: Path) -> None:
    pages = [each for each in site.rglob("*.html") if "runs" not in each.parts]
    assert len(pages) > 20
    for page in pages:
        for found in _LOADED.finditer(page.read_text()):
            address = found[1] or found[2]
            assert not re.match(r"(?:https?:)?//", address), f"{page.name} loads {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text()), style.name


def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path) -> None:
    links = ("nowhere.md", "proxy.md#nowhere", "#nowhere")
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "index.md").write_text("# One\n" + "".join(f"\n[gone]({link})\n" for link in links))
    (pages / "proxy.md").write_text("# Two\n")
    configuration = tmp_path / "mkdocs.yml"
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[0]
    text += "\nnav: [index.md, proxy.md]\n"
    text = text.replace("docs_dir: docs", f"docs_dir: {pages}").replace("site_dir: site", f"site_dir: {tmp_path}/site")
    configuration.write_text(text)
    argv = [str(MKDOCS), "build", "--strict", "--config-file", str(configuration)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    # Each is told, and is one of those for which it ends.
    assert all(f"'{link}'" in done.stderr for link in links) and "Aborted with 3 warnings" in done.stdout


def test_search_knows_where_a_knob_is(site: Path) -> None:
    entries = json.loads((site / "search/search_index.json").read_text())["docs"]
    assert any(
        each["location"].startswith("knobs.html#") for each in entries if "proxy_vrid" in each["text"] + each["title"]
    )


def test_what_the_readme_points_at_is_there() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 100
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("https://")]
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link.partition("#")[0]).is_file()] == []


def test_the_readme_s_anchors_are_headings() -> None:
    for page, anchor in re.findall(r"\]\(([^)#]+)#([^)]+)\)", (ROOT / "README.md").read_text()):
        headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.M)
        assert anchor in {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}, (page, anchor)


@pytest.mark.parametrize("name", pages())
def test_a_link_is_named_by_what_it_says(name: str) -> None:
    assert re.findall(r"\[[\w/-]+\.md\]\(", (ROOT / "docs" / name).read_text()) == []


@pytest.mark.skipif(not CHROMIUM, reason="no chromium is here")
def test_search_finds_a_knob_in_a_site_that_is_opened_as_a_file(site: Path, tmp_path: Path) -> None:
    dom = browse(tmp_path, "--dump-dom", f"{(site / 'index.html').as_uri()}?q=proxy_vrid", seconds=8)
    found = re.findall(r'<a href="([^"]*)" class="md-search-result__link"', dom)
    assert any(each.endswith("/knobs.html#proxy_vrid") for each in found), found


@pytest.mark.skipif(not CHROMIUM, reason="no chromium is here")
def test_a_row_of_a_wide_table_names_its_columns(site: Path, tmp_path: Path) -> None:
    """For a phone, where the rows lie one below the other (assets/manual.css)."""
    dom = browse(tmp_path, "--dump-dom", (site / "recipes.html").as_uri())
    assert "<table data-many" in dom and 'data-label="GiB free"' in dom
    assert "data-many" not in browse(tmp_path, "--dump-dom", (site / "words.html").as_uri())


def test_no_code_in_a_table_has_a_backslash_that_a_reader_would_copy() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        rows = [line for line in page.read_text().splitlines() if line.startswith("|")]
        assert [row for row in rows if re.search(r"`[^`]*\\\|[^`]*`", row)] == [], page.name
