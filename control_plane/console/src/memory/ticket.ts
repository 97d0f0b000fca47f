/**
 * Which session does this address bring along? `/#ticket=<session token>`.
 *
 * Somebody else made the session, a backend or another device, and hands it over by a link. What
 * follows the # is never sent to a server; it is taken out of the address once it was read.
 */

export interface Ticket {
  readonly sessionId: string;
  readonly sessionToken: string;
}

const TICKET = /^#ticket=(gst1\.([a-z0-9-]{1,80})\.[A-Za-z0-9_-]{16,200})$/;

/** Null for an address without a ticket. */
export function parseTicket(hash: string): Ticket | null {
  const [, sessionToken, sessionId] = TICKET.exec(hash) ?? [];
  return sessionToken && sessionId ? { sessionId, sessionToken } : null;
}

/** Read the ticket of the page's own address and take it out. */
export function takeTicket(): Ticket | null {
  const ticket = parseTicket(location.hash);
  if (ticket !== null) history.replaceState(null, "", location.pathname + location.search);
  return ticket;
}
