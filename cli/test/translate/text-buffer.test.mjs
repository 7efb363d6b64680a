// Joining chunks of text into messages.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TextBuffer } from '../../src/translate/text-buffer.mjs';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';

/** Appends a text word by word, with a time between words. */
function stream(wholeText, { msPerWord = 0 } = {}) {
  let ids = 0;
  let time = 0;
  const buffer = new TextBuffer({ newId: () => `t${(ids += 1)}`, now: () => time });
  const live = new Map();
  const records = [];
  for (const word of wholeText.match(/\s*\S+\s*/g)) {
    time += msPerWord;
    records.push(...buffer.append('text', word));
    for (const { id, text } of buffer.takeDeltas()) live.set(id, (live.get(id) ?? '') + text);
  }
  records.push(...buffer.flush());
  const parts = records.map(({ localId, content }) => ({ localId, ...content.content.data.message.content[0] }));
  const pieces = parts.map(({ localId, text }) => ({ localId, text }));
  return { live, pieces, parts };
}

/** Joins parts by the rules of PROTOCOL.md. Returns the texts, each with its last part. */
function join(parts) {
  const texts = [];
  let previous;
  for (const { text, localId, continuedBy } of parts) {
    if (previous?.localId === localId) {
      const { end = '', start = '' } = previous;
      assert.ok(texts.at(-1).endsWith(end) && text.startsWith(start));
      texts[texts.length - 1] = texts.at(-1).slice(0, texts.at(-1).length - end.length) + text.slice(start.length);
    } else {
      texts.push(text);
    }
    previous = continuedBy;
  }
  return texts;
}

const paragraph = 'word '.repeat(500).trim();

test('a short text is one message, however many chunks it has', () => {
  const { pieces } = stream('First paragraph.\n\nSecond paragraph.');
  assert.deepEqual(pieces, [{ localId: 't1', text: 'First paragraph.\n\nSecond paragraph.' }]);
});

test('a long text is split where a paragraph begins', () => {
  const { pieces } = stream(['short', paragraph, paragraph, paragraph, 'end'].join('\n\n'));
  assert.deepEqual(pluck(pieces, 'text'), [`short\n\n${paragraph}\n\n${paragraph}`, `${paragraph}\n\nend`]);
});

test('a slow text is split where its last complete paragraph begins', () => {
  const { pieces } = stream('one two three\n\nfour\nfive\n\nsix', { msPerWord: 2000 });
  assert.deepEqual(pluck(pieces, 'text'), ['one two three', 'four\nfive\n\nsix']);
});

const BLOCKS = [
  `\`\`\`js\n${paragraph}\n\nconst a = 1;\n\n${paragraph}\n\`\`\``,
  `~~~~\n${paragraph}\n\n~~~\n\n${paragraph}\n~~~~`,
  `- ${paragraph}\n\n- ${paragraph}\n\n  ${paragraph}`,
  `1. ${paragraph}\n\n2. ${paragraph}\n\n10) x`,
  `> ${paragraph}\n\n> ${paragraph}`,
  `| a |\n\n| ${paragraph} |\n\n| b |`,
];

test('a text is split inside code, lists and quotes only above the higher limits', () => {
  for (const block of BLOCKS) assert.deepEqual(pluck(stream(block, { msPerWord: 5 }).pieces, 'text'), [block]);
});

test('a long text without paragraphs is split where a line begins, and clients can join it', () => {
  for (const block of BLOCKS) {
    const { parts } = stream(`${block}\n`, { msPerWord: 100 });
    assert.ok(parts.length > 1, block);
    assert.deepEqual(join(parts), [block]);
  }
});

const codeLines = (from, to) => Array.from({ length: to - from }, (_, index) => `const line${from + index} = ${index};\n`).join('');

test('the parts of long code are code that renders alone', () => {
  const { parts } = stream(`Look:\n\n  \`\`\`\`js title\n${codeLines(0, 1000)}  \`\`\`\`\n\nDone.`);
  assert.ok(parts.length > 2);
  assert.deepEqual(pluck(parts.slice(0, 2), 'localId'), ['t1', 't2']);
  assert.deepEqual(parts[1].continuedBy, { localId: 't3', end: '  ````', start: '  ````js title\n' });
  for (const { text } of parts) {
    assert.ok(text.length < 10_000);
    assert.equal(text.match(/^ {2}````/gm)?.length ?? 0, /const/.test(text) ? 2 : 0);
  }
  assert.equal(join(parts).join('\n\n'), `Look:\n\n  \`\`\`\`js title\n${codeLines(0, 1000)}  \`\`\`\`\n\nDone.`);
});

test('code is not split before its first line, nor before its end', () => {
  const texts = (...lines) => {
    let time = 0;
    const buffer = new TextBuffer({ newId: () => 'id', now: () => (time += 4000) });
    return lines.flatMap((line) => buffer.append('text', `${line}\n`)).map(({ content }) => content.content.data.message.content[0].text);
  };
  assert.deepEqual(texts('```', '', '', '', 'one', '```', '', ''), []);
  assert.deepEqual(texts('```', 'one', '', 'two', 'three', '```'), ['```\none\n\n```', '```\ntwo\n```']);
  assert.deepEqual(texts('Look:', '```', 'one', '```'), ['Look:\n']);
});

test('inline code at the start of a line is no fence', () => {
  const { parts } = stream(`\`\`\`a\`\`\` is code\n${codeLines(0, 500)}`);
  assert.deepEqual(parts[0].continuedBy, { localId: 't2' });
});

test('a thought is split like a text, and its parts are joined without fences', () => {
  let ids = 0;
  const buffer = new TextBuffer({ newId: () => `t${(ids += 1)}`, now: () => 0 });
  const thought = `  First.\n\n\`\`\`\n${codeLines(0, 700)}\`\`\`\n\n${paragraph}\n\n${paragraph}\n\nLast.`;
  const records = [...thought.matchAll(/.*\n?/g)].flatMap(([line]) => buffer.append('thinking', line));
  const parts = [...records, ...buffer.flush()].map(({ localId, content }) => ({ localId, ...content.content.data.message.content[0] }));
  assert.ok(parts.length > 2);
  assert.deepEqual(join(parts.map(({ thinking, ...part }) => ({ ...part, text: thinking }))), [thought.trimStart()]);
});

test('the parts of any text join to the same text', () => {
  const lines = [
    'word word',
    '',
    '',
    '```js',
    '```',
    '~~~',
    '  ```',
    '- item',
    '  more',
    '1. item',
    '| a | b |',
    '> quote',
    '    code',
    '```inline``` word',
    '````',
  ];
  let seed = 1;
  const random = (below) => (seed = (seed * 48_271) % 2_147_483_647) % below;
  for (let round = 0; round < 200; round += 1) {
    const whole = `start\n${Array.from({ length: 100 }, () => `${lines[random(lines.length)]}\n`).join('')}end`;
    const { parts, live } = stream(whole, { msPerWord: 500 + random(2000) });
    // Without a mark, blank lines between two paragraphs are left out.
    assert.equal(join(parts).join('\n').replaceAll(/\n+/g, '\n'), whole.replaceAll(/\n+/g, '\n'), `round ${round}`);
    for (const { localId, text, continuedBy } of parts) {
      const body = text.slice(0, text.length - (continuedBy?.end?.length ?? 0));
      const shown = live.get(localId) ?? '';
      assert.ok(body.startsWith(shown) || shown.startsWith(body), `round ${round}`);
    }
  }
});

test('a block of code after a paragraph begins a piece', () => {
  const { pieces } = stream(`${paragraph}\n${paragraph}\n\n\`\`\`\n\ncode\n\nmore\n\`\`\`\n`);
  assert.deepEqual(pluck(pieces, 'text'), [`${paragraph}\n${paragraph}`, '```\n\ncode\n\nmore\n```']);
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

test('a text without lines is limited', () => {
  const { pieces } = stream(`${'x'.repeat(50_000)} `.repeat(9));
  assert.ok(pieces.length > 1);
  assert.ok(pieces.every(({ text }) => text.length <= 300_000));
});

test('a text of another kind, or with another message id, ends a message', () => {
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
  assert.deepEqual(pluck(buffer.takeDeltas(), 'text'), ['end\n']);
  buffer.append('text', '\n');
  assert.deepEqual(buffer.takeDeltas(), []);
});
