import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeLog } from '../src/log.mjs';

test('a line of the log has the local time with its offset from UTC', (t) => {
  const { TZ } = process.env;
  t.after(() => (TZ === undefined ? delete process.env.TZ : (process.env.TZ = TZ)));
  t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(2026, 0, 2, 3, 4, 5) });
  const lines = [];
  for (const zone of ['Asia/Kolkata', 'America/St_Johns', 'UTC']) {
    process.env.TZ = zone;
    makeLog({ write: (line) => lines.push(line) }).info('connected');
  }
  assert.deepEqual(lines, ['08:34:05+05:30 connected\n', '23:34:05-03:30 connected\n', '03:04:05+00:00 connected\n']);
});
