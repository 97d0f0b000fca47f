"""Is this machine fit: folders, disk, descriptors, proxies, the tools for films?"""

from __future__ import annotations

import asyncio
import importlib.util
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from control_plane.cli.doctor.findings import Finding, fine, note, wrong
from control_plane.cli.settings import proxies

_GIB = 1024**3
_LEAST_FREE_BYTES = 1 * _GIB
_LEAST_DESCRIPTORS = 4096
"""120 rooms one after the other took a thousand for a moment; a stream of events takes one."""
_IMPORTS_WITHIN_S = 30.0
_CAUGHT = ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "wss_proxy")


def look_at_folder(data_dir: Path) -> Iterator[Finding]:
    """Can the data folder be written, and for how long?"""
    folder = data_dir.absolute()
    there = next(one for one in (folder, *folder.parents) if one.exists())
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        yield wrong(
            "folder",
            f"The data folder {data_dir} can't be written ({error.strerror}).",
            f"ls -ld {there}, or another folder with --data-dir",
        )
        return
    free_bytes = shutil.disk_usage(there).free
    if free_bytes < _LEAST_FREE_BYTES:
        yield wrong(
            "disk",
            f"Only {free_bytes / _GIB:.1f} GiB are free where the data folder {data_dir} is.",
            f"df -h {there}",
        )
    else:
        yield fine("folder", f"{data_dir} can be written, {free_bytes / _GIB:.0f} GiB are free")


def look_at_descriptors() -> Iterator[Finding]:
    """May a process have enough files and connections open?"""
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < _LEAST_DESCRIPTORS:
        yield wrong(
            "descriptors",
            f"A process may have {most} files open; every viewer of events and every room needs "
            "some.",
            f"ulimit -n {min(65536, hard) if hard > 0 else 65536}, LimitNOFILE= in a systemd unit",
        )
    else:
        yield fine("descriptors", "enough" if most < 0 else f"{most} a process")


def look_at_proxies(livekit_url: str, set_: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """Would a proxy variable catch what goes to LiveKit?

    Our own processes forget them; a backend with LiveKit's SDK, curl and other servers don't.
    """
    variables = proxies() if set_ is None else set_
    caught = sorted(name for name in variables if name.lower() in _CAUGHT)
    host = urlsplit(livekit_url).hostname
    if not caught or host is None:
        return
    spared = {
        entry.strip().lstrip(".")
        for name in variables
        if name.lower() == "no_proxy"
        for entry in variables[name].split(",")
    }
    if "*" in spared or any(host == one or host.endswith(f".{one}") for one in spared if one):
        yield note(
            "proxy",
            f"{', '.join(caught)} is set and NO_PROXY spares {host}: some of LiveKit's SDKs read "
            "only the first.",
        )
    else:
        yield wrong(
            "proxy",
            f"{', '.join(caught)} sends what goes to LiveKit at {host} to a proxy, in every "
            "program but Greenroom's own.",
            f"unset {' '.join(caught)}, or at least export NO_PROXY={host}",
        )


async def look_at_films() -> list[Finding]:
    """Can a service show films? It must be there and load."""
    if importlib.util.find_spec("av") is None:
        return [note("films", "PyAV isn't installed: services that show films need it.",
                     "pip install 'greenroom[video]'")]  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", "import av; print(av.__version__)"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_IMPORTS_WITHIN_S):
            version, trouble = await process.communicate()
    except TimeoutError:
        process.kill()
        version, trouble = b"", b"it took too long"
    if process.returncode:
        last = trouble.decode(errors="replace").strip().splitlines()[-1:] or ["no word"]
        return [wrong("films", f"PyAV is installed and can't be loaded ({last[0]}).",
                      "pip install --force-reinstall av")]  # fmt: skip
    return [fine("films", f"PyAV {version.decode().strip()}")]
