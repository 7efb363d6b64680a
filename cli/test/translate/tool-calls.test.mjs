// The input and the output of tool calls.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { createSession, textContent } from './support/session.mjs';

const RUNNING = { status: 'in_progress', kind: 'execute', name: 'Bash', rawInput: { command: 'make' } };
const diff = (path, oldText, newText) => ({ type: 'diff', path, oldText, newText });

/** The results of calls at the hub, as stored. */
const results = (session) =>
  session.hub.messages.flatMap(({ content }) => content.content.data.message?.content.filter(({ type }) => type === 'tool_result') ?? []);

/** Returns the input of a call that the agent describes with these fields. */
function inputOf(fields, agent) {
  const session = createSession({ agent });
  session.call('c', { status: 'in_progress', ...fields });
  session.callUpdate('c', { status: 'completed' });
  return session.hub.timeline()[0].input;
}

test('a call is stored when its input is known, after the preceding text', () => {
  const session = createSession();
  session.say('I run it.');
  session.call('c', { title: 'Bash', kind: 'execute', status: 'pending', rawInput: {} });
  assert.deepEqual(session.shown(), ['text "I run it."']);
  session.callUpdate('c', { rawInput: { command: 'ma' } });
  assert.equal(session.shown().length, 1);
  session.callUpdate('c', { status: 'in_progress', rawInput: { command: 'make' } });
  assert.deepEqual(session.shown(), ['text "I run it."', 'Bash {"command":"make"} -> running']);
});

test('a call with an empty input is stored when the call has output or ends', () => {
  for (const { agent, rawInput } of [
    { agent: 'any', rawInput: {} },
    { agent: 'opencode', rawInput: { cwd: '/p' } },
  ]) {
    const session = createSession({ agent });
    session.call('c', { title: 'Bash', kind: 'execute', status: 'in_progress', rawInput });
    assert.deepEqual(session.hub.messages, []);
    session.callUpdate('c', { rawInput: { command: 'make' } });
    assert.equal(session.hub.timeline()[0].input.command, 'make');
    session.call('d', { title: 'list_all', kind: 'other', status: 'in_progress', rawInput });
    session.callUpdate('d', { content: textContent('one') });
    assert.match(session.shown()[1], /^list_all .* -> running/);
  }
});

test('the name of a tool is the agent’s name, or else the name of the kind, or else the title', () => {
  const nameOf = (fields, /** @type {{agent?: string, id?: string}} */ { agent, id = 'c' } = {}) => {
    const session = createSession({ agent });
    session.call(id, { status: 'completed', ...fields });
    return session.hub.timeline()[0].name;
  };
  assert.equal(nameOf({ _meta: { claudeCode: { toolName: 'WebFetch' } }, kind: 'fetch', title: 'Fetch x' }), 'WebFetch');
  assert.equal(nameOf({ _meta: { toolName: 'grep' }, kind: 'search' }), 'grep');
  assert.equal(nameOf({ kind: 'search', title: 'x' }, { agent: 'gemini', id: 'glob__17' }), 'glob');
  assert.equal(nameOf({ kind: 'delete', title: 'x' }), 'Delete');
  assert.equal(nameOf({ kind: 'constructor', title: 'ask' }), 'ask');
  assert.equal(nameOf({}), 'Tool');
});

test('changes of files are shown as edits, and a field that repeats a change is left out', () => {
  const lines = (word) => `${'a\n'.repeat(10)}${word}\n${'b\n'.repeat(10)}`;
  const change = diff('/a', lines('old'), lines('new'));
  assert.deepEqual(
    inputOf({ kind: 'edit', content: [change], rawInput: { path: '/a', oldString: 'old', newString: 'new', replaceAll: true } }),
    { file_path: '/a', old_string: 'a\na\na\nold\nb\nb\nb', new_string: 'a\na\na\nnew\nb\nb\nb', replaceAll: true },
  );
  assert.deepEqual(inputOf({ kind: 'edit', content: [diff('/a', null, 'new')] }), { file_path: '/a', content: 'new' });
  assert.deepEqual(inputOf({ kind: 'edit', content: [diff('/a', 'x', 'y'), diff('/a', 'p', 'q')] }), {
    file_path: '/a',
    edits: [
      { old_string: 'x', new_string: 'y' },
      { old_string: 'p', new_string: 'q' },
    ],
  });
  assert.deepEqual(inputOf({ kind: 'edit', content: [diff('/a', 'x', 'y'), diff('/b', null, 'q')] }), {
    changes: [
      { file_path: '/a', old_string: 'x', new_string: 'y' },
      { file_path: '/b', content: 'q' },
    ],
  });
});

test('a field that the changes do not show stays visible', () => {
  const content = [diff('/a', 'old', 'new')];
  assert.equal(inputOf({ kind: 'edit', content, rawInput: { path: '/b' } }).input.file_path, '/b');
  assert.equal(inputOf({ kind: 'edit', content, rawInput: { diff: '@@\n-old\n+evil' } }).diff, '@@\n-old\n+evil');
  assert.equal(inputOf({ kind: 'edit', content, rawInput: { diff: '@@\n-old\n+new' } }).diff, undefined);
  assert.deepEqual(inputOf({ kind: 'edit', content, rawInput: { new_string: 'evil' } }).input, { new_string: 'evil' });
});

test('a missing input is derived from the title and the locations of the call', () => {
  assert.deepEqual(inputOf({ kind: 'execute', title: 'make' }, 'gemini'), { command: 'make' });
  assert.deepEqual(inputOf({ kind: 'read', title: 'a.txt', locations: [{ path: '/p/a.txt' }] }), { file_path: '/p/a.txt' });
  assert.deepEqual(inputOf({ kind: 'search', title: 'grep x', locations: [{ path: '/a' }, { path: '/b' }] }), {
    paths: ['/a', '/b'],
    title: 'grep x',
  });
  assert.deepEqual(inputOf({ kind: 'other', title: 'ask', rawInput: 'free text' }), { input: 'free text' });
});

test('a large and deeply nested input is shortened to what the hub accepts', () => {
  /** @type {object} */
  let nested = { text: 'x' };
  for (let depth = 0; depth < 1000; depth += 1) nested = { nested };
  const inputs = [
    { nested },
    { text: '\u0001'.repeat(5_000_000), path: '/a' },
    { list: Array.from({ length: 200_000 }, (_, index) => `${index}`) },
  ];
  for (const rawInput of inputs) {
    const session = createSession();
    const request = session.ask({ toolCallId: 'c', rawInput });
    const json = JSON.stringify(request.arguments);
    assert.ok(json.length < 1_000_000);
    assert.ok(!json.includes('{"nested":'.repeat(400)));
  }
});

test('cumulative output is stored in pieces, one per second', () => {
  const session = createSession();
  session.call('c', RUNNING);
  for (const [ms, text] of Object.entries({
    1000: 'one\n',
    1100: 'one\ntwo\n',
    1900: 'one\ntwo\nthree\n',
    2000: 'one\ntwo\nthree\nfour\n',
  })) {
    session.clock.ms = Number(ms);
    session.callUpdate('c', { content: textContent(text) });
  }
  session.callUpdate('c', { content: textContent('one\ntwo\nthree\nfour\nfive\n') });
  session.clock.ms = 2900;
  assert.deepEqual(session.translator.takeDueRecords(), []);
  session.clock.ms = 3000;
  session.hub.store(session.translator.takeDueRecords());
  assert.deepEqual(pluck(results(session), 'content'), ['one\n', 'two\nthree\nfour\n', 'five\n']);
  session.callUpdate('c', { status: 'completed', content: textContent('one\ntwo\nthree\nfour\nfive') });
  assert.deepEqual(session.shown(), ['Bash {"command":"make"} -> done "one\\ntwo\\nthree\\nfour\\nfive\\n"']);
});

test('output that contains only the last lines is continued where it overlaps the previous output', () => {
  const session = createSession();
  session.call('c', RUNNING);
  const lines = Array.from({ length: 150 }, (_, index) => `line ${index}\n`);
  for (const start of [0, 20, 50]) session.callUpdate('c', { content: textContent(lines.slice(start, start + 100).join('')) });
  session.callUpdate('c', { status: 'completed' });
  assert.equal(session.hub.timeline()[0].output, lines.join(''));
});

test('pieces of a terminal are appended, also after the call has ended', () => {
  const session = createSession({ agent: 'codex' });
  const piece = (data, fields) => session.callUpdate('c', { ...fields, _meta: { terminal_output_delta: { data } } });
  session.call('c', RUNNING);
  piece('one\n');
  piece('two\n');
  session.callUpdate('c', { status: 'completed', rawOutput: { output: 'ignored: it repeats the terminal' } });
  piece('late\n');
  assert.match(session.shown()[0], /-> done "one\\ntwo\\nlate\\n"$/);
});

test('a command that exits with an error is shown as failed, wherever the agent puts the code', () => {
  for (const fields of [
    { rawOutput: { exitCode: 2 } },
    { rawOutput: { metadata: { exit: 2 } } },
    { _meta: { terminal_exit: { exit_code: 2 } } },
  ]) {
    const session = createSession();
    session.call('c', RUNNING);
    session.callUpdate('c', { status: 'completed', content: textContent('no rule'), ...fields });
    assert.match(session.shown()[0], /-> failed "no rule"$/);
  }
});

test('the output and the exit code of a background command that arrive after the end of its call are shown', () => {
  const session = createSession();
  session.call('c', RUNNING);
  session.callUpdate('c', { status: 'completed' });
  session.callUpdate('c', { _meta: { terminal_output_delta: { data: 'no rule\n' } } });
  for (let i = 0; i < 2; i += 1) session.callUpdate('c', { _meta: { terminal_exit: { exit_code: 2 } } });
  assert.match(session.shown()[0], /-> failed "no rule\\n\\nExit code 2"$/);
});

test('structured output is shown as JSON if there is no text', () => {
  const outputOf = (fields) => {
    const session = createSession();
    session.call('c', RUNNING);
    session.callUpdate('c', { status: 'completed', ...fields });
    return session.hub.timeline()[0].output;
  };
  assert.equal(outputOf({ rawOutput: { rows: [1] } }), '{\n  "rows": [\n    1\n  ]\n}');
  assert.equal(outputOf({ rawOutput: { rows: [1] }, content: textContent('one row') }), 'one row');
  assert.equal(outputOf({ rawOutput: { rows: [1] }, content: [diff('/a', 'x', 'y')] }), '');
  // The size of indented JSON grows with the square of the depth, and `JSON.stringify` throws after some thousand levels.
  const deep = JSON.parse(`${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`);
  assert.match(outputOf({ rawOutput: deep }), /^\{\n {2}"a": \{[^]*"\[nested too deep to show\]"/);
  for (const rawOutput of [{ output: '', metadata: { exit: 0 } }, { message: 'text' }, {}, [], null, 'text']) {
    assert.ok(['', 'text'].includes(outputOf({ rawOutput })));
  }
});

test('pictures in the output of a tool are shown once', () => {
  const session = createSession();
  const content = [...textContent('shot'), { type: 'content', content: { type: 'image', mimeType: 'image/png', data: 'QUJD' } }];
  session.call('c', RUNNING);
  session.callUpdate('c', { content });
  session.callUpdate('c', { status: 'completed', content });
  const pictures = results(session).flatMap(({ content: blocks }) =>
    Array.isArray(blocks) ? blocks.filter(({ type }) => type === 'image') : [],
  );
  assert.deepEqual(pluck(pictures, 'source.data'), ['QUJD']);
});

/** Lines of a log with the error at its end. */
const LOG = `the first line\n${Array.from({ length: 250_000 }, (_, index) => `line ${index} \u{1f980}\n`).join('')}error: the test failed\n`;

for (const [way, send] of Object.entries({
  'at once': (session) => session.callUpdate('c', { status: 'failed', content: textContent(LOG) }),
  'as a whole each time': (session) => {
    for (let end = 0; end < LOG.length; end += 700_001) session.callUpdate('c', { content: textContent(LOG.slice(0, end)) });
    session.callUpdate('c', { status: 'failed', content: textContent(LOG) });
  },
  'in pieces': (session) => {
    for (let at = 0; at < LOG.length; at += 70_001)
      session.callUpdate('c', { _meta: { terminal_output_delta: { data: LOG.slice(at, at + 70_001) } } });
    session.callUpdate('c', { status: 'failed' });
    session.callUpdate('c', { _meta: { terminal_output_delta: { data: 'late' } } });
  },
  'with the middle only in the last windows': (session) => {
    for (let end = 900_000; end < LOG.length; end += 900_000)
      session.callUpdate('c', { content: textContent(LOG.slice(Math.max(0, end - 2_000_000), end)) });
    session.callUpdate('c', { status: 'failed', content: textContent(LOG.slice(-2_000_000)) });
  },
})) {
  test(`the start and the end of a long output are stored, and the size of the gap: ${way}`, () => {
    const session = createSession();
    session.call('c', RUNNING);
    send(session);
    const { output } = session.hub.timeline()[0];
    const [, start, leftOut, end] = /^([^]*)\n\[(\d+) characters left out\]\n([^]*)$/.exec(output);
    assert.ok(LOG.startsWith(start) && LOG.endsWith(end.replace('\uFFFD', '').replace(/late$/, '')));
    assert.equal(start.length + end.length + Number(leftOut), LOG.length);
    assert.ok(start.length >= 999_999 && end.length >= 999_999 && output.length < 2_000_100);
    assert.ok(JSON.stringify(session.hub.messages).length < 2_400_000);
  });
}

test('an output of almost the limit is stored without a change', () => {
  const session = createSession();
  const text = `${'x'.repeat(999_999)}${'\u{1f980}'.repeat(500_000)}`;
  session.call('c', RUNNING);
  session.callUpdate('c', { content: textContent(text) });
  session.callUpdate('c', { status: 'completed', content: textContent(text) });
  assert.equal(session.hub.timeline()[0].output, text);
});

test('an id that the agent uses again is another call', () => {
  const session = createSession();
  for (const word of ['one', 'two']) {
    session.call('c', { ...RUNNING, rawInput: { command: word } });
    session.callUpdate('c', { status: 'completed', content: textContent(word) });
  }
  assert.deepEqual(session.shown(), ['Bash {"command":"one"} -> done "one"', 'Bash {"command":"two"} -> done "two"']);
});

test('updates of a denied or closed call are ignored', () => {
  const session = createSession();
  session.decide(session.ask({ toolCallId: 'c', ...RUNNING }), { status: 'denied' });
  session.callUpdate('c', { status: 'failed', content: textContent('User refused permission') });
  session.callUpdate('c', { status: 'completed' });
  session.endTurn('cancelled');
  assert.deepEqual(session.shown(), ['Bash {"command":"make"} -> failed "Denied." (denied)']);
});

test('calls that are not reported as ended are ended with the turn', () => {
  const session = createSession();
  session.call('running', RUNNING);
  session.call('waiting', { ...RUNNING, status: 'pending' });
  session.call('empty', { title: 'Bash', status: 'pending', rawInput: {} });
  session.endTurn();
  assert.deepEqual(session.shown(), [
    'Bash {"command":"make"} -> done',
    'Bash {"command":"make"} -> failed "The turn ended before this call ran."',
  ]);
});

test('todos replace the session’s todos only when their call succeeds', () => {
  const session = createSession();
  const todos = [{ content: 'one', status: 'pending' }];
  session.call('c', { title: 'todowrite', kind: 'other', status: 'in_progress', rawInput: { todos } });
  assert.deepEqual(session.hub.messages, []);
  session.callUpdate('c', { status: 'completed' });
  assert.match(session.shown()[0], /^TodoWrite \{"todos":\[\{"content":"one","status":"pending"\}\]\} -> done$/);
});
