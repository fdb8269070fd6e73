"""A DGX Spark's memory: all of it, what is free of it, and the share that an engine can have."""

from __future__ import annotations

import math

#: GiB of a DGX Spark's memory in all, as its firmwares tell it ([Y] in docs/sources.md).
SPARK_GIB = (119.7, 121.69)
#: GiB of it that are free where nothing runs but its system: of the pair that offers least and of the one that offers
#: most ([Y]).
IDLE_GIB = (101.0, 110.0)
#: GiB of available memory below which the guard ends the engine, unless the owner says otherwise.
FLOOR_GIB = 4.0
#: The most that an engine may take of the whole: an idle Spark gives it, and the guard's floor is left. In hundredths.
MOST_SHARE = math.floor((IDLE_GIB[0] - FLOOR_GIB) / SPARK_GIB[1] * 100) / 100
