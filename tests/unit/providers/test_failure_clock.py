"""A provider's dates are by its own clock."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import pytest
from openai import APIStatusError

from worker.providers.answer import Answer
from worker.providers.failure import failure_of

TEN_MINUTES = timedelta(minutes=10)


@pytest.mark.scenario("O5")
@pytest.mark.parametrize("off", [-TEN_MINUTES, timedelta(0), TEN_MINUTES])
def test_a_date_in_retry_after_is_by_the_clock_of_the_provider(off: timedelta) -> None:
    """However far our own clock is off."""
    theirs = datetime.now(UTC) - off
    response = httpx2.Response(
        429,
        headers={
            "date": format_datetime(theirs, usegmt=True),
            "retry-after": format_datetime(theirs + timedelta(seconds=30), usegmt=True),
        },
        request=httpx2.Request("POST", "http://provider/v1/chat/completions"),
    )
    refusal = APIStatusError("slow down", response=response, body=None)
    assert 30.0 == failure_of(refusal, Answer(provider="acme"), sent=True).retry_after
