// A part in the middle of the history, and the search for a date.

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { Api } from '../src/api/client.ts';
import { findFirst } from '../src/content/find-first.ts';
import { fetchMessagesAround } from '../src/state/messages-around.ts';
import { getConversation, state } from '../src/state/store.ts';
import { Sync } from '../src/state/sync.ts';
import { EMPTY_STATE } from '../src/state/types.ts';

/** A fake hub with one session of `count` messages, whose pages may be shorter than their limit. */
function setup(count: number, maxPageSize = Infinity) {
  const hub = { count, isUnavailable: false };
  const requests: unknown[] = [];
  const message = (seq: number) => ({ id: `m${seq}`, seq, localId: null, content: 'x', createdAt: seq * 1000 });
  const GET = async (_: string, { params }: { params: { query: { limit: number; beforeSeq?: number; afterSeq?: number } } }) => {
    const { limit, beforeSeq = hub.count + 1, afterSeq } = params.query;
    requests.push(params.query);
    if (hub.isUnavailable)
      return { error: { error: 'unavailable', code: 'hub_unavailable' }, response: new Response(null, { status: 503 }) };
    const size = Math.min(limit, maxPageSize);
    const from = afterSeq === undefined ? Math.max(1, beforeSeq - size) : afterSeq + 1;
    const to = afterSeq === undefined ? beforeSeq - 1 : Math.min(hub.count, afterSeq + size);
    const messages = Array.from({ length: Math.max(0, to - from + 1) }, (__, at) => message(from + at));
    return {
      data: afterSeq === undefined ? { messages: messages.toReversed(), hasMore: from > 1 } : { messages, hasMore: to < hub.count },
      response: new Response(),
    };
  };
  const receive = (sync: Sync, seq: number) =>
    sync.handleEvent({ type: 'message-received', sessionId: 'a', message: message(seq) } as never);
  return { sync: new Sync({ GET } as unknown as Api), hub, requests, receive };
}

const range = () => {
  const { messages, hasOlder, hasNewer } = getConversation('a');
  return [messages[0]?.seq, messages.at(-1)?.seq, hasOlder, hasNewer];
};

beforeEach(() => {
  state.value = EMPTY_STATE;
});

test('a message near the loaded messages is loaded with one request, with all messages in between', async () => {
  const { sync, requests } = setup(1000);
  await sync.fetchNewestMessages('a');
  await fetchMessagesAround(sync, 'a', 900);
  assert.deepEqual(range(), [840, 1000, true, false]);
  assert.equal(requests.length, 2);
  await fetchMessagesAround(sync, 'a', 950);
  assert.equal(requests.length, 2, 'a loaded message needs no request');
});

test('a part of the history around a message far above replaces the loaded messages, and scrolling extends the part', async () => {
  const { sync, receive } = setup(1000);
  await sync.fetchNewestMessages('a');
  await fetchMessagesAround(sync, 'a', 300);
  assert.deepEqual(range(), [240, 359, true, true]);
  await sync.fetchOlderMessages('a');
  await sync.fetchNextMessages('a');
  assert.deepEqual(range(), [180, 419, true, true]);
  await receive(sync, 1001);
  await sync.fetchNewerMessages('a');
  assert.deepEqual(range(), [180, 419, true, true], 'events and a new connection add nothing to the part');
  await sync.fetchNewestMessages('a');
  assert.deepEqual(range(), [941, 1000, true, false]);
});

test('a part that is continued to the newest message receives events again', async () => {
  const { sync, hub, receive } = setup(500);
  await sync.fetchNewestMessages('a');
  await fetchMessagesAround(sync, 'a', 400 - 160);
  hub.count = 501;
  while (getConversation('a').hasNewer) await sync.fetchNextMessages('a');
  hub.count = 502;
  await receive(sync, 502);
  assert.deepEqual([range()[1], getConversation('a').hasNewer], [502, false]);
});

test('a large message near the loaded messages is found, although its page is shorter than the limit', async () => {
  const { sync } = setup(1000, 10);
  await sync.fetchNewestMessages('a');
  await fetchMessagesAround(sync, 'a', 900);
  const [first = 0, last = 0] = range() as number[];
  assert.ok(first <= 900 && last >= 900);
});

test('an error keeps the loaded messages and rejects', async () => {
  const { sync, hub } = setup(1000);
  await sync.fetchNewestMessages('a');
  hub.isUnavailable = true;
  await assert.rejects(fetchMessagesAround(sync, 'a', 10), /unavailable/);
  assert.deepEqual(range(), [941, 1000, true, false]);
});

test('finds the first message from a time on by binary search, with one request for each halving', async () => {
  for (const [count, since, expected] of [
    [20_000, 12_345, 12_345],
    [20_000, 1, 1],
    [20_000, 20_000, 20_000],
    [20_000, 20_001, null],
    [1, 0, 1],
    [0, 0, null],
  ] as const) {
    let requests = 0;
    const messageAfter = async (seq: number) => {
      requests += 1;
      return seq < count ? { seq: seq + 1, createdAt: seq + 1 } : undefined;
    };
    assert.equal(await findFirst(count, ({ createdAt }) => createdAt >= since, messageAfter), expected);
    assert.ok(requests <= 16, `${requests} requests`);
  }
});
