"""The gate of answers against the real llama-server, whose model writes noise: what is healthy holds in form, and what
its flags break is found.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from operations.node.engine import answering
from operations.plan.answers import gate
from operations.plan.answers.shapes import Seen, subject
from operations.plan.recipes.recipe import Flag
from operations.wire.answers import Row
from tests.lab import gguf
from tests.node.llama_server import PROGRAM, RECIPE, running

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason=f"no llama-server here: `make llama-server` unpacks Debian's into {PROGRAM.parent}"
)


#: A template that shows the last message alone.
FORGETFUL = "<|user|>{{ messages[-1].content }}</s><|assistant|>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("gguf")
    gguf.write(place)
    return place


def proven(folder: Path, flags: dict[str, str]) -> dict[str, Row]:
    """The rows by their names, of an engine with the recipe's flags and these."""
    further = tuple(Flag(name=name, words=(f"--{name}", *([said] if said else []))) for name, said in flags.items())
    recipe = RECIPE.model_copy(update={"flags": (*RECIPE.flags, *further)})
    # The long text is as long as the context allows, and a CPU reads it.
    seen = Seen(replace(subject(recipe), context=2048))
    with running(folder, ["tiny-llama-F32.gguf"], recipe.flag_argv) as server:
        while asked := gate.next_asked(seen):
            seen.answers |= answering.send(f"{server.url}/v1", "", asked)
    return {each["name"]: each for each in gate.table(seen)}


def failing(rows: dict[str, Row]) -> dict[str, str]:
    return {name: row["why"] for name, row in rows.items() if row["verdict"] == gate.FAILS}


def test_what_is_healthy_holds(folder: Path) -> None:
    rows = proven(folder, {})
    assert failing(rows) == {}
    held = {name for name, row in rows.items() if row["verdict"] == gate.HOLDS}
    assert {"answer", "stream", "limit", "stop", "stop-stream", "system", "turns", "long", "tags"} <= held
    assert {"message", "message-stream", "message-stop", "message-count", "schema", "logprobs"} <= held
    assert rows["tool"]["why"] == "the recipe has no jinja, and promises no calls"


def test_a_template_that_forgets_and_knows_no_tools_is_found(folder: Path) -> None:
    template = folder / "forgetful.jinja"
    template.write_text(FORGETFUL)
    wrong = failing(proven(folder, {"jinja": "", "chat-template-file": str(template)}))
    # A system's message that its template does not show llama-server puts before the user's itself.
    assert set(wrong) == {"turns", "tools"}
    assert all("it is left out" in why for why in wrong.values())
