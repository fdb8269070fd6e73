"""Rules about the stages of a cluster's pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.config.refusal import Remark
from operations.plan.engines import vllm_flags
from operations.plan.recipes.lint.subject import Subject


def wish(of: Subject) -> Iterator[Remark]:
    """The knob has the last word, and what a recipe was written for is said."""
    wanted, stages = of.recipe.pipeline_parallel, of.knobs.stages
    if of.knobs.topology == "cluster" and wanted not in (1, stages):
        problem = f"it was written for {wanted} pipeline stages, and pipeline_parallel is {stages}"
        yield Remark(False, problem, f"set pipeline_parallel to {wanted} to have it as it was written")


def speculation(of: Subject) -> Iterator[Remark]:
    """Drafts are made in the last stage, and the others have to hear of them: vLLM has had a way for that since 0.30
    (PR #50514, #46994; `broadcast_drafts` is in the wheels of 0.30 to 0.32 and not in 0.29's). Before, it ended at the
    start or at the first token (vLLM #49355, #57755). N-grams need no model, and no issue says that they fail.
    """
    config = vllm_flags.speculative(of.recipe)
    if config is None or of.knobs.stages == 1:
        return
    drafts = str(config.get("method", "")) not in vllm_flags.WITHOUT_DRAFT
    if drafts and of.before("0.30"):
        problem = f"speculative decoding over pipeline stages does not start before vLLM 0.30, and this is {of.version}"
        remedy = "set pipeline_parallel to 1, or take the speculation out of the recipe (vLLM #49355, #57755)"
    else:
        problem = "speculative decoding over pipeline stages works for some models and methods alone, from vLLM 0.30 on"
        remedy = "if it does not start, or is slower: pipeline_parallel = 1, or no speculation (vLLM PR #50514)"
    yield Remark(drafts and of.before("0.30"), problem, remedy)


def partition(of: Subject) -> Iterator[Remark]:
    """vLLM ends where the variable has another number of stages, one stage included (0.32: get_pp_indices)."""
    said = of.recipe.env.get("VLLM_PP_LAYER_PARTITION", "")
    if said and len(said.split(",")) != of.knobs.stages:
        has = f"{len(said.split(','))} stages, and there are {of.knobs.stages}"
        remedy = f"set pipeline_parallel to {len(said.split(','))} in topology=cluster, or remove the variable"
        yield Remark(True, f"VLLM_PP_LAYER_PARTITION says the layers of {has}", remedy)
