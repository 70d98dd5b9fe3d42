"""Training small models of PersonaPlex's architecture on synthetic conversations.

What is trained here is run by `rtc_agent.model` and `rtc_agent.engine` like any other checkpoint.
"""
