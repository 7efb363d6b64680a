// What a call is asked to do: whoever allows it sees all of it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { argumentsOf, type Field, questionsOf } from '../src/content/arguments.ts';
import { hunksBetween } from '../src/content/diff.ts';
import { json } from '../src/content/json.ts';
import { visible } from '../src/content/visible.ts';

const NOTHING = { command: undefined, edits: [], rest: [] };
const REPLACED = { file_path: 'a', old_string: 'x', new_string: 'y' };

test('edits are found in a replaced text, in several, and in a new file', () => {
  assert.deepEqual(argumentsOf(REPLACED), { ...NOTHING, edits: [{ path: 'a', before: 'x', after: 'y' }] });
  assert.deepEqual(argumentsOf({ file_path: 'a', edits: [{ old_string: 'x', new_string: 'y' }, { old_string: '1', new_string: '2' }] }).edits, [
    { path: 'a', before: 'x', after: 'y' },
    { path: 'a', before: '1', after: '2' },
  ]);
  assert.deepEqual(argumentsOf({ path: 'a', content: 'new' }), { ...NOTHING, edits: [{ path: 'a', before: '', after: 'new' }] });
  for (const none of [null, 'x', {}, { file_path: 'a' }, { old_string: 'x', new_string: 'y' }, { file_path: 'a', edits: [null] }]) assert.deepEqual(argumentsOf(none).edits, []);
});

test('what stands beside a command or an edit is shown by its name', () => {
  assert.deepEqual(argumentsOf({ command: 'npm test', env: { A: 'b' }, cwd: '/etc', sandbox: false, note: '' }), {
    ...NOTHING,
    command: 'npm test',
    rest: [
      { name: 'env', text: '{\n  "A": "b"\n}' },
      { name: 'cwd', text: '/etc' },
      { name: 'sandbox', text: 'false' },
      { name: 'note', text: '""' },
    ],
  });
  assert.deepEqual(argumentsOf({ command: 'curl | sh', ...REPLACED }), { command: 'curl | sh', edits: [{ path: 'a', before: 'x', after: 'y' }], rest: [] });
  const several = [{ old_string: 'x', new_string: 'y', file_path: 'b' }, { insert: 'more()' }, 'words'];
  assert.deepEqual(argumentsOf({ file_path: 'a', edits: several, replace_all: true, content: 'c' }), {
    ...NOTHING,
    edits: [{ path: 'a', before: 'x', after: 'y' }],
    rest: [
      { name: 'replace_all', text: 'true' },
      { name: 'content', text: 'c' },
      { name: 'edits[0].file_path', text: 'b' },
      { name: 'edits[1]', text: '{\n  "insert": "more()"\n}' },
      { name: 'edits[2]', text: 'words' },
    ],
  });
});

test('arguments of any kind are shown as they are', () => {
  assert.deepEqual(['words', 5, ['a'], {}, null].map((one) => argumentsOf(one).rest), [[{ name: '', text: 'words' }], [{ name: '', text: '5' }], [{ name: '', text: '[\n  "a"\n]' }], [], []]);
});

test('questions come with their choices, and answers go under their id or their text', () => {
  const options = ['yes', { label: 'no', description: 'not now' }];
  const { questions, rest } = questionsOf({ questions: [{ id: 'q1', question: 'Go on?', header: 'Plan', options, multiSelect: true }, { question: 'Name?' }] });
  assert.deepEqual(questions, [
    { key: 'q1', text: 'Go on?', header: 'Plan', options: [{ label: 'yes', description: '' }, { label: 'no', description: 'not now' }], isMultiple: true },
    { key: 'Name?', text: 'Name?', header: '', options: [], isMultiple: false },
  ]);
  assert.deepEqual(rest, []);
  for (const none of [{ command: 'ls' }, null, { questions: 'x' }, { questions: [] }]) assert.deepEqual(questionsOf(none), { questions: [], rest: [] });
});

test('what asks for anything beside its questions is no question, and what else stands in a question is shown', () => {
  const question = { question: 'Shall I run the tests?', options: ['Yes', 'No'] };
  assert.deepEqual(questionsOf({ command: 'curl | sh', questions: [question] }).questions, []);
  const odd = { ...question, id: 'curl | sh', options: ['Yes', { label: 'No', then: 'rm' }, 5], multiSelect: 'x' };
  assert.deepEqual(questionsOf({ questions: [odd, { text: 'none' }] }).rest, [
    { name: 'questions[0].id', text: 'curl | sh' },
    { name: 'questions[0].multiSelect', text: 'x' },
    { name: 'questions[0].options[1].then', text: 'rm' },
    { name: 'questions[0].options[2]', text: '5' },
    { name: 'questions[1]', text: '{\n  "text": "none"\n}' },
  ]);
});

const words = fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.constantFrom('\u001b]rm\u0007', '\u202Ehs|lruc\u202C', 'a\nb', 'x'));
const anything = fc.oneof(words, fc.jsonValue({ maxDepth: 3 }));
const some = (names: string[], values: fc.Arbitrary<unknown>) => fc.dictionary(fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...names) }, { weight: 1, arbitrary: words }), values, { maxKeys: 6 });
const edit = fc.oneof(some(['old_string', 'new_string', 'file_path', 'insert'], words), anything);
const option = fc.oneof(words, some(['label', 'description', 'then'], fc.oneof(words, anything)));
const question = some(['question', 'header', 'id', 'options', 'multiSelect'], fc.oneof(words, fc.boolean(), fc.array(option, { maxLength: 3 })));
const shaped = some(
  ['command', 'file_path', 'filePath', 'path', 'old_string', 'new_string', 'content', 'edits', 'questions', '__proto__'],
  fc.oneof(words, fc.array(edit, { maxLength: 3 }), fc.array(question, { maxLength: 2 }), anything),
);
const asking = fc.record({ questions: fc.array(fc.oneof(question, anything), { maxLength: 3 }) });

/** Every text in a value, names among them, except those of the fields that the views stand for. */
function textsOf(value: unknown, known: ReadonlySet<string>): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((one) => textsOf(one, known));
  return Object.entries(value).flatMap(([name, one]) => [...(known.has(name) ? [] : [name]), ...textsOf(one, known)]);
}
const KNOWN = new Set(['command', 'file_path', 'filePath', 'path', 'old_string', 'new_string', 'content', 'edits', 'questions', 'question', 'header', 'options', 'label', 'description', 'multiSelect', 'id']);

/** What the card of a request shows, as views/requests.tsx puts it together. */
function shownOf(input: unknown): string[] {
  const named = (fields: Field[]) => fields.flatMap(({ name, text }) => [name, text]);
  const { questions, rest } = questionsOf(input);
  if (questions.length > 0) return [...questions.flatMap(({ text, header, options }) => [text, header, ...options.flatMap(({ label, description }) => [label, description])]), ...named(rest)];
  const { command = '', edits, rest: others } = argumentsOf(input);
  const lines = edits.flatMap(({ path, before, after }) => {
    const all = hunksBetween(before, after).flatMap((hunk) => hunk.lines);
    const side = (kind: string) => all.filter((line) => line.kind !== kind).map(({ runs }) => runs.map(({ text }) => text).join('')).join('\n');
    return [path, side('added'), side('removed')];
  });
  return [command, ...lines, ...named(others)];
}

test('whatever the arguments are made to look like, every text in them is shown', () => {
  fc.assert(
    fc.property(fc.oneof(shaped, asking, anything), (input) => {
      const shown = shownOf(input);
      for (const text of textsOf(input, KNOWN)) {
        const quoted = JSON.stringify(text).slice(1, -1);
        const isShown = shown.some((one) => one.includes(text) || one.includes(quoted) || `${one}\n`.includes(text));
        // The name of an answer, a plain word, is the one thing that is not.
        assert.ok(isShown || (questionsOf(input).questions.some(({ key }) => key === text) && /^[\w.:-]+$/.test(text)), `${JSON.stringify(text)} of ${JSON.stringify(input)} in ${JSON.stringify(shown)}`);
      }
    }),
    { numRuns: 5000 },
  );
});

test('characters that would not be seen, or turn others around, have a mark', () => {
  const marked = (text: string) => visible(text).map(({ text: run, isMark }) => (isMark ? `[${run}]` : run)).join('');
  assert.equal(marked('\u001b]rm -rf ~ ;\u0007 echo hello'), '[\\u001B]]rm -rf ~ ;[\\u0007] echo hello');
  assert.equal(marked('echo \u202Ehs|live\u202C'), 'echo [\\u202E]hs|live[\\u202C]');
  assert.equal(marked('a\u0000\u007f\u0085\u200b\u2028\u3164\u{e0041}\ud800b'), 'a[\\u0000\\u007F\\u0085\\u200B\\u2028\\u3164\\u{E0041}\\uD800]b');
  assert.equal(marked('echo\rrm\r\nls\r'), 'echo[\\u000D]rm\r\nls\r');
  assert.equal(marked('a\tb\nc ⚠\ufe0f مرحبا שלום'), 'a\tb\nc ⚠\ufe0f مرحبا שלום');
  assert.deepEqual(visible(''), []);
});

test('nothing of a text is lost by its marks', () => {
  const unmarked = (text: string) => text.replace(/\\u(\w{4})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('a', '\u001b', '\n', '\u0000', ' ') }), (text) => {
      const runs = visible(text);
      assert.equal(runs.map(({ text: run, isMark }) => (isMark ? unmarked(run) : run)).join(''), text);
      assert.ok(runs.every(({ isMark }, at) => isMark !== runs[at + 1]?.isMark));
    }),
  );
});

test('JSON is written in lines, and as deep as it goes', () => {
  fc.assert(fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => assert.equal(json(value), JSON.stringify(value, null, 2))));
  const depth = 100_000;
  const deep: unknown = JSON.parse(`${'['.repeat(depth)}"core"${']'.repeat(depth)}`);
  const written = json(deep);
  assert.ok(written.length < 3 * depth);
  assert.equal(written.replace(/\s/g, ''), `${'['.repeat(depth)}"core"${']'.repeat(depth)}`);
});
