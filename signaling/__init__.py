"""The aiohttp application. Knows no samples and no tokens."""
