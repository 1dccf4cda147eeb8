"""The metrics of a process for Prometheus, on a port of their own.

OpenTelemetry's reader behind the server of Prometheus' own client. It answers in a thread: a scrape shows a
stalled event loop instead of waiting for it.
"""

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import start_http_server

from servicekit.listen import CannotListen, split


class Scraping:
    """Serves `/metrics` from its making to `stop`."""

    def __init__(self, listen: str) -> None:
        """`listen` is `host:port`. Raises CannotListen."""
        host, port = split(listen)
        try:
            self._server, self._thread = start_http_server(int(port), host.strip("[]"))
        except OSError as error:
            raise CannotListen(listen, error.strerror or str(error)) from error
        self.reader = PrometheusMetricReader()
        self.address = f"{host}:{self._server.server_port}"

    def stop(self) -> None:
        """Ends the server and its thread; blocks until they have ended."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
