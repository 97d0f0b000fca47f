"""How does a test run several Redis servers that belong together?

`RedisCluster`: masters that share the slots, each on a TCP port with a bus port of its own, and
replicas that take over. `Watched`: a primary, its replica and a Sentinel that promotes it. All are
small and impatient, so that a failover takes a second or two.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import cast

import redis
from redis.crc import key_slot

from shared.embedded.ports import free_port
from shared.store import keys
from tests.support.redis_server import BINARIES, RedisServer, StartRedis
from tests.support.wait import wait_until_sync

SLOTS = 16384
SERVICE = "stage"
_PATIENCE_MS = "800"
_KEPT = ("--bind", "127.0.0.1", "--appendonly", "yes", "--repl-diskless-sync-delay", "0")


class TcpServer:
    """One server with a port; `process` is what a test kills, freezes and starts again."""

    def __init__(self, start: StartRedis, *options: str) -> None:
        self.port = free_port()
        self.process: RedisServer = start("--port", str(self.port), *_KEPT, *options)
        self.address = f"127.0.0.1:{self.port}"

    def ask(self, *command: str | int) -> object:
        """Send one command; the reply is text."""
        with self.process.client() as client:
            return client.execute_command(*command)

    def info(self, section: str) -> dict[str, object]:
        """Return a section of INFO."""
        with self.process.client() as client:
            return cast("dict[str, object]", client.info(section))

    @property
    def role(self) -> object:
        """What it is by now: master or slave; Sentinels cut off who asks while that changes."""
        try:
            return self.info("replication")["role"]
        except redis.ConnectionError:
            return ""

    def follow(self, primary: TcpServer) -> None:
        """Become a replica and wait until nothing is missing."""
        self.ask("REPLICAOF", "127.0.0.1", primary.port)
        self.wait_for_link()

    def wait_for_link(self) -> None:
        """Wait until the primary's data are here."""
        wait_until_sync(
            lambda: self.info("replication").get("master_link_status") == "up",
            "the replica has the primary's data",
            timeout_s=20,
        )


def slot_of(pool: str) -> int:
    """Return the slot in which a pool lives."""
    return key_slot(keys.prefix(pool).encode())


class RedisCluster:
    """Masters that share all slots evenly."""

    def __init__(self, start: StartRedis, masters: int) -> None:
        self._start = start
        self._options = ("--cluster-enabled", "yes", "--cluster-node-timeout", _PATIENCE_MS)
        self.masters = [TcpServer(start, *self._options) for _ in range(masters)]
        for number, master in enumerate(self.masters):
            first, end = number * SLOTS // masters, (number + 1) * SLOTS // masters
            master.ask("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
            master.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for master in self.masters[1:]:
            self._meet(master)
        self.wait_until_sound()

    @property
    def url(self) -> str:
        """The address of the registry; one of the nodes is enough."""
        return f"redis+cluster://{self.masters[-1].address}"

    def master_of(self, pool: str) -> TcpServer:
        """Return the node that was given the slot of *pool* at the beginning."""
        return self.masters[slot_of(pool) * len(self.masters) // SLOTS]

    def pools(self, start: str) -> list[str]:
        """Return a pool's name for each master, in their order; all begin with *start*."""
        found: dict[str, str] = {}
        number = 0
        while len(found) < len(self.masters):
            name = f"{start}-{number}"
            found.setdefault(self.master_of(name).address, name)
            number += 1
        return [found[master.address] for master in self.masters]

    def add_replica(self, master: TcpServer) -> TcpServer:
        """Start a node that takes over when *master* dies."""
        replica = TcpServer(self._start, *self._options)
        self._meet(replica)
        name = str(master.ask("CLUSTER", "MYID"))
        wait_until_sync(lambda: name in str(replica.ask("CLUSTER", "NODES")), "they have met")
        replica.ask("CLUSTER", "REPLICATE", name)
        replica.wait_for_link()
        everybody = (*self.masters, replica)
        names = [str(node.ask("CLUSTER", "MYID")) for node in everybody]

        def all_know_all() -> bool:
            told = [str(node.ask("CLUSTER", "NODES")) for node in everybody]
            return all(name in text for name in names for text in told)

        wait_until_sync(all_know_all, "everybody knows everybody", timeout_s=20)
        return replica

    def begin_move(self, pool: str, target: TcpServer) -> None:
        """Begin to move the slot of *pool*; none of its keys has gone yet."""
        source, slot = self.master_of(pool), slot_of(pool)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", str(source.ask("CLUSTER", "MYID")))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", str(target.ask("CLUSTER", "MYID")))

    def move_keys(self, pool: str, target: TcpServer, *, most: int) -> None:
        """Move up to *most* keys of *pool*."""
        source = self.master_of(pool)
        names = cast("list[str]", source.ask("CLUSTER", "GETKEYSINSLOT", slot_of(pool), most))
        source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *names)

    def end_move(self, pool: str, target: TcpServer) -> None:
        """Tell everybody that the slot has moved."""
        name = str(target.ask("CLUSTER", "MYID"))
        for node in (target, *(master for master in self.masters if master is not target)):
            node.ask("CLUSTER", "SETSLOT", slot_of(pool), "NODE", name)

    def wait_until_sound(self) -> None:
        """Wait until all masters agree that every slot is served."""
        wait_until_sync(
            lambda: all(
                "cluster_state:ok" in str(node.ask("CLUSTER", "INFO"))
                and f"cluster_known_nodes:{len(self.masters)}" in str(node.ask("CLUSTER", "INFO"))
                for node in self.masters
            ),
            "the cluster agrees with itself",
            timeout_s=30,
        )

    def _meet(self, node: TcpServer) -> None:
        bus_port = self.masters[0].process.bus_port
        node.ask("CLUSTER", "MEET", "127.0.0.1", self.masters[0].port, bus_port)


class Watched:
    """A primary and a replica, watched by one Sentinel."""

    def __init__(self, start: StartRedis) -> None:
        self.primary = TcpServer(start)
        self.replica = TcpServer(start)
        self.replica.follow(self.primary)
        self.sentinel_port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="greenroom-sentinel-"))
        self._process = self._start_sentinel()
        wait_until_sync(self._sees_replica, "the Sentinel knows the replica", timeout_s=20)

    @property
    def url(self) -> str:
        """The address of the registry."""
        return f"redis+sentinel://127.0.0.1:{self.sentinel_port}/{SERVICE}"

    def fail_over(self) -> None:
        """Have the replica promoted although the primary lives."""
        wait_until_sync(self._accepts_fail_over, "the Sentinel trusts the replica", timeout_s=20)

    def _accepts_fail_over(self) -> bool:
        # For up to ten seconds a Sentinel knows the replica's name alone, and promotes only one
        # whose own account of its link it has heard.
        try:
            self._ask("SENTINEL", "FAILOVER", SERVICE)
        except redis.ResponseError as error:
            if "NOGOODSLAVE" in str(error):
                return False
            raise
        return True

    def stop(self) -> None:
        """End the Sentinel."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_sentinel(self) -> subprocess.Popen[bytes]:
        config = self._folder / "sentinel.conf"
        config.write_text(
            f"port {self.sentinel_port}\nbind 127.0.0.1\ndir {self._folder}\nloglevel warning\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {self.primary.port} 1\n"
            f"sentinel down-after-milliseconds {SERVICE} {_PATIENCE_MS}\n"
            f"sentinel failover-timeout {SERVICE} 3000\n"
        )
        binary = BINARIES[self.primary.process.flavour]
        return subprocess.Popen([binary, str(config), "--sentinel"], stdout=subprocess.DEVNULL)

    def _sees_replica(self) -> bool:
        try:
            told = self._ask("SENTINEL", "MASTER", SERVICE)
        except redis.ConnectionError:
            return False
        return cast("dict[str, object]", told)["num-slaves"] in (1, "1")

    def _ask(self, *command: str) -> object:
        with redis.Redis(port=self.sentinel_port, decode_responses=True) as client:
            return client.execute_command(*command)


def tls_options(flavour: str, certificate: Path, port: int) -> tuple[str, ...] | None:
    """Make a certificate and return a server's options to use it on *port*; None: it can't."""
    openssl, key = shutil.which("openssl"), certificate.with_suffix(".key")
    without = subprocess.run(
        [BINARIES[flavour], "--port", "0", "--tls-port", str(port)],
        capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip
    if openssl is None or "No tls-cert-file" not in without.stdout:
        return None
    files = ("-nodes", "-keyout", str(key), "-out", str(certificate))
    names = ("-subj", "/CN=greenroom", "-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-days", "1", *files, *names],
        capture_output=True, check=True,
    )  # fmt: skip
    paths = {"cert-file": certificate, "key-file": key, "ca-cert-file": certificate}
    options = {"port": port, "auth-clients": "no", "cluster": "yes", **paths}
    return tuple(word for name, value in options.items() for word in (f"--tls-{name}", str(value)))
