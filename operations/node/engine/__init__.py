"""Asking an engine for an answer."""
