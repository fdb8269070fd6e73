"""The command `tandem`: every verb with its help, from an owner's folder or from the clone."""
