-- Lets the roles of the services log in. Run by psql as the owner, after the migrations have made them.
\set ON_ERROR_STOP on
\getenv request_password REQUEST_PASSWORD
\getenv worker_password WORKER_PASSWORD
\getenv readonly_password READONLY_PASSWORD
ALTER ROLE hourglass_request PASSWORD :'request_password';
ALTER ROLE hourglass_worker PASSWORD :'worker_password';
ALTER ROLE hourglass_readonly PASSWORD :'readonly_password';
