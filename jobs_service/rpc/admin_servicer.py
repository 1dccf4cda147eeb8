"""AdminService over gRPC: all of its rooms."""

from jobs_service.rpc.admin.api_keys import ApiKeyRoom
from jobs_service.rpc.admin.bulk import BulkRoom
from jobs_service.rpc.admin.lanes import LaneRoom
from jobs_service.rpc.admin.tenants import TenantRoom
from jobs_service.rpc.admin.verify import VerifyRoom
from jobs_service.rpc.admin.workers import WorkerRoom


class AdminServicer(TenantRoom, LaneRoom, WorkerRoom, BulkRoom, VerifyRoom, ApiKeyRoom):
    """The methods of the contract."""
