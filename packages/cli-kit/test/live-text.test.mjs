import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LiveText } from '../src/live-text.mjs';

function setUp() {
  const sent = [];
  const liveText = new LiveText(({ id, kind, text, offset }) => sent.push([id, kind, text.length, offset]));
  return { liveText, takeSent: () => sent.splice(0) };
}

test('a long text is sent in pieces, but not within a character, and each message counts from 0', () => {
  const { liveText, takeSent } = setUp();
  liveText.append({ id: 'a', kind: 'text', text: `${'x'.repeat(15_999)}😀${'y'.repeat(10)}` });
  liveText.append({ id: 'a', kind: 'text', text: 'more' });
  liveText.append({ id: 'b', kind: 'thinking', text: 'hm' });
  assert.deepEqual(takeSent(), [
    ['a', 'text', 15_999, 0],
    ['a', 'text', 12, 15_999],
    ['a', 'text', 4, 16_011],
    ['b', 'thinking', 2, 0],
  ]);
});

test('on a new connection the text so far is sent again, unless its message is stored', () => {
  const { liveText, takeSent } = setUp();
  liveText.onConnected();
  liveText.append({ id: 'a', kind: 'text', text: 'x'.repeat(20_000) });
  liveText.append({ id: 'a', kind: 'text', text: 'y' });
  takeSent();
  liveText.onStored('earlier');
  liveText.onConnected();
  assert.deepEqual(takeSent(), [
    ['a', 'text', 16_000, 0],
    ['a', 'text', 4001, 16_000],
  ]);
  liveText.onStored('a');
  liveText.onConnected();
  assert.deepEqual(takeSent(), []);
});
