"""Tandem's own state on a node, all of it in one round trip: what every phase compares with the plan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

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
from operations.shapes.look import Look, SecretFolder
from operations.shapes.model import ModelState


def main(
    store: str,
    models: dict[str, dict[str, str]],
    archives: dict[str, str],
    paths: list[str],
    folders: list[SecretFolder],
    engines: Sequence[str] = (),
) -> Look:
    """See the keys. `models`: folder, revision and kind of each, by what it is asked for by; `archives`: local image
    name -> archive on this node, or empty; `paths`: single files; `folders`: those of secrets, as modes.main takes
    them; `engines`: units that are planned here. Those of other plans are found.
    """
    store = expand(store)
    units = services.with_engines(engines)
    # Where planned files can lie; what else lies there belongs to an older plan.
    places = [f"/etc/tandem/{unit.removeprefix('tandem-')}" for unit in units]
    files_of = [*paths, *(f"/etc/systemd/system/{unit}.service" for unit in engines)]
    with ThreadPoolExecutor() as pool:
        services_ = pool.submit(services.main, units)
        images_ = pool.submit(images.states, archives)
        files_ = pool.submit(files.main, files_of, places)
        links_ = pool.submit(links.links)
        models_ = pool.submit(lambda: {key: _model(store, **model) for key, model in models.items()})
        slots_ = pool.submit(services.slots)
        secrets_ = pool.submit(secrets.hashes)
        modes_ = pool.submit(modes.main, folders)
        served_ = pool.submit(served.newest)
        walls_ = pool.submit(walls.standing)
        proxy_ = pool.submit(proxy.main)
        certificate_ = pool.submit(certificate.found)
        missing_ = pool.submit(monitors.missing)
        refused_ = pool.submit(monitors.refused)
        alone_ = pool.submit(alone.since)
        return {
            "services": services_.result(),
            "images": images_.result(),
            "files": files_.result(),
            "links": links_.result(),
            "models": models_.result(),
            "slots": slots_.result(),
            "secrets": secrets_.result(),
            "modes": modes_.result(),
            "served": served_.result(),
            "walls": walls_.result(),
            "proxy": proxy_.result(),
            "certificate": certificate_.result(),
            "missing": missing_.result(),
            "refused": refused_.result(),
            "alone": alone_.result(),
        }


def _model(store: str, folder: str, revision: str, kind: str) -> ModelState:
    return model_files.main(store, folder, revision, kind)


def expand(path: str) -> str:
    """~ is the home of whoever logged in, not root's."""
    return home() + path[1:] if path.startswith("~/") else path


def home() -> str:
    """The login's home; programs run under sudo, which says whose it was."""
    return os.path.expanduser(f"~{os.environ.get('SUDO_USER', '')}")
