"""What callers show of the services: ledgers as pictures, failed calls as lines, amounts, times."""
