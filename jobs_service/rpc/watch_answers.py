"""The messages of WatchJob. Many may watch one job: what they all get is made once."""

from collections import OrderedDict
from datetime import UTC, datetime
from typing import Final

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_service.service.watching import Heartbeat
from jobs_store.events import Event
from servicekit.wire_time import timestamp_of
from wire.events import event_message

KEPT: Final = 2048
"""Events whose messages are kept: watchers of a job are a few events apart, or read the store."""


class WatchAnswers:
    """Messages ready for the wire."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[Event, bytes]] = OrderedDict()

    def encoded(self, item: Event | Heartbeat) -> bytes:
        """The bytes of a WatchJobResponse."""
        if isinstance(item, Heartbeat):
            return _heartbeat(item).SerializeToString()
        # By identity: the watchers of a stream get the very same object, which is kept, so its id stays its.
        kept = self._kept.get(id(item))
        if kept is not None:
            return kept[1]
        raw = pb.WatchJobResponse(event=event_message(item)).SerializeToString()
        self._keep(item, raw)
        return raw

    def _keep(self, item: Event, raw: bytes) -> None:
        self._kept[id(item)] = (item, raw)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def _heartbeat(item: Heartbeat) -> pb.WatchJobResponse:
    now = timestamp_of(datetime.now(UTC))
    return pb.WatchJobResponse(heartbeat=pb.Heartbeat(server_time=now, sequence=item.sequence))
