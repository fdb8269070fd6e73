"""A model's files on this node: whether they are whole, and what they say of themselves."""
