"""What a recipe needs beside its model: found in every spelling, pinned, placed, or an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from operations.paths import CANARY, LITELLM
from operations.plan.config.refusal import Refusal
from operations.plan.engines import missing_files
from operations.plan.engines.vllm_flags import speculative
from operations.plan.history import restore
from operations.plan.plan import Plan
from operations.plan.recipes import repositories
from operations.plan.recipes.formats import load_file
from operations.plan.recipes.formats.needs import WEIGHTS
from operations.plan.recipes.recipe import Recipe
from operations.plan.wanted import wanted
from tests.plan.samples import engine_of, knob_data, knobs, make_plan, nodes

COMMIT, DRAFT = "a" * 40, "d" * 40
SNAPSHOT = f"/hub/models--org--draft/snapshots/{DRAFT}"
OWN = {
    "name": "own",
    "description": "d",
    "source": "s",
    "engine": "vllm",
    "image": "i",
    "model": {"repo": "org/model", "revision": COMMIT},
    "served_name": "m",
    "topologies": ["solo", "replicas"],
    "load_minutes": 1,
}


def eugr(folder: Path, words: str, **more: Any) -> Recipe:
    """A recipe of eugr's whose command has these words."""
    file = folder / "recipes" / "theirs.yaml"
    file.parent.mkdir(exist_ok=True)
    command = f"vllm serve org/model {words}".replace("{", "{{").replace("}", "}}")
    data = {"recipe_version": "1", "container": "i", "model": "org/model", "command": command}
    file.write_text(yaml.safe_dump(data | more))
    return load_file(file)


def own(folder: Path, **changes: Any) -> Recipe:
    file = folder / "own.yaml"
    file.write_text(yaml.safe_dump(OWN | changes))
    return load_file(file)


def planned(recipe: Recipe) -> Plan:
    model, *further = (each.model_copy(update={"revision": each.revision or DRAFT}) for each in recipe.models)
    recipe = recipe.model_copy(update={"model": model, "further_models": tuple(further)})
    chosen = knobs(topology="solo")
    return make_plan(recipe, chosen, nodes(1, chosen))


def file_of(plan: Plan, name: str) -> str:
    services = (engine_of(plan.head), plan.head.services[LITELLM[0]], plan.head.services[CANARY])
    files = [file for service in services for file in service.files]
    return next(file.content for file in files if file.path.endswith(f"/{name}"))


def errors(recipe: Recipe) -> list[str]:
    return [str(each) for each in recipe.remarks if each.error]


SPELLINGS = [
    ("""--speculative-config '{"method": "eagle3", "model": "org/draft"}'""", "model"),
    ("""--speculative_config='{"model":"org/draft"}'""", "model"),
    ("""-sc '{"model": "org/draft"}'""", "model"),
    ("--speculative_config.model org/draft --speculative-config.num_speculative_tokens 3", "model"),
    ("--speculative-config.model=org/draft", "model"),
    ("--spec-model org/draft --spec-tokens 3", "model"),
    (f"--spec-model /root/.cache/huggingface/hub/models--org--draft/snapshots/{DRAFT}", "model"),
    ("--tokenizer org/draft", "files"),
    ("--hf-config-path=org/draft", "files"),
    ("--lora-modules poet=org/draft", "adapter"),
    ("""--lora-modules '{"name": "poet", "path": "org/draft", "base_model_name": "m"}'""", "adapter"),
    ("""--default-mm-loras '{"audio": "org/draft"}'""", "adapter"),
]


@pytest.mark.parametrize(("words", "kind"), SPELLINGS, ids=lambda value: value[:48])
def test_a_further_model_is_found_in_every_spelling_and_lies_in_the_store(
    tmp_path: Path, words: str, kind: str
) -> None:
    recipe = eugr(tmp_path, words)
    assert errors(recipe) == []
    assert [(each.repo, each.kind) for each in recipe.further_models] == [("org/draft", kind)]
    assert recipe.further_models[0].ignore == (WEIGHTS if kind == "files" else ())
    plan = planned(recipe)
    assert SNAPSHOT in file_of(plan, "start.sh") and "org/draft" not in file_of(plan, "start.sh")
    # Held against what was proven before each start, like the model.
    ready = file_of(plan, "ready.sh")
    assert ready.count("proof.py") == 2
    assert f"/var/lib/tandem/models/models--org--draft/{DRAFT}.json" in ready


def test_json_is_left_as_it_was_written_but_for_the_name(tmp_path: Path) -> None:
    recipe = eugr(tmp_path, """--speculative-config '{"method": "mtp",  "model": "org/draft"}'""")
    assert f'{{"method": "mtp",  "model": "{SNAPSHOT}"}}' in file_of(planned(recipe), "start.sh")


@pytest.mark.parametrize(
    "words",
    [
        """--speculative-config '{"method": "ngram", "num_speculative_tokens": 3}'""",
        """--speculative-config '{"method": "ngram", "model": "[ngram]"}'""",
        """--speculative-config '{"method": "mtp", "model": "org/model"}'""",
        "--generation-config vllm",
        "--chat-template '{{ messages }}'",
        "--tokenizer org/model",
    ],
)
def test_what_names_no_further_model_needs_none(tmp_path: Path, words: str) -> None:
    recipe = eugr(tmp_path, words)
    assert recipe.further_models == () and errors(recipe) == []


def test_dotted_flags_and_json_are_one_configuration(tmp_path: Path) -> None:
    recipe = eugr(tmp_path, "--speculative-config.method mtp --spec-tokens 2")
    assert speculative(recipe) == {"method": "mtp", "num_speculative_tokens": "2"}
    assert speculative(eugr(tmp_path, "")) is None


def test_an_owner_pins_further_models_in_the_recipe(tmp_path: Path) -> None:
    further = [{"repo": "org/draft", "revision": DRAFT, "weights_gib": 2}]
    recipe = own(tmp_path, further_models=further, flags={"speculative-config": {"model": "org/draft"}})
    assert errors(recipe) == [] and recipe.further_models[0].revision == DRAFT
    assert "no flag names org/draft" in errors(own(tmp_path, further_models=further))[0]


def test_a_list_of_adapters_is_one_word_each_and_each_is_served(tmp_path: Path) -> None:
    modules = [{"name": "poet", "path": "org/draft"}, "critic=org/other"]
    plan = planned(own(tmp_path, flags={"enable-lora": True, "lora-modules": modules}))
    start = file_of(plan, "start.sh")
    assert f"""'{{"name":"poet","path":"{SNAPSHOT}"}}' critic=/hub/models--org--other/snapshots/{DRAFT}""" in start
    served = yaml.safe_load(file_of(plan, "config.yaml"))["model_list"]
    assert [each["model_name"] for each in served] == ["m", "poet", "critic"]
    assert served[1]["litellm_params"]["model"] == "hosted_vllm/poet"


def test_revisions_of_further_models_come_from_the_knob(tmp_path: Path) -> None:
    eugr(tmp_path, "--tokenizer org/draft")
    data = knob_data(recipe=str(tmp_path / "recipes/theirs.yaml"), topology="solo", model_revision=COMMIT)
    assert wanted(data).first.recipe.further_models[0].revision is None
    pinned = wanted(data | {"model_revisions": {"org/draft": DRAFT, "org/not-of-this-recipe": COMMIT}}).first.recipe
    assert (pinned.model.revision, pinned.further_models[0].revision) == (COMMIT, DRAFT)


def test_a_revision_against_the_recipe_s_own_is_refused(tmp_path: Path) -> None:
    own(tmp_path, further_models=[{"repo": "org/draft", "revision": DRAFT}], flags={"tokenizer": "org/draft"})
    data = knob_data(recipe=str(tmp_path / "own.yaml"), topology="solo", model_revisions={"org/draft": COMMIT})
    with pytest.raises(Refusal, match="has its own of org/draft"):
        wanted(data)


def test_a_file_beside_the_recipe_is_part_of_the_engine_s_spec(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/chat.jinja").write_text("{{ one }}")
    one = planned(eugr(tmp_path, "--chat-template chat.jinja"))
    assert "--chat-template /tandem/recipe-chat.jinja" in file_of(one, "start.sh")
    assert file_of(one, "recipe-chat.jinja") == "{{ one }}\n"
    (tmp_path / "recipes/chat.jinja").write_text("{{ other }}")
    other = planned(eugr(tmp_path, "--chat-template ./chat.jinja"))
    assert engine_of(one.head).spec != engine_of(other.head).spec
    # What served is remembered with it, whatever becomes of the file.
    kept: Any = {"knobs": one.knobs.model_dump(), "recipe": one.models[0].recipe.model_dump(mode="json"), "serves": {}}
    back = restore(kept, {}, {})
    assert back.knobs == one.knobs and back.first.recipe.attached == {"chat.jinja": "{{ one }}\n"}


def test_a_file_of_the_model_is_looked_for_when_the_model_is_there(tmp_path: Path) -> None:
    recipe = own(tmp_path, flags={"tool-parser-plugin": "{model}/parser.py", "chat-template": "org/model/c.jinja"})
    assert errors(recipe) == []
    assert f"/hub/models--org--model/snapshots/{COMMIT}/parser.py" in file_of(planned(recipe), "start.sh")
    assert missing_files(recipe, recipe.model, ["config.json", "c.jinja"]) == ["parser.py"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--chat-template /root/x.jinja", "`/root/x.jinja`, which the container will not have"),
    ],
)
def test_what_the_container_will_not_have_is_an_error(tmp_path: Path, words: str, said: str) -> None:
    assert said in "".join(errors(eugr(tmp_path, words)))


def test_what_an_image_or_a_mod_brings_is_a_remark(tmp_path: Path) -> None:
    mod = tmp_path / "mods/fix"
    mod.mkdir(parents=True)
    (mod / "run.sh").write_text("cp chat.jinja $WORKSPACE_DIR/fixed.jinja\n")
    for words in ("--chat-template /vllm-workspace/examples/x.jinja", "--chat-template fixed.jinja"):
        recipe = eugr(tmp_path, words, mods=["mods/fix"])
        assert errors(recipe) == [] and any("--chat-template names" in each.problem for each in recipe.remarks)


@pytest.mark.parametrize(
    ("served", "repo", "wrong"),
    [
        ("/models/Model", "org/model", ""),
        ("/root/.cache/huggingface/hub/models--org--other/snapshots/abc", "org/other", ""),
        ("/models/merged", "org/model", "the container has no such path"),
    ],
)
def test_a_path_that_is_served_is_the_model_s_or_an_error(tmp_path: Path, served: str, repo: str, wrong: str) -> None:
    recipe = eugr(tmp_path, "", command=f"vllm serve {served}")
    assert recipe.model.repo == repo and bool(errors(recipe)) == bool(wrong) and wrong in "".join(errors(recipe))


ANSWERS = [
    ("org/model", {}, "chat"),
    ("org/model", {"runner": "pooling"}, "embedding"),
    ("org/model", {"runner": "pooling", "convert": "classify"}, "classify"),
    ("org/model", {"task": "score"}, "rerank"),
    ("Qwen/Qwen3-Embedding-8B", {}, "embedding"),
    ("Qwen/Qwen3-Reranker-4B", {"hf-overrides": {"architectures": ["Qwen3ForSequenceClassification"]}}, "rerank"),
    ("openai/whisper-large-v3", {}, "transcription"),
    ("org/embedded-chat", {"runner": "generate"}, "chat"),
]


@pytest.mark.parametrize(("repo", "flags", "answers"), ANSWERS)
def test_what_a_model_is_there_for(tmp_path: Path, repo: str, flags: Any, answers: str) -> None:
    recipe = own(tmp_path, model={"repo": repo, "revision": COMMIT}, flags=flags)
    assert recipe.answers == answers
    assert bool(errors(recipe)) == (answers in ("classify", "reward", "transcription"))
    assert own(tmp_path, model={"repo": repo, "revision": COMMIT}, flags=flags, answers="chat").answers == "chat"


def test_an_embedding_model_is_asked_for_vectors_by_all_who_ask(tmp_path: Path) -> None:
    plan = planned(own(tmp_path, flags={"runner": "pooling", "convert": "embed"}))
    question = json.loads(file_of(plan, "canary.json"))["engines"]["tandem-engine"]["question"]
    assert question["path"] == "/v1/embeddings" and question["body"] == {"input": "Hi"}
    served = yaml.safe_load(file_of(plan, "config.yaml"))["model_list"]
    assert [each["model_info"] for each in served] == [{"mode": "embedding"}]
    assert "question" not in json.loads(file_of(planned(own(tmp_path)), "canary.json"))["engines"]["tandem-engine"]


def test_a_file_above_the_recipe_is_taken_from_its_own_repository_alone(tmp_path: Path) -> None:
    for name in ("id_rsa", ".ssh/id_rsa", "notes/chat.jinja", "recipes/.env"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("private\n")
    names = ("../.ssh/id_rsa", "../id_rsa", "notes/chat.jinja", ".env")
    for name in names:
        assert eugr(tmp_path, f"--chat-template {name}").attached == {}
    (tmp_path / ".git").mkdir()
    found = [eugr(tmp_path, f"--chat-template {name}").attached for name in names]
    assert [list(each.values()) for each in found] == [[], ["private\n"], ["private\n"], []]


def test_a_recipe_at_the_root_of_a_fetched_repository_reads_none_of_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one, other = (repositories.place(f"https://example.org/a/{name}", COMMIT) for name in ("one", "other"))
    for each in (one, other):
        each.mkdir(parents=True)
        (each / "chat.jinja").write_text("x\n")
    assert own(one, flags={"chat-template": f"../{other.name}/chat.jinja"}).attached == {}
    assert own(one, flags={"chat-template": "chat.jinja"}).attached == {"chat.jinja": "x\n"}
