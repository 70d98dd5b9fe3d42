#!/bin/sh
# Fill in the relay's configuration and run it; further arguments go to turnserver.
#   TURN_SECRET  the server's turn_secret (required)
#   TURN_IPS     addresses that callers reach, with blanks between (required)
#   PUBLIC_IP    what callers know them by, behind one-to-one NAT
#   AGENT_IPS    private addresses of servers, or ranges a-b, with blanks between
#   TURN_PORT, RELAY_FIRST, RELAY_LAST  ports for callers, and for what is relayed
#   TURN_CERT, TURN_KEY  PEM files, for callers behind proxies that let nothing but TLS through
#   TLS_PORT     port for these
#   TOTAL_QUOTA  allocations at once, over all callers
set -eu
umask 077
: "${TURN_SECRET:?set TURN_SECRET to the turn_secret of the server}"
: "${TURN_IPS:?set TURN_IPS to the address that callers reach}"
folder=$(mktemp -d)
file=$folder/turnserver.conf
sed -e "s|@FOLDER@|$folder|g" \
	-e "s|@TURN_PORT@|${TURN_PORT:-3478}|g" \
	-e "s|@RELAY_FIRST@|${RELAY_FIRST:-49152}|g" \
	-e "s|@RELAY_LAST@|${RELAY_LAST:-65535}|g" \
	-e "s|@TOTAL_QUOTA@|${TOTAL_QUOTA:-2000}|g" \
	"$(dirname "$0")/turnserver.conf" >"$file"
printf 'static-auth-secret=%s\n' "$TURN_SECRET" >>"$file"
for ip in $TURN_IPS; do
	printf 'listening-ip=%s\nrelay-ip=%s\n' "$ip" "$ip" >>"$file"
done
for ip in ${AGENT_IPS:-}; do
	printf 'allowed-peer-ip=%s\n' "$ip" >>"$file"
done
if [ -n "${PUBLIC_IP:-}" ]; then
	printf 'external-ip=%s\n' "$PUBLIC_IP" >>"$file"
fi
if [ -n "${TURN_CERT:-}" ]; then
	printf 'cert=%s\npkey=%s\ntls-listening-port=%s\n' \
		"$TURN_CERT" "$TURN_KEY" "${TLS_PORT:-5349}" >>"$file"
else
	echo no-tls >>"$file"
fi
exec turnserver -c "$file" "$@"
