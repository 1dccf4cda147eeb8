-- Roles are shared by all databases of a server, so another database may have made them already.
-- Nobody logs in without what the operator adds: a password, a certificate map or a trusted socket.
DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['hourglass_request', 'hourglass_worker', 'hourglass_readonly'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS', role_name);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END LOOP;
END
$$;

-- A single statement outside a transaction has no SET LOCAL of its own: the role bounds it on the server's side.
ALTER ROLE hourglass_request SET statement_timeout = '10s';
ALTER ROLE hourglass_request SET idle_in_transaction_session_timeout = '15s';
ALTER ROLE hourglass_worker SET statement_timeout = '30s';
ALTER ROLE hourglass_worker SET idle_in_transaction_session_timeout = '30s';
-- Services run few statements, each very often. Planning one anew costs as much as running it, so plans are kept, and one
-- made while a table was small must still serve when it is large: never by reading all of it.
ALTER ROLE hourglass_request SET plan_cache_mode = force_generic_plan;
ALTER ROLE hourglass_request SET enable_seqscan = off;
ALTER ROLE hourglass_worker SET plan_cache_mode = force_generic_plan;
ALTER ROLE hourglass_worker SET enable_seqscan = off;
ALTER ROLE hourglass_readonly SET default_transaction_read_only = on;
ALTER ROLE hourglass_readonly SET statement_timeout = '60s';

CREATE SCHEMA hourglass;
GRANT USAGE ON SCHEMA hourglass TO hourglass_request, hourglass_worker, hourglass_readonly;
