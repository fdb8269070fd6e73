"""Events of a stream (SSE) whose parts end anywhere."""

from __future__ import annotations

_END = b"\n\n"


class Events:
    """Give it each part, and get the events that are whole. It looks at each byte once."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def __len__(self) -> int:
        """Bytes of the event that is not whole yet."""
        return len(self._rest)

    def take(self, part: bytes) -> bytes:
        """Events that are whole now, each with its end; empty: none."""
        if not self._rest and part.endswith(_END):
            return part
        # The end may have come half with the part before.
        begin = max(len(self._rest) - 1, 0)
        self._rest += part
        at = self._rest.rfind(_END, begin)
        if at < 0:
            return b""
        whole = bytes(self._rest[: at + len(_END)])
        del self._rest[: at + len(_END)]
        return whole

    def rest(self) -> bytes:
        """What is left of an event whose end has not come."""
        return bytes(self._rest)
