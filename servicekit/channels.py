"""Options of both ends of a gRPC connection, so that they fit each other."""

from collections.abc import Sequence
from typing import Any, Final

from budget.grpc_client import CHANNEL_OPTIONS, SERVER_PING_OPTIONS
from servicekit.settings import ServerSettings

Options = Sequence[tuple[str, Any]]

_PING_INTERVAL: Final = 30.0
_PING_TIMEOUT: Final = 10.0
_STREAM_WINDOW: Final = 65536
_MAX_METADATA: Final = 16384
_HANDSHAKE_TIMEOUT: Final = 10.0


def client_options(*, max_response_bytes: int = 8 * 1024 * 1024, lb_round_robin: bool = False) -> Options:
    """Options of a channel between services of ours: those of the budget, with limits and back-pressure."""
    options: list[tuple[str, Any]] = [
        *CHANNEL_OPTIONS,
        ("grpc.max_receive_message_length", max_response_bytes),
        ("grpc.max_metadata_size", _MAX_METADATA),
        *_back_pressure(),
    ]
    if lb_round_robin:
        options.append(("grpc.service_config", _ROUND_ROBIN))
    return options


def server_options(settings: ServerSettings) -> Options:
    """Options of a server of ours."""
    options: list[tuple[str, Any]] = [
        # Off: two servers on one port would share it in silence.
        ("grpc.so_reuseport", 0),
        ("grpc.max_concurrent_streams", settings.max_concurrent_streams),
        ("grpc.max_receive_message_length", settings.max_request_bytes),
        ("grpc.max_send_message_length", settings.max_response_bytes),
        # Between the two core would refuse at random.
        ("grpc.max_metadata_size", settings.max_metadata_bytes),
        ("grpc.absolute_max_metadata_size", settings.max_metadata_bytes),
        ("grpc.max_allowed_incoming_connections", settings.max_connections),
        # Whoever connects and says nothing holds one of them for so long.
        ("grpc.server_handshake_timeout_ms", _ms(_HANDSHAKE_TIMEOUT)),
        *SERVER_PING_OPTIONS,
        ("grpc.http2.min_ping_interval_without_data_ms", _ms(settings.min_ping_interval)),
        ("grpc.keepalive_time_ms", _ms(_PING_INTERVAL)),
        ("grpc.keepalive_timeout_ms", _ms(_PING_TIMEOUT)),
        *_back_pressure(),
    ]
    if settings.max_connection_age is not None:
        options.append(("grpc.max_connection_age_ms", _ms(settings.max_connection_age)))
        # Longer than any stream may last: core ends what is left without a reason.
        options.append(("grpc.max_connection_age_grace_ms", _ms(settings.max_stream_age + 10)))
    return options


def _back_pressure() -> Options:
    """A slow reader blocks the writer after 64 kB; by default it is megabytes."""
    return [
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", _STREAM_WINDOW),
        ("grpc.http2.write_buffer_size", _STREAM_WINDOW),
    ]


# Health checking works with round_robin only (gRFC A17): a server that drains is left at once.
_ROUND_ROBIN: Final = '{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}}'


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
