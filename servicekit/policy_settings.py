"""Policies as a setting, checked at the start together with everything else.

    class JobsSettings(ServerSettings):
        policies: Annotated[PolicyBook, NoDecode, overriding(POLICIES)] = POLICIES

The variable, here `HOURGLASS_JOBS_POLICIES`, holds the changes; the field holds the resulting book.
"""

from pydantic import PlainValidator

from budget.policies import PolicyBook


def overriding(defaults: PolicyBook) -> PlainValidator:
    """Reads the changes to `defaults` from JSON text; a ready book is taken as it is."""

    def read(value: object) -> PolicyBook:
        if isinstance(value, PolicyBook):
            return value
        if not isinstance(value, str):
            raise ValueError("must be JSON text")  # noqa: TRY004 - pydantic reports ValueErrors
        return defaults.overridden(value) if value.strip() else defaults

    return PlainValidator(read)
