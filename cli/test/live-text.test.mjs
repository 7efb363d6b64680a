import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferred, nextTurn } from '../../packages/cli-kit/test/support/wait.mjs';
import { LiveText } from '../src/live-text.mjs';

test('live text is read at an interval, except while it is held', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const sent = [];
  const liveText = new LiveText((delta) => sent.push(delta));
  const deltas = [
    { id: 'a', kind: 'text', text: 'one' },
    { id: 'b', kind: 'text', text: 'two' },
  ];
  liveText.start({ takeDeltas: () => deltas.splice(0, 1) });
  t.mock.timers.tick(100);
  assert.deepEqual(
    sent.map(({ id }) => id),
    ['a'],
  );
  const { promise: storing, reject: fail } = deferred();
  liveText.hold(storing);
  t.mock.timers.tick(300);
  assert.equal(sent.length, 1);
  fail(new Error('not stored'));
  await nextTurn();
  t.mock.timers.tick(100);
  assert.deepEqual(
    sent.map(({ id }) => id),
    ['a', 'b'],
  );
  liveText.stop();
});
