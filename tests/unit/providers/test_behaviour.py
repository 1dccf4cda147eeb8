"""A simulated model does what its name says."""

from __future__ import annotations

import pytest

from model_servers.simulated.behaviour import (
    Behaviour,
    Fault,
    FaultKind,
    UnknownBehaviour,
    behaviour_of,
)


def test_parameters_change_a_preset() -> None:
    assert behaviour_of("simulated-slow:tokens=300,stall_after=10,usage=0") == Behaviour(
        tps=10, tokens=300, fault=Fault(kind=FaultKind.STALL, after=10), usage=False
    )


@pytest.mark.parametrize(
    "model",
    [
        "",
        "gpt-4",
        "simulated-x",
        "simulated:foo=1",
        "simulated:tokens=-1",
        "simulated:tps=nan",
        "simulated:tps",
    ],
)
def test_a_name_that_makes_no_sense_is_refused(model: str) -> None:
    with pytest.raises(UnknownBehaviour):
        behaviour_of(model)
