/** Tests of the recovery after the loss of a wasm instance. */

import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { backgroundTask, frameTask, instanceLost, objectTask, previousInstanceCrashed, setInterruptedBody, workerTask } from './guard.js';

/** A WebSocket that records the close codes, each with the attachment at that time. @returns {any} */
function socket(attachment = 'a CLI') {
  const closed = [];
  return {
    closed,
    deserializeAttachment: () => attachment,
    serializeAttachment: (value) => (attachment = value),
    close: (code) => closed.push([code, attachment]),
  };
}

beforeEach(() => {
  globalThis.__worker_init_state = { criticalError: false };
  setInterruptedBody('{"code":"hub_unavailable"}');
});

test('previousInstanceCrashed is true after a loss', () => {
  assert.equal(previousInstanceCrashed(), false);
  instanceLost(undefined, '');
  assert.equal(previousInstanceCrashed(), true);
});

test('a task that settles before the loss keeps its own result', async () => {
  const [client, failure] = [socket(), new Error('failed')];
  const [response, processed, event] = [workerTask(''), frameTask(client), objectTask()];
  response.resolve('response');
  processed.resolve('done');
  event.reject(failure);
  instanceLost(undefined, '');
  assert.deepEqual(await Promise.all([response.promise, processed.promise]), ['response', 'done']);
  await assert.rejects(event.promise, failure);
  assert.deepEqual(client.closed, []);
});

describe('the loss of the instance', () => {
  test('settles all pending tasks', async () => {
    const [client, other] = [socket(), socket()];
    const closing = { ...socket(), close: () => assert.fail('already closed') };
    const task = backgroundTask({ getWebSockets: () => [closing, other] });
    const pending = [workerTask('vary\norigin\n'), frameTask(closing), frameTask(client), task].map(({ promise }) => promise);
    const rejected = assert.rejects(objectTask().promise, /interrupted/);
    instanceLost(undefined, '');
    const [response] = await Promise.all([...pending, rejected]);
    const headers = ['retry-after', 'vary'].map((name) => response.headers.get(name));
    assert.deepEqual([response.status, ...headers], [503, '1', 'origin']);
    assert.deepEqual(await response.json(), { code: 'hub_unavailable' });
    assert.deepEqual([client.closed, other.closed], [[[1012, 'closed']], [[1012, 'closed']]], 'the next instance restores neither');
    assert.equal(globalThis.__worker_init_state.criticalError, true);
  });

  test('does not close a socket that the hub has closed already', async () => {
    const [client, closed] = [socket(), socket('closed')];
    const task = backgroundTask({ getWebSockets: () => [closed, client] });
    instanceLost(closed, '');
    await task.promise;
    assert.deepEqual([client.closed, closed.closed], [[[1012, 'closed']], []]);
  });
});
