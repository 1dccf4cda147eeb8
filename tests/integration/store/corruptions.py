"""For each invariant a change that breaks it and nothing else, in the database of `populated`.

`{name}` stands for the id of a job or call. The change is made by the owner, with constraints out of the way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.integration.store.populated import DECISION, IDLE, OTHER
from tests.store import LANE, TENANT

STRAY: Final = "what the change returns"
"""Stands for the id of a row that the change makes."""

DROP_CONSTRAINTS: Final = """
DO $$
DECLARE
    found record;
BEGIN
    FOR step IN 1..2 LOOP
        FOR found IN
            SELECT conrelid::regclass AS place, conname FROM pg_constraint
            WHERE connamespace = 'hourglass'::regnamespace AND contype IN ('c', 'f') AND coninhcount = 0
              AND conparentid = 0
        LOOP
            EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', found.place, found.conname);
        END LOOP;
    END LOOP;
END
$$
"""
"""Parents first: what their partitions have inherited is their own then."""


@dataclass(frozen=True, slots=True)
class Corruption:
    """What is done, whom it is found at, and whose that is."""

    sql: str
    subject: str
    tenant: str = TENANT


_LOST_PARTITION = """
DO $$
BEGIN
    EXECUTE format('DROP TABLE hourglass.quotes_%s',
                   to_char((now() + interval '7 days') AT TIME ZONE 'UTC', 'IYYY"w"IW'));
END
$$
"""
_STRAY_ATTEMPT = """
INSERT INTO hourglass.attempts
    (tenant_id, job_id, number, run_token, worker_id, claim_time, end_time, outcome, cause, counted)
SELECT 'acme', hourglass.first_id_of(now()), 1, gen_random_uuid(), 'w', now(), now(), 'FAILED', 'HTTP_503',
       true
RETURNING job_id
"""
_STRAY_KEY = """
INSERT INTO hourglass.idempotency_keys
    (tenant_id, key_digest, hash_version, request_digest, job_id, create_time, expire_time)
SELECT 'acme', '\\x00', 1, '\\x00', hourglass.first_id_of(now()), now(), now()
RETURNING job_id
"""

CORRUPTIONS: Final[Mapping[str, Corruption]] = {
    "TENANT_IS_WHOLE": Corruption("DELETE FROM hourglass.tenant_limits WHERE tenant_id = 'idle'", IDLE, IDLE),
    "TENANT_COUNTS_ITS_JOBS": Corruption(
        "UPDATE hourglass.tenant_limits SET running = running + 1 WHERE tenant_id = 'acme'", TENANT
    ),
    "FUNDS_BALANCE": Corruption(
        "UPDATE hourglass.tenant_funds SET available = available + 1 WHERE tenant_id = 'acme'", TENANT
    ),
    "FUNDED_IS_ITS_FUNDINGS": Corruption(
        "UPDATE hourglass.fundings SET amount = amount + 1 WHERE tenant_id = 'zeta'", OTHER, OTHER
    ),
    "FUNDS_ARE_THEIR_PARTS": Corruption(
        "UPDATE hourglass.tenant_funds SET available = available - 1, reserved = reserved + 1"
        " WHERE tenant_id = 'acme'",
        TENANT,
    ),
    "FUNDING_IS_AUDITED": Corruption(
        "DELETE FROM hourglass.audit_log WHERE tenant_id = 'acme' AND request_id = 'first'", "first"
    ),
    "DECISION_IS_AUDITED": Corruption(
        "DELETE FROM hourglass.audit_log WHERE tenant_id = 'acme' AND request_id = 'again'", DECISION
    ),
    "LANE_COUNTS_ITS_RUNS": Corruption("UPDATE hourglass.lanes SET running = running + 1", LANE, ""),
    "JOB_IN_ONE_PLACE": Corruption("DELETE FROM hourglass.finished_jobs WHERE id = '{failed}'", "{failed}"),
    "JOB_ROWS_HAVE_FACTS": Corruption(_STRAY_ATTEMPT, STRAY),
    "JOB_COPIES_MATCH_FACTS": Corruption(
        "UPDATE hourglass.finished_jobs SET spec_version = 9 WHERE id = '{failed}'", "{failed}"
    ),
    "JOB_HAS_TENANT": Corruption("DELETE FROM hourglass.tenants WHERE tenant_id = 'zeta'", "{other}", OTHER),
    "PAYLOAD_HAS_KEY": Corruption(
        "DELETE FROM hourglass.idempotency_keys WHERE job_id = '{succeeded}'", "{succeeded}"
    ),
    "KEY_HAS_JOB": Corruption(_STRAY_KEY, STRAY),
    "QUOTE_USED_BY_ITS_JOB": Corruption(
        "UPDATE hourglass.quotes SET used_job_id = '{queued}' WHERE used_job_id = '{quoted}'", "{quoted}"
    ),
    "RESERVATION_ADDS_UP": Corruption(
        "UPDATE hourglass.reservations SET released = released + 1 WHERE job_id = '{failed}'", "{failed}"
    ),
    "RESERVATION_IS_QUOTED": Corruption(
        "UPDATE hourglass.job_facts SET quoted_amount = quoted_amount + 1 WHERE id = '{queued}'", "{queued}"
    ),
    "RESERVATIONS_FOLLOW_STATE": Corruption(
        "UPDATE hourglass.finished_jobs SET reservation_number = 9 WHERE id = '{failed}'", "{failed}"
    ),
    "CHARGE_HAS_CAUSE": Corruption(
        "UPDATE hourglass.reservations SET settle_cause = 'MAX_ATTEMPTS' WHERE job_id = '{second}'",
        "{second}",
    ),
    "OVERRUN_IS_BEYOND_CAPTURE": Corruption(
        "INSERT INTO hourglass.overruns VALUES ('acme', '{failed}', 1, 0.5, now())", "{failed}"
    ),
    "RESULT_OF_SUCCESS": Corruption("DELETE FROM hourglass.job_results WHERE id = '{second}'", "{second}"),
    "ERASED_CONTENT_IS_GONE": Corruption(
        "INSERT INTO hourglass.job_payloads VALUES ('acme', '{erased}', '[]', '{{}}')", "{erased}"
    ),
    "ATTEMPTS_ARE_NUMBERED": Corruption(
        "UPDATE hourglass.attempts SET run_token = '{second}' WHERE job_id = '{second}'", "{second}"
    ),
    "ATTEMPTS_ARE_COUNTED": Corruption(
        "UPDATE hourglass.jobs SET counted_attempts = 1 WHERE id = '{retried}'", "{retried}"
    ),
    "ATTEMPTS_ARE_IN_LOG": Corruption(
        "UPDATE hourglass.job_events SET kind = 'ATTEMPT_SENT'"
        " WHERE job_id = '{failed}' AND kind = 'ATTEMPT_STARTED'",
        "{failed}",
    ),
    "ONE_ATTEMPT_SUCCEEDS": Corruption(
        "UPDATE hourglass.attempts SET outcome = 'SUCCEEDED' WHERE job_id = '{second}'", "{second}"
    ),
    "ATTEMPT_COST_HAS_BASIS": Corruption(
        "UPDATE hourglass.attempts SET cost = 1 WHERE job_id = '{failed}'", "{failed}"
    ),
    "LOG_ENDS_WITH_ROW": Corruption(
        "UPDATE hourglass.finished_jobs SET last_sequence = last_sequence + 1 WHERE id = '{failed}'",
        "{failed}",
    ),
    "LOG_HAS_NO_GAPS": Corruption(
        "DELETE FROM hourglass.job_events WHERE job_id = '{succeeded}' AND text = 'Hel'",
        "{succeeded}",
    ),
    "EPOCHS_NAME_THEIR_PAST": Corruption(
        "UPDATE hourglass.job_events SET attributes = attributes - 'last_durable_sequence'"
        " WHERE job_id = '{failed}' AND sequence = (2::bigint << 32) + 1",
        "{failed}",
    ),
    "STATE_IS_THE_LOGS_LAST": Corruption(
        "UPDATE hourglass.finished_jobs SET state_cause = 'POISONED' WHERE id = '{failed}'", "{failed}"
    ),
    "TRANSITIONS_ARE_ALLOWED": Corruption(
        "UPDATE hourglass.job_events SET attributes = jsonb_set(attributes, '{{cause}}', '\"ACCEPTED\"')"
        " WHERE job_id = '{failed}' AND sequence = (2::bigint << 32) + 1",
        "{failed}",
    ),
    "JOB_ROW_FITS_STATE": Corruption(
        "UPDATE hourglass.jobs SET lease_until = NULL WHERE id = '{running}'", "{running}"
    ),
    "UNFINISHED_JOB_HAS_PAYLOAD": Corruption(
        "DELETE FROM hourglass.job_payloads WHERE id = '{queued}'", "{queued}"
    ),
    "HELD_BY_ITS_ATTEMPT": Corruption(
        "UPDATE hourglass.jobs SET run_token = gen_random_uuid() WHERE id = '{held}'", "{held}"
    ),
    "JOB_COST_IS_ITS_ATTEMPTS": Corruption(
        "UPDATE hourglass.jobs SET unknown_cost = 0 WHERE id = '{held}'", "{held}"
    ),
    "CALL_ADDS_UP": Corruption(
        "UPDATE hourglass.calls SET released = released + 1 WHERE id = '{settled}'", "{settled}"
    ),
    "CALL_HAS_TENANT": Corruption(
        "DELETE FROM hourglass.tenants WHERE tenant_id = 'caller'", "{others_call}", "caller"
    ),
    "OVERDUE_LEASE": Corruption(
        "UPDATE hourglass.jobs SET lease_until = now() - interval '1 hour' WHERE id = '{running}'",
        "{running}",
    ),
    "OVERDUE_QUEUE": Corruption(
        "UPDATE hourglass.jobs SET queue_start_time = now() - interval '2 hours',"
        " queue_deadline = now() - interval '1 hour' WHERE id = '{queued}'",
        "{queued}",
    ),
    "OVERDUE_HOLD": Corruption(
        "UPDATE hourglass.jobs SET hold_until = now() - interval '1 hour' WHERE id = '{held}'", "{held}"
    ),
    "OVERDUE_CALL": Corruption(
        "UPDATE hourglass.calls SET deadline = now() - interval '1 hour' WHERE id = '{open}'", "{open}"
    ),
    "OVERDUE_PARTITION": Corruption(_LOST_PARTITION, "quotes", ""),
}
