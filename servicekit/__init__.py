"""What every hourglass process shares: settings, serving, errors, telemetry, lifecycle."""
