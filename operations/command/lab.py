"""The lab, and what who works on Tandem types: targets of the clone's Makefile."""

from __future__ import annotations

import shutil
import sys
from typing import Annotated

import typer

from operations.command import running
from operations.command.at import ROOT
from operations.command.groups import DEVELOP, LAB, verb
from operations.plan.config.refusal import Finding, Refusal

#: Its hosts are network namespaces and containers of this machine.
_ONLY_LINUX = ("rehearse", "lab-up", "lab-down")

Words = Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="Words of that target.")]


@verb(LAB, "tandem rehearse", "tandem rehearse TOPOLOGY=replicas")
def rehearse(words: Words = None) -> int:
    """The whole cluster on this machine, without a GPU: boot, deploy, chat."""
    return make("rehearse", words)


@verb(LAB, "tandem lab-up", "tandem lab-up NODES=4 WIRING=switch")
def lab_up(words: Words = None) -> int:
    """Boot the lab's hosts."""
    return make("lab-up", words)


@verb(LAB, "tandem lab-down")
def lab_down(words: Words = None) -> int:
    """Remove the lab's hosts; what was built stays."""
    return make("lab-down", words)


@verb(DEVELOP, "tandem develop", "tandem develop lint", "tandem develop chaos CHAOS=--list")
def develop(
    target: Annotated[str, typer.Argument(help="A target of the Makefile; without it they are listed.")] = "help",
    words: Words = None,
) -> int:
    """Tests, checks, benches of the code, generated pages: the Makefile's targets."""
    return make(target, words)


def make(target: str, words: list[str] | None) -> int:
    """Runs a target of the clone's Makefile. Raises Refusal where Tandem is not run from its clone, where make is not
    installed, and for the lab on another system than Linux.
    """
    if not running.in_clone():
        remedy = "clone the repository, and type it there"
        raise Refusal(Finding(target, "the lab and the tests are in the clone, not in the package", remedy))
    if target in _ONLY_LINUX and sys.platform != "linux":
        raise Refusal(Finding(target, "the lab is made of Linux's namespaces", "type it on a Linux machine, as root"))
    if not shutil.which("make"):
        remedy = "install it: `apt install make`, on macOS `xcode-select --install`"
        raise Refusal(Finding(target, "make is not installed", remedy))
    return running.wait(["make", "--no-print-directory", "-C", str(ROOT), target, *(words or ())])
