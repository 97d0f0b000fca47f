"""How does a test ask a real Prometheus that scrapes what the test runs?

One process on a free loopback port with its data in a folder of the test, gone when the block ends.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.livekit_server import free_ports
from tests.support.wait import wait_until

Targets = Mapping[str, Sequence[str]]
"""Job → host:port of what it scrapes."""


class PrometheusServer:
    """A running Prometheus, asked over its HTTP API."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def ask(self, query: str) -> list[dict[str, Any]]:
        """Return the series that answer *query* now."""
        answer = await self._client.get("/api/v1/query", params={"query": query})
        told = answer.json()
        assert told["status"] == "success", f"{query}: {told}"
        series: list[dict[str, Any]] = told["data"]["result"]
        return series

    async def names(self) -> set[str]:
        """Return every name under which it has stored anything."""
        answer = await self._client.get("/api/v1/label/__name__/values")
        return set(answer.json()["data"])

    async def rules(self) -> list[dict[str, Any]]:
        """Return the alert rules that it has loaded, with what went wrong in asking."""
        answer = await self._client.get("/api/v1/rules")
        groups = answer.json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    async def is_ready(self) -> bool:
        """Whether it answers."""
        with contextlib.suppress(httpx.HTTPError):
            return (await self._client.get("/-/ready")).status_code == 200
        return False


@contextlib.asynccontextmanager
async def running_prometheus(
    targets: Targets, rule_files: Sequence[Path] = (), *, every: str = "1s"
) -> AsyncIterator[PrometheusServer]:
    """Run one for the length of the block; skips the test where it isn't installed."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("there is no prometheus (apt-get install prometheus)")
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="greenroom-prometheus-") as folder:
        config = Path(folder) / "prometheus.yml"
        config.write_text(_config(targets, rule_files, every))
        process = _started(program, config, Path(folder), port)
        try:
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False
            ) as client:
                server = PrometheusServer(client)
                await wait_until(server.is_ready, "Prometheus answers", timeout_s=30)
                yield server
        finally:
            process.terminate()
            process.wait()


def _started(program: str, config: Path, folder: Path, port: int) -> subprocess.Popen[bytes]:
    options = (
        f"--config.file={config}",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    )
    with (folder / "log").open("wb") as log:
        return subprocess.Popen([program, *options], stdout=log, stderr=log, cwd=folder)


def _config(targets: Targets, rule_files: Sequence[Path], every: str) -> str:
    return yaml.safe_dump(
        {
            "global": {"scrape_interval": every, "evaluation_interval": every},
            "rule_files": [str(path) for path in rule_files],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": list(addresses)}]}
                for job, addresses in targets.items()
            ],
        }
    )
