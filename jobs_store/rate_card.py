"""Rate cards: what tokens cost. Pure arithmetic, exact, rounded up once at the end (see ``money``).

A card is stored on the job, so that accepting a result needs no RPC and a later change of prices changes
nothing for a job that exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Final, TypeVar

from jobs_store.money import exact_arithmetic, round_up

MAX_TOKENS: Final = 2**31 - 1
MAX_RATE: Final = Decimal(1_000_000)
MAX_DECIMALS: Final = 15

_Kind = TypeVar("_Kind")


Schedule = Mapping[int, Decimal]
"""Rates by the input tokens above which they hold; the first one is at 0."""


class MalformedRateCard(ValueError):
    """A stored rate card has a field of a wrong type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call. ``cached_input_tokens`` are part of ``input_tokens``."""

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int = 0

    def __post_init__(self) -> None:
        for name in ("input_tokens", "output_tokens", "cached_input_tokens"):
            if not 0 <= getattr(self, name) <= MAX_TOKENS:
                raise ValueError(f"{name} must be between 0 and {MAX_TOKENS}, not {getattr(self, name)}")
        if self.cached_input_tokens > self.input_tokens:
            raise ValueError(
                f"cached_input_tokens is {self.cached_input_tokens}, above input_tokens, {self.input_tokens}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RateTier:
    """Dollars per million tokens for a call with more than ``above_input_tokens`` tokens of input."""

    above_input_tokens: int
    input: Decimal
    cached_input: Decimal
    output: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """The exact parts of an amount, in dollars, not rounded; ``total`` is their sum, rounded up."""

    input: Decimal
    cached_input: Decimal
    output: Decimal
    per_request: Decimal

    @property
    def all_input(self) -> Decimal:
        """For input tokens, cached or not."""
        with exact_arithmetic():
            return self.input + self.cached_input

    @property
    def total(self) -> Decimal:
        with exact_arithmetic():
            return round_up(self.input + self.cached_input + self.output + self.per_request)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateCard:
    """Rates of one model at one price version.

    The highest tier whose threshold the input exceeds prices every token of the call (a cliff, as providers
    bill it), so the tiers are sorted and the first one starts at 0.
    """

    model: str
    price_version: str
    tiers: tuple[RateTier, ...]
    per_request: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        if not self.tiers or self.tiers[0].above_input_tokens != 0:
            raise ValueError(f"{self.model}: the first tier must start at 0 input tokens")
        if any(lower.above_input_tokens >= upper.above_input_tokens for lower, upper in pairwise(self.tiers)):
            raise ValueError(f"{self.model}: tiers must have rising thresholds")
        _check_rate(self.model, "per_request", self.per_request)
        for tier in self.tiers:
            for name in ("input", "cached_input", "output"):
                _check_rate(self.model, name, getattr(tier, name))

    @classmethod
    def of_schedules(
        cls,
        *,
        model: str,
        price_version: str,
        per_request: Decimal,
        input_rates: Schedule,
        cached_input_rates: Schedule,
        output_rates: Schedule,
    ) -> RateCard:
        """The card of three separate lists of rates, each with its own thresholds."""
        thresholds = sorted({0, *input_rates, *cached_input_rates, *output_rates})
        tiers = tuple(
            RateTier(
                above_input_tokens=threshold,
                input=_rate_above(threshold, input_rates),
                cached_input=_rate_above(threshold, cached_input_rates),
                output=_rate_above(threshold, output_rates),
            )
            for threshold in thresholds
        )
        return cls(model=model, price_version=price_version, per_request=per_request, tiers=tiers)

    def amount(self, usage: Usage) -> Decimal:
        """What this usage costs, in dollars, rounded up to 1e-9."""
        return self.breakdown(usage).total

    def breakdown(self, usage: Usage) -> Breakdown:
        """The parts of ``amount``."""
        return self._priced(self._tier_for(usage.input_tokens), usage)

    def worst_case(self, input_bound: int, max_output_tokens: int) -> Decimal:
        """The most that any usage within the two bounds can cost, in dollars: the bound of ``amount``."""
        return self.worst_case_breakdown(input_bound, max_output_tokens).total

    def worst_case_breakdown(self, input_bound: int, max_output_tokens: int) -> Breakdown:
        """The parts of ``worst_case``.

        A tier may be cheaper than the one below it, so the dearest call need not be the longest: each tier
        that the bound reaches is tried with the most input that it prices.
        """
        return max(self._worst_of_each_tier(input_bound, max_output_tokens), key=lambda parts: parts.total)

    def marked_up(self, markup: Decimal, *, price_version: str) -> RateCard:
        """This card with every rate times (1 + ``markup``), exact, under its own price version."""
        with exact_arithmetic():
            factor = 1 + markup
            return replace(
                self,
                price_version=price_version,
                per_request=self.per_request * factor,
                tiers=tuple(_scaled(tier, factor) for tier in self.tiers),
            )

    def to_json(self) -> dict[str, object]:
        """The stored form: rates are decimal strings, dollars per million tokens."""
        return {
            "model": self.model,
            "price_version": self.price_version,
            "per_request": _plain(self.per_request),
            "tiers": [_tier_to_json(tier) for tier in self.tiers],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> RateCard:
        """The inverse of ``to_json``. Raises ``MalformedRateCard``, a ``ValueError`` that names the field."""
        tiers = _field(stored, "tiers", list)
        return cls(
            model=_field(stored, "model", str),
            price_version=_field(stored, "price_version", str),
            per_request=_decimal(stored, "per_request"),
            tiers=tuple(_tier_from_json(tier) for tier in tiers),
        )

    def _tier_for(self, input_tokens: int) -> RateTier:
        exceeded = [tier for tier in self.tiers if input_tokens > tier.above_input_tokens]
        return exceeded[-1] if exceeded else self.tiers[0]

    def _worst_of_each_tier(self, input_bound: int, max_output_tokens: int) -> list[Breakdown]:
        ends = [*(tier.above_input_tokens for tier in self.tiers[1:]), input_bound]
        return [
            self._priced(tier, _dearest_usage(tier, min(end, input_bound), max_output_tokens))
            for tier, end in zip(self.tiers, ends, strict=True)
            if tier.above_input_tokens < input_bound or tier is self.tiers[0]
        ]

    def _priced(self, tier: RateTier, usage: Usage) -> Breakdown:
        with exact_arithmetic():
            return Breakdown(
                input=(usage.input_tokens - usage.cached_input_tokens) * tier.input.scaleb(-6),
                cached_input=usage.cached_input_tokens * tier.cached_input.scaleb(-6),
                output=usage.output_tokens * tier.output.scaleb(-6),
                per_request=self.per_request,
            )


def _rate_above(threshold: int, schedule: Schedule) -> Decimal:
    reached = [start for start in schedule if start <= threshold]
    if not reached:
        raise ValueError("every schedule must start at 0 input tokens")
    return schedule[max(reached)]


def _check_rate(model: str, name: str, rate: Decimal) -> None:
    exponent = rate.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent > MAX_DECIMALS or not 0 <= rate <= MAX_RATE:
        raise ValueError(
            f"{model}: {name} must be 0 .. {MAX_RATE} with at most {MAX_DECIMALS} decimals, not {rate}"
        )


def _dearest_usage(tier: RateTier, input_tokens: int, output_tokens: int) -> Usage:
    cached = input_tokens if tier.cached_input > tier.input else 0
    return Usage(input_tokens=input_tokens, cached_input_tokens=cached, output_tokens=output_tokens)


def _scaled(tier: RateTier, factor: Decimal) -> RateTier:
    return replace(
        tier,
        input=tier.input * factor,
        cached_input=tier.cached_input * factor,
        output=tier.output * factor,
    )


def _tier_to_json(tier: RateTier) -> dict[str, object]:
    return {
        "above_input_tokens": tier.above_input_tokens,
        "input": _plain(tier.input),
        "cached_input": _plain(tier.cached_input),
        "output": _plain(tier.output),
    }


def _tier_from_json(stored: object) -> RateTier:
    if not isinstance(stored, Mapping):
        raise MalformedRateCard(f"a tier must be an object, not {stored!r}")
    return RateTier(
        above_input_tokens=_field(stored, "above_input_tokens", int),
        input=_decimal(stored, "input"),
        cached_input=_decimal(stored, "cached_input"),
        output=_decimal(stored, "output"),
    )


def _plain(value: Decimal) -> str:
    """Decimal digits without an exponent and without trailing zeros, so that equal rates read the same."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _field(stored: Mapping[str, object], name: str, kind: type[_Kind]) -> _Kind:
    value = stored.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise MalformedRateCard(f"{name} must be a {kind.__name__}, not {value!r}")
    return value


def _decimal(stored: Mapping[str, object], name: str) -> Decimal:
    text = _field(stored, name, str)
    try:
        return Decimal(text)
    except ArithmeticError as error:
        raise MalformedRateCard(f"{name} must be a decimal number, not {text!r}") from error
