"""Words that are fine alone and not together: what vLLM refuses at its start, and what was seen to go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from operations.plan.config.refusal import Remark
from operations.plan.engines.vllm_lint.said import Said
from operations.plan.recipes.lint.subject import Subject, parse


@dataclass(frozen=True)
class Pair:
    """`when`: whether a recipe has both, as it would be run; `problem` may name its parts in braces (`{repo}`,
    `{method}`, `{ranks}`, `{stages}`, `{version}`). `since`, `before`: the releases that it is so in; empty: no bound.

    `error`: a release that is known to be among them does not start. Where the version is not known it may be another.
    `source`: the line of vLLM's that says it, or who has seen it.
    """

    when: Callable[[Said], bool]
    problem: str
    remedy: str
    source: str
    error: bool = False
    since: str = ""
    before: str = ""

    def is_of(self, version: str) -> bool:
        """Whether a release has it; one that is not known has what no release is known to be without."""
        if not version:
            return not self.before
        mine = parse(version)
        return not (self.since and mine < parse(self.since)) and not (self.before and mine >= parse(self.before))


def refusal(
    when: Callable[[Said], bool], problem: str, remedy: str, source: str, since: str = "", before: str = ""
) -> Pair:
    """One at which vLLM raises; `source`: where, below `vllm/`."""
    return Pair(when, problem, remedy, source, True, since, before)


def both(flag: str, config: str, key: str) -> Pair:
    """A word that may be said in one of two places, and not in both."""
    return refusal(
        lambda said: said.of.recipe.flag(flag) is not None and said.part(config, key) is not None,
        f"{flag} and {config}'s {key} both say it, and vLLM takes one of them alone",
        f"remove {flag}, or {key} from {config}",
        "engine/arg_utils.py",
    )


def check(pairs: tuple[Pair, ...], of: Subject) -> Iterator[Remark]:
    """Those that a recipe has."""
    said = Said(of)
    for each in pairs:
        if each.is_of(of.version) and each.when(said):
            parts = {name: getattr(said, name) for name in ("method", "ranks", "stages", "tensors")}
            problem = each.problem.format(**parts, repo=of.recipe.model.repo, version=of.version or "of this image")
            yield Remark(each.error and bool(of.version), problem, f"{each.remedy} ({each.source})")
