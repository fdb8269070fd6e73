"""Nodes with a kernel of their own: virtual machines of qemu."""
