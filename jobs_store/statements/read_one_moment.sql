-- Makes every read of this transaction see one moment, that of the first one. Comes before any other statement.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ
