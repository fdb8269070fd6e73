"""All services, in the order in which they start. A further one is a file here, a folder of files/, and its line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from operations.paths import ENGINE
from operations.plan.services import (
    address,
    alertmanager,
    canary,
    engine_service,
    fallback,
    firewall,
    guard,
    litellm_service,
    monitoring,
    office,
    ondemand,
    page,
    prometheus,
    proxy_service,
    tuning,
)
from operations.plan.services.contract import Context, Contract, Removal, Start
from operations.plan.services.service import Program

SERVICES: tuple[Contract, ...] = (
    tuning.SERVICE,
    guard.SERVICE,
    office.SERVICE,
    canary.SERVICE,
    firewall.SERVICE,
    engine_service.SERVICE,
    fallback.SERVICE,
    ondemand.SERVICE,
    litellm_service.SERVICE,
    proxy_service.SERVICE,
    address.SERVICE,
    monitoring.SERVICE,
    page.SERVICE,
    alertmanager.SERVICE,
    prometheus.SERVICE,
)


def rendered(context: Context) -> dict[str, Program]:
    """By unit, what a node that serves shall have, in the order in which it starts."""
    programs = (program for service in SERVICES for program in service.render(context))
    return {program.unit: program for program in programs if program}


def starting(*when: Start) -> list[Contract]:
    """The services that start then, in their order."""
    return [service for service in SERVICES if service.start in when]


def service_of(unit: str) -> Contract:
    """Which service a unit is of."""
    return next(service for service in SERVICES if unit in service.units)


def to_remove(engines: Sequence[str] = (ENGINE,)) -> tuple[str, ...]:
    """All units, in the order in which they are taken away. `engines`: those in the place of the one."""
    order = [service for when in Removal for service in reversed(SERVICES) if service.removal is when]
    return _units(order, engines)


def to_tell() -> tuple[str, ...]:
    """All units, in the order in which people are told of them: what clients reach, then the others."""
    serving = [service for service in reversed(SERVICES) if service.removal is Removal.SERVING]
    return _units([*serving, *(service for service in SERVICES if service not in serving)])


def _units(services: Iterable[Contract], engines: Sequence[str] = (ENGINE,)) -> tuple[str, ...]:
    return tuple(unit for each in services for name in each.units for unit in (engines if name == ENGINE else (name,)))
