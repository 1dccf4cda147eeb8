"""TLS of both ends of a gRPC connection: PEM files checked, watched, and made into credentials.

What changes on disk is taken up without a restart; what is wrong there is refused, and what was held before
stays. Nothing here logs a key, keeps one in an error's text, or knows of settings.
"""
