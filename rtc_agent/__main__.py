"""`python -m rtc_agent` is `rtc-agent`."""

from rtc_agent.cli import main

main()
