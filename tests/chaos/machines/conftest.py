"""Machines for the tests, as the lab's own tests have them."""

from tests.lab.qemu.conftest import booted

__all__ = ["booted"]
