"""A WHIP client made of GStreamer's webrtcbin; runs on the system's Python, which has `gi`.

Sends a tone for some seconds, records what comes back, and prints one JSON object. Not a test
module: `test_gstreamer.py` starts it.

Usage: gst_whip.py WHIP_URL OUTPUT_WAV SECONDS
"""

import json
import sys
import urllib.error
import urllib.parse
import urllib.request

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstWebRTC", "1.0")
gi.require_version("GstSdp", "1.0")
gi.require_version("Nice", "0.1")
from gi.repository import GLib, Gst, GstSdp, GstWebRTC, Nice  # noqa: E402

TONE_HZ = 440
PIPELINE = (
    f"audiotestsrc is-live=true wave=sine freq={TONE_HZ} volume=0.3 ! audioconvert ! "
    "audioresample ! opusenc ! rtpopuspay pt=111 ! "
    "application/x-rtp,media=audio,encoding-name=OPUS,payload=111 ! "
    "webrtcbin name=peer bundle-policy=max-bundle"
)


class Publisher:
    """One WHIP session, from the offer to the DELETE."""

    def __init__(self, url, output, seconds):
        self.url, self.output, self.seconds = url, output, seconds
        self.result = {"gstreamer": Gst.version_string(), "connected": False}
        self.resource = None
        self.loop = GLib.MainLoop()
        self.pipeline = Gst.parse_launch(PIPELINE)
        self.peer = self.pipeline.get_by_name("peer")
        # Kept: the binding takes the only reference that the element has to it.
        self.ice = self.peer.get_property("ice-agent")
        loopback = Nice.Address.new()
        loopback.set_from_string("127.0.0.1")
        self.ice.get_property("agent").add_local_address(loopback)
        self.peer.connect("on-negotiation-needed", self.offer)
        self.peer.connect("notify::ice-gathering-state", self.gathered)
        self.peer.connect("notify::connection-state", self.changed)
        self.peer.connect("pad-added", self.receive)

    def run(self):
        self.pipeline.set_state(Gst.State.PLAYING)
        GLib.timeout_add(int(self.seconds * 1000), self.stop)
        self.loop.run()
        self.pipeline.set_state(Gst.State.NULL)
        print(json.dumps(self.result))

    def offer(self, peer):
        self.promise = Gst.Promise.new_with_change_func(self.offered, None)
        peer.emit("create-offer", None, self.promise)

    def offered(self, promise, _):
        # The reply has to be kept: without a reference its description is freed under us.
        self.reply = promise.get_reply()
        self.description = self.reply.get_value("offer")
        self.peer.emit("set-local-description", self.description, Gst.Promise.new())

    def gathered(self, peer, _):
        state = peer.get_property("ice-gathering-state")
        if state == GstWebRTC.WebRTCICEGatheringState.COMPLETE and self.resource is None:
            self.resource = ""
            GLib.idle_add(self.post)

    def post(self):
        offer = self.peer.get_property("local-description").sdp.as_text()
        headers = {"Content-Type": "application/sdp"}
        request = urllib.request.Request(self.url, offer.encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                self.result["status"] = response.status
                self.resource = urllib.parse.urljoin(self.url, response.headers["Location"])
                answer = response.read().decode()
        except urllib.error.HTTPError as error:
            self.result |= {"status": error.code, "problem": error.read().decode()}
            self.loop.quit()
            return False
        _, sdp = GstSdp.SDPMessage.new_from_text(answer)
        self.answer = GstWebRTC.WebRTCSessionDescription.new(GstWebRTC.WebRTCSDPType.ANSWER, sdp)
        self.peer.emit("set-remote-description", self.answer, Gst.Promise.new())
        return False

    def changed(self, peer, _):
        state = peer.get_property("connection-state")
        self.result["connected"] |= state == GstWebRTC.WebRTCPeerConnectionState.CONNECTED

    def receive(self, _, pad):
        if pad.get_direction() != Gst.PadDirection.SRC:
            return
        chain = Gst.parse_bin_from_description(
            "rtpopusdepay ! opusdec ! audioconvert ! audioresample ! "
            "audio/x-raw,format=S16LE,rate=24000,channels=1 ! wavenc ! "
            f"filesink location={self.output}",
            True,
        )
        self.pipeline.add(chain)
        chain.sync_state_with_parent()
        pad.link(chain.get_static_pad("sink"))

    def stop(self):
        self.pipeline.send_event(Gst.Event.new_eos())
        if self.resource:
            request = urllib.request.Request(self.resource, method="DELETE")
            with urllib.request.urlopen(request, timeout=10) as response:
                self.result["delete"] = response.status
        GLib.timeout_add(300, self.loop.quit)
        return False


if __name__ == "__main__":
    Gst.init(None)
    Publisher(sys.argv[1], sys.argv[2], float(sys.argv[3])).run()
