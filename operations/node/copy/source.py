"""A node that files can be had from, asked over the fabric."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

#: What a worker answers that gives to enough others already (HTTP: Service Unavailable).
BUSY = 503
#: Seconds that a worker has to say what it has.
LOOK_TIMEOUT_S = 2
#: Seconds without a byte until a stream is given up.
TIMEOUT_S = 60


@dataclass
class Source:
    """A node that files can be had from, over each of its rails.

    `of`: what it has to have, as share.of says it. `part`: which of the workers it is; each has a part of the files
    that it takes from the head before others do.
    """

    addresses: list[str]
    port: int
    part: int = -1
    of: str = ""
    have: dict[str, str] = field(default_factory=dict)
    coming: set[str] = field(default_factory=set)
    answers: bool = True
    #: Until when it is not asked, on this process's clock: it gives to enough others.
    busy_until: float = 0.0

    @contextmanager
    def get(
        self,
        path: str,
        start: int = 0,
        rail: int = 0,
        told: object = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Iterator[http.client.HTTPResponse]:
        """A page from a byte on, over one of the rails; raises OSError for any answer but that.

        `told`: what the other side has to know for its answer, of any length: it goes as JSON in the request's body.
        """
        address = self.addresses[rail % len(self.addresses)]
        connection = http.client.HTTPConnection(address, self.port, timeout=timeout_s)
        try:
            body = None if told is None else json.dumps(told)
            connection.request("GET" if body is None else "POST", path, body, {"Range": f"bytes={start}-"})
            response = connection.getresponse()
            if response.status == BUSY:
                raise Busy(address)
            if response.status not in (200, 206):
                raise OSError(f"{address} answered {response.status} for {path}")
            yield response
        except http.client.HTTPException as error:
            raise OSError(f"{address}: {error or type(error).__name__}") from None
        finally:
            connection.close()

    def look(self) -> None:
        """Ask what it has and what it gets."""
        try:
            with self.get("/have", timeout_s=LOOK_TIMEOUT_S) as body:
                told = json.load(body)
            is_same = told["of"] == self.of
            self.have = told["have"] if is_same else {}
            self.coming, self.answers = set(told["coming"] if is_same else ()), True
        except (OSError, ValueError):
            self.have, self.coming, self.answers = {}, set(), False


class Busy(OSError):
    """A worker gives to enough others already."""
