"""Tests of the bench that need no lab."""
