"""Images: the head gets each from its source, the other nodes get them from the head, equal by content."""

from __future__ import annotations

import base64
import io
import tarfile
from collections.abc import Iterator

from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand, QuoteString, StringCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.node.copy import pull
from operations.node.image import origin
from operations.node.image.archive import ARCHITECTURES
from operations.plan.config.refusal import as_table
from operations.plan.recipes import mods
from operations.plan.recipes.images import Image, by_content, without_tag
from operations.runner import looking, seeing
from operations.runner.patience import fail, followed, patiently, python_step
from operations.runner.remote import ask
from operations.runner.run import Run, step


@step
def obtain(run: Run, role: str) -> Iterator[PyinfraCommand]:
    """On the head: pull, load or build the images of engines, or of the proxy, that are not there; each gets its local
    name.
    """
    if not run.plan.of(host.name).node.is_head:
        host.noop("the head gets it")
        return
    for image in looking.images_at(run.plan, host.name):
        if image.role == role:
            yield from _obtained(run, image)


def _obtained(run: Run, image: Image) -> Iterator[PyinfraCommand]:
    found = run.look(host)["images"][image.local]
    if found["image"] and not found["replaced"]:
        host.noop(f"{image.reference} is there as {image.local}")
        return
    if image.kept:
        yield fail(f"{image.local} was there and is gone: run it again")
        return
    if found["image"]:
        # The local name goes to what comes now; a plan that has served may have to go back to what is there.
        yield StringCommand("docker tag", image.local, by_content(image.local, found["image"]["content"]))
    yield from _from_its_source(image.base)
    if image.mods:
        names = ", ".join(mods.folder_of(mod).name for mod in image.mods)
        yield _build(image.local, image.context, f"putting {names} into {image.local}")
    if image.archive:
        yield python_step(lambda _, host: ask(host, origin.main, local=image.local, archive_path=image.archive))
    yield python_step(lambda _, host: _check_architecture(run, host, image))


def _from_its_source(image: Image) -> Iterator[PyinfraCommand]:
    """Pull, load or build an image without mods, and give it its local name."""
    match image.kind:
        case "registry":
            pulled = without_tag(image.reference)
            unless_here = "@" not in image.reference
            yield python_step(followed(f"pulling {image.reference}", pull.main, pulled, unless_here))
            yield StringCommand("docker tag", QuoteString(pulled), image.local)
        case "archive":
            load = StringCommand("docker load --quiet --input", QuoteString(image.archive))
            yield patiently(f"loading {image.archive}", load)
            yield StringCommand("docker tag", QuoteString(image.reference), image.local)
        case _:
            yield _build(image.local, image.build_files(), f"building {image.local} from {image.place}")


def _build(local: str, context: list[tuple[str, bytes]], label: str) -> PyinfraCommand:
    build = StringCommand("base64 -d | docker build --network host --tag", local, "-", _stdin=_context(context))
    return patiently(label, build)


def _check_architecture(run: Run, where: Host, image: Image) -> None:
    """A digest can name another machine's image: Docker pulls it, and nothing in it can run."""
    run.looks.forget()
    found = run.look(where)["images"][image.local]["image"].get("architecture")
    wanted = ARCHITECTURES.get(run.plan.of(where.name).node.machine)
    if wanted and found != wanted:
        raise RuntimeError(
            f"{image.reference} is for {found}, this node is {wanted}: name its {wanted} image in the recipe"
        )


@step
def copy(run: Run, role: str) -> Iterator[PyinfraCommand]:
    """On the other nodes: take the head's images over the fabric unless the same content is here already."""
    mine = run.plan.of(host.name)
    images = [] if mine.node.is_head else [each for each in looking.images_at(run.plan, host.name) if each.role == role]
    for image in images:
        yield from _copied(run, image)
    if not images:
        host.noop("not needed here")


@step
def sees_gpu(run: Run) -> Iterator[PyinfraCommand]:
    """On each node to which an engine's image has just come: a start of it finds the GPU. What is known isn't asked."""
    if state.is_executing and (found := seeing.tried(run, host)):
        yield fail(f"the engines were not touched, and no model was fetched:{as_table(tuple(found))}")
        return
    host.noop("the engine's container sees the GPU, or needs none")


def _copied(run: Run, image: Image) -> Iterator[PyinfraCommand]:
    head = run.head
    wanted = _content(run, head, image)
    if wanted and _content(run, host, image) == wanted:
        host.noop(f"{image.local} is the head's, by content")
        return

    def fetch(_state: State, host: Host) -> bool:
        run.copies.from_head(run.plan, host, "image", image=image.local)
        run.looks.forget()
        if _content(run, host, image) != _content(run, head, image):
            raise RuntimeError(f"{image.local} arrived with another content than the head's; run the deploy again")
        return True

    yield python_step(fetch)


def _content(run: Run, where: Host, image: Image) -> str:
    """The content of an image on a node; empty: it is not there."""
    found = run.look(where)["images"].get(image.local)
    return found["image"].get("content", "") if found else ""


def _context(files: list[tuple[str, bytes]]) -> str:
    """A build's files as a tar, in base64: standard input is text."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return base64.b64encode(buffer.getvalue()).decode()
