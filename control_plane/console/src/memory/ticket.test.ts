import { expect, test } from "vitest";
import { parseTicket } from "./ticket";

test("a link may bring a session's ticket along", () => {
  const sessionToken = "gst1.my-pool-abc234.dGhpcyBpcyBhIG1hYw";
  expect(parseTicket(`#ticket=${sessionToken}`)).toEqual({ sessionId: "my-pool-abc234", sessionToken });
});

test("anything else is none", () => {
  for (const hash of ["", "#", "#ticket=", "#ticket=gst1.x.short", "#ticket=grk_a_b", "#gst1.a.dGhpcyBpcyBhIG1hYw"]) {
    expect(parseTicket(hash)).toBeNull();
  }
});
