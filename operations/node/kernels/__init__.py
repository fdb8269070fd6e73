"""What engines have compiled on a node: for what, of which files, and within which room."""
