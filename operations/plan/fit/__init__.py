"""Whether a model fits, by what its configuration says: weights, KV cache, room, and a recipe of what is known."""
