/** Tests of the `Server-Timing` header. */

import assert from 'node:assert/strict';
import { describe, mock, test } from 'node:test';
import { Meter, now, withHeaders } from './timing.js';

let time = 1_000_000;
mock.method(performance, 'now', () => time);

/** A D1 database. Each batch takes `ms` milliseconds, and returns its statements as results. */
const slowDatabase = (ms, meta = {}) => ({
  prepare: (sql) => sql,
  batch: async (statements) => {
    await null;
    time += ms;
    return statements.map((statement) => ({ results: statement, meta }));
  },
});

const timingOf = ({ headers }) => headers.get('server-timing');

describe('the timing of an object', () => {
  test('has the duration of the request, the time since the object was loaded, and the batches of the request', async () => {
    const meter = new Meter();
    const db = meter.measureDatabase(slowDatabase(40, { served_by_region: 'WEUR', served_by_colo: 'AMS' }));
    await db.batch([db.prepare('SELECT 1')]);
    time += 500;
    const [started, response] = [meter.start(), new Response('{}')];
    await db.batch(['SELECT 2', 'SELECT 3']);
    await db.batch(['SELECT 4']);
    time += 5;
    meter.finish(started, response);
    assert.equal(timingOf(response), 'object;dur=85, awake;dur=625, d1;dur=80;desc="batches=2 region=AMS"');
  });

  test('counts failed batches, and has no region if no batch succeeded', async () => {
    const meter = new Meter();
    const db = meter.measureDatabase({ batch: () => Promise.reject(new Error('Network connection lost')) });
    const [started, response] = [meter.start(), new Response('{}')];
    await assert.rejects(db.batch([]), /lost/);
    meter.finish(started, response);
    assert.equal(timingOf(response), 'object;dur=0, awake;dur=0, d1;dur=0;desc="batches=1"');
  });
});

describe('the headers that the worker adds', () => {
  test('replace headers of the same name, except that they are appended to `Vary` and `Server-Timing`', async () => {
    const response = new Response('{}', { status: 201, headers: { vary: 'Accept', 'x-a': 'old', 'server-timing': 'object;dur=3' } });
    time += 8;
    const rebuilt = withHeaders(response, 'vary\nOrigin\nx-a\nnew\n', now() - 8);
    assert.deepEqual([rebuilt.status, await rebuilt.text()], [201, '{}']);
    assert.deepEqual(Object.fromEntries(rebuilt.headers), {
      'content-type': 'text/plain;charset=UTF-8',
      'server-timing': 'object;dur=3, worker;dur=8',
      vary: 'Accept, Origin',
      'x-a': 'new',
    });
  });

  test('have no timing without a start time, which a request without a valid token does not have', () => {
    const response = new Response('{}');
    assert.equal(withHeaders(response, '', undefined), response, 'without headers to add, the response is unchanged');
    assert.equal(timingOf(withHeaders(response, 'x-a\n1\n', undefined)), null);
  });
});
