/** Tests of the recovery after the loss of a wasm instance. */

import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { BackgroundTask, guardObject, guardSocket, guardWorker, instanceLost, startInstance, wasInterrupted } from './guard.js';

const FOREVER = new Promise(() => {});

/** A WebSocket that records its close codes. */
function socket() {
  const closed = [];
  return { closed, close: (code) => closed.push(code) };
}

beforeEach(() => {
  globalThis.__worker_init_state = { criticalError: false };
  startInstance('{"code":"hub_unavailable"}');
});

test('wasInterrupted is true after a loss', () => {
  assert.equal(wasInterrupted(), false);
  instanceLost();
  assert.equal(wasInterrupted(), true);
});

describe('work that settles before the loss', () => {
  test('has its own result', async () => {
    const [client, failure] = [socket(), new Error('failed')];
    assert.equal(await guardWorker('', Promise.resolve('response')), 'response');
    assert.equal(await guardSocket(Promise.resolve('done'), client), 'done');
    await assert.rejects(guardObject(Promise.reject(failure)), failure);
    instanceLost();
    assert.deepEqual(client.closed, []);
  });
});

describe('the loss of the instance', () => {
  test('settles all pending work', async () => {
    const [client, other, closing] = [socket(), socket(), { close: () => assert.fail('already closed') }];
    new BackgroundTask({ getWebSockets: () => [closing, other] });
    const pending = [guardWorker('vary\norigin\n', FOREVER), guardSocket(FOREVER, closing), guardSocket(FOREVER, client)];
    const rejected = assert.rejects(guardObject(FOREVER), /interrupted/);
    instanceLost();
    const [response] = await Promise.all([...pending, rejected]);
    const headers = ['retry-after', 'vary'].map((name) => response.headers.get(name));
    assert.deepEqual([response.status, ...headers], [503, '1', 'origin']);
    assert.deepEqual(await response.json(), { code: 'hub_unavailable' });
    assert.deepEqual([client.closed, other.closed], [[1012], [1012]]);
    assert.equal(globalThis.__worker_init_state.criticalError, true);
  });

  test('closes the socket whose frame was being processed', () => {
    const client = socket();
    instanceLost(client);
    assert.deepEqual(client.closed, [1012]);
  });
});
