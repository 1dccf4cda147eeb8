"""Both services on a server."""

from hourglass.jobs.v1 import admin_service_pb2_grpc, jobs_service_pb2_grpc
from jobs_service.domain.limits import Limits
from jobs_service.methods import ADMIN, JOBS
from jobs_service.rpc.admin.room import AdminUseCases
from jobs_service.rpc.admin_servicer import AdminServicer
from jobs_service.rpc.job_servicer import JobServicer, UseCases
from servicekit.server import Server


def add_to(
    server: Server, use_cases: UseCases, admin: AdminUseCases, limits: Limits, *, watch_write_limit: float
) -> None:
    """Serves JobService and AdminService. watch_write_limit: seconds that a watcher may take."""
    jobs = JobServicer(use_cases, limits, write_limit=watch_write_limit)
    server.add(JOBS, jobs_service_pb2_grpc.add_JobServiceServicer_to_server, jobs)
    server.add(ADMIN, admin_service_pb2_grpc.add_AdminServiceServicer_to_server, AdminServicer(admin))
