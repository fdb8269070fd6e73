"""The page in a real browser where something else answers than it knows, or other panels are listed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from operations.paths import PAGE
from tests.node.browser import CHROMIUM, Door, browse, text_of
from tests.node.page_doubles import KEY, Exporter, Page
from tests.node.shipped import FILES, part
from tests.plan.samples import plan
from tests.support.serving import Quiet, Server

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no chromium is here")
asking, nodes, states = (part("page", name) for name in ("asking", "nodes", "state"))
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
Answer = tuple[int, str, str]


class Served(Server):
    """The page's own files; what is asked of it as JSON is answered by the test."""

    def __init__(self, answer: Callable[[str], Answer]) -> None:
        self.asked: list[str] = []

        class Handler(Quiet):
            def do_GET(self) -> None:
                name = self.path.partition("?")[0].removeprefix("/tandem/") or "index.html"
                if name.endswith(".json"):
                    served.asked.append(self.path)
                    status, kind, body = answer(self.path)
                else:
                    file = FILES / "page/static" / name
                    status, body = (200, file.read_text()) if file.exists() else (404, "")
                    kind = KINDS.get(name.rpartition(".")[2], "text/plain")
                self.reply(body.encode(), status, kind)

        served = self
        super().__init__(Handler)


def state(*panels: str) -> Answer:
    """Of a node that has never been asked."""
    mine = plan(topology="solo", monitoring="metrics").head.services[PAGE]
    assert mine
    wanted = json.loads(next(file.content for file in mine.files if file.path.endswith("page.json")))
    wanted["panels"] = [{"id": each, "title": each, "unit": "x", "kind": "gauge"} for each in panels]
    heard = [asking.Heard(each["name"], None, None) for each in wanted["nodes"]]
    said = states.state(wanted, heard, nodes.Watch(), {})
    for model in said["models"]:
        model["advice"] = {"sentence": "Nothing is advised."}
    return 200, "application/json", json.dumps({**said, "advice_note": ""})


PLAIN = "text/plain"
ERRORS: dict[str, tuple[Answer, str]] = {
    "another key": ((401, PLAIN, ""), "The key is refused (401): load this page anew, and give the key"),
    "another shape": ((200, "application/json", '{"a": 1}'), "The answer is none that this page knows: load this page"),
    "no JSON": ((200, "text/html", "<html>"), "The answer is none that this page knows: load this page anew"),
    "busy": ((503, PLAIN, "busy\n"), "The answer is an error (503: busy)"),
    "HAProxy's": ((503, "text/html", "<html><body><h1>503</h1>"), "The answer is an error (503)"),
}


@pytest.mark.parametrize(("answer", "words"), ERRORS.values(), ids=[*ERRORS])
def test_an_error_is_told_as_what_it_is(answer: Answer, words: str, tmp_path: Path) -> None:
    served = Served(lambda _: answer)
    text = text_of(browse(tmp_path, "--dump-dom", f"{served.url}/tandem/"))
    served.end()
    assert words in text and "No answer" not in text, text[:300]
    assert "what is below is old" in text and " since 20" in text, text[:300]


#: Panels that are listed in one look after the other, and those whose course is asked for with the first look and the
#: fourth.
LISTS = {
    "the choice stays": ([("door", "memory"), ("tokens_out", "door", "memory")], ["door", "door"]),
    "what is chosen is gone": ([("door", "memory"), ("tokens_out", "memory")], ["door", "tokens_out"]),
    "as it always was": ([("memory", "tokens_out"), ("memory", "tokens_out", "door")], ["tokens_out", "tokens_out"]),
}


@pytest.mark.parametrize(("lists", "wanted"), LISTS.values(), ids=[*LISTS])
def test_which_panel_is_shown_when_others_are_listed(
    lists: list[tuple[str, ...]], wanted: list[str], tmp_path: Path
) -> None:
    looks = []

    def answer(path: str) -> Answer:
        if "state.json" not in path:
            return 400, PLAIN, "no\n"
        looks.append(path)
        return state(*lists[min(len(looks), 2) - 1])

    served = Served(answer)
    browse(tmp_path, "--dump-dom", f"{served.url}/tandem/", seconds=40)
    served.end()
    asked = [path.partition("panel=")[2].partition("&")[0] for path in served.asked if "series.json" in path]
    assert asked[:2] == wanted, served.asked


@pytest.fixture
def tensorrt(tmp_path: Path) -> Iterator[str]:
    exporters = {name: Exporter() for name in ("spark-1", "spark-2")}
    urls = {name: f"http://127.0.0.1:{each.server_port}" for name, each in exporters.items()}
    of = plan(recipe="nemotron-3-super-nvfp4-trtllm", topology="solo", monitoring="metrics")
    page = Page(tmp_path, urls, of=of)
    door = Door(page.url, KEY)
    yield door.url
    door.end()
    page.end()
    for each in exporters.values():
        each.end()


def test_a_plan_of_tensorrt_alone_shows_a_course_from_the_start(tensorrt: str, tmp_path: Path) -> None:
    text = text_of(browse(tmp_path, "--dump-dom", f"{tensorrt}/tandem/"))
    assert "No answer to this" not in text and "Requests at the proxy, requests/s" in text, text
