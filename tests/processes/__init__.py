"""The server as several processes."""
