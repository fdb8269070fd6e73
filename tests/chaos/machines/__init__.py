"""Faults that want a kernel of its own, done to replicas on virtual machines, and what was seen of them."""
