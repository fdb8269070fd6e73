"""Prometheus and Alertmanager on the head."""
