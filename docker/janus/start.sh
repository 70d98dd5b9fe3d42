#!/bin/sh
# Fill in the gateway's configuration and run it.
#   PHONE_IP  address that telephones reach (required)
#   MEDIA_IP  address that the agent's server reaches (PHONE_IP)
#   WS_IP, WS_PORT  where the bridge connects (127.0.0.1, 8188)
#   ICE_PORTS, RTP_PORTS  UDP ports towards the server, and towards telephones
set -eu
: "${PHONE_IP:?set PHONE_IP to the address that telephones reach}"
here=$(dirname "$0")
folder=$(mktemp -d)
libraries=$(dirname "$(find /usr/lib -type d -path '*/janus/plugins' | head -n 1)")
for name in janus.jcfg janus.plugin.sip.jcfg janus.transport.websockets.jcfg; do
	sed -e "s|@FOLDER@|$folder|g" \
		-e "s|@LIBRARIES@|$libraries|g" \
		-e "s|@PHONE_IP@|$PHONE_IP|g" \
		-e "s|@MEDIA_IP@|${MEDIA_IP:-$PHONE_IP}|g" \
		-e "s|@WS_IP@|${WS_IP:-127.0.0.1}|g" \
		-e "s|@WS_PORT@|${WS_PORT:-8188}|g" \
		-e "s|@ICE_PORTS@|${ICE_PORTS:-20000-21999}|g" \
		-e "s|@RTP_PORTS@|${RTP_PORTS:-22000-23999}|g" \
		"$here/$name" >"$folder/$name"
done
exec janus -C "$folder/janus.jcfg" -F "$folder"
