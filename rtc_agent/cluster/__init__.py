"""Many GPUs and hosts: replicas and fronts on Ray.

```
caller ── HTTP ──► any front ── HTTP ──► the replica that its id names, or one with a free slot
   └────── media ──────────────────────► that replica's host
```

A replica is one engine with its media workers, the processes of `serve --media-workers`, under one
Ray actor. A front is another actor with an HTTP listener; it holds no call and remembers nothing,
for every id a client is given begins with its replica's. A controller, a third kind of actor, says
how many of each there are, and rolls upgrades.

Why Ray core and not Ray Serve: Serve spreads HTTP requests, and takes a replica to be busy while it
answers one. A call is one short request, then minutes of media past any proxy. Serve would place by
a queue that is always empty, would scale in replicas that are full of calls, and would send what
belongs to a call to whichever replica comes next. What is wanted of Ray are its actors: placement
by resources (a GPU each), restart wherever there is room, health of hosts, and an autoscaler that
adds hosts for actors that have none.
"""
