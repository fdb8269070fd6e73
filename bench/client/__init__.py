"""The load: a process of its own, beside whatever shows its progress, or in a container on the head.

It needs Python and aiohttp, and nothing else of Tandem: on the head it runs in the proxy's image, sent from memory.
"""
