"""Tandem's own code: the command, the steps of a deploy, what runs them, and the plan that they make true."""
