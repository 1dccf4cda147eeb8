"""Settings of the pricing process: `HOURGLASS_PRICING_...`."""

from decimal import Decimal

from pydantic import DirectoryPath, field_validator
from pydantic_settings import SettingsConfigDict

from pricing_service.domain import markup_fault
from pricing_service.price_catalog import CATALOG_DIRECTORY
from servicekit.admission_settings import AdmittingServerSettings
from servicekit.setting_types import ListenAddress


class PricingSettings(AdmittingServerSettings):
    """What the pricing process can be told.

    markup: what the tenant pays on top of the provider's rates, 0.2 = 20 %; 0 to 10, at most 4 decimals.
    catalog_directory: where the versioned catalogs lie. All are held; new prices come from one of them.
    catalog_version: the one that new prices come from; the newest when unset.
    """

    model_config = SettingsConfigDict(env_prefix="HOURGLASS_PRICING_")

    listen: ListenAddress = "127.0.0.1:50052"
    markup: Decimal = Decimal("0.2")
    catalog_directory: DirectoryPath = CATALOG_DIRECTORY
    catalog_version: str | None = None

    @field_validator("markup")
    @classmethod
    def _check_markup(cls, markup: Decimal) -> Decimal:
        if fault := markup_fault(markup):
            raise ValueError(f"{fault}: 0 to 10 with at most 4 decimals is wanted, 0.2 means 20 %")
        return markup
