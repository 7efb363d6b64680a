/** Reading the messages in the output of an agent. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { createMessageReader } from '../src/message-reader.mjs';

/** Reads a text in chunks of a size. */
async function read(text, { maxBytes = 1000, chunkSize = Infinity } = {}) {
  const others = [];
  const skipped = [];
  const replaceSkipped = (head) => {
    skipped.push(head);
    return head.kind === 'result' ? { replaced: head.id } : null;
  };
  const reader = createMessageReader({ onOtherLine: (line) => others.push(line), replaceSkipped, maxBytes });
  const bytes = Buffer.from(text);
  const chunks = new ReadableStream({
    start(controller) {
      for (let at = 0; at < bytes.length; at += chunkSize) controller.enqueue(bytes.subarray(at, at + chunkSize));
      controller.close();
    },
  });
  const messages = [];
  for await (const message of /** @type {any} */ (chunks.pipeThrough(reader))) messages.push(message);
  return { messages, others, skipped };
}

test('objects are messages, and other lines are reported', async () => {
  const text = 'Hello ✓\n{"a":1}\r\n\n[1]\n"x"\n3\n{broken\n{"b":"é"}';
  for (const chunkSize of [1, 3, 1000]) {
    const { messages, others, skipped } = await read(text, { chunkSize });
    assert.deepEqual(messages, [{ a: 1 }, { b: 'é' }]);
    assert.deepEqual(others, ['Hello ✓', '[1]', '"x"', '3', '{broken']);
    assert.deepEqual(skipped, []);
  }
});

test('a line above the limit is skipped with its id and kind, and the next line is read', async () => {
  const filler = 'x'.repeat(500);
  const lines = [
    `{"jsonrpc":"2.0","id":3,"result":"${filler}"}`,
    `{"jsonrpc":"2.0","id":"a","method":"m","params":"${filler}"}`,
    `{"jsonrpc":"2.0","method":"session/update","params":"${filler}"}`,
    filler,
    '{"a":1}',
  ];
  for (const chunkSize of [7, 600, 10_000]) {
    const { messages, skipped } = await read(lines.join('\n'), { maxBytes: 400, chunkSize });
    assert.deepEqual(messages, [{ replaced: 3 }, { a: 1 }]);
    assert.deepEqual(pluck(skipped, 'id', 'kind'), [
      [3, 'result'],
      ['a', 'method'],
      [undefined, 'method'],
      [undefined, undefined],
    ]);
    assert.deepEqual(pluck(skipped, 'bytes'), pluck(lines.slice(0, 4), 'length'));
  }
});

test('a line of exactly the limit is a message', async () => {
  const line = JSON.stringify({ a: 'x'.repeat(392) });
  assert.deepEqual((await read(line, { maxBytes: line.length })).messages.length, 1);
  assert.deepEqual((await read(line, { maxBytes: line.length - 1 })).skipped.length, 1);
});
