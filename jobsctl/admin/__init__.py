"""What operators do beyond single jobs: tenants, lanes, workers, many jobs at once, the invariants."""
