"""What lands on the nodes in each recipe's topologies, as hashes: to compare what two Pythons make of them."""

from __future__ import annotations

import hashlib
import json

from operations.plan.recipes.formats import load_recipe, stems
from tests.plan import samples
from tests.plan.samples import knobs, make_plan


def landed() -> dict[str, str]:
    """`RECIPE TOPOLOGY` -> a hash of every file of every node."""
    found = {}
    for name in stems():
        recipe = load_recipe(name)
        model = recipe.model.model_copy(update={"revision": recipe.model.revision or "0" * 40})
        recipe = recipe.model_copy(update={"model": model})
        for topology in recipe.topologies:
            wanted = knobs(topology=topology)
            nodes = make_plan(recipe, wanted, samples.nodes(max(2, recipe.min_nodes), wanted)).nodes
            files = [file for node in nodes for unit in node.services.values() for file in unit.files]
            text = "".join(f"{file.path} {file.mode}\n{file.content}\n" for file in files)
            found[f"{name} {topology}"] = hashlib.sha256(text.encode()).hexdigest()
    return found


if __name__ == "__main__":
    print(json.dumps(landed()))
