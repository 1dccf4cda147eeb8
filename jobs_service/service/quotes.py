"""Quote: the candidates are priced side by side, and the answer is remembered for one create."""

from collections.abc import Mapping

from budget.core import Budget
from budget.errors import BudgetExhausted, BudgetTooLow
from budget.fan_out import Answered, Branch, Failed, Part, Unfinished, fan_out
from budget.policy import Policy
from jobs_service.domain.caller import Caller
from jobs_service.domain.quoting import Line, LineStatus, Load, Quoted, QuoteQuestion
from jobs_service.service.last_known import LastKnownPrices
from jobs_service.service.ports import PriceSource, WorkerLook
from jobs_store.identifiers import new_quote_id
from jobs_store.quotes import NewQuote, QuotedModel, QuoteStore, Remembered

_SQL_SHARE = 0.25
"""Of what is left, kept for remembering the quote, unless the statement's own limit is less."""

_LOOK = ""
"""The branch that looks at the workers; no model has this name."""

_Answer = QuotedModel | Load


class Quoting:
    """Prices 1 to 16 models. `sql`: the policy of the statement that ends a quote; `lifetime` in seconds."""

    def __init__(
        self,
        prices: PriceSource,
        workers: WorkerLook,
        quotes: QuoteStore,
        last_known: LastKnownPrices,
        *,
        price: Policy,
        look: Policy,
        sql: Policy,
        lifetime: float,
    ) -> None:
        self._prices = prices
        self._workers = workers
        self._quotes = quotes
        self._last_known = last_known
        self._price = price
        self._look = look
        self._sql = sql
        self._lifetime = lifetime

    async def quote(self, question: QuoteQuestion, caller: Caller, *, budget: Budget) -> Quoted:
        """Whatever could be priced in time. The first error when nothing could; TenantNotFound."""
        parts = await fan_out(
            self._branches(question, caller), budget=budget, limit=self._time_for_answers(budget)
        )
        lines = [_line(model, parts[model]) for model in question.models]
        priced = [line.priced for line in lines if line.priced is not None]
        if not priced:
            raise _first_error(question, parts)
        for line in priced:
            self._last_known.remember(line)
        return await self._remember(question, caller, lines, _load(parts[_LOOK]), budget=budget)

    def _branches(self, question: QuoteQuestion, caller: Caller) -> Mapping[str, Branch[_Answer]]:
        def price(model: str) -> Branch[_Answer]:
            return Branch(
                call=lambda child: self._prices.price(
                    model,
                    question.bounds,
                    budget=child,
                    policy=self._price,
                    retry_attempt=caller.retry_attempt,
                )
            )

        branches = {model: price(model) for model in question.models}
        look: Branch[_Answer] = Branch(call=lambda child: self._workers.look(budget=child, policy=self._look))
        return {**branches, _LOOK: look}

    def _time_for_answers(self, budget: Budget) -> float:
        left = budget.spendable()
        return left - min(self._sql.limit, _SQL_SHARE * left)

    async def _remember(
        self,
        question: QuoteQuestion,
        caller: Caller,
        lines: list[Line],
        load: Load,
        *,
        budget: Budget,
    ) -> Quoted:
        quote = NewQuote(
            tenant=caller.tenant,
            quote_id=new_quote_id(),
            principal=caller.user,
            input_token_bound=question.bounds.input_tokens,
            max_output_tokens=question.bounds.output_tokens,
            models=[line.priced for line in lines if line.priced is not None],
            lifetime=self._lifetime,
        )
        remembered: Remembered = await self._quotes.create(quote, budget=budget)
        return Quoted(
            quote_id=quote.quote_id,
            bounds=question.bounds,
            lines=lines,
            expire_time=remembered.expire_time,
            available=remembered.available,
            load=load,
        )


def _line(model: str, part: Part[_Answer]) -> Line:
    match part:
        case Answered(value=QuotedModel() as priced):
            return Line(model=model, status=LineStatus.OK, priced=priced)
        case Failed(error=BudgetTooLow() as error):
            return Line(model=model, status=LineStatus.SKIPPED, reason=error.reason)
        case _:
            return Line(model=model, status=LineStatus.UNAVAILABLE, reason=_reason(_error_of(part)))


def _load(part: Part[_Answer]) -> Load:
    match part:
        case Answered(value=Load() as load):
            return load
        case _:
            return Load(status=LineStatus.UNAVAILABLE, reason=_reason(_error_of(part)))


def _first_error(question: QuoteQuestion, parts: Mapping[str, Part[_Answer]]) -> Exception:
    return _error_of(parts[question.models[0]])


def _error_of(part: Part[_Answer]) -> Exception:
    match part:
        case Failed(error=error):
            return error
        case Unfinished():
            return BudgetExhausted()
        case _:
            raise AssertionError(f"an answer is no error: {part}")


def _reason(error: Exception) -> str:
    """The reason that a caller can be told; an error without one is a fault of ours and ends the request."""
    reason = getattr(error, "reason", None)
    if not isinstance(reason, str):
        raise error
    return reason
