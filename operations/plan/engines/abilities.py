"""What clients can't ask of an engine as a recipe starts it, by ability, each with why.

`tools`: calls as the model likes; `forced`: a call that is demanded; `named`: of one tool; `schema`: JSON that fits;
`reasoning`: thoughts apart; `logprobs`: probabilities of tokens; `recited`: a text that it is told
word for word, beside tools (operations/plan/answers/recited.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from operations.plan.recipes.recipe import Recipe

#: What is not there without a tool parser.
TOOLS = ("tools", "forced", "named")
#: Where no way is known.
UNRECITED = {"recited": "no way is known by which the engine recites a text beside tools"}


def unparsed(recipe: Recipe, tools: Sequence[str], reasoning: str) -> dict[str, str]:
    """What is lacking where flags are: all of `tools` for calls, `reasoning` for thoughts."""
    missing = [name for name in tools if not recipe.flag(name)]
    lacks = dict.fromkeys(TOOLS, f"the recipe has no {' and no '.join(missing)}") if missing else {}
    return lacks | ({} if recipe.flag(reasoning) else {"reasoning": f"the recipe has no {reasoning}"})
