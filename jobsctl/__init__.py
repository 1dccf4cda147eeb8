"""The operator's command line: a client of the contract, and of nothing else but for `migrate`."""
