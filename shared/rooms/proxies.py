"""Which environment variables would send LiveKit's traffic astray?

LiveKit's SDK takes a proxy from the environment for its signalling, in either case, and ignores
NO_PROXY even for 127.0.0.1. A process that connects to rooms removes these variables first; the
environment itself is only touched in the settings modules.
"""

from __future__ import annotations

from collections.abc import Iterable

_PROXY_VARIABLES = frozenset(("http_proxy", "https_proxy", "all_proxy"))


def proxy_variables(environment: Iterable[str]) -> tuple[str, ...]:
    """Return the names in *environment* that must be removed."""
    return tuple(name for name in environment if name.lower() in _PROXY_VARIABLES)
