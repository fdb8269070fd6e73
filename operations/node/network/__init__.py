"""Netdevs of this node, their addresses, and the walls."""
