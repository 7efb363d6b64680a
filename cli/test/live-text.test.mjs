import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferred, nextTurn } from '../../packages/cli-kit/test/support/wait.mjs';
import { LiveTextReader } from '../src/live-text.mjs';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';

test('live text is read at an interval, except while it is paused', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const sent = [];
  const liveText = new LiveTextReader((delta) => sent.push(delta));
  const deltas = [
    { id: 'a', kind: 'text', text: 'one' },
    { id: 'b', kind: 'text', text: 'two' },
  ];
  liveText.start({ takeDeltas: () => deltas.splice(0, 1) });
  t.mock.timers.tick(100);
  assert.deepEqual(pluck(sent, 'id'), ['a']);
  const { promise: storing, reject: fail } = deferred();
  liveText.pauseUntil(storing);
  t.mock.timers.tick(300);
  assert.equal(sent.length, 1);
  fail(new Error('not stored'));
  await nextTurn();
  t.mock.timers.tick(100);
  assert.deepEqual(pluck(sent, 'id'), ['a', 'b']);
  liveText.stop();
});
