"""A further service: this folder is all that one is, beside its line in the list of services."""
