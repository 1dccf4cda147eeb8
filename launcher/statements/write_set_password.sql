-- Write the statement that gives a role ($1) its password ($2), quoted: ALTER ROLE takes no parameters.
SELECT format('ALTER ROLE %I PASSWORD %L', $1::text, $2::text)
