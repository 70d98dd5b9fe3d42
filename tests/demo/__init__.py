"""The demo agent as it is shipped."""
