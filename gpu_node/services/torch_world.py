"""What does a neural world look like as a service file?

A bidirectional service (see ``demo_world.py`` for the contract) whose frames a recurrent network
imagines, on the GPU if there is one and else on the processor:

- Each session has a **slot** in tensors that were allocated once, after it was measured how many
  fit. Coming and going moves no memory.
- A chunk goes through an **orchestrator graph**: encode → generate → decode. The prompt is encoded
  one chunk ahead; ``go`` lets the next chunk begin when somebody wants it; held keys are latched,
  so a chunk is made with the keys that are down when it begins. The stages share the device and
  take turns, and so do sessions.
- The **execution lease** is asked for when one session needs more than half of the device: then
  two that play side by side would both stutter, and turns of a whole chunk are better.

A trained world is served by the same means: put its weights and functions in the place of
``torch_world_model.py``.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

try:
    import torch
except ImportError as error:
    raise ImportError("it needs torch; install it with: pip install 'greenroom[gpu]'") from error

from gpu_node.capacity import Budget, measure, plan_capacity, reset_peaks
from gpu_node.orchestrator import (
    Artifact,
    Call,
    Edge,
    Graph,
    LocalActor,
    Ordering,
    Pipeline,
    ResourceGroup,
    Stage,
)
from gpu_node.services import torch_world_model as model
from gpu_node.services.torch_world_wishes import (
    DEFAULT_FPS,
    DEFAULT_PROMPT,
    direction,
    held,
    pressed,
    read_config,
)
from gpu_node.slots import SlotPool

CHUNK_FRAMES = 4
TURNS_ABOVE = 0.5
"""Share of a chunk's length that its making may take before sessions need turns."""
STEP_LIMIT_S = 60.0
ROLE = "denoise"
"""What this process is in the account of memory; here one does everything."""
GRAPH = Graph(
    artifacts=(
        Artifact(name="prompt", type=str),
        Artifact(name="go", type=bool),
        Artifact(name="keys", type=dict, latched=True),
        Artifact(name="condition"),
        Artifact(name="latents"),
        Artifact(name="frames", type=list),
        Artifact(name="applied", type=list),
    ),
    stages=(
        Stage(id="encode", consumes=("prompt",), produces=("condition",), resource_group="device"),
        Stage(
            id="generate",
            consumes=("condition", "go", "keys"),
            produces=("latents", "applied"),
            in_flight=2,
            resource_group="device",
        ),
        Stage(
            id="decode",
            consumes=("latents",),
            produces=("frames",),
            ordering=Ordering.NONE,
            resource_group="device",
        ),
    ),
    edges=(
        Edge(artifact="prompt", target="encode", capacity=2),
        Edge(artifact="condition", source="encode", target="generate", capacity=2),
        Edge(artifact="go", target="generate"),
        Edge(artifact="keys", target="generate"),
        Edge(artifact="latents", source="generate", target="decode"),
    ),
    outputs=("frames", "applied"),
    resource_groups=(ResourceGroup(name="device"),),
    anchor="keys",
)


@dataclass(slots=True)
class Session:
    """What one user wants. Only the service loop writes it."""

    slot: int
    prompt: str
    fps: float
    keys: dict[str, float] = field(default_factory=dict)
    """Until when each key counts. Replaced as a whole: the generating thread reads it."""
    begin_anew: bool = False
    stopped: bool = False


class Encode:
    """Stage: a prompt becomes a condition."""

    def __init__(self, weights: model.Weights) -> None:
        self._weights = weights

    def run(self, call: Call) -> Mapping[str, Any]:
        """Encode one prompt; the one of before costs as much as a new one, which is little."""
        with torch.inference_mode():
            return {"condition": model.encode(self._weights, call.inputs["prompt"])}


class Generate:
    """Stage: the next latents of a session, from its cache, its prompt and its keys."""

    def __init__(self, weights: model.Weights, clock: Callable[[], float]) -> None:
        self._weights, self._clock = weights, clock
        self.caches: dict[str, model.Cache] = {}
        """Per session its slot's. Written on the service loop before the session's first step, and
        here when it has let go."""

    def run(self, call: Call) -> Mapping[str, Any]:
        """Imagine a chunk; ``go`` says whether to begin anew."""
        cache = self.caches[call.session]
        latents, keys = [], list[str]()
        with torch.inference_mode():
            if call.inputs["go"]:
                cache.clear()
            for _ in range(CHUNK_FRAMES):
                keys = held(call.inputs["keys"], self._clock())
                condition, move = call.inputs["condition"], direction(keys)
                latents.append(model.imagine(self._weights, cache, condition, move))
            return {"latents": torch.stack(latents), "applied": keys}

    def close(self, session: str) -> None:
        """Leave nothing of a session in its slot."""
        cache = self.caches.get(session)
        if cache is not None:
            with torch.inference_mode():
                cache.clear()
            del self.caches[session]


class Decode:
    """Stage: latents become frames in the processor's memory."""

    def __init__(self, weights: model.Weights) -> None:
        self._weights = weights

    def run(self, call: Call) -> Mapping[str, Any]:
        """Decode one chunk."""
        with torch.inference_mode():
            return {"frames": list(self._frames(call.inputs["latents"]))}

    def _frames(self, latents: model.Tensor) -> Any:
        return model.decode(self._weights, latents).cpu().numpy()


class TorchWorld:
    """The service: one model, a slot per session."""

    warm_up = True
    """It makes a frame for a session of the node's own, or isn't ready."""
    execution_lease_max_chunks = 1
    """If there is a lease: all players move, with a whole chunk each time."""

    def __init__(
        self, device: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._clock = clock
        self._sessions: dict[str, Session] = {}
        self._slots: SlotPool[model.Cache]
        """Made by `_allocate`, when it is known how many."""
        self.turns_above = TURNS_ABOVE
        self.execution_lease: str | None = None
        self._profile: dict[str, Any] | None = None

    def start(self) -> None:
        """Load the model, and make a chunk to learn what one costs."""
        if self.device == "cpu":
            torch.set_num_threads(1)  # rooms want the other cores
        self._weights = model.make_weights(self.device)
        self._generate = Generate(self._weights, self._clock)
        self._allocate(1)
        reset_peaks()
        self._pipeline = Pipeline(
            GRAPH,
            {
                "encode": LocalActor(Encode(self._weights)),
                "generate": LocalActor(self._generate),
                "decode": LocalActor(Decode(self._weights)),
            },
            step_limit_s=STEP_LIMIT_S,
        )
        self.chunk_s = min(self._timed_chunk() for _ in range(3))
        self._memory = () if self.device == "cpu" else measure(ROLE, [0])
        if self.chunk_s > self.turns_above * CHUNK_FRAMES / DEFAULT_FPS:
            self.execution_lease = "node"
        self._pipeline.start()

    def stop(self) -> None:
        """End what still runs."""
        self._pipeline.stop_from_thread()

    def configure_session_capacity(self, max_sessions: int | None) -> dict[str, Any]:
        """Allocate a cache for each of the sessions that fit, at most *max_sessions*."""
        if self._sessions:
            raise RuntimeError("the number of slots can't change while sessions live")
        plan = plan_capacity(
            self._memory, {ROLE: Budget(persistent_bytes=self._slot_bytes)}, limit=max_sessions
        )
        self._allocate(plan.effective_capacity)
        pool = {"slots": plan.effective_capacity, "bytes_per_slot": self._slot_bytes}
        self._profile = plan.metadata(pool=pool, warm_chunk_seconds=self.chunk_s)
        return self._profile

    def session_capacity_profile(self) -> dict[str, Any] | None:
        """How the number of slots came about."""
        return self._profile

    def create_session(self, config: dict[str, Any]) -> str:
        """Check *config* and take a slot."""
        prompt, fps = read_config(config)
        session_id = f"torch-{uuid.uuid4().hex}"
        slot = self._slots.take(session_id)
        try:
            self._pipeline.open(session_id, chunk_media_s=CHUNK_FRAMES / fps)
        except BaseException:
            self._slots.give_back(slot.index)
            raise
        self._generate.caches[session_id] = slot.storage
        self._pipeline.latch(session_id, "keys", {})
        self._sessions[session_id] = Session(slot=slot.index, prompt=prompt, fps=fps)
        return session_id

    def has_session(self, session_id: str) -> bool:
        """Whether controls for this id still have an effect."""
        return session_id in self._sessions

    def push_chunk(self, session_id: str, chunk: dict[str, Any]) -> None:
        """Take one control message; late and unknown ones have no effect."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        match chunk.get("type"):
            case "prompt":
                session.prompt = str(chunk.get("prompt") or DEFAULT_PROMPT)
            case "reset":
                session.begin_anew = True
            case "stop":
                session.stopped = True
                self._pipeline.cancel(session_id)
            case "control_state" | "control":
                session.keys = pressed(session.keys, chunk, self._clock())
                session.begin_anew |= chunk.get("event") in ("reset", "reset_pose")
                self._pipeline.latch(session_id, "keys", session.keys)
            case _:
                pass

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        """Make a chunk whenever one is wanted, until the stop."""
        session = self._sessions.get(session_id)
        index, encoded = 0, 0
        while session is not None and not session.stopped:
            while encoded <= index + 1:  # one ahead
                await self._pipeline.push_when_room(session_id, encoded, {"prompt": session.prompt})
                encoded += 1
            anew, session.begin_anew = session.begin_anew, False
            await self._pipeline.push_when_room(session_id, index, {"go": anew})
            output = await self._pipeline.next_output(session_id)
            if output is None:
                break
            yield self._chunk(session, index, output.values)
            index += 1
        yield {"type": "done", "index": index, "timestamp": time.time()}

    def close_session(self, session_id: str) -> None:
        """Return when the slot is clean; if a stage holds on to it, nobody gets it any more."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        session.stopped = True
        with self._slots.cleaning(session.slot):
            self._pipeline.close_from_thread(session_id)

    def runtime_metrics(self, session_id: str | None = None) -> dict[str, Any]:
        """How quick chunks are made, of one session or of all."""
        if session_id is not None:
            return self._pipeline.session_metrics(session_id)
        figures = self._pipeline.metrics()
        work = figures["chunk_work_seconds"]
        return {
            "scheduler_mode": "round_robin",
            "active_sessions": figures["sessions"],
            "mean_chunk_seconds": work["mean"],
            "p95_chunk_seconds": work["p95"],
            "maximum_batch_size": 1,
            "slots": self._slots.report(),
            "pipeline": figures,
        }

    def _allocate(self, count: int) -> None:
        """Make *count* slots; only while no session lives."""
        if hasattr(self, "_slots"):
            del self._slots  # the memory of the old ones is free before it's asked for again
        caches = model.make_caches(count, self.device)
        self._slot_bytes = model.bytes_of(caches[0])
        self._slots = SlotPool(caches, name="the world")

    def _chunk(self, session: Session, index: int, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "type": "chunk",
            "index": index,
            "fps": session.fps,
            "frames": values["frames"],
            "num_frames": len(values["frames"]),
            "resolution": f"{model.WIDTH}x{model.HEIGHT}",
            "applied_controls": values["applied"],
            "timestamp": time.time(),
        }

    def _timed_chunk(self) -> float:
        """Make one chunk outside of the pipeline and return how long that took."""
        began_s = time.perf_counter()
        encode, decode = Encode(self._weights), Decode(self._weights)
        slot = self._slots.take("warm-up")
        self._generate.caches["warm-up"] = slot.storage
        inputs = {"prompt": DEFAULT_PROMPT, "go": True, "keys": {}}
        for stage in (encode, self._generate, decode):
            inputs |= stage.run(Call(session="warm-up", sequence=0, inputs=inputs))
        with self._slots.cleaning(slot.index):
            self._generate.close("warm-up")
        return time.perf_counter() - began_s


def get_service(gpu_num: int = 1) -> TorchWorld:
    """What the loader calls; without a GPU of its own the node works on the processor."""
    return TorchWorld(device=None if gpu_num else "cpu")
