"""The report as a browser shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from bench.report.__main__ import main
from bench.report.series import MAIN
from tests.benchmark_report.browser import DARK, LIGHT, looked_at, needs_browser, picture
from tests.benchmark_report.made_up import made_up_run


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    made_up_run(folder / "before")
    made_up_run(folder / "after", slower=1.1, seed=8, why_not="out of memory")
    assert main({"RUN": str(folder / "after"), "AGAINST": str(folder / "before")}) == 0
    return folder / "after/report-before/report.html"


@needs_browser
@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_has_to_be_scrolled_sideways(page: Path, tmp_path: Path, width: int) -> None:
    seen = looked_at(page, tmp_path, width)
    assert seen["wide"] <= seen["seen"] <= width
    assert seen["plots"] == len(MAIN) and 250 < seen["plot"] <= width
    assert seen["tables"] > 15 and "For the first token soonest" in seen["say"]
    # The answer and a row for each number of users are seen before anything is scrolled.
    # Beside another run it says first what changed.
    assert seen["answer"].startswith("Whole answers against before: ") and ". Run " in seen["answer"]
    assert seen["verdict"] == 7 and (width < 600 or seen["below"] < 900)


@needs_browser
def test_light_and_dark(page: Path, tmp_path: Path) -> None:
    light, dark = looked_at(page, tmp_path, 800, LIGHT), looked_at(page, tmp_path, 800, DARK)
    assert light["page"] == "rgb(255, 255, 255)" and dark["page"] == "rgb(21, 24, 28)"
    for seen in (light, dark):
        assert seen["plot_text"] == seen["text"]
        assert _contrast(seen["text"], seen["page"]) > 7


@needs_browser
def test_a_picture_has_lines_of_every_colour_on_the_page_s_own_ground(page: Path, tmp_path: Path) -> None:
    for scheme, ground in ((LIGHT, (255, 255, 255)), (DARK, (21, 24, 28))):
        image = Image.open(picture(page, tmp_path, scheme, "1000,4000")).convert("RGB")
        colours = {colour: count for count, colour in image.getcolors(maxcolors=1 << 24) or []}
        assert max(colours, key=lambda colour: colours[colour]) == ground
        # The cluster's and the replicas' lines; solo did not come up.
        assert colours.get((0xC2, 0x62, 0x0F), 0) > 100 and colours.get((0x0F, 0x90, 0x68), 0) > 100


def test_it_asks_nobody_for_anything(page: Path) -> None:
    text = page.read_text()
    assert not re.search(r"<(script|link|img|iframe|object)\b|@import|url\((?!#)|\b(?:src|xlink:href)=\"(?!#)", text)
    assert "<svg" in text and "<?xml" not in text and "#010203" not in text


@needs_browser
def test_it_loads_nothing(page: Path, tmp_path: Path) -> None:
    assert looked_at(page, tmp_path, 800)["loads"] == []


def test_lines_differ_without_colour(page: Path) -> None:
    """On paper: every setup has a dash pattern and a marker of its own."""
    plot = page.read_text().split("<figure>")[1]
    dashes = set(re.findall(r"stroke-dasharray: ([\d., ]+)", plot))
    markers = set(re.findall(r'<path id="(m[0-9a-f]+)"', plot))
    assert len(dashes) >= 2 and len(markers) >= 4


def _contrast(one: str, other: str) -> float:
    """By WCAG."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
