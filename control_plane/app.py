"""How is a replica put together?

The composition root: every part is made here and handed what it needs. A replica keeps nothing
that another one couldn't rebuild by reading Redis, so parts start in any order and stopping loses
nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from control_plane.access import Access
from control_plane.admin_acts import AdminActs
from control_plane.admin_key import admin_key_of
from control_plane.admission import Admission, Terms
from control_plane.api import openapi, problems
from control_plane.api.answers import Answers
from control_plane.api.auth import Guard
from control_plane.api.edge import Edge
from control_plane.api.events import event_routes
from control_plane.api.health import health_routes
from control_plane.api.nodes import node_routes
from control_plane.api.operator import operator_routes
from control_plane.api.pages import DIST, page_routes
from control_plane.api.queue import list_routes, queue_routes
from control_plane.api.sessions import SESSIONS_PATH, session_routes
from control_plane.api.short_cut import ShortCut, endpoint_of
from control_plane.api.stories import story_routes
from control_plane.api.tokens import token_routes
from control_plane.api.webhooks import webhook_routes
from control_plane.events_hub import EventsHub
from control_plane.key_ring import KeyRing
from control_plane.lines import Lines
from control_plane.listing import SessionList
from control_plane.metrics import Metrics
from control_plane.operator_feed import OperatorFeed
from control_plane.presence import Presence
from control_plane.rate_limits import RateLimits
from control_plane.reconciler import Reconciler
from control_plane.room_chores import RoomChores
from control_plane.session_owners import SessionOwners
from control_plane.session_tokens import SessionTokens
from control_plane.settings import ReplicaSettings
from control_plane.sweeper import Sweeper
from control_plane.truth_watch import TruthWatch
from control_plane.vitals import Vitals
from control_plane.webhooks import Webhooks
from shared.errors import GreenroomError
from shared.lifecycle import Background
from shared.loop_lag import watch_loop
from shared.rooms.admin import RoomAdmin
from shared.rooms.tokens import RoomTokens
from shared.rooms.webhooks import WebhookReader
from shared.store import Registry


class Replica:
    """All parts of one replica; `app` is what the HTTP server runs."""

    def __init__(self, settings: ReplicaSettings, *, dist: Path = DIST) -> None:
        pools = settings.pools
        livekit_secret = settings.livekit_api_secret.get_secret_value()
        self._settings = settings
        self._dist = dist
        self.metrics = Metrics()
        self.registry = Registry.connect(settings.redis_url)
        self.registry.observe(self.metrics.script, self.metrics.redis_failed)
        self.rooms = RoomAdmin(
            settings.livekit_url, settings.livekit_api_key, livekit_secret, settings.deployment_id
        )
        self.vitals = Vitals(registry=self.registry, rooms=self.rooms, pools=pools)
        self.lines = Lines(registry=self.registry, pools=pools)
        self.hub, self.feed = self._hub(), self._feed()
        presence = Presence(rooms=self.rooms, registry=self.registry)
        self.chores = RoomChores(rooms=self.rooms, presence=presence, metrics=self.metrics)
        self.sweeper = Sweeper(registry=self.registry, chores=self.chores, pools=pools)
        self.reconciler = Reconciler(
            registry=self.registry, rooms=self.rooms, chores=self.chores, pools=pools
        )
        session_secret = settings.session_secret.get_secret_value().encode()
        self._owners = SessionOwners(session_secret)
        self._session_tokens = SessionTokens(session_secret)
        self.keys = KeyRing(registry=self.registry)
        self.access = self._access()
        self.guard = self._guard()
        self.admission = self._admission()
        self.answers = self._answers()
        self.app: ASGIApp = Edge(
            self._api_with_short_cut(),
            loopback_only=settings.on_loopback and self.access.is_open and not settings.no_auth,
            host=settings.host,
            allowed_origins=settings.allowed_origins,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Sweep, probe and do chores as long as the block lasts; then close all connections."""
        loops = Background()
        try:
            await self.vitals.probe_rooms()
            self.chores.start()
            loops.start("sweeper", self.sweeper.run())
            loops.start("reconciler", self.reconciler.run())
            loops.start("loop_lag", watch_loop(self.metrics.loop_lagged))
            loops.start("livekit_probe", self.vitals.run())
            loops.start("event_hints", self.hub.listen())
            loops.start("events_hub", self.hub.run())
            loops.start("operator_feed", self.feed.run())
            if not self.access.is_open:
                loops.start("key_ring", self.keys.run())
            if every_s := self._settings.audit_interval_s:
                loops.start("truth_watch", self.truth_watch().run(every_s))
            yield
        finally:
            self.hub.say_goodbye()
            self.feed.say_goodbye()
            await loops.aclose()
            await self.keys.aclose()
            await self.chores.aclose()
            self.admission.close()
            await self.rooms.aclose()
            await self.registry.aclose()

    def _admission(self) -> Admission:
        settings = self._settings
        return Admission(
            registry=self.registry,
            vitals=self.vitals,
            metrics=self.metrics,
            pools=settings.pools,
            terms=Terms(
                limits=settings.limits,
                queue_size=settings.queue_size,
                identity_limits=settings.identity_limits,
            ),
            owners=self._owners,
        )

    def _hub(self) -> EventsHub:
        return EventsHub(
            registry=self.registry,
            lines=self.lines,
            metrics=self.metrics,
            pools=self._settings.pools,
            queue_lease_s=self._settings.queue_lease_s,
        )

    def _feed(self) -> OperatorFeed:
        return OperatorFeed(
            registry=self.registry,
            lines=self.lines,
            pools=self._settings.pools,
            max_waiting=self._settings.queue_size,
        )

    def _access(self) -> Access:
        return Access(
            admin_key=admin_key_of(self._settings),
            keys=self.keys,
            session_tokens=self._session_tokens,
            owners=self._owners,
        )

    def _guard(self) -> Guard:
        settings = self._settings
        return Guard(
            access=self.access,
            limits=RateLimits(
                registry=self.registry,
                creates_per_s=settings.create_rate,
                reads_per_s=settings.read_rate,
            ),
            acts=AdminActs(registry=self.registry),
            metrics=self.metrics,
            pools=settings.pools,
        )

    def _answers(self) -> Answers:
        settings = self._settings
        return Answers(
            room_tokens=RoomTokens(
                settings.livekit_api_key,
                settings.livekit_api_secret.get_secret_value(),
                settings.token_ttl_s,
                settings.deployment_id,
            ),
            session_tokens=self._session_tokens,
            livekit_url=settings.livekit_public_url,
        )

    def truth_watch(self) -> TruthWatch:
        """Return what compares ledger, nodes and rooms now and then."""
        return TruthWatch(
            registry=self.registry,
            rooms=self.rooms,
            vitals=self.vitals,
            numbers=self.metrics.truth,
            pools=self._settings.pools,
        )

    def _api_with_short_cut(self) -> ASGIApp:
        sessions = self._session_routes()
        create = ("POST", SESSIONS_PATH)
        return ShortCut(
            self._api(sessions),
            {create: endpoint_of(sessions, *create)},
            cors=bool(self._settings.allowed_origins),
        )

    def _api(self, sessions: APIRouter) -> FastAPI:
        def lifespan(_app: FastAPI) -> AbstractAsyncContextManager[None]:
            return self.running()

        app = FastAPI(
            title="Greenroom",
            version="1",  # of the API, as in its paths
            docs_url=None,  # its page would load scripts from elsewhere
            redoc_url=None,
            lifespan=lifespan,
        )
        if self._settings.allowed_origins:
            app.add_middleware(
                CORSMiddleware,
                allow_origins=list(self._settings.allowed_origins),
                allow_methods=["GET", "POST", "PUT", "DELETE"],
                allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID"],
                expose_headers=["Retry-After"],
                allow_credentials=False,  # no cookies here; with them "*" would be an open door
            )
        app.add_exception_handler(GreenroomError, problems.on_error)
        app.add_exception_handler(HTTPException, problems.on_http_error)
        app.add_exception_handler(RequestValidationError, problems.on_invalid_query)
        app.add_exception_handler(ClientDisconnect, problems.on_client_gone)
        app.add_exception_handler(Exception, problems.on_bug)
        app.include_router(sessions)
        self._add_routes(app)
        app.openapi = partial(openapi.document, app)  # type: ignore[method-assign]
        return app

    def _add_routes(self, app: FastAPI) -> None:
        pools = self._settings.pools
        app.include_router(
            list_routes(
                access=self.guard,
                sessions=SessionList(registry=self.registry),
                lines=self.lines,
                answers=self.answers,
                pools=pools,
            )
        )
        app.include_router(
            queue_routes(
                access=self.guard,
                registry=self.registry,
                lines=self.lines,
                chores=self.chores,
                pools=pools,
                queue_size=self._settings.queue_size,
            )
        )
        app.include_router(event_routes(access=self.guard, hub=self.hub))
        app.include_router(
            token_routes(access=self.guard, registry=self.registry, answers=self.answers)
        )
        for router in self._operator_routes():
            app.include_router(router)
        app.include_router(self._webhook_routes())
        app.include_router(
            health_routes(
                access=self.guard,
                vitals=self.vitals,
                metrics=self.metrics,
                settings=self._settings,
            )
        )
        app.include_router(
            page_routes(livekit_url=self._settings.livekit_public_url, dist=self._dist)
        )

    def _operator_routes(self) -> tuple[APIRouter, ...]:
        pools = self._settings.pools
        return (
            node_routes(access=self.guard, registry=self.registry, pools=pools),
            story_routes(access=self.guard, registry=self.registry, pools=pools),
            operator_routes(
                access=self.guard,
                feed=self.feed,
                registry=self.registry,
                chores=self.chores,
                pools=pools,
            ),
        )

    def _session_routes(self) -> APIRouter:
        return session_routes(
            access=self.guard,
            admission=self.admission,
            registry=self.registry,
            answers=self.answers,
            chores=self.chores,
            lines=self.lines,
        )

    def _webhook_routes(self) -> APIRouter:
        settings = self._settings
        secret = settings.livekit_api_secret.get_secret_value()
        return webhook_routes(
            reader=WebhookReader(settings.livekit_api_key, secret, settings.deployment_id),
            webhooks=Webhooks(
                registry=self.registry,
                chores=self.chores,
                metrics=self.metrics,
                pools=settings.pools,
            ),
        )
