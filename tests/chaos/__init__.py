"""Faults done to a lab that serves, one after the other, and what became of the requests meanwhile."""
