"""Admission as settings of a server that limits what is in flight."""

from typing import Self

from pydantic import Field, model_validator

from servicekit.admission import AdmissionControl, AdmissionLimits
from servicekit.gradient_limit import Bounds
from servicekit.settings import ServerSettings


class AdmittingServerSettings(ServerSettings):
    """What such a server can be told.

    admission: off lets everybody in.
    admission_minimum, admission_initial, admission_maximum: bounds of the adaptive limit, and its start.
    admission_waiting: how many calls may wait for events at once (WaitJob, WatchJob, StreamProgress).
    admission_look_ups: how many calls may be in flight that are not admitted yet (CreateJob's key look-up).
    """

    admission: bool = True
    admission_minimum: int = Field(default=8, gt=0)
    admission_initial: int = Field(default=32, gt=0)
    admission_maximum: int = Field(default=512, gt=0)
    admission_waiting: int = Field(default=1000, gt=0)
    admission_look_ups: int = Field(default=16, gt=0)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if not self.admission_minimum <= self.admission_initial <= self.admission_maximum:
            raise ValueError("admission_minimum <= admission_initial <= admission_maximum is wanted")
        return self

    def admission_control(self) -> AdmissionControl | None:
        """The door that these settings describe, for `Terms`; None when it is off."""
        if not self.admission:
            return None
        bounds = Bounds(
            minimum=self.admission_minimum, initial=self.admission_initial, maximum=self.admission_maximum
        )
        return AdmissionControl(
            AdmissionLimits(adaptive=bounds, waiting=self.admission_waiting, look_ups=self.admission_look_ups)
        )
