"""The lab: hosts booted on this machine that look like DGX Sparks to a deploy."""
