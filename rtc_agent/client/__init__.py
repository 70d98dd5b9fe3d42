"""Callers: headless call, probe, load. Knows nothing of the inside of the server."""
