"""The model: one pinned revision in the head's store, then, complete and proven, on every node that serves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyinfra import host
from pyinfra.api.command import PyinfraCommand, QuoteString, StringCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations import looking
from operations.patience import follow, quietly
from operations.plan.files import as_is
from operations.plan.plan import Plan
from operations.remote import ask
from operations.sharing import copy_from_head, head_of
from operations.tether import Tether


@looking.step
def obtain(plan: Plan) -> Iterator[PyinfraCommand]:
    """On the head: the revision from the Hub or from a folder; what the store has already is used."""
    if not plan.of(host.name).node.is_head:
        host.noop("the head gets it")
        return
    if _is_whole(plan, host):
        host.noop("the store has the whole revision")
        return
    store = plan.head.node.path(plan.knobs.model_store)
    if plan.knobs.model_from == "hub":
        home = QuoteString(plan.head.node.home)
        # Made by the login, not by Docker: a store that root owns breaks every later download of the owner's.
        yield StringCommand('runuser -u "$(stat -c %U', home, ')" -- mkdir -p', QuoteString(store))
        # The Hub's client takes a file that is there for a whole one.
        yield quietly(lambda _, host: _set_aside(plan, host, store))
        yield quietly(_download(plan, store))
    else:
        yield quietly(_install(plan, store))
    yield quietly(lambda _, host: _prove(plan, host))


@looking.step
def copy(plan: Plan) -> Iterator[PyinfraCommand]:
    """On the other nodes: every file of the head's revision, proven by its hash."""
    mine = plan.of(host.name)
    if mine.engine is None or mine.node.is_head:
        host.noop("not needed here")
        return
    wanted = looking.at(head_of(plan), plan)["model"]
    found = looking.at(host, plan)["model"]
    if found["present"] and found["proven"] and not found["problems"] and found["files"] == wanted["files"]:
        host.noop("the store has the whole revision, equal to the head's")
        return
    _tell(host, found)
    model = plan.recipe.model
    yield quietly(lambda _, host: copy_from_head(plan, host, "model", folder=model.folder, revision=model.revision))


def _is_whole(plan: Plan, where: Host) -> bool:
    state = looking.at(where, plan)["model"]
    _tell(where, state)
    return bool(state["present"] and state["proven"] and not state["problems"])


def _tell(where: Host, state: dict[str, Any]) -> None:
    """What had drifted."""
    for problem in state["problems"]:
        where.log(problem)
    for name in state["touched"]:
        where.log(f"{name} has been changed since it was proven")


def _prove(plan: Plan, where: Host) -> bool:
    model, store = plan.recipe.model, plan.of(where.name).node.path(plan.knobs.model_store)
    state = ask(where, "model_files", store=store, folder=model.folder, revision=model.revision, prove=True)
    if not state["present"] or state["problems"]:
        problems = "; ".join(state["problems"]) or "the revision did not arrive"
        raise RuntimeError(f"the model is not whole: {problems}")
    return True


def _set_aside(plan: Plan, where: Host, store: str) -> None:
    model = plan.recipe.model
    answer = ask(where, "model_mend", store=store, folder=model.folder, revision=model.revision)
    for name in answer["aside"]:
        where.log(f"{name} is not whole: set aside, fetched again")


def _install(plan: Plan, store: str) -> Any:
    model, source = plan.recipe.model, plan.knobs.model_from
    where = {"store": store, "folder": model.folder, "revision": model.revision}
    return _followed(f"model from {source}", "model_install", **where, source=source)


def _download(plan: Plan, store: str) -> Any:
    """Runs in the engine's image, which has the Hub's own client; the token comes from a mounted file."""
    model, knobs = plan.recipe.model, plan.knobs
    argv = ["--rm", "--interactive", "--network", "host", "--pull", "never", "--volume", f"{store}:/hub"]
    # Each model's blobs in its own folder, under the names of their hashes.
    settings = ["HF_HUB_CACHE=/hub", "HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_PROGRESS_BARS=1"]
    settings += ["HF_HUB_DISABLE_SHARED_BLOBS=1", f"HF_ENDPOINT={knobs.hub_endpoint}"]
    if knobs.hub_token_file:
        settings.append("HF_TOKEN_PATH=/hub-token")
        argv += ["--volume", f"{knobs.hub_token_file}:/hub-token:ro"]
    argv += [word for setting in settings for word in ("--env", setting)]
    image = plan.head.engine.image.local if plan.head.engine else ""
    argv += ["--entrypoint", "python3", image, "-", model.repo, str(model.revision), *model.ignore]
    where = {"store": store, "folder": model.folder, "revision": model.revision, "owner": plan.head.node.home}
    return _followed(f"{model.repo} from the Hub", "hub", argv=argv, script=as_is("model/download.py"), **where)


def _followed(label: str, program: str, **arguments: Any) -> Any:
    """A step that runs a node program as long as this deploy lives, and prints how far it is."""

    def run(_state: State, host: Host) -> bool:
        tether = Tether(host, program, **arguments)
        try:
            follow(host, label, tether)
        finally:
            tether.close()
        return True

    return run
