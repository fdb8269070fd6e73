"""What clients can't ask of an engine as a recipe starts it, by ability, each with why.

`tools`: calls as the model likes; `forced`: a call that is demanded; `named`: of one tool; `schema`: JSON that fits;
`reasoning`: thoughts apart; `apart`: they are left in the answer by a parser's own way; `logprobs`: probabilities of
tokens; `recited`: a text that it is told word for word, beside tools (operations/plan/answers/recited.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from operations.plan.recipes.recipe import Recipe

#: What is not there without a tool parser.
TOOLS = ("tools", "forced", "named")
#: Reasoning parsers that write `<think>` before an answer and leave the thoughts in it: vLLM's
#: (minimax_m2_reasoning_parser.py) and SGLang's (reasoning_parser.py).
_LEAVE = ("minimax_m2_append_think", "minimax-append-think")
#: Where no way is known.
UNRECITED = {"recited": "no way is known by which the engine recites a text beside tools"}


def unparsed(recipe: Recipe, tools: Sequence[str], reasoning: str) -> dict[str, str]:
    """What is lacking where flags are: all of `tools` for calls, `reasoning` for thoughts."""
    missing = [name for name in tools if not recipe.flag(name)]
    lacks = dict.fromkeys(TOOLS, f"the recipe has no {' and no '.join(missing)}") if missing else {}
    parser = recipe.flag(reasoning)
    if not parser:
        return lacks | {"reasoning": f"the recipe has no {reasoning}"}
    if parser in _LEAVE:
        return lacks | dict.fromkeys(("reasoning", "apart"), f"{parser} leaves the thoughts in the answer")
    return lacks
