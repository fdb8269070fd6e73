"""A service: a unit with its files, its container, and the spec that says when it must be restarted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from operations.paths import ETC, folder_of, unit_file
from operations.plan.config.files import File, as_is, digest, render
from operations.plan.recipes.images import Image

#: Stands in rendered files where the spec will be, which is a hash over those files.
SPEC = "@SPEC@"


@dataclass(frozen=True)
class Program:
    """A unit that runs on the node itself. `spec` changes when, and only when, it must be started anew. `at_boot`:
    whether a deploy and a boot start it; else another program does (files/ondemand/ondemand.py).
    """

    unit: str
    files: tuple[File, ...]
    spec: str
    at_boot: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class Service(Program):
    """A unit that runs a container of this image."""

    image: Image


def seal(unit: str, image: Image, files: Sequence[File], hashed: Sequence[File]) -> Service:
    """The service whose spec is a hash over `hashed` and the image's name, with the spec filled in."""
    spec = digest(hashed, image.local)
    return Service(unit, _filled_in(files, spec), spec, image)


def seal_program(unit: str, files: Sequence[File]) -> Program:
    """The program whose spec is a hash over its files, with the spec filled in."""
    spec = digest(files)
    return Program(unit, _filled_in(files, spec), spec)


def python_program(
    unit: str,
    settings: Mapping[str, object],
    parts: Sequence[str] = (),
    more: Sequence[File] = (),
    **unit_values: object,
) -> Program:
    """A program of files/NAME, NAME being what follows `tandem-`: NAME.py with its `parts`, `more` files beside them,
    NAME.json with its settings, and its unit, rendered with `unit_values`.

    Raises TemplateNotFound for a file that files/NAME lacks, UndefinedError for a value that the unit lacks (Jinja's).
    """
    folder, name = folder_of(unit), unit.removeprefix("tandem-")
    files = [
        *(File(f"{folder}/{part}.py", as_is(f"{name}/{part}.py")) for part in (name, *parts)),
        *more,
        File(f"{folder}/{name}.json", json.dumps(settings, indent=1, ensure_ascii=False) + "\n"),
        File(unit_file(unit), render(f"{name}/{unit}.service.j2", etc=ETC, spec=SPEC, **unit_values)),
    ]
    return seal_program(unit, files)


def _filled_in(files: Sequence[File], spec: str) -> tuple[File, ...]:
    return tuple(replace(file, content=file.content.replace(SPEC, spec)) for file in files)


def lessened(*keeps: str) -> list[str]:
    """Flags of `docker run` that leave a container's root these of Docker's fourteen capabilities (or others), and keep
    its programs from gaining any by a file that would give them. Docker's own filter of system calls stays.
    """
    kept = [word for name in keeps for word in ("--cap-add", name)]
    return ["--cap-drop", "ALL", *kept, "--security-opt", "no-new-privileges"]


def confined(user: int, *keeps: str, scratch: str = "64m", processes: int = 512, memory: str = "512m") -> list[str]:
    """Flags of `docker run` for a program that needs only the node's network and its volumes: a user of its own, a
    read-only root, `scratch` bytes of memory under /tmp, at most so many `processes` (threads count). Beyond `memory`
    the kernel ends it alone, so that no client of it takes all of the node's memory.

    A user that is not root has no capabilities, and can't listen below port 1024: a program that has to gets user 0 and
    NET_BIND_SERVICE, and becomes another by itself. What it may read or write has to be its user's (paths.SECRETS).
    """
    return [
        *("--user", f"{user}:{user}", *lessened(*keeps), "--pids-limit", str(processes)),
        *("--memory", memory, "--memory-swap", memory),
        *("--read-only", "--tmpfs", f"/tmp:rw,nosuid,nodev,noexec,size={scratch}"),
        # Of a user that no file of the image names it would be /, where nothing can be written.
        *("--env", "HOME=/tmp"),
    ]


def docker_run(name: str) -> list[str]:
    """What both containers share: foreground, removed when they end, logs bounded."""
    return [
        *("/usr/bin/docker", "run", "--rm", "--init", "--name", name, "--label", f"tandem.spec={SPEC}"),
        *("--network", "host", "--pull", "never", "--log-driver", "local", "--log-opt", "max-size=50m"),
    ]
