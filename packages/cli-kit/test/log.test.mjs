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

test('no text of an agent controls the terminal or looks like another entry of the log', () => {
  const lines = [];
  const log = makeLog({ write: (line) => lines.push(line) });
  log.warn('\x1b[31mfailed\x1b[39m\x1b]52;c;cm0gLXJm\x07\x1b[2J\rdone\u202e\x9b1A\n12:00:00+00:00 Connected\tagain');
  assert.deepEqual(
    lines.map((line) => line.slice(15)),
    ['warning: failed]52;c;cm0gLXJmdone1A\n  12:00:00+00:00 Connected\tagain\n'],
  );
});
