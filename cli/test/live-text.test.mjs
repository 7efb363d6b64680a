import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LiveText } from '../src/live-text.mjs';

test('a long piece is split, but not within a character, and each message counts from 0', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const sent = [];
  const liveText = new LiveText((delta) => sent.push(delta));
  const long = `${'x'.repeat(15_999)}😀${'y'.repeat(10)}`;
  const deltas = [[{ id: 'a', kind: 'text', text: long }], [{ id: 'b', kind: 'thinking', text: 'hm' }], []];
  liveText.start({ takeDeltas: () => deltas.shift() ?? [] });
  t.mock.timers.tick(300);
  liveText.stop();
  assert.deepEqual(
    sent.map(({ id, kind, text, offset }) => [id, kind, text.length, offset]),
    [['a', 'text', 15_999, 0], ['a', 'text', 12, 15_999], ['b', 'thinking', 2, 0]],
  );
});
