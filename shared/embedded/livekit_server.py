"""With which keys, ports and configuration does the LiveKit server run that nobody provided?

Loopback only. Its key and secret are made once and its ports chosen once, both kept below
``data_dir/livekit``: tokens and open rooms survive a restart of the server, because browsers come
back to the same address with what they have.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shared.embedded.child import ChildSpec
from shared.embedded.ports import TCP, UDP, kept_ports, read_ports
from shared.embedded.probes import http_ok
from shared.settings import kept, read_kept

NAME = "livekit"
API_KEY = "greenroom"

# LiveKit refuses to start on a key that it doesn't know, so each release is tested with this text.
_CONFIG = """\
# Written by greenroom at each start.
port: {http}
bind_addresses: ["127.0.0.1"]
keys:
  {key}: {secret}
logging:
  json: true
  level: info
rtc:
  tcp_port: {rtc_tcp}
  udp_port: {rtc_udp}
  use_external_ip: false
  node_ip: 127.0.0.1
  enable_loopback_candidate: true
  interfaces:
    includes: [lo]
"""

_WEBHOOK = """\
webhook:
  api_key: {key}
  urls: ["{url}"]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedLiveKit:
    """How to run it, where it will be, and how to sign for it."""

    spec: ChildSpec
    config: Path
    url: str
    api_key: str
    api_secret: str = field(repr=False)

    def tell(self, webhook_url: str) -> None:
        """Have it tell this address what happens in its rooms; once, before it's started."""
        with self.config.open("a") as config:
            config.write(_WEBHOOK.format(key=self.api_key, url=webhook_url))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningLiveKit:
    """Where the server of a data folder is, and how to sign for it."""

    url: str
    api_key: str
    api_secret: str = field(repr=False)


def running_livekit(data_dir: Path) -> RunningLiveKit | None:
    """Return the server that belongs to *data_dir*, or None if it never had one."""
    folder = data_dir / NAME
    port, secret = read_ports(folder / "ports.json").get("http"), folder / "secret"
    if not port or not secret.is_file():
        return None
    return RunningLiveKit(
        url=f"ws://127.0.0.1:{port}", api_key=API_KEY, api_secret=read_kept(secret)
    )


def embedded_livekit(data_dir: Path, *, program: Path, env: Mapping[str, str]) -> EmbeddedLiveKit:
    """Write the configuration below ``data_dir/livekit`` and say how to run *program* with it.

    Args:
        data_dir: The data folder, whose lock the caller holds.
        program: The server's program, from `livekit_build.livekit_program`.
        env: Environment of the server.
    """
    folder = (data_dir / NAME).absolute()
    secret = kept(folder, "secret", lambda: secrets.token_urlsafe(32))
    ports = kept_ports(folder / "ports.json", {"http": TCP, "rtc_tcp": TCP, "rtc_udp": UDP})
    config = folder / "livekit.yaml"
    config.touch(mode=0o600)
    config.write_text(_CONFIG.format(key=API_KEY, secret=secret, **ports))
    spec = ChildSpec(
        name=NAME,
        argv=(str(program), "--config", str(config)),
        env=env,
        ready=http_ok(ports["http"], "/"),
        stop_within_s=5.0,
        term_twice=True,
    )
    url = f"ws://127.0.0.1:{ports['http']}"
    return EmbeddedLiveKit(spec=spec, config=config, url=url, api_key=API_KEY, api_secret=secret)
