"""Netdevs of this node, their addresses, Tandem's firewall and the owner's."""
