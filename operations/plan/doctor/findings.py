"""All kinds of findings. Each is declared where it is raised, and this module imports those places."""

from __future__ import annotations

from operations.plan import absence as absence
from operations.plan import doctor as doctor
from operations.plan import node_kinds as node_kinds
from operations.plan.cluster import fabric_checks as fabric_checks
from operations.plan.cluster import ring as ring
from operations.plan.config.kind import KINDS as KINDS
from operations.plan.services import address as address
from operations.plan.services import demand as demand
from operations.plan.services import tuning as tuning
