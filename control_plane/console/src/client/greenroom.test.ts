import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ApiFault } from "./fault";
import { Greenroom } from "./greenroom";

interface Asked {
  readonly url: string;
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body: unknown;
}

type Answer = () => Response | Promise<Response>;

let asked: Asked[] = [];
let answers: Record<string, Answer[]> = {};

const json = (body: unknown, status = 200, headers = {}) =>
  new Response(JSON.stringify(body), { status, headers });
const CREATED = { session_id: "default-x", session_token: "gst1.default-x.m", status: "queued", token: "lk" };

beforeEach(() => {
  asked = [];
  answers = {};
  vi.stubGlobal("location", { href: "http://stage.test/" });
  vi.stubGlobal("fetch", async (address: URL | string, init: RequestInit) => {
    const url = String(address).replace("http://stage.test", "");
    const method = init.method ?? "GET";
    const headers = init.headers as Record<string, string>;
    const body = typeof init.body === "string" ? (JSON.parse(init.body) as unknown) : null;
    asked.push({ url, method, headers, body });
    const queue = answers[`${method} ${url}`] ?? [];
    const answer = queue.length > 1 ? queue.shift() : queue[0];
    if (answer === undefined) throw new TypeError("fetch failed");
    return await answer();
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const calls = (what: string) => asked.filter(({ method, url }) => `${method} ${url}` === what);
const CREATE = "POST /v1/stream/sessions";

test("a lost answer is asked for again with the same key and the same body", async () => {
  vi.useFakeTimers();
  const lost: Answer = () => Promise.reject(new TypeError("fetch failed"));
  answers[CREATE] = [lost, () => json({}, 503), () => json(CREATED, 202)];
  const onUnreachable = vi.fn();
  const greenroom = new Greenroom({ apiKey: () => "grk_a_b" });
  const creating = greenroom.create({ identity: "ann", prompt: "sea" }, { onUnreachable });
  await vi.advanceTimersByTimeAsync(10_000);
  const session = await creating;
  expect([session.id, session.token]).toEqual(["default-x", "gst1.default-x.m"]);
  const tries = calls(CREATE);
  expect(new Set(tries.map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
  expect(tries).toHaveLength(3);
  expect(tries[2]).toMatchObject({
    body: { identity: "ann", prompt: "sea", role: "controller", config: {} },
    headers: { authorization: "Bearer grk_a_b" },
  });
  expect(onUnreachable).toHaveBeenCalledTimes(2);
});

test("a refusal isn't asked for again", async () => {
  answers[CREATE] = [() => json({ code: "busy", detail: "queue_full" }, 429, { "retry-after": "7" })];
  const refused = new Greenroom().create({ identity: "ann" });
  await expect(refused).rejects.toMatchObject({ kind: "busy", retryAfterS: 7 });
  expect(calls(CREATE)).toHaveLength(1);
});

test("whoever gives up isn't kept waiting", async () => {
  const giveUp = new AbortController();
  const creating = new Greenroom().create({ identity: "ann" }, { signal: giveUp.signal });
  giveUp.abort(new Error("gave up"));
  await expect(creating).rejects.toThrow("gave up");
});

test("waiting ends with the stage, and places are told meanwhile", async () => {
  const path = "/v1/stream/sessions/default-x";
  let say = (_: string): void => undefined;
  answers[`GET ${path}`] = [() => json({ status: "queued" }), () => json({ status: "assigned" })];
  answers[`GET ${path}/events`] = [
    () => {
      const body = new ReadableStream({
        start: (stream) => {
          say = (text) => stream.enqueue(new TextEncoder().encode(text));
        },
      });
      return new Response(body, { headers: { "content-type": "text/event-stream" } });
    },
  ];
  const session = new Greenroom().session("default-x", "gst1.default-x.m");
  const onPlace = vi.fn();
  const waiting = session.wait({ onPlace });
  await vi.waitFor(() => expect(calls(`GET ${path}`)).toHaveLength(1));
  await vi.waitFor(() => {
    say('event: queued\ndata: {"position":2,"eta":null}\n\n');
    expect(onPlace).toHaveBeenCalledWith({ position: 2, estimatedWaitS: null });
  });
  say('event: assigned\nid: 7\ndata: {"status":"assigned"}\n\n');
  expect((await waiting).status).toBe("assigned");
  expect(calls(`GET ${path}`)[0]?.headers["authorization"]).toBe("Bearer gst1.default-x.m");
});

test("a session that nobody knows isn't waited for", async () => {
  answers["GET /v1/stream/sessions/default-x"] = [() => json({ code: "unknown_session" }, 404)];
  const waiting = new Greenroom().session("default-x", "t").wait();
  await expect(waiting).rejects.toBeInstanceOf(ApiFault);
});
