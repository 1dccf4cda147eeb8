"""Language-model providers: one Protocol, one adapter for everything that speaks the OpenAI protocol."""
