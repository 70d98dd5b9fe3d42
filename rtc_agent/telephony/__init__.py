"""Telephone calls: a SIP gateway's client, and the bridge between its calls and the agent's."""
