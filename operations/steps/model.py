"""The models: pinned revisions in the head's store, then, complete and proven, on every node that serves.

The served one first, then what the recipe needs beside it: a draft, adapters, a tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from pyinfra import host
from pyinfra.api.command import PyinfraCommand, QuoteString, StringCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.node.copy import hub, install
from operations.node.model import mend, proof
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.files import as_is
from operations.plan.engines import ENGINES, missing_files
from operations.plan.recipes.images import proxy_image
from operations.plan.recipes.recipe import Model
from operations.runner.patience import followed, python_step
from operations.runner.remote import ask
from operations.runner.run import Run, step
from operations.wire.fabric import Links
from operations.wire.model import ModelState


@step
def obtain(run: Run, only: str | None = None) -> Iterator[PyinfraCommand]:
    """On the head: each revision from the Hub or from a folder; what the store has already is used.

    `only`: those of the model with this name, whose engine's image may not be there.
    """
    if not run.plan.of(host.name).node.is_head:
        host.noop("the head gets it")
        return
    states = run.look(host)["models"]
    lacking = [
        (model, each)
        for model, each in _files(_chosen(run.plan.models, only))
        if not _is_whole(model, each, states[each.key])
    ]
    if not lacking:
        host.noop("the store has the whole revision")
        return
    store = run.plan.head.node.path(run.plan.knobs.model_store)
    if any(model.knobs.model_from == "hub" for model, _ in lacking):
        home = QuoteString(run.plan.head.node.home)
        # Made by the login, not by Docker: a store that root owns breaks every later download of the owner's.
        yield StringCommand('runuser -u "$(stat -c %U', home, ')" -- mkdir -p', QuoteString(store))
    for model, each in lacking:
        if model.knobs.model_from == "hub":
            # The Hub's client takes a file that is there for a whole one.
            yield python_step(partial(_set_aside, each, store))
            yield python_step(_download(run, model, each, store, by_proxy=only is not None))
        else:
            yield python_step(_install(model, each, store))
        yield python_step(partial(_prove, model, each, store))


def _chosen(models: Sequence[ServedModel], only: str | None) -> list[ServedModel]:
    return [each for each in models if only in (None, each.name)]


def _files(models: Iterable[ServedModel]) -> list[tuple[ServedModel, Model]]:
    """Every set of files that models need, each once, with the model that needs it."""
    found = {each.key: (model, each) for model in models for each in model.recipe.models}
    return list(found.values())


@step
def copy(run: Run, only: str | None = None) -> Iterator[PyinfraCommand]:
    """On the other nodes: every file of the head's revisions, proven by its hash; `only` as above."""
    if not run.plan.on(host.name) or run.plan.of(host.name).node.is_head:
        host.noop("not needed here")
        return
    heads, here = run.look(run.head)["models"], run.look(host)["models"]
    lacking = []
    models = _chosen(run.plan.on(host.name), only)
    revisions = {each.key: each for model in models for each in model.recipe.models}
    for model in revisions.values():
        wanted, found = heads[model.key], here[model.key]
        is_whole = found["present"] and found["proven"] and not found["problems"]
        if not is_whole or found["files"] != wanted["files"]:
            _tell(host, found)
            lacking.append(model)
    if not lacking:
        host.noop("the store has the whole revision, equal to the head's")
        return
    for model in lacking:
        yield python_step(partial(_copy, run, model))


def without_rails(run: Run) -> list[str]:
    """Nodes of which a rail does not have the plan's address: no deploy has been there, and nothing can be copied."""
    found = []
    for each in run.plan.serving if len(run.plan.serving) > 1 else ():
        links = run.look(run.node(each.node.name))["links"]
        pairs = zip(each.node.rails, each.node.rail_addresses, strict=True)
        if any(address not in _addresses(links, rail) for rail, address in pairs):
            found.append(each.node.name)
    return found


def _addresses(links: Links, rail: str) -> list[str]:
    return [address.partition("/")[0] for address in links[rail]["addresses"]] if rail in links else []


def _copy(run: Run, model: Model, _state: State, where: Host) -> None:
    run.copies.from_head(run.plan, where, "model", **model.place)


def _is_whole(served: ServedModel, model: Model, state: ModelState) -> bool:
    """Whether nothing is to be done for files on the head; says what had drifted."""
    _tell(host, state)
    is_whole = state["present"] and state["proven"] and not state["problems"]
    return bool(is_whole and not missing_files(served.recipe, model, state["files"]))


def _tell(where: Host, state: ModelState) -> None:
    """What had drifted."""
    for problem in state["problems"]:
        where.log(problem)
    for name in state["touched"]:
        where.log(f"{name} has been changed since it was proven")


def _prove(served: ServedModel, model: Model, store: str, _state: State, where: Host) -> bool:
    state = ask(where, proof.main, store=store, **model.place, prove=True)
    if not state["present"] or state["problems"]:
        problems = "; ".join(state["problems"]) or "the revision did not arrive"
        raise RuntimeError(f"the model {model.repo} is not whole: {problems}")
    if missing := missing_files(served.recipe, model, state["files"]):
        named = " and ".join(missing)
        raise RuntimeError(f"{model.repo} has no {named} at {model.revision}: the recipe names it")
    return True


def _set_aside(model: Model, store: str, _state: State, where: Host) -> None:
    for name in ask(where, mend.main, store=store, **model.place)["aside"]:
        where.log(f"{name} is not whole: set aside, fetched again")


def _install(served: ServedModel, model: Model, store: str) -> Any:
    source, is_served = served.knobs.model_from, model == served.recipe.model
    label = "model" if is_served else model.repo
    return followed(f"{label} from {source}", install.main, **model.place, store=store, source=source, plain=is_served)


def _download(run: Run, served: ServedModel, model: Model, store: str, *, by_proxy: bool) -> Any:
    """Runs in the engine's image, or the proxy's where that has no Python or is not there: both have the Hub's own
    client. The token comes from a mounted file.
    """
    knobs = run.plan.knobs
    argv = ["--rm", "--interactive", "--network", "host", "--pull", "never", "--volume", f"{store}:/hub"]
    # Each model's blobs in its own folder, under the names of their hashes.
    settings = ["HF_HUB_CACHE=/hub", "HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_PROGRESS_BARS=1"]
    settings += ["HF_HUB_DISABLE_SHARED_BLOBS=1", f"HF_ENDPOINT={knobs.hub_endpoint}"]
    if knobs.hub_token_file:
        settings.append("HF_TOKEN_PATH=/hub-token")
        argv += ["--volume", f"{knobs.hub_token_file}:/hub-token:ro"]
    argv += [word for setting in settings for word in ("--env", setting)]
    has_client = ENGINES[served.recipe.engine].PACKAGE and not by_proxy
    image = served.image if has_client else proxy_image(served.recipe, knobs)
    argv += ["--entrypoint", "python3", image.local, "-c", as_is("model/download.py")]
    argv += [model.repo, str(model.revision), json.dumps({"only": model.files, "without": model.ignore})]
    owner = run.plan.head.node.home
    return followed(f"{model.repo} from the Hub", hub.main, argv=argv, store=store, owner=owner, **model.place)
