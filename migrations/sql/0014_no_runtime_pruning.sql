-- PostgreSQL 18 (seen in 18.6) crashes, and takes every connection with it, when one statement meets a row that somebody has
-- just changed and also prunes partitions while it runs. The first makes an executor of its own for the recheck
-- (EvalPlanQual); it shares the state of the pruning with the statement's, and leaves it pointing into freed memory.
-- Every claim, start and ending may meet both. Transactions that only read lock nothing, and turn pruning on again
-- (budget/transaction.py).
ALTER ROLE hourglass_request SET enable_partition_pruning = off;
ALTER ROLE hourglass_worker SET enable_partition_pruning = off;
