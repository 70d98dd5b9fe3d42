"""Stock aiortc: the track that comes in goes out again."""

from __future__ import annotations

import sys

from aiohttp import web
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from loopback import use_loopback

connections: set[RTCPeerConnection] = set()


async def offer(request: web.Request) -> web.Response:
    body = await request.json()
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    connections.add(pc)

    @pc.on("track")
    def on_track(track) -> None:
        pc.addTrack(track)

    @pc.on("connectionstatechange")
    async def on_state() -> None:
        if pc.connectionState in ("failed", "closed"):
            await pc.close()
            connections.discard(pc)

    await pc.setRemoteDescription(RTCSessionDescription(body["sdp"], body["type"]))
    await pc.setLocalDescription(await pc.createAnswer())
    return web.json_response({"sdp": pc.localDescription.sdp, "type": "answer", "pc_id": None})


if __name__ == "__main__":
    use_loopback()
    app = web.Application()
    app.router.add_post("/api/offer", offer)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
