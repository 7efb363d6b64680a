// Joining chunks of text into messages.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TextBuffer } from '../../src/translate/text-buffer.mjs';

/** Appends a text word by word, with a time between words. */
function stream(whole, { msPerWord = 0 } = {}) {
  let ids = 0;
  let time = 0;
  const buffer = new TextBuffer({ newId: () => `t${(ids += 1)}`, now: () => time });
  const live = new Map();
  const records = [];
  for (const word of whole.match(/\s*\S+\s*/g)) {
    time += msPerWord;
    records.push(...buffer.append('text', word));
    for (const { id, text } of buffer.takeDeltas()) live.set(id, (live.get(id) ?? '') + text);
  }
  records.push(...buffer.flush());
  return { live, pieces: records.map(({ localId, content }) => ({ localId, text: content.content.data.message.content[0].text })) };
}

const paragraph = 'word '.repeat(500).trim();

test('a short text is one message, however many chunks it has', () => {
  const { pieces } = stream('First paragraph.\n\nSecond paragraph.');
  assert.deepEqual(pieces, [{ localId: 't1', text: 'First paragraph.\n\nSecond paragraph.' }]);
});

test('a long text is split where a paragraph begins', () => {
  const { pieces } = stream(['short', paragraph, paragraph, paragraph, 'end'].join('\n\n'));
  assert.deepEqual(pieces.map(({ text }) => text), [`short\n\n${paragraph}\n\n${paragraph}`, `${paragraph}\n\nend`]);
});

test('a slow text is split where its last complete paragraph begins', () => {
  const { pieces } = stream('one two three\n\nfour\nfive\n\nsix', { msPerWord: 2000 });
  assert.deepEqual(pieces.map(({ text }) => text), ['one two three', 'four\nfive\n\nsix']);
});

test('a text is not split inside code, lists and quotes', () => {
  for (const block of [
    `\`\`\`js\n${paragraph}\n\nconst a = 1;\n\n${paragraph}\n\`\`\``,
    `~~~~\n${paragraph}\n\n~~~\n\n${paragraph}\n~~~~`,
    `- ${paragraph}\n\n- ${paragraph}\n\n  ${paragraph}`,
    `1. ${paragraph}\n\n2. ${paragraph}\n\n10) x`,
    `> ${paragraph}\n\n> ${paragraph}`,
    `| a |\n\n| ${paragraph} |\n\n| b |`,
  ]) {
    assert.deepEqual(stream(block, { msPerWord: 100 }).pieces.map(({ text }) => text), [block]);
  }
});

test('a block of code after a paragraph begins a piece', () => {
  const { pieces } = stream(`${paragraph}\n${paragraph}\n\n\`\`\`\n\ncode\n\nmore\n\`\`\`\n`);
  assert.deepEqual(pieces.map(({ text }) => text), [`${paragraph}\n${paragraph}`, '```\n\ncode\n\nmore\n```']);
});

test('the pieces together are the text, and live text has the id of the piece that follows', () => {
  const whole = Array.from({ length: 40 }, (_, index) => `${index} ${'word '.repeat(index * 20)}`.trim()).join('\n\nP ');
  for (const msPerWord of [0, 1, 10, 1000]) {
    const { live, pieces } = stream(whole, { msPerWord });
    assert.ok(pieces.length > 1);
    assert.equal(pieces.map(({ text }) => text).join('\n\n'), whole);
    for (const { localId, text } of pieces) assert.ok(live.get(localId)?.startsWith(text.slice(0, 20)), localId);
  }
});

test('a text without paragraphs is limited', () => {
  const { pieces } = stream(`${'x'.repeat(50_000)} `.repeat(9));
  assert.ok(pieces.length > 1);
  assert.ok(pieces.every(({ text }) => text.length <= 300_000));
});

test('another kind or another message of the agent ends a message', () => {
  const buffer = new TextBuffer({ newId: () => 'id', now: () => 0 });
  assert.deepEqual(buffer.append('thinking', '\n\n', 'a'), []);
  assert.deepEqual(buffer.append('thinking', 'hm', 'a'), []);
  assert.equal(buffer.append('text', 'one', 'a').length, 1);
  assert.equal(buffer.append('text', ' more').length, 0);
  assert.equal(buffer.append('text', 'two', 'b').length, 1);
  assert.equal(buffer.flush().length, 1);
  assert.deepEqual(buffer.flush(), []);
});

test('blank text is neither stored nor live', () => {
  const buffer = new TextBuffer({ newId: () => 'id', now: () => 0 });
  for (const blank of ['', ' ', '\n\n', '\t']) buffer.append('text', blank);
  assert.deepEqual(buffer.takeDeltas(), []);
  assert.deepEqual(buffer.flush(), []);
  buffer.append('text', 'end\n');
  assert.deepEqual(buffer.takeDeltas().map(({ text }) => text), ['end\n']);
  buffer.append('text', '\n');
  assert.deepEqual(buffer.takeDeltas(), []);
});
