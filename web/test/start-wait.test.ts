// The reads of a page that starts, by the latency of its network.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { waitForStream } from '../src/state/start-wait.ts';
import { openSessionId, setOpenSession, state } from '../src/state/store.ts';
import { EMPTY_STATE } from '../src/state/types.ts';
import { setup } from './support/fake-hub.ts';
import { flushPromises } from './support/promises.ts';

beforeEach(() => {
  state.value = EMPTY_STATE;
  openSessionId.value = null;
  mock.timers.enable({ apis: ['setTimeout'] });
});
afterEach(() => mock.timers.reset());

const after = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Advances the clock in small steps, because each answer starts further timers. */
async function advance(ms: number): Promise<void> {
  for (let elapsed = 0; elapsed < ms; elapsed += 10) {
    mock.timers.tick(10);
    await flushPromises();
  }
}

/**
 * Starts a page with an open session on a network where each round trip takes `latencyMs`: one for the JWT and for a read, three until a
 * WebSocket is open. Returns the requests, with the time of the first one.
 */
async function start({
  latencyMs,
  isStoredShown,
  streamMs = 4 * latencyMs,
  jwt = after(latencyMs),
}: {
  latencyMs: number;
  isStoredShown: boolean;
  streamMs?: number;
  jwt?: Promise<void>;
}) {
  let endStart = () => {};
  const { sync, hub, requests } = setup(3, new Promise((resolve) => (endStart = resolve)));
  Object.defineProperty(hub, 'delay', { get: () => after(latencyMs) });
  setOpenSession('a');
  void waitForStream(
    jwt,
    () => latencyMs > 100,
    Promise.resolve(),
    () => isStoredShown,
  ).then(endStart, endStart);
  void Promise.all([sync.fetchConfig(), sync.fetchMachines(), sync.fetchSession('a'), sync.fetchNewerMessages('a')]);
  void after(streamMs).then(() => {
    endStart();
    void sync.refetchShown();
  });
  let firstAt: number | undefined;
  for (let elapsed = 0; elapsed < 12_000; elapsed += 10) {
    await advance(10);
    if (requests.length > 0) firstAt ??= elapsed + 10;
  }
  return { requests, firstAt };
}

const ALL = ['/api/config', '/api/inbox', '/api/machines', '/api/sessions', '/api/sessions/{id}', '/api/sessions/{id}/messages'];
const paths = (requests: string[]) =>
  requests.map((request) => request.split(' ')[0]).filter((path) => path !== '/api/sessions/{id}/held-messages');

for (const latencyMs of [20, 150, 600, 1200]) {
  test(`a page with stored data reads each resource once on a network with a latency of ${latencyMs} ms`, async () => {
    const { requests, firstAt } = await start({ latencyMs, isStoredShown: true });
    assert.deepEqual([paths(requests).sort(), firstAt], [[...ALL, '/api/inbox', '/api/inbox'].sort(), 4 * latencyMs]);
    assert.deepEqual(requests.toSorted(), [...new Set(requests)].sort());
  });
}

test('a page without stored data does not wait for its stream on a slow network', async () => {
  const { firstAt } = await start({ latencyMs: 600, isStoredShown: false });
  assert.equal(firstAt, 600);
});

test('a page without stored data waits for its stream for 300 ms on a fast network', async () => {
  const { requests, firstAt } = await start({ latencyMs: 20, isStoredShown: false });
  assert.deepEqual([firstAt, requests.length], [80, new Set(requests).size]);
  assert.equal((await start({ latencyMs: 20, isStoredShown: false, streamMs: 1000 })).firstAt, 320);
});

test('a page with stored data sends its reads after five seconds without a stream, and at once without a JWT', async () => {
  assert.equal((await start({ latencyMs: 600, isStoredShown: true, streamMs: 11_000 })).firstAt, 5600);
  const refused = start({ latencyMs: 600, isStoredShown: true, jwt: after(10).then(() => Promise.reject(new Error('offline'))) });
  assert.equal((await refused).firstAt, 10);
});
