"""Tandem's own state on a node, all of it in one round trip: what every step compares with the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from operations.node.door import certificate, proxy
from operations.node.image import origin
from operations.node.kernels import kept
from operations.node.login import expand
from operations.node.look import files
from operations.node.model import proof
from operations.node.monitoring import monitors
from operations.node.network import firewall, links, office
from operations.node.secret import modes, secrets
from operations.node.unit import alone, phases, served, services
from operations.paths import folder_of, unit_file
from operations.wire.look import Look, SecretFolder
from operations.wire.model import Place


def main(
    store: str,
    models: Mapping[str, Place],
    archives: dict[str, str],
    paths: list[str],
    folders: list[SecretFolder],
    units: Sequence[str],
    engines: Sequence[str] = (),
) -> Look:
    """See the keys. `models`: the place of each one's files, by what it is asked for by; `archives`: local image
    name -> archive on this node, or empty; `paths`: single files; `folders`: those of secrets, as modes.main takes
    them; `units`: Tandem's; `engines`: those of them that are planned here. What lies here of other plans is found.
    """
    store = expand(store)
    units = services.with_engines(units, engines)
    # Where planned files can lie; what else lies there belongs to an older plan.
    places = [folder_of(unit) for unit in units]
    files_of = [*paths, *(unit_file(unit) for unit in engines)]
    with ThreadPoolExecutor() as pool:
        services_ = pool.submit(services.main, units)
        images_ = pool.submit(origin.states, archives)
        files_ = pool.submit(files.main, files_of, places)
        links_ = pool.submit(links.links)
        models_ = pool.submit(lambda: {key: proof.main(store, **model) for key, model in models.items()})
        slots_ = pool.submit(services.slots)
        secrets_ = pool.submit(secrets.hashes)
        modes_ = pool.submit(modes.main, folders)
        served_ = pool.submit(served.newest)
        firewall_ = pool.submit(firewall.state)
        proxy_ = pool.submit(proxy.main)
        certificate_ = pool.submit(certificate.found)
        missing_ = pool.submit(monitors.missing)
        refused_ = pool.submit(monitors.refused)
        alone_ = pool.submit(alone.since)
        kernels_ = pool.submit(kept.state)
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
            "starts": phases.longest(phases.kept()),
            "firewall": firewall_.result(),
            "proxy": proxy_.result(),
            "certificate": certificate_.result(),
            "missing": missing_.result(),
            "refused": refused_.result(),
            "alone": alone_.result(),
            "office": office.state(),
            "kernels": kernels_.result(),
        }
