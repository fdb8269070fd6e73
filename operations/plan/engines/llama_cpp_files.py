"""Which GGUF files of a repository a command of `llama-server` wants."""

from __future__ import annotations

import re

from operations.plan.config.refusal import Remark
from operations.plan.engines.base import Weights

#: What makes a model see: it lies beside the weights, whatever their quant.
MMPROJ = "*mmproj*.gguf"
#: What `llama-server -hf ORG/NAME` looks for first (docs/engines.md).
_USUAL = "Q4_K_M"
_PART = re.compile(r"(.+)-\d{5}-of-(\d{5}\.gguf)", re.IGNORECASE)
#: A repository, and a quant or a file of it.
_TAGGED = re.compile(r"([^:/]+/[^:/]+):([\w.-]+|[\w./-]+(?i:\.gguf))", re.ASCII)


def wanted(served: str, named: str, file: str) -> Weights:
    """`served`: by the command, `named`: as `model`; both a repository with or without a quant or a file, or a path.
    `file`: of `-hff`.
    """
    if served.lower().endswith(".gguf") and not _split(served)[1]:
        # A path of another tool's: the file has that name in the repository.
        repo, _ = _split(named)
        folder, name = served.rpartition("/")[::2]
        if not repo and re.fullmatch(r"[\w.-]+/[\w.-]+", folder):
            repo = folder
        return Weights("", repo, (all_parts(name),))
    repo, quant = _split(served)
    other, said = _split(named)
    quant = quant or (said if repo in ("", other) else "")
    if file:
        return Weights(repo, other, (all_parts(file),))
    if quant.lower().endswith(".gguf"):
        return Weights(repo, other, (all_parts(quant), MMPROJ))
    remarks = () if quant else (
        Remark(False, f"no quant of {repo or other} is named: {_USUAL} is taken", f"write {repo or other}:{_USUAL}"),
    )  # fmt: skip
    return Weights(repo, other, (*_patterns(quant or _USUAL), MMPROJ), remarks)


def all_parts(name: str) -> str:
    """The pattern of all parts where a file is one of several; else the file."""
    found = _PART.fullmatch(name)
    return f"{found[1]}-*-of-{found[2]}" if found else name


def _split(text: str) -> tuple[str, str]:
    found = _TAGGED.fullmatch(text)
    return (found[1], found[2]) if found else (text, "")


def _patterns(quant: str) -> tuple[str, ...]:
    """A quant stands between signs, so that F16 is no BF16; makers write it in either case, or as a folder."""
    spelt = dict.fromkeys((quant.upper(), quant.lower()))
    return tuple(f"{before}{each}[-./]*gguf" for each in spelt for before in ("*[-._/]", ""))
