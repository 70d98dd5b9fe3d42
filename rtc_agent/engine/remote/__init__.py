"""One engine for several processes: frames cross in shared memory, control over a local socket."""
