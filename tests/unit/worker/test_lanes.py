"""Which lanes a worker claims from."""

from __future__ import annotations

from worker.lanes import named_lanes, serves
from worker.providers.routes import ProviderRoute, Routes


def _routes(*models: tuple[str, ...]) -> Routes:
    return Routes(
        routes=[
            ProviderRoute(name=f"p{number}", models=patterns, base_url="http://127.0.0.1:1/v1")
            for number, patterns in enumerate(models)
        ]
    )


def test_models_that_are_named_have_their_lanes_from_the_start() -> None:
    routes = _routes(("gpt-5", "gpt-*", "gpt-5"), ("local",))
    assert ("p0/gpt-5", "p1/local") == named_lanes(routes)


def test_a_pattern_serves_the_lanes_of_its_own_provider_only() -> None:
    routes = _routes(("gpt-*",), ("p1/*",))
    assert serves(routes, "p0/gpt-6")
    assert serves(routes, "p1/anything")
    assert not serves(routes, "p2/gpt-6")
    assert not serves(routes, "p0/other")
