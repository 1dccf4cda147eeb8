-- PostgreSQL 18.6 crashed, and took every connection with it, in a statement that locks rows others change and also prunes
-- partitions while it runs; the crash is in the pruning. What was seen and what is concluded: docs/adr/0008. Every claim and
-- ending is such a statement. Transactions that only read lock nothing, and turn pruning on again (budget/transaction.py).
ALTER ROLE hourglass_request SET enable_partition_pruning = off;
ALTER ROLE hourglass_worker SET enable_partition_pruning = off;
