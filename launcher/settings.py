"""Settings of the launcher's own commands."""

from typing import Final, Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from launcher.components import REAL_MODEL
from servicekit.settings import Settings

DEFAULT_PROMPT: Final = "Explain in a few sentences why the sky is blue."


class DatabaseSettings(Settings):
    """Where the data is.

    database_url: PostgreSQL, as a superuser or as an owner who may make roles; the embedded one when unset.
    """

    database_url: str | None = Field(default=None, validation_alias="DATABASE_URL")


class UpSettings(DatabaseSettings):
    """Where `make up` serves.

    jobs_listen, pricing_listen, worker_listen: `host:port`; port 0 takes a free one.
    """

    model_config = SettingsConfigDict(env_prefix="HOURGLASS_")

    jobs_listen: str = "127.0.0.1:50051"
    pricing_listen: str = "127.0.0.1:50052"
    worker_listen: str = "127.0.0.1:50053"


class DemoSettings(DatabaseSettings):
    """What `make demo` asks, and whom. Empty means the default, as make exports unset variables so.

    prompt: what to ask. model: the real small one on this machine by default.
    chaos: 1 kills the worker in mid-answer.
    """

    prompt: str = Field(default="", validation_alias="PROMPT")
    model: str = Field(default="", validation_alias="MODEL")
    chaos: Literal["", "0", "1"] = Field(default="", validation_alias="CHAOS")

    @property
    def chosen_prompt(self) -> str:
        """The prompt to send."""
        return self.prompt or DEFAULT_PROMPT

    @property
    def chosen_model(self) -> str:
        """The model to ask."""
        return self.model or REAL_MODEL

    @property
    def kills_a_worker(self) -> bool:
        """Whether a worker is killed in mid-answer."""
        return self.chaos == "1"
