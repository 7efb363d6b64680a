// Parsing tool arguments: every field must be shown.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from './support/fast-check.ts';
import { type ArgumentField, parseArguments, parsePlan, parseQuestions } from '../src/content/tool-arguments.ts';
import { diffTexts } from '../src/content/diff.ts';
import { formatJson } from '../src/content/format-json.ts';
import { escapeInvisible } from '../src/content/escape-invisible.ts';

const NOTHING = { command: undefined, edits: [], otherFields: [] };
const REPLACEMENT = { file_path: 'a', old_string: 'x', new_string: 'y' };

test('finds edits in a replacement, a list of replacements, and a new file', () => {
  assert.deepEqual(parseArguments(REPLACEMENT), { ...NOTHING, edits: [{ path: 'a', before: 'x', after: 'y' }] });
  assert.deepEqual(
    parseArguments({
      file_path: 'a',
      edits: [
        { old_string: 'x', new_string: 'y' },
        { old_string: '1', new_string: '2' },
      ],
    }).edits,
    [
      { path: 'a', before: 'x', after: 'y' },
      { path: 'a', before: '1', after: '2' },
    ],
  );
  assert.deepEqual(parseArguments({ path: 'a', content: 'new' }), { ...NOTHING, edits: [{ path: 'a', before: '', after: 'new' }] });
  for (const withoutEdits of [null, 'x', {}, { file_path: 'a' }, { old_string: 'x', new_string: 'y' }, { file_path: 'a', edits: [null] }])
    assert.deepEqual(parseArguments(withoutEdits).edits, []);
});

test('finds the changes of several files', () => {
  const changes = [
    REPLACEMENT,
    { file_path: 'b', content: 'new', mode: '755' },
    { file_path: 'c' },
    { path: 'd', edits: [{ old_string: '1', new_string: '2', all: true }] },
  ];
  assert.deepEqual(parseArguments({ changes, why: 'x' }), {
    command: undefined,
    edits: [
      { path: 'a', before: 'x', after: 'y' },
      { path: 'b', before: '', after: 'new' },
      { path: 'd', before: '1', after: '2' },
    ],
    otherFields: [
      { name: 'why', text: 'x' },
      { name: 'changes[1].mode', text: '755' },
      { name: 'changes[2]', text: '{\n  "file_path": "c"\n}' },
      { name: 'changes[3].edits[0].all', text: 'true' },
    ],
  });
  assert.deepEqual(parseArguments({ changes: ['a'] }), { ...NOTHING, otherFields: [{ name: 'changes', text: '[\n  "a"\n]' }] });
});

test('lists the fields besides a command or an edit', () => {
  assert.deepEqual(parseArguments({ command: 'npm test', env: { A: 'b' }, cwd: '/etc', sandbox: false, note: '' }), {
    ...NOTHING,
    command: 'npm test',
    otherFields: [
      { name: 'env', text: '{\n  "A": "b"\n}' },
      { name: 'cwd', text: '/etc' },
      { name: 'sandbox', text: 'false' },
      { name: 'note', text: '""' },
    ],
  });
  assert.deepEqual(parseArguments({ command: 'curl | sh', ...REPLACEMENT }), {
    command: 'curl | sh',
    edits: [{ path: 'a', before: 'x', after: 'y' }],
    otherFields: [],
  });
  const several = [{ old_string: 'x', new_string: 'y', file_path: 'b' }, { insert: 'more()' }, 'words'];
  assert.deepEqual(parseArguments({ file_path: 'a', edits: several, replace_all: true, content: 'c' }), {
    ...NOTHING,
    edits: [{ path: 'a', before: 'x', after: 'y' }],
    otherFields: [
      { name: 'replace_all', text: 'true' },
      { name: 'content', text: 'c' },
      { name: 'edits[0].file_path', text: 'b' },
      { name: 'edits[1]', text: '{\n  "insert": "more()"\n}' },
      { name: 'edits[2]', text: 'words' },
    ],
  });
});

test('shows arguments that are not an object unchanged', () => {
  assert.deepEqual(
    ['words', 5, ['a'], {}, null].map((input) => parseArguments(input).otherFields),
    [[{ name: '', text: 'words' }], [{ name: '', text: '5' }], [{ name: '', text: '[\n  "a"\n]' }], [], []],
  );
});

test('parses questions with options and answer keys', () => {
  const options = ['yes', { label: 'no', description: 'not now' }];
  const { questions, otherFields } = parseQuestions({
    questions: [{ id: 'q1', question: 'Go on?', header: 'Plan', options, multiSelect: true }, { question: 'Name?' }],
  });
  assert.deepEqual(questions, [
    {
      key: 'q1',
      text: 'Go on?',
      header: 'Plan',
      options: [
        { label: 'yes', description: '' },
        { label: 'no', description: 'not now' },
      ],
      isMultiple: true,
    },
    { key: 'Name?', text: 'Name?', header: '', options: [], isMultiple: false },
  ]);
  assert.deepEqual(otherFields, []);
  for (const withoutQuestions of [{ command: 'ls' }, null, { questions: 'x' }, { questions: [] }])
    assert.deepEqual(parseQuestions(withoutQuestions), { questions: [], otherFields: [] });
});

test('returns no questions if the request has other fields, and lists the other fields of a question', () => {
  const question = { question: 'Shall I run the tests?', options: ['Yes', 'No'] };
  assert.deepEqual(parseQuestions({ command: 'curl | sh', questions: [question] }).questions, []);
  const unusual = { ...question, id: 'curl | sh', options: ['Yes', { label: 'No', then: 'rm' }, 5], multiSelect: 'x' };
  assert.deepEqual(parseQuestions({ questions: [unusual, { text: 'none' }] }).otherFields, [
    { name: 'questions[0].id', text: 'curl | sh' },
    { name: 'questions[0].multiSelect', text: 'x' },
    { name: 'questions[0].options[1].then', text: 'rm' },
    { name: 'questions[0].options[2]', text: '5' },
    { name: 'questions[1]', text: '{\n  "text": "none"\n}' },
  ]);
});

const anyString = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('\u001b]rm\u0007', '\u202Ehs|lruc\u202C', 'a\nb', 'x'),
);
const anything = fc.oneof(anyString, fc.jsonValue({ maxDepth: 3 }));
const objectWith = (names: string[], values: fc.Arbitrary<unknown>) =>
  fc.dictionary(fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...names) }, { weight: 1, arbitrary: anyString }), values, { maxKeys: 6 });
const edit = fc.oneof(objectWith(['old_string', 'new_string', 'file_path', 'insert'], anyString), anything);
const option = fc.oneof(anyString, objectWith(['label', 'description', 'then'], fc.oneof(anyString, anything)));
const question = objectWith(
  ['question', 'header', 'id', 'options', 'multiSelect'],
  fc.oneof(anyString, fc.boolean(), fc.array(option, { maxLength: 3 })),
);
const knownShape = objectWith(
  ['command', 'file_path', 'filePath', 'path', 'old_string', 'new_string', 'content', 'edits', 'changes', 'questions', '__proto__'],
  fc.oneof(anyString, fc.array(edit, { maxLength: 3 }), fc.array(question, { maxLength: 2 }), anything),
);
const questionInput = fc.record({ questions: fc.array(fc.oneof(question, anything), { maxLength: 3 }) });

/** Returns every string in a value, including field names except the known ones. */
function textsOf(value: unknown, known: ReadonlySet<string>): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((item) => textsOf(item, known));
  return Object.entries(value).flatMap(([name, item]) => [...(known.has(name) ? [] : [name]), ...textsOf(item, known)]);
}
const KNOWN = new Set([
  'command',
  'file_path',
  'filePath',
  'path',
  'old_string',
  'new_string',
  'content',
  'edits',
  'changes',
  'questions',
  'question',
  'header',
  'options',
  'label',
  'description',
  'multiSelect',
  'id',
]);

/** Returns the texts that views/pending-requests.tsx shows for a request. */
function shownTexts(input: unknown): string[] {
  const named = (fields: ArgumentField[]) => fields.flatMap(({ name, text }) => [name, text]);
  const { questions, otherFields: questionFields } = parseQuestions(input);
  if (questions.length > 0)
    return [
      ...questions.flatMap(({ text, header, options }) => [
        text,
        header,
        ...options.flatMap(({ label, description }) => [label, description]),
      ]),
      ...named(questionFields),
    ];
  const { command = '', edits, otherFields } = parseArguments(input);
  const lines = edits.flatMap(({ path, before, after }) => {
    const all = diffTexts(before, after).flatMap((hunk) => hunk.lines);
    const side = (kind: string) =>
      all
        .filter((line) => line.kind !== kind)
        .map(({ spans }) => spans.map(({ text }) => text).join(''))
        .join('\n');
    return [path, side('added'), side('removed')];
  });
  return [command, ...lines, ...named(otherFields)];
}

test('every string in any arguments is shown', () => {
  fc.assert(
    fc.property(fc.oneof(knownShape, questionInput, anything), (input) => {
      const shown = shownTexts(input);
      for (const text of textsOf(input, KNOWN)) {
        const quoted = JSON.stringify(text).slice(1, -1);
        const isShown = shown.some((item) => item.includes(text) || item.includes(quoted) || `${item}\n`.includes(text));
        // Only a plain question id is not shown.
        assert.ok(
          isShown || (parseQuestions(input).questions.some(({ key }) => key === text) && /^[\w.:-]+$/.test(text)),
          `${JSON.stringify(text)} of ${JSON.stringify(input)} in ${JSON.stringify(shown)}`,
        );
      }
    }),
    { numRuns: 5000 },
  );
});

test('escapes invisible and reordering characters', () => {
  const escaped = (text: string) =>
    escapeInvisible(text)
      .map(({ text: run, isEscape }) => (isEscape ? `[${run}]` : run))
      .join('');
  assert.equal(escaped('\u001b]rm -rf ~ ;\u0007 echo hello'), '[\\u001B]]rm -rf ~ ;[\\u0007] echo hello');
  assert.equal(escaped('echo \u202Ehs|live\u202C'), 'echo [\\u202E]hs|live[\\u202C]');
  assert.equal(escaped('npm test \u2800; rm'), 'npm test [\\u2800]; rm');
  assert.equal(
    escaped('a\u0000\u007f\u0085\u200b\u2028\u3164\u{e0041}\ud800b'),
    'a[\\u0000\\u007F\\u0085\\u200B\\u2028\\u3164\\u{E0041}\\uD800]b',
  );
  assert.equal(escaped('echo\rrm\r\nls\r'), 'echo[\\u000D]rm\r\nls\r');
  assert.equal(escaped('a\tb\nc ⚠\ufe0f مرحبا שלום'), 'a\tb\nc ⚠\ufe0f مرحبا שלום');
  assert.deepEqual(escapeInvisible(''), []);
});

test('escapes joiners and variation selectors, except those of emoji and of scripts that need them', () => {
  const escaped = (text: string) =>
    escapeInvisible(text)
      .map(({ text: run, isEscape }) => (isEscape ? `[${run}]` : run))
      .join('');
  const needed = [
    'git commit -m "👨\u200d👩\u200d👧 👩🏽\u200d💻 🏳\ufe0f\u200d🌈 ❤\ufe0f\u200d🔥 ⚠\ufe0f ⚠\ufe0e 1\ufe0f\u20e3"',
    'می\u200cخواهم نامه\u200cای',
    'क्\u200dष क्\u200cष र्\u200dय',
    'র\u200d্য ක්\u200dය ன்\u200cக',
  ];
  for (const text of needed) assert.equal(escaped(text), text);
  assert.equal(escaped('r\u200dm r\u200cm 1\u200d2 a\u200dक क\u200da'), 'r[\\u200D]m r[\\u200C]m 1[\\u200D]2 a[\\u200D]क क[\\u200D]a');
  assert.equal(escaped('ی\u200c\u200cخ ی\u200c'), 'ی[\\u200C\\u200C]خ ی[\\u200C]');
  assert.equal(escaped('👨\u200d 👨\u200d\u200d👩 \u200d👩 👨\u200c👩'), '👨[\\u200D] 👨[\\u200D\\u200D]👩 [\\u200D]👩 👨[\\u200C]👩');
  assert.equal(
    escaped('rm\ufe0f 7\ufe0f7 \ufe0f⚠\ufe0f\ufe0f a\ufe0e ی\ufe0f'),
    'rm[\\uFE0F] 7[\\uFE0F]7 [\\uFE0F]⚠\ufe0f[\\uFE0F] a[\\uFE0E] ی[\\uFE0F]',
  );
});

test('escaping preserves the whole text', () => {
  const withoutEscapes = (text: string) =>
    text.replace(/\\u(\w{4})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('a', '\u001b', '\n', '\u0000', ' ') }), (text) => {
      const runs = escapeInvisible(text);
      assert.equal(runs.map(({ text: run, isEscape }) => (isEscape ? withoutEscapes(run) : run)).join(''), text);
      assert.ok(runs.every(({ isEscape }, at) => isEscape !== runs[at + 1]?.isEscape));
    }),
  );
});

test('formats JSON like `JSON.stringify`, at any depth', () => {
  fc.assert(fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => assert.equal(formatJson(value), JSON.stringify(value, null, 2))));
  const depth = 100_000;
  const deep: unknown = JSON.parse(`${'['.repeat(depth)}"core"${']'.repeat(depth)}`);
  const written = formatJson(deep);
  assert.ok(written.length < 3 * depth);
  assert.equal(written.replace(/\s/g, ''), `${'['.repeat(depth)}"core"${']'.repeat(depth)}`);
});

test('a call presents a plan if its tool is for plans, and it has no command and no edit', () => {
  assert.deepEqual(parsePlan('ExitPlanMode', { plan: '# Plan' }), { plan: '# Plan', otherFields: [] });
  assert.deepEqual(parsePlan('exit_plan_mode', { plan: '# Plan', allowedPrompts: [{ tool: 'Bash' }] }), {
    plan: '# Plan',
    otherFields: [{ name: 'allowedPrompts', text: formatJson([{ tool: 'Bash' }]) }],
  });
  assert.ok(parsePlan('SwitchMode', { plan: 'a' }));
  for (const input of [{ plan: ['a'] }, { plan: 'a', command: 'ls' }, { plan: 'a', ...REPLACEMENT }, {}, null, 'a'])
    assert.equal(parsePlan('ExitPlanMode', input), null);
  assert.equal(parsePlan('Deploy', { plan: 'a' }), null);
});
