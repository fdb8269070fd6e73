"""Tandem's own state on a node, all of it in one round trip: what every phase compares with the plan."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from operations.node import files, images, links, model_files, secrets, services

#: Where planned files can lie; what else lies there belongs to an older plan.
FOLDERS = ("/etc/tandem/engine", "/etc/tandem/proxy")
UNITS = ("tandem-engine", "tandem-proxy")


def main(
    login: str, store: str, folder: str, revision: str, archives: dict[str, str], paths: list[str]
) -> dict[str, Any]:
    """See the keys. `archives`: local image name -> archive on this node, or empty; `paths`: single files."""
    store = expand(store, login)
    with ThreadPoolExecutor() as pool:
        tasks = {
            "services": pool.submit(services.main, UNITS),
            "images": pool.submit(images.states, archives),
            "files": pool.submit(files.main, paths, FOLDERS),
            "links": pool.submit(links.links),
            "model": pool.submit(model_files.main, store, folder, revision),
            "secrets": pool.submit(secrets.hashes),
        }
        return {name: task.result() for name, task in tasks.items()}


def expand(path: str, login: str) -> str:
    """~ is the login's home, not root's."""
    return os.path.expanduser(f"~{login}") + path[1:] if path.startswith("~/") else path
