"""A SIP registrar on loopback, just enough for a gateway's account: it also shows where to call."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets


class Registrar(asyncio.DatagramProtocol):
    """Answers REGISTER, with digest authentication where there is a password."""

    def __init__(self, password: str | None = None) -> None:
        self.password = password
        self.refuse: int | None = None
        """SIP status for every REGISTER; None accepts."""
        self.contact: str | None = None
        """Where the registered account takes calls."""
        self.registrations = 0
        self.mute = False
        self._nonces: set[str] = set()
        self._transport: asyncio.DatagramTransport | None = None
        self._registered = asyncio.Event()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=("127.0.0.1", 0)
        )

    @property
    def uri(self) -> str:
        assert self._transport is not None
        return f"sip:127.0.0.1:{self._transport.get_extra_info('sockname')[1]}"

    async def registered(self, timeout_s: float = 10.0) -> str:
        """The account's contact address, once there is one."""
        async with asyncio.timeout(timeout_s):
            await self._registered.wait()
        assert self.contact is not None
        return self.contact

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        text = data.decode(errors="replace")
        if not text.startswith("REGISTER ") or self.mute:
            return
        if self.refuse is not None:
            self._answer(addr, text, f"{self.refuse} Refused")
        elif self.password is not None and not self._authorized(text):
            nonce = secrets.token_hex(8)
            self._nonces.add(nonce)
            asks = f'WWW-Authenticate: Digest realm="test", nonce="{nonce}", algorithm=MD5'
            if "Authorization:" in text:
                self._answer(addr, text, "403 Forbidden")
            else:
                self._answer(addr, text, "401 Unauthorized", asks)
        elif (match := re.search(r"^Contact:.*?<(sip:[^>]+)>", text, re.M | re.I)) is not None:
            if re.search(r"expires[:=]\s*0\b", text, re.I):
                self.contact = None
                self._registered.clear()
            else:
                self.contact = match[1]
                self.registrations += 1
                self._registered.set()
            self._answer(addr, text, "200 OK", f"Contact: <{match[1]}>;expires=600")

    def _authorized(self, text: str) -> bool:
        match = re.search(r"^Authorization: Digest (.*)$", text, re.M | re.I)
        if match is None:
            return False
        fields = dict(re.findall(r'(\w+)="?([^",\r]*)"?', match[1]))

        def md5(*parts: str) -> str:
            return hashlib.md5(":".join(parts).encode()).hexdigest()

        assert self.password is not None
        a1 = md5(fields["username"], fields["realm"], self.password)
        expected = md5(a1, fields["nonce"], md5("REGISTER", fields["uri"]))
        return fields["nonce"] in self._nonces and fields["response"] == expected

    def _answer(self, addr: tuple[str, int], request: str, status: str, *more: str) -> None:
        copied = [
            line
            for line in request.split("\r\n")
            if re.match(r"(Via|From|To|Call-ID|CSeq):", line, re.I)
        ]
        lines = [f"SIP/2.0 {status}", *copied, *more, "Content-Length: 0", "", ""]
        answer = "\r\n".join(line + ";tag=r" if line.startswith("To:") else line for line in lines)
        assert self._transport is not None
        self._transport.sendto(answer.encode(), addr)
