"""The server's routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from model_servers.simulated.behaviour import PRESETS
from model_servers.simulated.chat import ChatCompletions
from model_servers.simulated.journal import Journal
from model_servers.simulated.protocol import error_body

if TYPE_CHECKING:
    from starlette.requests import Request

    from model_servers.simulated.connections import Connections


def build(connections: Connections) -> Starlette:
    """The application: chat, models, look-up by Idempotency-Key, and what was seen so far."""
    journal = Journal()

    async def list_models(_request: Request) -> JSONResponse:
        models = [{"id": name, "object": "model", "owned_by": "hourglass"} for name in PRESETS]
        return JSONResponse({"object": "list", "data": models})

    async def look_up(request: Request) -> JSONResponse:
        key = request.path_params["key"]
        answer = journal.answer(key)
        if answer is not None:
            return JSONResponse({"status": "completed", "completion": answer})
        if journal.is_open(key):
            return JSONResponse({"status": "in_progress", "completion": None})
        return JSONResponse(error_body(404, "no answer under this key", "not_found"), status_code=404)

    async def list_requests(request: Request) -> JSONResponse:
        return JSONResponse(journal.to_json(request.query_params.get("key")))

    return Starlette(
        routes=[
            Route("/v1/chat/completions", ChatCompletions(journal, connections), methods=["POST"]),
            Route("/v1/chat/completions/by-request/{key}", look_up),
            Route("/v1/models", list_models),
            Route("/requests", list_requests),
        ]
    )
