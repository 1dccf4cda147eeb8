"""Answers one chat request as its model's behaviour says, and notices at once when the client leaves.

Plain ASGI instead of a framework's response class, because the faults need the connection itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from model_servers.simulated.behaviour import Behaviour, FaultKind, UnknownBehaviour, behaviour_of
from model_servers.simulated.journal import Journal, Record, State
from model_servers.simulated.protocol import DONE, Answer, BadRequest, ChatRequest, error_body, event, parse
from model_servers.simulated.text import answer_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    from starlette.types import Receive, Send

    from model_servers.simulated.connections import Connections

SILENCE_LIMIT = 600.0
"""A stalled answer is given up after so many seconds, if the client has not left before."""


class Faulted(Exception):
    """The answer ended in the fault that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and the way back to its client."""

    scope: MutableMapping[str, Any]
    send: Send
    record: Record
    answer: Answer
    behaviour: Behaviour

    async def start(self, content_type: str, *, status: int = 200, retry_after: str = "") -> None:
        """Status line and headers."""
        headers = [(b"content-type", content_type.encode()), (b"x-request-id", self.answer.id.encode())]
        if retry_after:
            headers.append((b"retry-after", retry_after.encode()))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """A piece of the body."""
        await self.send({"type": "http.response.body", "body": data, "more_body": not last})


class ChatCompletions:
    """``POST /v1/chat/completions``."""

    def __init__(self, journal: Journal, connections: Connections) -> None:
        self._journal = journal
        self._connections = connections

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """The ASGI application."""
        body = await _read_body(receive)
        key = _header(scope, b"idempotency-key")
        try:
            request = parse(body)
            behaviour = behaviour_of(request.model)
        except BadRequest as error:
            await _refuse(send, 400, str(error), "invalid_request")
        except UnknownBehaviour as error:
            await _refuse(send, 404, str(error), "model_not_found")
        else:
            if self._journal.is_open(key):
                await _refuse(send, 409, "a request with this Idempotency-Key is open", "conflict")
                return
            if behaviour.times is not None:
                behaviour = behaviour.after(self._journal.asked_before((request.model, request.prompt)))
            exchange = self._exchange(scope, send, request, behaviour, key)
            await self._answer_until_client_leaves(exchange, request, receive)

    def _exchange(
        self,
        scope: MutableMapping[str, Any],
        send: Send,
        request: ChatRequest,
        behaviour: Behaviour,
        key: str,
    ) -> Exchange:
        tokens = answer_tokens(request.prompt, behaviour.tokens)
        cut = request.prompt.max_tokens is not None and behaviour.tokens > request.prompt.max_tokens
        answer = Answer(
            id=f"req-{hashlib.sha256(f'{key}|{request}'.encode()).hexdigest()[:24]}",
            model=request.model,
            tokens=tokens,
            input_tokens=request.prompt.input_tokens,
            finish="length" if cut else behaviour.finish,
        )
        record = self._journal.open(key=key, model=request.model)
        return Exchange(scope=scope, send=send, record=record, answer=answer, behaviour=behaviour)

    async def _answer_until_client_leaves(
        self, exchange: Exchange, request: ChatRequest, receive: Receive
    ) -> None:
        record = exchange.record
        answering = asyncio.create_task(self._answer(exchange, request), name="answer")
        leaving = asyncio.create_task(_client_leaves(receive), name="client leaves")
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                self._journal.end(record, State.CLOSED_BY_CLIENT)
        finally:
            await _end(answering, leaving)
            self._journal.end(record, State.FAILED)
        if exchange.behaviour.kept and exchange.behaviour.status == 200:
            self._keep(exchange)

    # A request is ended in the journal before its last bytes go: the end of a response looks the same to
    # `receive` as a client that leaves.
    async def _answer(self, exchange: Exchange, request: ChatRequest) -> None:
        behaviour, record = exchange.behaviour, exchange.record
        with contextlib.suppress(Faulted):
            if behaviour.status != 200:
                await asyncio.sleep(behaviour.first)
                self._journal.end(record, State.FAILED)
                await _answer_with_error(exchange, request)
            elif self._journal.answer(record.key) is not None or not request.stream:
                await self._answer_whole(exchange, request)
            else:
                await self._answer_in_tokens(exchange, request)

    async def _answer_whole(self, exchange: Exchange, request: ChatRequest) -> None:
        replayed = self._journal.answer(exchange.record.key) is not None
        if not replayed:
            for n, delay in enumerate(_delays(exchange)):
                await asyncio.sleep(delay)
                await self._fault_at(n, exchange)
        exchange.record.tokens_sent = len(exchange.answer.tokens)
        self._finish(exchange)
        if request.stream:
            await exchange.start("text/event-stream")
            chunks = [exchange.answer.token_chunk(n) for n in range(len(exchange.answer.tokens))]
            await exchange.write(b"".join([*chunks, *_ending(exchange, request)]), last=True)
        else:
            await exchange.start("application/json")
            completion = exchange.answer.completion(usage=exchange.behaviour.usage)
            await exchange.write(json.dumps(completion).encode(), last=True)

    async def _answer_in_tokens(self, exchange: Exchange, request: ChatRequest) -> None:
        await self._fault_at(0, exchange)
        await exchange.start("text/event-stream")
        for n, delay in enumerate(_delays(exchange)):
            await asyncio.sleep(delay)
            if n > 0:
                await self._fault_at(n, exchange)
            await exchange.write(exchange.answer.token_chunk(n))
            exchange.record.tokens_sent = n + 1
        self._finish(exchange)
        await exchange.write(b"".join(_ending(exchange, request)), last=True)

    async def _fault_at(self, token: int, exchange: Exchange) -> None:
        fault = exchange.behaviour.fault
        if fault is None or fault.after != token:
            return
        if fault.kind is FaultKind.STALL:
            await asyncio.sleep(SILENCE_LIMIT)
        self._journal.end(exchange.record, State.FAILED)
        match fault.kind:
            case FaultKind.STALL:
                pass
            case FaultKind.RESET:
                self._connections.reset(exchange.scope)
            case FaultKind.ERROR:
                await _write_error_event(exchange, started=token > 0)
            case FaultKind.CUT:
                if token == 0:
                    await exchange.start("text/event-stream")
                await exchange.write(b"", last=True)
        raise Faulted

    def _finish(self, exchange: Exchange) -> None:
        self._keep(exchange)
        self._journal.end(exchange.record, State.FINISHED)

    def _keep(self, exchange: Exchange) -> None:
        self._journal.keep(exchange.record.key, exchange.answer.completion(usage=exchange.behaviour.usage))


def _delays(exchange: Exchange) -> Iterator[float]:
    """Seconds before each token."""
    behaviour = exchange.behaviour
    interval = 1 / behaviour.tps if behaviour.tps else 0.0
    for n in range(len(exchange.answer.tokens)):
        yield interval if n else behaviour.first


def _ending(exchange: Exchange, request: ChatRequest) -> list[bytes]:
    reports_usage = request.include_usage and exchange.behaviour.usage
    usage = [exchange.answer.usage_chunk()] if reports_usage else []
    return [exchange.answer.finish_chunk(), *usage, DONE]


async def _answer_with_error(exchange: Exchange, request: ChatRequest) -> None:
    """In words that repeat the prompt and the key, as those of some providers do."""
    behaviour, headers = exchange.behaviour, dict(exchange.scope["headers"])
    key = headers.get(b"authorization", b"").decode(errors="replace")
    words = f"asked for by the model's name: {' '.join(request.prompt.contents)[:80]} ({key})"
    await exchange.start("application/json", status=behaviour.status, retry_after=behaviour.retry_after)
    body = error_body(behaviour.status, words, behaviour.code or "simulated")
    await exchange.write(json.dumps(body).encode(), last=True)


async def _write_error_event(exchange: Exchange, *, started: bool) -> None:
    if not started:
        await exchange.start("text/event-stream")
    await exchange.write(event(error_body(500, "the model stopped", "server_error")), last=True)


async def _refuse(send: Send, status: int, message: str, code: str) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(error_body(status, message, code)).encode()})


async def _read_body(receive: Receive) -> bytes:
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _client_leaves(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


def _header(scope: MutableMapping[str, Any], name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")
