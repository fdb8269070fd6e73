"""A service: a unit with its container and files, and the spec that says when it must be restarted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from operations.plan.files import File, digest
from operations.plan.images import Image

#: Stands in rendered files where the spec will be, which is a hash over those files.
SPEC = "@SPEC@"


@dataclass(frozen=True)
class Service:
    """`spec` changes when, and only when, what runs must be started anew."""

    unit: str
    image: Image
    files: tuple[File, ...]
    spec: str


def seal(unit: str, image: Image, files: Sequence[File], hashed: Sequence[File]) -> Service:
    """The service whose spec is a hash over `hashed`, with the spec filled in."""
    spec = digest(hashed, image.local)
    return Service(unit, image, tuple(replace(file, content=file.content.replace(SPEC, spec)) for file in files), spec)


def docker_run(name: str) -> list[str]:
    """What both containers share: foreground, removed when they end, logs bounded."""
    return [
        *("/usr/bin/docker", "run", "--rm", "--init", "--name", name, "--label", f"tandem.spec={SPEC}"),
        *("--network", "host", "--pull", "never", "--log-driver", "local", "--log-opt", "max-size=50m"),
    ]
