"""Admission as settings of a server that limits what is in flight."""

from typing import Final

from pydantic import Field, ValidationInfo, field_validator

from servicekit.admission import AdmissionControl, AdmissionLimits
from servicekit.gradient_limit import Bounds
from servicekit.identity.settings import IdentitySettings

_INITIAL: Final = 64


class AdmittingServerSettings(IdentitySettings):
    """What such a server can be told.

    admission: off lets everybody in.
    admission_minimum, admission_maximum: bounds of the adaptive limit; the same number twice fixes it.
    admission_waiting: how many calls may wait for events at once (WaitJob, WatchJob, StreamProgress).
    admission_look_ups: how many calls may be in flight that are not admitted yet (CreateJob's key look-up).
    """

    admission: bool = True
    admission_minimum: int = Field(default=8, gt=0)
    admission_maximum: int = Field(default=512, gt=0, validate_default=True)
    admission_waiting: int = Field(default=1000, gt=0)
    admission_look_ups: int = Field(default=64, gt=0)

    @field_validator("admission_maximum")
    @classmethod
    def _check_order(cls, maximum: int, info: ValidationInfo) -> int:
        minimum: int = info.data.get("admission_minimum", maximum)
        if maximum < minimum:
            raise ValueError(f"is {maximum}, wanted at least the minimum of {minimum}")
        return maximum

    def admission_control(self) -> AdmissionControl | None:
        """The door that these settings describe, for `Terms`; None when it is off."""
        if not self.admission:
            return None
        initial = min(max(_INITIAL, self.admission_minimum), self.admission_maximum)
        bounds = Bounds(minimum=self.admission_minimum, initial=initial, maximum=self.admission_maximum)
        return AdmissionControl(
            AdmissionLimits(adaptive=bounds, waiting=self.admission_waiting, look_ups=self.admission_look_ups)
        )
