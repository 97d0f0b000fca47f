import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { placeOf, SessionEvents } from "./session-events";

interface Connection {
  readonly headers: Record<string, string>;
  say(text: string): void;
  cut(): void;
}

let answers: (() => Response)[] = [];
let connections: Connection[] = [];

function streaming(headers: Record<string, string>): Response {
  const encoder = new TextEncoder();
  let say: Connection["say"] = () => undefined;
  let cut: Connection["cut"] = () => undefined;
  const body = new ReadableStream({
    start: (controller) => {
      say = (text) => controller.enqueue(encoder.encode(text));
      cut = () => controller.close();
    },
  });
  connections.push({ headers, say: (text) => say(text), cut: () => cut() });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

beforeEach(() => {
  answers = [];
  connections = [];
  vi.stubGlobal("location", { href: "http://stage.test/" });
  vi.stubGlobal("fetch", (_url: unknown, init: { headers: Record<string, string> }) => {
    const refusal = answers.shift();
    return Promise.resolve(refusal === undefined ? streaming(init.headers) : refusal());
  });
});
afterEach(() => void vi.unstubAllGlobals());

function following() {
  const events = { onPlace: vi.fn(), onChange: vi.fn() };
  const stream = new SessionEvents({ baseUrl: "", path: "/v1/stream/sessions/x", token: "ticket" }, events);
  stream.start();
  return { stream, events };
}

test("a place in line is handed on without asking for the record", async () => {
  const { stream, events } = following();
  await vi.waitFor(() => expect(stream.open).toBe(true));
  connections[0]?.say('event: queued\ndata: {"position":3,"eta":12.5}\n\n');
  await vi.waitFor(() =>
    expect(events.onPlace).toHaveBeenCalledWith({ position: 3, estimatedWaitS: 12.5 }),
  );
  expect(events.onChange).not.toHaveBeenCalled();
  expect(connections[0]?.headers["authorization"]).toBe("Bearer ticket");
  stream.stop();
});

test("every other event asks for the record", async () => {
  const { stream, events } = following();
  await vi.waitFor(() => expect(stream.open).toBe(true));
  connections[0]?.say('event: assigned\nid: 7\ndata: {"status":"assigned"}\n\n');
  await vi.waitFor(() => expect(events.onChange).toHaveBeenCalledTimes(1));
  stream.stop();
});

test("a stream that is cut comes back by itself and names what it knows", async () => {
  const { stream, events } = following();
  await vi.waitFor(() => expect(stream.open).toBe(true));
  connections[0]?.say('retry: 10\n\nevent: state\nid: 7\ndata: {"status":"running"}\n\n');
  await vi.waitFor(() => expect(events.onChange).toHaveBeenCalled());
  connections[0]?.cut();
  await vi.waitFor(() => expect(connections[1]?.headers["Last-Event-ID"]).toBe("7"));
  stream.stop();
});

test("a stream that is refused is asked for again, and isn't open meanwhile", async () => {
  answers.push(() => new Response("", { status: 503 }));
  const { stream, events } = following();
  await vi.waitFor(() => expect(answers).toHaveLength(0));
  expect(stream.open).toBe(false);
  await vi.waitFor(() => expect(stream.open).toBe(true), { timeout: 5_000 });
  expect(events.onChange).not.toHaveBeenCalled();
  stream.stop();
  expect(stream.open).toBe(false);
});

test("what names no place is none", () => {
  expect(placeOf("no JSON")).toBeNull();
  expect(placeOf("null")).toBeNull();
  expect(placeOf('{"position":null}')).toBeNull();
  expect(placeOf('{"position":1,"eta":null}')).toEqual({ position: 1, estimatedWaitS: null });
});
