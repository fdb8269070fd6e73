"""Tandem's own state on a node, all of it in one round trip: what every phase compares with the plan."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from operations.node.door import certificate, proxy
from operations.node.image import origin
from operations.node.login import expand
from operations.node.look import files
from operations.node.model import proof
from operations.node.monitoring import monitors
from operations.node.network import links, walls
from operations.node.secret import modes, secrets
from operations.node.unit import alone, served, services
from operations.paths import folder_of, unit_file


def main(
    store: str,
    models: dict[str, dict[str, str]],
    archives: dict[str, str],
    paths: list[str],
    folders: list[dict[str, Any]],
    engines: Sequence[str] = (),
) -> dict[str, Any]:
    """See the keys. `models`: folder, revision and kind of each, by what it is asked for by; `archives`: local image
    name -> archive on this node, or empty; `paths`: single files; `folders`: those of secrets, as modes.main takes
    them; `engines`: units that are planned here. Those of other plans are found.
    """
    store = expand(store)
    units = services.with_engines(engines)
    # Where planned files can lie; what else lies there belongs to an older plan.
    places = [folder_of(unit) for unit in units]
    files_of = [*paths, *(unit_file(unit) for unit in engines)]
    with ThreadPoolExecutor() as pool:
        tasks: dict[str, Future[Any]] = {
            "services": pool.submit(services.main, units),
            "images": pool.submit(origin.states, archives),
            "files": pool.submit(files.main, files_of, places),
            "links": pool.submit(links.links),
            "models": pool.submit(lambda: {key: _model(store, **model) for key, model in models.items()}),
            "slots": pool.submit(services.slots),
            "secrets": pool.submit(secrets.hashes),
            "modes": pool.submit(modes.main, folders),
            "served": pool.submit(served.newest),
            "walls": pool.submit(walls.standing),
            "proxy": pool.submit(proxy.main),
            "certificate": pool.submit(certificate.found),
            "missing": pool.submit(monitors.missing),
            "refused": pool.submit(monitors.refused),
            "alone": pool.submit(alone.since),
        }
        return {name: task.result() for name, task in tasks.items()}


def _model(store: str, folder: str, revision: str, kind: str) -> dict[str, Any]:
    return proof.main(store, folder, revision, kind)
