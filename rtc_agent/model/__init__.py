"""The model room: computes; knows no asyncio, socket or call."""
