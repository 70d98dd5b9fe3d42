"""The server as several processes: one engine, N media workers, and a front that places calls."""
