"""Images by name, and the local name under which every node knows the same content."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.recipes import mods
from operations.plan.recipes.mod_folder import content
from operations.plan.recipes.recipe import Recipe

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Image:
    """An image of the plan.

    `reference` is what the source calls it, `source` how the head gets it (the knob's text), `local` the tag
    that units use on every node: a digest is known only to nodes that pulled, a tag can be put anywhere.
    With `mods` it is derived from the image without them, `base`; those named in `starts` lie in it, and are run at
    each start. `kept` is the local name of one that is there
    already and is not obtained again.
    """

    role: str
    reference: str
    source: str
    mods: tuple[str, ...] = ()
    kept: str = ""
    starts: tuple[str, ...] = ()

    @property
    def base(self) -> Image:
        """The image that the mods are put onto; itself when there are none."""
        return replace(self, mods=(), starts=())

    @property
    def context(self) -> list[tuple[str, bytes]]:
        """Names and contents of the build that puts the mods onto the base."""
        return mods.context(self.mods, self.base.local, self.starts)

    @property
    def kind(self) -> str:
        return self.source.partition(":")[0]

    @property
    def place(self) -> str:
        """The archive's path on the head, or the build folder in this repository."""
        return self.source.partition(":")[2]

    @property
    def archive(self) -> str:
        """The archive's path on the head; empty for what comes from elsewhere, or is there."""
        return self.place if self.kind == "archive" and not self.kept else ""

    @cached_property
    def local(self) -> str:
        """`tandem/<role>:<12 hex digits of where it comes from>`; a folder counts as it was when first asked."""
        if self.kept:
            return self.kept
        origin = f"{self.reference} {self.source} {self.build_digest}"
        if self.mods:
            origin = f"{self.base.local} {_digest(self.context)}"
        return f"tandem/{self.role}:{hashlib.sha256(origin.encode()).hexdigest()[:12]}"

    @property
    def build_digest(self) -> str:
        """Hash of the build folder's files; empty for what is not built."""
        if self.kind != "build":
            return ""
        return _digest(self.build_files())

    def build_files(self) -> list[tuple[str, bytes]]:
        """Names and contents of the build folder; raises Refusal when there is no Dockerfile in it."""
        folder = ROOT / self.place
        if not (folder / "Dockerfile").is_file():
            problem = f"{self.role}_image_from=build:{self.place}: there is no {self.place}/Dockerfile"
            raise Refusal(Finding("data", problem, "name a folder of this repository that has one"))
        found = content(folder)
        # A Dockerfile that runs mods on sources of its own gets them by naming them.
        named = dict.fromkeys(re.findall(r"/mods/([\w-]+)/mod\.json", (folder / "Dockerfile").read_text()))
        return [*found, *(mods.files(list(named)) if named else [])]


def engine_image(recipe: Recipe, knobs: Knobs) -> Image:
    """The engine's image: where it comes from is the knob's, unless the recipe builds it.

    Raises Refusal for an archive in the place of what the recipe builds: nothing says what it is called in there.
    """
    if recipe.image.startswith("build:"):
        if knobs.engine_image_from.startswith("archive:"):
            problem = f"engine_image_from={knobs.engine_image_from}: {recipe.name} builds its image, it has no name"
            raise Refusal(Finding("data", problem, "set engine_image_from to registry, or name an image in the recipe"))
        if knobs.engine_image_from == "registry":
            return _or_kept(_modded(recipe, recipe.image), recipe)
    return _or_kept(_modded(recipe, knobs.engine_image_from), recipe)


def _modded(recipe: Recipe, source: str) -> Image:
    return Image("engine", recipe.image, source, recipe.mods, starts=recipe.start_mods)


def needed(models: Iterable[tuple[Recipe, Knobs]]) -> list[str]:
    """Local names of the images that a plan of these models is made of, those that mods were put onto among them."""
    pairs = list(models)
    engines = [engine_image(recipe, knobs) for recipe, knobs in pairs]
    names = [name for each in engines for name in (each.local, each.base.local)]
    return list(dict.fromkeys([*names, proxy_image(*pairs[0]).local]))


def proxy_image(recipe: Recipe, knobs: Knobs) -> Image:
    """The proxy's image."""
    return _or_kept(Image("proxy", knobs.proxy_image, knobs.proxy_image_from), recipe)


def by_content(local: str, content: str) -> str:
    """The local name of an image whose own one has gone to another content: an archive that was replaced."""
    return f"{local.rpartition(':')[0]}:{content[:12]}"


def _or_kept(image: Image, recipe: Recipe) -> Image:
    kept = recipe.kept_images.get(image.role, "")
    return replace(image, mods=(), starts=(), kept=kept) if kept else image


def _digest(context: list[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, text in context:
        digest.update(name.encode() + b"\0" + text)
    return digest.hexdigest()


def without_tag(reference: str) -> str:
    """`name:tag@sha256:...` as Docker stores it: `name@sha256:...`; other references stay."""
    name, at, digest = reference.partition("@")
    if not at:
        return reference
    path, colon, tag = name.rpartition(":")
    return f"{path if colon and '/' not in tag else name}@{digest}"
