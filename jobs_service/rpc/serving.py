"""Both services on a server."""

from hourglass.jobs.v1 import admin_service_pb2_grpc, jobs_service_pb2_grpc
from jobs_service.domain.limits import Limits
from jobs_service.methods import ADMIN, JOBS
from jobs_service.rpc.admin.room import AdminUseCases
from jobs_service.rpc.admin_servicer import AdminServicer
from jobs_service.rpc.job_servicer import JobServicer, UseCases
from servicekit.server import Server


def add_to(server: Server, use_cases: UseCases, admin: AdminUseCases, limits: Limits) -> None:
    """Serves JobService and AdminService."""
    server.add(JOBS, jobs_service_pb2_grpc.add_JobServiceServicer_to_server, JobServicer(use_cases, limits))
    server.add(ADMIN, admin_service_pb2_grpc.add_AdminServiceServicer_to_server, AdminServicer(admin))
