"""The page in a real browser, light, dark and as wide as a phone: what it shows is what state.json says."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.browser import CHROMIUM, Door, browse, faults, pixels, text_of, values
from tests.node.page_doubles import ANEW_S, KEY, LOOK_S, Exporter, Page
from tests.node.test_page_advice import BENCH, BETTER, RUN, handed
from tests.node.two_page import CODER_UP, TwoModels

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no chromium is here")
#: Name, width, height, further flags: Chromium's `--headless` takes no window narrower than 500.
WAYS = [
    ("light", 1100, 2100, []),
    ("dark", 1100, 2100, ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"]),
    ("phone", 390, 3600, []),
]

#: Better than the replicas that serve.
CLUSTER = BETTER | {
    "better": "cluster, mp",
    "source": f"replicas, balanced: own run, {RUN}, 12 users; cluster, mp: own run, {RUN}, 12 users",
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, str, Path]]:
    folder = tmp_path_factory.mktemp("page")
    exporters = {name: Exporter() for name in ("spark-1", "spark-2")}
    exporters["spark-2"].changes = {
        'tandem_source_up{source="engine"}': "0",
        'tandem_rail_carrier{device="enP2p1s0f0np0"}': "0",
        # Frozen, so that the page and state.json are asked about the same.
        'vllm:generation_tokens_total{model_name="nemotron"}': "100",
    }
    page = Page(folder, {name: f"http://127.0.0.1:{each.server_port}" for name, each in exporters.items()})
    door = Door(page.url, KEY)
    page.hand(handed(page.specs["nemotron"], better=CLUSTER))
    time.sleep(2 * LOOK_S)
    yield page, door.url, folder
    door.end()
    page.end()
    for each in exporters.values():
        each.end()


@pytest.fixture(scope="module")
def dom(shown: tuple[Page, str, Path]) -> str:
    """The page as it stands, for what does not change: a browser costs seconds."""
    _, url, folder = shown
    return browse(folder, "--dump-dom", f"{url}/tandem/")


@pytest.fixture(scope="module")
def marked(shown: tuple[Page, str, Path]) -> str:
    """The same as a bookmark with a name and a key opens it."""
    _, url, folder = shown
    return browse(folder, "--dump-dom", f"{url.replace('://', '://any:sk-of-somebody@')}/tandem/")


def test_what_is_shown_is_what_state_json_says(shown: tuple[Page, str, Path]) -> None:
    page, url, folder = shown
    dom = browse(folder, "--dump-dom", f"{url}/tandem/")
    said = page.told("state.json")
    assert 'data-state="told"' in dom and 'class="old"' not in dom
    text = text_of(dom)
    for each in (*said["models"], *said["nodes"]):
        assert each["sentence"] in text, each
    found = values(dom)
    of = dict(found)
    model, nodes = said["models"][0], said["nodes"]
    assert float(of["Requests that run"]) == model["requests_running"] == 6
    assert float(of["Tokens made"].split()[0]) == pytest.approx(model["tokens_out"], rel=0.15)
    assert float(of["Between tokens, p50"].split()[0]) == pytest.approx(model["between_p50"] * 1000, abs=5)
    assert not {"First token, p50", "Power", "Prefix cache hits"} & {*of}
    assert "Not known: Tokens read; First token, p50; First token, p99; Prefix cache hits" in text
    shown_gib = [float(value.split()[0]) for label, value in found if label == "Free memory"]
    assert shown_gib == [round(node["memory_available_bytes"] / 2**30, 1) for node in nodes]
    clocks = [value for label, value in found if label == "Clock"]
    assert clocks == [f"{node['clock_hertz'] / 1e6:.0f} MHz" for node in nodes]
    assert all(words in text for words in ("✕ rail down", "rail up", "▲ problem")), text
    # What a node says is never markup.
    assert "<b>killed" not in dom and "&lt;b&gt;killed" in dom
    assert "u-over" in dom, "the chart was not drawn"


def test_a_bookmark_with_name_and_key_in_it_is_filled_as_well(marked: str) -> None:
    assert 'data-state="told"' in marked


def test_the_last_bench_is_a_table_and_the_advice_a_sentence(shown: tuple[Page, str, Path], dom: str) -> None:
    page, _, _ = shown
    (model,) = page.told("state.json")["models"]
    text = text_of(dom)
    assert model["advice"]["users"] == 10
    for each in (model["advice"]["sentence"], model["advice"]["lengths"], f"Where that is from: {CLUSTER['source']}."):
        assert each in text, each
    assert f"{BENCH['recipe']}, prompts of 1,024 tokens, answers of 128" in text
    (table,) = re.findall(r"<table>.*?</table>", dom)
    assert table.startswith("<table><caption>The last bench, ")
    assert re.findall(r'<th scope="col">(.*?)</th>', table) == ["Setup", "Users", "Tokens a second", "First token, p50"]
    assert re.findall(r'<th scope="row">(.*?)</th>', table) == ["cluster, mp", "replicas, balanced"]
    assert re.findall(r"<td>(.*?)</td>", table) == ["1", "23.8", "460 ms", "12", "1,075", "not known"]


@pytest.mark.parametrize(("name", "width", "height", "flags"), WAYS, ids=[way[0] for way in WAYS])
def test_a_picture_of_it(
    shown: tuple[Page, str, Path], name: str, width: int, height: int, flags: list[str], tmp_path: Path
) -> None:
    _, url, folder = shown
    file = tmp_path / f"page-{name}.png"
    at = f"{url}/frame/{width}/{height}/tandem/" if width < 500 else f"{url}/tandem/"
    browse(folder, *flags, f"--window-size={width},{height}", f"--screenshot={file}", at)
    found = pixels(file)
    assert (found["width"], found["height"]) == (width, height)
    assert (found["light"] > 0.5) == (name != "dark")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, str, Path]]:
    """The page of two models, of which the one beside the cluster's first rank does not answer."""
    folder = tmp_path_factory.mktemp("two")
    made = TwoModels(folder)
    made.page.told("state.json")
    made.exporters["spark-1"].changes |= {CODER_UP: "0"}
    time.sleep(ANEW_S)
    door = Door(made.page.url, KEY)
    yield made.page, door.url, folder
    door.end()
    made.end()


def test_two_models_have_a_card_and_a_line_at_each_of_their_nodes(two: tuple[Page, str, Path]) -> None:
    page, url, folder = two
    dom = browse(folder, "--dump-dom", f"{url}/tandem/")
    said = page.told("state.json")
    text = text_of(dom)
    for each in (*said["models"], *said["nodes"]):
        assert each["sentence"] in text, each
    assert "Models: nemotron, coder." in text and "cluster on spark-1, spark-2" in text and "solo on spark-1" in text
    assert "lab-tiny-llama as coder, solo, on spark-1." in text
    assert [value for label, value in values(dom) if label == "Requests that run"] == ["3", "1"]
    assert text.count("tandem bench measures it, tandem advise computes") == 2 and "<table>" not in dom
    # As code, and not between backticks.
    assert dom.count("<code>tandem bench</code>") == 2 and "`" not in text
    assert [each for each in values(dom) if each[0].startswith("KV cache")] == [
        ("KV cache of nemotron", "25 %"),
        ("KV cache of coder", "50 %"),
    ]
    assert "Not known: KV cache of nemotron; " in text
    boxes = [text_of(box) for box in re.findall(r"<g [^>]*>(.*?)</g>", dom)]
    # Neither is told by its colour: each has a shape and words.
    assert boxes == [
        "◐ Proxy ● nemotron, cluster ✕ coder, solo",
        "spark-1 ▲ problem nemotron: answers coder: is silent",
        "spark-2 ● ok nemotron: a rank",
    ]


@pytest.mark.parametrize(("name", "width", "height", "flags"), WAYS, ids=[way[0] for way in WAYS])
def test_a_picture_of_two_models_is_as_wide_as_its_window(
    two: tuple[Page, str, Path], name: str, width: int, height: int, flags: list[str], tmp_path: Path
) -> None:
    _, url, folder = two
    file = tmp_path / f"two-{name}.png"
    at = f"{url}/frame/{width}/{height}/tandem/" if width < 500 else f"{url}/tandem/"
    browse(folder, *flags, f"--window-size={width},{height}", f"--screenshot={file}", at)
    assert (pixels(file)["light"] > 0.5) == (name != "dark")
    if keep := os.environ.get("TWO_PICTURES"):
        Path(keep, file.name).write_bytes(file.read_bytes())


def test_its_words_are_those_of_the_manual(dom: str) -> None:
    text = text_of(dom)
    for heading in ("Overview", "Nodes", "Charts", "Advice", "Events", "Proxy", "Free memory"):
        assert heading in text, heading
    for word in ("door", "ourse", "hangs together", "to be had"):
        assert word not in text, word


def test_the_address_for_apps_is_the_page_s_own_with_a_button(shown: tuple[Page, str, Path], marked: str) -> None:
    _, url, _ = shown
    # No name and no key of a bookmark are in it.
    assert re.search(r'<code id="url">([^<]*)</code>', marked)[1] == f"{url}/v1"  # type: ignore[index]
    assert '<button id="copy" type="button">Copy</button>' in marked


def test_every_time_is_the_node_s_with_24_hours(shown: tuple[Page, str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    page, url, folder = shown
    (event, *_) = page.told("events.json")["events"]
    # A browser five hours and more away.
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    dom = browse(folder, "--dump-dom", f"{url}/tandem/")
    time_shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event["when"]))
    assert f">{time_shown}</time>" in dom, re.findall(r"<time.*?</time>", dom)
    assert not re.search(r"\d:\d\d ?[ap]m|\d/\d\d/\d\d", text_of(dom))


def test_a_rail_without_a_link_has_no_speed(dom: str) -> None:
    rails = [value for label, value in values(dom) if "Rail" in label]
    assert rails.count("no link") == 1 and "no link," not in " ".join(rails), rails


#: In axe-core's place: a hand that clicks, and what is said and marked then.
CLICKS = b"""window.axe = {run: async (inside) => {
  inside.getElementById("copy").click();
  await new Promise((resolve) => setTimeout(resolve, 200));
  const said = `${inside.getElementById("copied").textContent} ${inside.getSelection()}`;
  return {passes: Array(6), violations: [{id: said, impact: "", nodes: []}]};
}};"""


def test_the_button_copies_the_address_or_marks_it_and_says_how(shown: tuple[Page, str, Path], tmp_path: Path) -> None:
    page, _, _ = shown
    door = Door(page.url, KEY, CLICKS)
    (said,) = faults(door, tmp_path, "tandem/")
    door.end()
    assert re.fullmatch(rf"(Copied\.|Marked: copy it with Ctrl-C\.) {re.escape(door.url)}/v1", said["id"]), said
