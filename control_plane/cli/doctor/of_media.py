"""Can LiveKit be reached, does it take our keys, and does a picture get through?

The last is tried for real: a worker of a room of its own joins, as a node's would, and sends for a
moment. That runs in a process of its own, since a media connection that hangs can't be taken back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from time import time
from typing import Any
from urllib.parse import urlsplit

import httpx

from control_plane.cli.doctor.findings import Finding, fine, note, wrong
from control_plane.cli.settings import OperatorSettings
from shared.embedded.livekit_server import running_livekit
from shared.errors import RoomsUnavailable
from shared.rooms.admin import RoomAdmin
from shared.settings import child_environment

AREA = "livekit"
PROBE = "gpu_node.media_probe"
_ANSWERS_WITHIN_S = 5.0
_PROBE_WITHIN_S = 30.0
_TOKENS_LEEWAY_S = 60.0
_SHORTEST_SECRET = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """The media server that is meant."""

    url: str
    public_url: str
    key: str
    secret: str = field(repr=False)

    @property
    def http_url(self) -> str:
        """Where its HTTP side answers."""
        return "http" + self.url.removeprefix("ws").removeprefix("http")


def media_of(own: OperatorSettings) -> Media | None:
    """Return what was named, else what runs with the data folder; None for neither."""
    if own.livekit_url:
        return Media(
            url=own.livekit_url,
            public_url=own.livekit_public_url or own.livekit_url,
            key=own.livekit_api_key,
            secret=own.livekit_api_secret.get_secret_value(),
        )
    running = running_livekit(own.data_dir)
    if running is None:
        return None
    return Media(
        url=running.url, public_url=running.url, key=running.api_key, secret=running.api_secret
    )


async def look_at_media(media: Media, *, with_picture: bool) -> list[Finding]:
    """Look from the outside in: address, clock, keys, and whether media passes."""
    found = list(_of_configuration(media))
    answered = await _of_address(media)
    found += answered
    if not media.key or not media.secret or any(one.area == AREA for one in answered):
        return found
    refused = await _of_keys(media)
    found += refused
    if not refused and with_picture:
        found.append(await _of_picture(media))
    if not any(one.try_ for one in found):
        found.insert(0, fine(AREA, f"{media.url} answers and takes the keys"))
    return found


def _of_configuration(media: Media) -> Iterator[Finding]:
    if not media.key or not media.secret:
        yield wrong(
            AREA,
            "Its API key or secret is missing.",
            "--livekit-api-key and --livekit-api-secret, as under keys: in livekit.yaml",
        )
    elif (media.key, media.secret) == ("devkey", "secret"):
        yield wrong(
            AREA,
            "It runs with the keys of --dev, which everybody knows.",
            "livekit-server generate-keys, and deploy/livekit.yaml",
        )
    elif len(media.secret) < _SHORTEST_SECRET:
        yield wrong(
            AREA,
            f"Its secret has fewer than {_SHORTEST_SECRET} characters, so it can be guessed.",
            "livekit-server generate-keys",
        )
    if not _is_here(media.url) and _is_here(media.public_url):
        yield wrong(
            AREA,
            f"Browsers are told {media.public_url}, which is their own machine.",
            "--livekit-public-url wss://NAME-THAT-BROWSERS-REACH",
        )


async def _of_address(media: Media) -> list[Finding]:
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=_ANSWERS_WITHIN_S) as client:
            answer = await client.get(media.http_url)
    except (httpx.HTTPError, httpx.InvalidURL) as fault:
        why = str(fault) or type(fault).__name__
        return [
            wrong(
                AREA,
                f"LiveKit can't be reached at {media.url} ({why}).",
                f"start it, or name the right one with --livekit-url: curl -i {media.http_url}",
            )
        ]
    with contextlib.suppress(KeyError, ValueError, TypeError):
        ahead_s = parsedate_to_datetime(answer.headers["date"]).timestamp() - time()
        if abs(ahead_s) > _TOKENS_LEEWAY_S:
            return [
                wrong(
                    "clock",
                    f"The clock of LiveKit is {abs(ahead_s):.0f} s off this machine's: it takes "
                    "tokens for expired or not yet valid.",
                    "switch time synchronisation on, on both: timedatectl set-ntp true",
                )
            ]
    return []


async def _of_keys(media: Media) -> list[Finding]:
    admin = RoomAdmin(media.url, media.key, media.secret, "doctor")
    try:
        await admin.rooms()
    except RoomsUnavailable as refused:
        return [
            wrong(
                AREA,
                f"{refused.why[:1].upper()}{refused.why[1:]}.",
                "compare --livekit-api-key and --livekit-api-secret with keys: in livekit.yaml",
            )
        ]
    finally:
        await admin.aclose()
    return []


async def _of_picture(media: Media) -> Finding:
    told = await _probe(media)
    if told.get("sent_bytes", 0) > 0:
        rtt_s = told.get("rtt_s")
        away = "" if rtt_s is None else f", {rtt_s * 1000:.0f} ms away"
        return fine("media", f"a worker joins and its picture gets through{away}")
    return wrong(
        "media",
        f"A worker gets no picture to LiveKit ({told.get('why', 'no answer')}): signalling works, "
        "the media ports don't.",
        "open rtc.udp_port and rtc.tcp_port (7882/udp, 7881/tcp) of livekit.yaml towards nodes and "
        "browsers, and look at node_ip or use_external_ip there",
    )


async def _probe(media: Media) -> dict[str, Any]:
    env = child_environment(
        {
            "livekit_url": media.url,
            "livekit_api_key": media.key,
            "livekit_api_secret": media.secret,
            "deployment_id": "doctor",
        }
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", PROBE),
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_PROBE_WITHIN_S):
            answer, _ = await process.communicate()
        told = json.loads(answer.splitlines()[-1])
    except TimeoutError:
        return {"why": f"nothing happened within {_PROBE_WITHIN_S:.0f} s"}
    except (IndexError, ValueError):
        return {"why": "the attempt ended without a word"}
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    return told if isinstance(told, dict) else {}


def nothing_named() -> Finding:
    """Neither a server nor a data folder with one was named."""
    return note(
        AREA, "No media server was named, so none was looked at.", "--livekit-url ws://HOST:7880"
    )


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
