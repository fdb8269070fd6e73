"""Tandem's own state on a node, all of it in one round trip: what every phase compares with the plan."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from operations.node import (
    alone,
    certificate,
    files,
    images,
    links,
    model_files,
    modes,
    monitors,
    proxy,
    secrets,
    served,
    services,
    walls,
)

#: Where planned files can lie; what else lies there belongs to an older plan.
FOLDERS = tuple(f"/etc/tandem/{unit.removeprefix('tandem-')}" for unit in services.UNITS)


def main(
    store: str,
    models: list[dict[str, str]],
    archives: dict[str, str],
    paths: list[str],
    folders: list[dict[str, Any]],
) -> dict[str, Any]:
    """See the keys. `models`: folder, revision and kind of each; `archives`: local image name -> archive on this node,
    or empty; `paths`: single files; `folders`: those of secrets, as modes.main takes them.
    """
    store = expand(store)
    with ThreadPoolExecutor() as pool:
        tasks: dict[str, Future[Any]] = {
            "services": pool.submit(services.main, services.UNITS),
            "images": pool.submit(images.states, archives),
            "files": pool.submit(files.main, paths, FOLDERS),
            "links": pool.submit(links.links),
            "models": pool.submit(lambda: [_model(store, **model) for model in models]),
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
    return model_files.main(store, folder, revision, kind)


def expand(path: str) -> str:
    """~ is the home of whoever logged in, not root's."""
    return home() + path[1:] if path.startswith("~/") else path


def home() -> str:
    """The login's home; programs run under sudo, which says whose it was."""
    return os.path.expanduser(f"~{os.environ.get('SUDO_USER', '')}")
