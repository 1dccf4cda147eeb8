"""Tokens and what they cost the operator, from messages between services."""

from hourglass.jobs.v1 import job_pb2 as pb
from jobs_store.attempts import ProviderCost
from jobs_store.rate_card import Usage
from jobs_store.states import CostBasis
from servicekit.wire_money import amount_of
from wire.enums import from_wire


def usage_of(message: pb.TokenUsage) -> Usage:
    """The tokens of a message. ValueError for numbers that no answer has."""
    return Usage(
        input_tokens=message.input_token_count,
        cached_input_tokens=message.cached_input_token_count,
        output_tokens=message.output_token_count,
    )


def provider_cost_of(message: pb.ProviderCost) -> ProviderCost:
    """The cost of a message. MalformedMoney."""
    return ProviderCost(
        amount=amount_of(message.amount),
        basis=from_wire(pb.CostBasis, message.basis, CostBasis),
        worst_case=amount_of(message.unknown_worst_case_amount),
    )
