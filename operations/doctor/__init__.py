"""The doctor: asks all nodes, and shows what it found."""
