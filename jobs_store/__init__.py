"""The durable truth: jobs, their states and their money, and the pure arithmetic of prices."""
