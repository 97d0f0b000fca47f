"""May a replica listen on this address?

A port is taken before anything else is started: a server of somebody else behind it would answer in
our place, and be taken for us.
"""

from __future__ import annotations

import errno
import socket

from shared.errors import StartupError

GONE_AFTER_MS = 30_000
"""For a client that doesn't confirm what it is sent."""


def listen(host: str, port: int) -> socket.socket:
    """Take the port now, so that one in use is told before anything else happens.

    Raises:
        StartupError: The port is taken, or the address isn't this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it: a client that vanished without a word is given up, and with its
        # event stream the sign of life of a session that nobody waits for any more.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GONE_AFTER_MS)
        listener.bind(address)
        listener.listen(2048)
    except socket.gaierror as unknown:
        raise StartupError(
            f"There is no address called {host}.", try_="--host 127.0.0.1"
        ) from unknown
    except OSError as fault:
        if fault.errno == errno.EADDRINUSE:
            message = f"Port {port} on {host} is in use."
        else:
            message = f"Port {port} on {host} can't be listened on ({fault.strerror})."
        raise StartupError(message, try_="--port 0, which picks a free one") from fault
    return listener
