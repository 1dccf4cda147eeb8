"""Language models for the demo and the tests, each in its own process, all speaking the OpenAI protocol."""
