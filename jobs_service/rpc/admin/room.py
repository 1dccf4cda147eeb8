"""What every room of AdminService has at hand."""

from dataclasses import dataclass
from typing import Any

import grpc

from hourglass.jobs.v1 import admin_service_pb2_grpc as pb_grpc
from jobs_service.service.bulk import BulkDecider
from jobs_service.service.lane_control import LaneControl
from jobs_store.api_keys import ApiKeyStore
from jobs_store.lanes import LaneStore
from jobs_store.lifetimes import Lifetimes
from jobs_store.tenants import TenantDirectory, TenantStore
from jobs_store.verification import Verification
from jobs_store.workers import WorkerDirectory

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminUseCases:
    """What the methods call. lifetimes: the service's own, which those of a tenant must fit.

    verification: None where no connection is meant for it.
    """

    tenants: TenantStore
    directory: TenantDirectory
    lifetimes: Lifetimes
    lanes: LaneStore
    lane_control: LaneControl
    workers: WorkerDirectory
    verification: Verification | None
    bulk: BulkDecider
    api_keys: ApiKeyStore


class Room(pb_grpc.AdminServiceServicer):
    """The methods about one subject; AdminServicer has all rooms. The actor is always the principal."""

    def __init__(self, use_cases: AdminUseCases) -> None:
        self._use = use_cases
