"""Tandem's units on this node: how they are, why, and which plan they have served."""
