/** What an agent is doing, in keep-alives. */

import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { Activity, describeCall } from '../src/activity.mjs';

test('a call is described by the first line of its command, by its file, or by its tool', () => {
  const describe = (name, input) => describeCall({ name, input });
  assert.equal(describe('Bash', { command: ' npm test\nnpm run build', description: 'Tests' }), 'npm test');
  assert.equal(describe('shell', { command: ['git', 'push'] }), 'git push');
  assert.equal(describe('Write', { file_path: '/code/a.rs', content: 'x' }), '/code/a.rs');
  assert.equal(describe('Task', { command: ' ', prompt: 'Look.' }), 'Task');
  assert.equal(describe('Task', undefined), 'Task');
  assert.equal(describe(undefined, { command: 7 }), '');
  assert.equal(describe('Bash', { command: '\u{1f980}'.repeat(300) }), '\u{1f980}'.repeat(200));
});

test('a change is reported at once, and further changes not more than once in two seconds', (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const advance = (ms) => {
    now += ms;
    mock.timers.tick(ms);
  };
  const reports = [];
  const activity = new Activity(() => reports.push(activity.take()));
  activity.set('a');
  advance(1);
  activity.set('b');
  activity.set('c');
  advance(1999);
  assert.deepEqual(reports, ['a']);
  advance(1);
  assert.deepEqual(reports, ['a', 'c']);
  activity.set(null);
  activity.set('c');
  advance(5000);
  assert.deepEqual(reports, ['a', 'c'], 'an activity that is back is not reported again');
  activity.set(null);
  assert.equal(activity.take(), null, 'another keep-alive reports the change');
  advance(5000);
  assert.deepEqual(reports, ['a', 'c']);
});
