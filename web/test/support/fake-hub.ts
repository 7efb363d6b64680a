/** A fake hub for the tests of fetching, and its events. */

import assert from 'node:assert/strict';
import type { Api } from '../../src/api/client.ts';
import { unreachableError } from '../../src/api/errors.ts';
import type { HubEvent } from '../../src/api/types.ts';
import { getConversation, outdatedResources } from '../../src/state/store.ts';
import { Sync } from '../../src/state/sync.ts';
import { flushPromises } from './promises.ts';

interface Options {
  params?: { path?: { id: string }; query?: { beforeSeq?: number; afterSeq?: number; limit?: number; archived?: string; cursor?: string } };
}

/** A page of an inbox with five requests of the session `a`, two on each page. */
function inboxPage({ cursor = '1' }: { cursor?: string }) {
  const numbers = { 1: ['1', '2'], 2: ['3', '4'], 3: ['5'] }[cursor] ?? [];
  const items = numbers.map((id) => ({
    kind: 'request',
    since: Number(id),
    session: summary('a', 'running'),
    requestId: id,
    request: { tool: 'Bash', arguments: { command: `make ${id}` }, createdAt: Number(id) },
  }));
  return { items, total: 5, ...(cursor === '3' ? {} : { nextCursor: String(Number(cursor) + 1) }) };
}

/** A fake hub with one session of `count` messages. Its responses can be delayed, and can fail. `streamStart`: as for {@link Sync}. */
export function setup(count: number, streamStart: Promise<void> | null = null) {
  const requests: string[] = [];
  const hub = {
    count,
    messageIdPrefix: 'm',
    maxPageSize: Infinity,
    isUnavailable: false,
    /** Whether the error responses are those of the hub, and not of a proxy. */
    isFromHub: true,
    /** The statuses with which requests of a path fail; 0 without an answer of the hub. */
    failures: {} as Record<string, number>,
    delay: null as Promise<void> | null,
    pages: null as string[][] | null,
    held: [] as string[],
  };
  const messages = (from: number, to: number) =>
    Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => ({
      id: `${hub.messageIdPrefix}${from + at}`,
      seq: from + at,
      localId: null,
      content: 'x',
      createdAt: 0,
    }));
  const respond = (path: string, { params: { query = {} } = {} }: Options): unknown => {
    if (path === '/api/sessions' && hub.pages) return listPage(hub.pages, query);
    if (path === '/api/sessions') return { sessions: query.archived ? [summary('old', 'archived')] : [summary('a', 'running')] };
    if (path === '/api/inbox') return inboxPage(query);
    if (path === '/api/machines') return { machines: [{ id: 'm' }] };
    if (path === '/api/sessions/{id}/held-messages')
      return { messages: hub.held.map((localId) => ({ localId, text: localId, createdAt: 1 })) };
    if (path === '/api/sessions/{id}')
      return { session: { ...summary('a', 'running'), metadata: { path: '/a', host: 'h' }, agentState: null } };
    const { afterSeq, beforeSeq = hub.count + 1, limit = 50 } = query;
    if (afterSeq !== undefined) {
      const to = Math.min(hub.count, afterSeq + Math.min(limit, hub.maxPageSize));
      return { messages: messages(afterSeq + 1, to), hasMore: to < hub.count };
    }
    const from = Math.max(1, beforeSeq - limit);
    return { messages: messages(from, beforeSeq - 1).toReversed(), hasMore: from > 1 };
  };
  const GET = async (path: string, options: Options = {}) => {
    const { query } = options.params ?? {};
    requests.push(query ? `${path} ${JSON.stringify(query)}` : path);
    const found = respond(path, options);
    await hub.delay;
    const status = hub.isUnavailable ? 503 : hub.failures[path];
    if (status === 0) throw unreachableError();
    if (status !== undefined)
      return {
        error: hub.isFromHub ? { error: 'The hub is unavailable.', code: 'hub_unavailable' } : '<html>',
        response: new Response(null, { status }),
      };
    return { data: found, response: new Response() };
  };
  outdatedResources.value = new Map();
  const timers: { callback: () => void; ms: number }[] = [];
  const sync = new Sync({ GET } as unknown as Api, streamStart, (callback, ms) => timers.push({ callback, ms }));
  /** Runs the callback of the only timer, and waits for what it starts. Returns the timer's duration. */
  const elapse = async (): Promise<number> => {
    const [timer, ...others] = timers.splice(0);
    assert.ok(timer && others.length === 0, 'there must be one timer');
    timer.callback();
    for (let turn = 0; turn < 10; turn += 1) await flushPromises();
    return timer.ms;
  };
  return { sync, hub, requests, timers, elapse };
}

/** A page of the list. Its cursor is the number of the next page. */
function listPage(pages: string[][], { cursor = '0', archived }: { cursor?: string; archived?: string }) {
  const next = Number(cursor) + 1;
  const sessions = (pages[Number(cursor)] ?? []).map((id) => summary(id, archived ? 'archived' : 'running'));
  return next < pages.length ? { sessions, nextCursor: String(next) } : { sessions };
}

export const summary = (id: string, lifecycleState: string) => ({
  id,
  active: true,
  metadata: { path: `/${id}`, host: 'h', flavor: null, lifecycleState },
});
/** Delays the hub's responses until the returned function is called. A delayed response has the data from the time of its request. */
export function delayResponses(hub: { delay: Promise<void> | null }): () => void {
  let release = () => {};
  hub.delay = new Promise((resolve) => {
    release = resolve;
  });
  return release;
}

export const updateEvent = (sessionId: string, data: object): HubEvent => ({
  type: 'session-updated',
  sessionId,
  data: data as Record<string, unknown>,
});

/** The seqs of the loaded messages of the session `a`. */
export const seqs = () => getConversation('a').messages.map(({ seq }) => seq);
