/** What becomes of those who wait for a wasm instance that is lost. */

import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { Task, answered, begin, carriedOut, heard, interrupt, wasInterrupted } from './guard.js';

const FOREVER = new Promise(() => {});

/** A WebSocket that remembers how it was closed. */
function socket() {
  const closed = [];
  return { closed, close: (code) => closed.push(code) };
}

beforeEach(() => {
  globalThis.__worker_init_state = { criticalError: false };
  begin('{"code":"hub_unavailable"}');
});

test('objects hear of a loss from then on', () => {
  assert.equal(wasInterrupted(), false);
  interrupt();
  assert.equal(wasInterrupted(), true);
});

describe('work that comes to its end', () => {
  test('is passed on as it is, and hears nothing of a later loss', async () => {
    const [client, broken] = [socket(), new Error('broken')];
    assert.equal(await answered('', Promise.resolve('answer')), 'answer');
    assert.equal(await heard(Promise.resolve('done'), client), 'done');
    await assert.rejects(carriedOut(Promise.reject(broken)), broken);
    interrupt();
    assert.deepEqual(client.closed, []);
  });
});

describe('an instance that is lost', () => {
  test('is marked, and whoever waits is told in the way that fits', async () => {
    const [client, other, closing] = [socket(), socket(), { close: () => assert.fail('closed already') }];
    new Task({ getWebSockets: () => [closing, other] });
    const waiting = [answered('vary\norigin\n', FOREVER), heard(FOREVER, closing), heard(FOREVER, client)];
    const carried = assert.rejects(carriedOut(FOREVER), /interrupted/);
    interrupt();
    const [refusal] = await Promise.all([...waiting, carried]);
    const told = ['retry-after', 'vary'].map((name) => refusal.headers.get(name));
    assert.deepEqual([refusal.status, ...told], [503, '1', 'origin']);
    assert.deepEqual(await refusal.json(), { code: 'hub_unavailable' });
    assert.deepEqual([client.closed, other.closed], [[1012], [1012]]);
    assert.equal(globalThis.__worker_init_state.criticalError, true);
  });

  test('closes the socket whose frame it was working on', () => {
    const client = socket();
    interrupt(client);
    assert.deepEqual(client.closed, [1012]);
  });
});
