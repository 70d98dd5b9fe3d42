#!/bin/sh
# Run the trial registrar.
#   PHONE_IP  address that telephones reach (required)
#   SIP_PORT  its port (5060)
set -eu
: "${PHONE_IP:?set PHONE_IP to the address that telephones reach}"
port=${SIP_PORT:-5060}
exec kamailio -DD -E -Y "$(mktemp -d)" -f "$(dirname "$0")/kamailio.cfg" \
	-A "PHONE_IP=$PHONE_IP" -A "SIP_PORT=$port" -A "PHONE_IP_PORT=\"$PHONE_IP:$port\""
