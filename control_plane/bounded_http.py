"""How much may somebody send before it is a request?

The server takes heads of any length, and keeps all of it until their end comes. Whoever never ends
one would fill the memory, without a key: so its connection is closed.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024
"""Eight times what proxies let through."""


class BoundedHttp(HttpToolsProtocol):
    """The HTTP server's protocol, with a limit for what comes before a body."""

    _is_in_head = True
    _head_bytes = 0

    def on_message_begin(self) -> None:
        """Begin to count."""
        super().on_message_begin()
        self._is_in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Count no more: bodies have limits of their own."""
        self._is_in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Take what came; end it if that is a head without an end."""
        super().data_received(data)
        if self._is_in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self.send_400_response("The head of this request is too large.")
