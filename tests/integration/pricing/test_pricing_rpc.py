"""PricingService over a real connection."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from hourglass.pricing.v1 import pricing_service_pb2 as pb
from hourglass.pricing.v1.pricing_service_pb2_grpc import PricingServiceStub
from pricing_service.app import build_server, build_service
from pricing_service.settings import PricingSettings
from servicekit.channels import client_options
from servicekit.settings import SettingsError
from servicekit.wire_money import amount_of
from wire.rate_card import rate_card_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Stub = Any


@pytest.fixture
async def pricing() -> AsyncIterator[Stub]:
    """A stub of a running service with a markup of 20 %."""
    settings = PricingSettings(listen="127.0.0.1:0")
    server = build_server(settings, build_service(settings))
    async with (
        server.serving({}),
        grpc.aio.insecure_channel(server.address, options=client_options()) as channel,
    ):
        yield PricingServiceStub(channel)


async def error_of(call: Any) -> tuple[grpc.StatusCode, ErrorInfo, dict[str, str]]:
    """Code, ErrorInfo and violations by field of a call that fails."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    info, violations = ErrorInfo(), {}
    trailers = dict(caught.value.trailing_metadata() or ())
    status = Status.FromString(trailers["grpc-status-details-bin"])
    for detail in status.details:
        detail.Unpack(info)
        bad = BadRequest()
        if detail.Unpack(bad):
            violations = {v.field: v.description for v in bad.field_violations}
    return caught.value.code(), info, violations


async def test_a_price_is_the_worst_case_of_both_cards(pricing: Stub) -> None:
    price = await pricing.GetPrice(
        pb.GetPriceRequest(model="smollm2-135m", input_token_bound=1000, max_output_token_count=500)
    )
    assert amount_of(price.provider_amount) == Decimal("0.002")
    assert amount_of(price.amount) == Decimal("0.0024")
    assert (price.provider, price.lane) == ("local", "local/smollm2-135m")
    assert price.rate_card.price_version == price.price_version
    assert price.price_version.endswith("-m0.2")


@pytest.mark.parametrize("model", ["gpt-4o-mini", "gemini-2.5-pro", "smollm2-135m"])
async def test_the_card_on_the_wire_gives_the_same_amounts(pricing: Stub, model: str) -> None:
    for bound in (0, 1, 200_000, 200_001, 900_000):
        price = await pricing.GetPrice(
            pb.GetPriceRequest(model=model, input_token_bound=bound, max_output_token_count=777)
        )
        assert rate_card_of(price.rate_card).worst_case(bound, 777) == amount_of(price.amount)
        assert rate_card_of(price.provider_rate_card).worst_case(bound, 777) == amount_of(
            price.provider_amount
        )


async def test_the_parts_of_a_price_add_up_to_just_below_it(pricing: Stub) -> None:
    price = await pricing.GetPrice(
        pb.GetPriceRequest(model="gpt-4o-mini", input_token_bound=1001, max_output_token_count=333)
    )
    parts = price.breakdown
    total = sum(
        (amount_of(part) for part in (parts.input_amount, parts.output_amount, parts.request_amount)),
        Decimal(0),
    )
    assert 0 <= amount_of(price.amount) - total <= Decimal("4e-9")


async def test_an_unknown_model_is_not_found_with_the_nearest_names(pricing: Stub) -> None:
    request = pb.GetPriceRequest(model="gpt-4o-minni", input_token_bound=1, max_output_token_count=1)
    code, info, _ = await error_of(pricing.GetPrice(request))
    assert (code, info.reason) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_MODEL")
    assert info.metadata["nearest"].split(",")[0] == "gpt-4o-mini"


async def test_all_violations_of_a_request_come_at_once(pricing: Stub) -> None:
    code, info, violations = await error_of(pricing.GetPrice(pb.GetPriceRequest(input_token_bound=-1)))
    assert (code, info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")
    assert set(violations) == {"model", "input_token_bound", "max_output_token_count"}

    _, _, violations = await error_of(
        pricing.RateUsage(
            pb.RateUsageRequest(
                model="x" * 257,
                input_token_count=1,
                cached_input_token_count=2,
                output_token_count=2**40,
                price_version="v" * 129,
            )
        )
    )
    assert set(violations) == {
        "model",
        "cached_input_token_count",
        "output_token_count",
        "price_version",
    }


async def test_usage_is_rated_at_the_version_that_is_asked_for(pricing: Stub) -> None:
    known = pb.RateUsageRequest(
        model="smollm2-135m", input_token_count=100, cached_input_token_count=50, output_token_count=100
    )
    now = await pricing.RateUsage(known)
    assert amount_of(now.amount) == Decimal("0.00033")
    catalog = now.price_version.removesuffix("-m0.2")
    known.price_version = f"{catalog}-m1"
    doubled = await pricing.RateUsage(known)
    assert amount_of(doubled.amount) == Decimal("0.00055")
    known.price_version = "2001-01-01-aaaaaaaaaaaa-m0.2"
    code, info, _ = await error_of(pricing.RateUsage(known))
    assert (code, info.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "PRICE_VERSION_GONE")


async def test_pages_give_every_model_once(pricing: Stub) -> None:
    seen: list[str] = []
    request = pb.ListPricesRequest(page_size=150)
    for _ in range(20):
        page = await pricing.ListPrices(request)
        seen += [line.model for line in page.models]
        request.page_token = page.next_page_token
        if not page.next_page_token:
            break
    assert seen == sorted(set(seen))
    assert len(seen) > 400
    assert {"gpt-4o-mini", "smollm2-135m", "simulated-fast"} <= set(seen)


async def test_a_page_token_belongs_to_its_request(pricing: Stub) -> None:
    first = await pricing.ListPrices(pb.ListPricesRequest(page_size=2, model_prefix="gpt-"))
    assert [line.model.startswith("gpt-") for line in first.models] == [True, True]
    other = pb.ListPricesRequest(page_size=2, page_token=first.next_page_token)
    _, _, violations = await error_of(pricing.ListPrices(other))
    assert set(violations) == {"model_prefix"}


@pytest.mark.parametrize("token", ["x", "eyJhIjoxfQ==", "é", "W10=", "[" * 3000])
async def test_a_made_up_page_token_is_refused(pricing: Stub, token: str) -> None:
    _, _, violations = await error_of(pricing.ListPrices(pb.ListPricesRequest(page_token=token)))
    assert set(violations) == {"page_token"}


async def test_sizes_of_pages_have_bounds(pricing: Stub) -> None:
    _, _, violations = await error_of(pricing.ListPrices(pb.ListPricesRequest(page_size=-1)))
    assert set(violations) == {"page_size"}
    assert len((await pricing.ListPrices(pb.ListPricesRequest())).models) == 100
    page = await pricing.ListPrices(pb.ListPricesRequest(page_size=100_000))
    assert len(page.models) <= 500


@pytest.mark.parametrize("markup", ["-0.1", "11", "0.00001", "NaN", "many"])
def test_a_markup_that_makes_no_sense_stops_the_start(markup: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOURGLASS_PRICING_MARKUP", markup)
    with pytest.raises(SettingsError, match="HOURGLASS_PRICING_MARKUP"):
        PricingSettings.load()
