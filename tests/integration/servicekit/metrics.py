"""Reads what was measured."""

from collections.abc import Iterator
from typing import Any

from opentelemetry.sdk.metrics.export import InMemoryMetricReader


def points(reader: InMemoryMetricReader, name: str) -> Iterator[Any]:
    """The data points of one instrument, now."""
    data = reader.get_metrics_data()
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                if metric.name == name:
                    yield from metric.data.data_points


def counted(reader: InMemoryMetricReader, name: str, **attributes: str) -> float:
    """The sum of a counter or gauge over the points with these attributes (dots written as `_`)."""
    wanted = {key.replace("_", "."): value for key, value in attributes.items()}
    return sum(
        float(point.value)
        for point in points(reader, name)
        if wanted.items() <= dict(point.attributes).items()
    )
