"""The verbs of the Makefile that ask or stop: small deploy files, each run as `pyinfra -y INVENTORY FILE`."""
