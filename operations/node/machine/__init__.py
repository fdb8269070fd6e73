"""What this machine is made of."""
