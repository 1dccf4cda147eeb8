"""Use cases of the job service, over the store and two ports: prices and workers."""
