"""Tandem's secrets on this node: which are here, and who could read them."""
