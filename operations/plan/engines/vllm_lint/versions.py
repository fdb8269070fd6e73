"""What came and went between releases, from their vocabularies; and variables that people set and no release read.

vLLM warns of a variable that it does not know, and serves (platforms/interface.py, `validate_environ`); only with
--fail-on-environ-validation it does not. So such a variable is a remark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from operations.plan.config.refusal import Remark
from operations.plan.recipes.lint.near import hint, slip
from operations.plan.recipes.lint.subject import Subject, life, parse, releases

_MOE = "the flag moe-backend"
#: What took the place of a variable that is gone.
INSTEAD = {
    "VLLM_NVFP4_GEMM_BACKEND": "the flag linear-backend",
    "VLLM_USE_FLASHINFER_MOE_FP4": _MOE,
    "VLLM_USE_FLASHINFER_MOE_FP8": _MOE,
    "VLLM_FLASHINFER_MOE_BACKEND": _MOE,
    "VLLM_MXFP4_USE_MARLIN": "the flag moe-backend: marlin",
    "VLLM_USE_FLASHINFER_MOE_MXFP4_BF16": _MOE,
    "VLLM_TEST_FORCE_FP8_MARLIN": "the flag linear-backend",
    "VLLM_USE_RAY_V2_EXECUTOR_BACKEND": "nothing: it is the only one since",
    "VLLM_USE_RAY_WRAPPED_PP_COMM": "nothing",
    "VLLM_SLEEP_WHEN_IDLE": "nothing",
}
#: Variables that people set and no release of these ever read.
NEVER = {
    "VLLM_NVFP4_MOE_BACKEND": "the flag moe-backend ([E] lost hours to it)",
    "VLLM_MXFP4_BACKEND": "the flag moe-backend; up to 0.23 the variable VLLM_MXFP4_USE_MARLIN",
    "VLLM_ATTENTION_BACKEND": "the flag attention-backend",
    "VLLM_USE_V1": "nothing: there is no other engine",
    "VLLM_USE_RAY_COMPILED_DAG": "nothing",
}
#: Variables of vLLM's that are read elsewhere than in envs.py.
_ELSEWHERE = ("VLLM_ASSETS_CACHE", "VLLM_TUNED_CONFIG_FOLDER", "VLLM_TEST_")


def variables(of: Subject) -> Iterator[Remark]:
    """VLLM_* variables that are not read, not yet, or no more."""
    is_error = bool(of.recipe.flag("fail-on-environ-validation"))
    every = [known for each in of.vocabularies if (known := each.get("environment")) is not None]
    for name in of.recipe.env if every else ():
        if not name.startswith("VLLM_") or name in every[-1] or (name.startswith(_ELSEWHERE) and name not in INSTEAD):
            continue
        lives = list(gone(of, "environment", name, f"`{name}`"))
        if lives:
            yield from (Remark(is_error, each.problem, each.remedy) for each in lives)
        elif not any(name in known for known in every):
            remedy = f"use {NEVER[name]}" if name in NEVER else _meant(of, name, every[-1])
            yield Remark(is_error, of.no("reads", f"`{name}`"), remedy)


def _meant(of: Subject, name: str, known: Iterable[str]) -> str:
    """What to do about a variable that no release reads: a build may read words of its own, and fit by them alone."""
    if of.certain:
        return hint(name, known, "remove it: it does nothing")
    meant = slip(name, known)
    return f"did you mean `{meant}`?" if meant else "keep it if it is one of this image's own, else it does nothing"


def gone(of: Subject, kind: str, name: str, called: str) -> Iterator[Remark]:
    """A word that the engine has no more, or not yet; where its version is not known: that it is gone since."""
    first, since = life(of.recipe.engine, kind, name)
    if not first:
        return
    image = f", the image has {of.version}" if of.version else ""
    instead = f"use {INSTEAD[name]}" if name in INSTEAD else "remove it"
    if since and (not of.version or parse(of.version) >= parse(since)):
        problem = f"{called} is gone since vLLM {since}{image}"
        yield Remark(False, problem, instead if image else f"{instead}, unless the image is older")
    elif of.version and parse(of.version) < parse(first):
        yield Remark(False, f"{called} came with vLLM {first}{image}", "remove it, or take a newer image")


def elsewhere(of: Subject, flag: str) -> str:
    """Whether a flag that the engine lacks was there once, or came later; empty: no release has it."""
    having = [version for version, words in releases(of.recipe.engine).items() if flag in (words.get("flags") or {})]
    if not having:
        return ""
    if of.version and parse(having[-1]) < parse(of.version):
        return f"it is gone: vLLM {having[-1]} still had it; remove it"
    return f"it came later: vLLM {having[0]} has it; remove it, or take a newer image"
