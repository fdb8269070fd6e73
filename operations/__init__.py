"""Tandem's phases. Each module is one phase of a deploy; `plan` and `facts` are what they compare."""
