"""The door in numbers: its limit, what is in flight, who was refused and why."""

from collections.abc import Iterable

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from servicekit.admission import AdmissionControl
from servicekit.rate_limit import RateLimits


def observe_admission(meter: Meter, control: AdmissionControl) -> None:
    """Makes the instruments. They read the control when they are collected; requests pay nothing."""

    def limit(_: CallbackOptions) -> Iterable[Observation]:
        yield Observation(control.adaptive.limit)

    def in_flight(_: CallbackOptions) -> Iterable[Observation]:
        for kind, slots in control.slots.items():
            yield Observation(slots.in_flight, {"hourglass.admission": kind.value})

    def refused(_: CallbackOptions) -> Iterable[Observation]:
        for (method, refusal), count in tuple(control.refusals.items()):
            attributes = {"rpc.method": method.removeprefix("/"), "hourglass.refusal": refusal.value}
            yield Observation(count, attributes)

    meter.create_observable_gauge(
        "hourglass.admission.limit", [limit], unit="{request}", description="Adaptive limit of normal calls"
    )
    meter.create_observable_up_down_counter(
        "hourglass.admission.in_flight", [in_flight], unit="{request}", description="Calls in flight"
    )
    meter.create_observable_counter(
        "hourglass.admission.refused",
        [refused],
        unit="{request}",
        description="Calls refused before their start",
    )


def observe_rates(meter: Meter, limits: RateLimits) -> None:
    """Makes the instrument of refused tenants. Who they are stands in the log: here it would be unbounded."""

    def refused(_: CallbackOptions) -> Iterable[Observation]:
        for method, count in tuple(limits.refusals.items()):
            yield Observation(count, {"rpc.method": method.removeprefix("/")})

    meter.create_observable_counter(
        "hourglass.rate_limit.refusals",
        [refused],
        unit="{request}",
        description="Requests of tenants that ask more often than they may",
    )
