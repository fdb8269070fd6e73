"""placeholder"""

from bench.measuring import Measurement


class Benchy:
    def __init__(self, m: Measurement) -> None:
        self.m = m

    def go(self) -> None:
        pass
