/** Tests of the requests to the objects of the namespaces. */

import assert from 'node:assert/strict';
import { describe, mock, test } from 'node:test';
import { setInterruptedBody } from './guard.js';
import { Objects } from './objects.js';
import { begin } from './requests.js';

const TIMED_OUT = '{"error":"timed out"}';
const INTERRUPTED = '{"error":"interrupted"}';
setInterruptedBody(INTERRUPTED);

describe('the objects of the namespaces', () => {
  const incoming = begin(
    new Request('http://hub/api/sessions', {
      method: 'POST',
      body: '{}',
      headers: { 'content-length': '2', 'hub-namespace': 'forged', 'hub-socket': 'web', 'hub-expires-at': '1', 'last-event-id': '7' },
    }),
  );

  /** A binding of objects that return `result`; `received` has the headers of their requests. */
  function binding(result) {
    const received = [];
    const fetch = (_, { headers }) => {
      received.push(Object.fromEntries(new Headers(headers)));
      return result;
    };
    return { received, idFromName: (name) => name, get: () => ({ fetch }) };
  }

  /** The objects of a binding, placed by the platform. */
  const objectsOf = (binding) => new Objects(binding, '', '', TIMED_OUT);

  /** A binding that names its objects by jurisdiction and namespace; `created` has their location hints. */
  function placedBinding() {
    const created = [];
    const restrictedTo = (jurisdiction) => ({
      jurisdiction: restrictedTo,
      idFromName: (name) => ({ id: `${jurisdiction} ${name}`, equals: (other) => other.id === `${jurisdiction} ${name}` }),
      get({ id }, { locationHint }) {
        created.push([id, locationHint]);
        return { fetch: () => Promise.resolve('answer') };
      },
    });
    return { created, ...restrictedTo('any') };
  }

  test('run in the jurisdiction and near the location of the settings', async () => {
    for (const { jurisdiction, location, expected } of [
      { jurisdiction: 'eu', location: 'weur', expected: ['eu team', 'weur'] },
      { jurisdiction: '', location: 'weur', expected: ['any team', 'weur'] },
      { jurisdiction: '', location: '', expected: ['any team', undefined] },
    ]) {
      const binding = placedBinding();
      assert.equal(await new Objects(binding, jurisdiction, location, TIMED_OUT).forward('team', '', incoming, 1_000, '', false), 'answer');
      assert.deepEqual(binding.created, [expected]);
    }
  });

  test('do not contain the object of another namespace or jurisdiction', () => {
    const binding = placedBinding();
    const id = binding.jurisdiction('eu').idFromName('team');
    const contains = (jurisdiction, namespace) => new Objects(binding, jurisdiction, '', TIMED_OUT).contains({ id }, namespace);
    assert.deepEqual([contains('eu', 'team'), contains('', 'team'), contains('eu', 'other')], [true, false, false]);
  });

  test('receive the namespace, the length of the body, the credential and its secret, and no other header of the client', async () => {
    const objects = binding(Promise.resolve('answer'));
    assert.equal(await objectsOf(objects).forward('team', '', incoming, 1_000, '', false), 'answer');
    assert.equal(incoming.namespace, 'team', 'for the log line of the request');
    const withoutLength = new Request('http://hub/api/sessions', { headers: incoming.headers });
    withoutLength.headers.delete('content-length');
    await objectsOf(objects).forward('team', '', begin(withoutLength), 1_000, '', false);
    const read = begin(new Request('http://hub/api/devices'));
    await objectsOf(objects).forward('team', 'd1', read, 1_000, '', false);
    await objectsOf(objects).forward('team', 'shared id', read, 1_000, '', false);
    const namespace = { 'hub-namespace': 'team' };
    assert.deepEqual(objects.received, [
      { ...namespace, 'content-length': '2' },
      namespace,
      { ...namespace, 'hub-credential': 'd1' },
      { ...namespace, 'hub-credential': 'shared', 'hub-secret': 'id' },
    ]);
  });

  test('receive a GET request with its body, which they discard', async () => {
    const fetched = [];
    const objects = objectsOf({ idFromName: (name) => name, get: () => ({ fetch: async (what) => fetched.push(what) }) });
    const read = { method: 'GET', url: 'http://hub/api/sessions', headers: new Headers(), body: null };
    const withBody = { ...read, body: new Blob(['x']).stream() };
    for (const request of [read, withBody]) await objects.forward('team', '', begin(/** @type {Request} */ (request)), 1_000, '', false);
    assert.deepEqual(fetched, [read.url, withBody]);
  });

  test('receive the hub headers of a WebSocket request and the last event id, and no other header of the client', async () => {
    const objects = binding(Promise.resolve('answer'));
    await objectsOf(objects).connect('team', 'web', '5', 'd1', incoming, 1_000);
    await objectsOf(objects).connect(
      'team',
      'cli',
      '',
      '',
      begin(new Request('http://hub/socket.io/', { headers: { cookie: 'a' } })),
      1_000,
    );
    const hubHeaders = { 'hub-namespace': 'team', upgrade: 'websocket' };
    assert.deepEqual(objects.received, [
      { ...hubHeaders, 'hub-credential': 'd1', 'hub-socket': 'web', 'hub-expires-at': '5', 'last-event-id': '7' },
      { ...hubHeaders, 'hub-socket': 'cli', 'hub-expires-at': '' },
    ]);
  });

  test('give a 503 when an object does not answer in time, or fails', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const timedOut = objectsOf(binding(new Promise(() => {}))).forward('team', '', incoming, 1_000, '', false);
    mock.timers.tick(1_000);
    mock.timers.reset();
    const log = mock.method(console, 'error', () => {});
    const failed = objectsOf(binding(Promise.reject(new Error('the object is gone')))).forward('team', '', incoming, 1_000, '', false);
    for (const { response, body } of [
      { response: await timedOut, body: TIMED_OUT },
      { response: await failed, body: INTERRUPTED },
    ]) {
      assert.deepEqual([response.status, response.headers.get('retry-after'), await response.text()], [503, '1', body]);
    }
    assert.match(log.mock.calls[0].arguments[0], /"event":"object-failed","error":"Error: the object is gone"/);
  });

  test('give a response to which the worker adds headers', async () => {
    const objects = objectsOf(binding(Promise.resolve(new Response('{}', { headers: { 'server-timing': 'object;dur=1' } }))));
    const response = await objects.forward('team', '', incoming, 1_000, 'x-a\n1\n', true);
    assert.match(response.headers.get('server-timing'), /^object;dur=1, worker;dur=\d+$/);
    assert.deepEqual([response.headers.get('x-a'), await response.text()], ['1', '{}']);
  });
});
