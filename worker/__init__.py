"""Claims jobs and runs them against language models."""
