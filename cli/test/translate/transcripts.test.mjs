// The conversation in the web console after turns of six agents, from the wire logs of the agents.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { describe, questionsOf, replay } from './support/replay.mjs';

const LOGS = readdirSync(new URL('../transcripts', import.meta.url)).map((file) => file.replace('.jsonl', ''));
const AGENTS = ['claude', 'codex', 'copilot', 'gemini', 'opencode', 'qwen'];
const shown = (name, options) => describe(replay(name, options).timeline);
const edit = (tool, output = '') =>
  `${tool} {"file_path":"/home/ada/project/README.md","old_string":"line two","new_string":"line 2"} -> done${output} (approved)`;
const wholeEdit = (tool) =>
  `${tool} {"file_path":"/home/ada/project/README.md","old_string":"# demo\\nline two\\n","new_string":"# demo\\nline 2\\n"} -> done (approved)`;

const TODOS =
  '[{"content":"first","status":"completed"},{"content":"second","status":"in_progress"},{"content":"third","status":"pending"}]';
const INTRO = ['thinking "I should look around first"', 'text "Hello there, I will run a command."'];

test('a turn of Claude shows thoughts, text, a command and a new file; a todo list that the agent refused is none', () => {
  assert.deepEqual(shown('claude-turn'), [
    ...INTRO,
    'Bash {"command":"echo one && echo two","description":"Run a command"} -> done "one\\ntwo"',
    'text "Now a file."',
    'Write {"file_path":"/home/ada/project/new.txt","content":"hello file"} -> done "File created successfully at: /home/ada/project/new.txt (file state is current in your context — no need to Read it back)" (approved)',
    'text "And a plan."',
    `todowrite {"todos":${TODOS}} -> failed "<tool_use_error>Error: No such tool available: todowrite</tool_use_error>"`,
    'text "All done."',
  ]);
});

test('a turn of Codex shows the output of the terminal and the change that the request leaves out', () => {
  assert.deepEqual(shown('codex-turn'), [
    ...INTRO,
    'Bash {"command":"echo one && echo two","cwd":"/home/ada/project"} -> done "one\\ntwo\\n"',
    'text "Now a file."',
    'Edit {"file_path":"/home/ada/project/new.txt","content":"hello file\\n"} -> done (approved)',
    'text "And a plan."',
    'text "All done."',
  ]);
});

test('a turn of Copilot shows output that repeats itself once, and no notes of the client', () => {
  assert.deepEqual(shown('copilot-turn'), [
    ...INTRO,
    'Bash {"command":"echo one && echo two","description":"Run a command"} -> done "one\\ntwo\\n<shellId: 0 completed with exit code 0>" (approved)',
    'text "Now a file."',
    'Edit {"file_path":"/home/ada/project/new.txt","content":"hello file"} -> done "Created file /home/ada/project/new.txt with 10 characters" (approved)',
    'text "And a plan."',
    `todowrite {"todos":${TODOS}} -> failed "Tool 'todowrite' does not exist."`,
    'text "All done."',
  ]);
});

test('a turn of Gemini shows calls that only the permission request names', () => {
  assert.deepEqual(shown('gemini-turn'), [
    'thinking "**Thinking**\\nI should look around first"',
    'text "Hello there, I will run a command."',
    'run_shell_command {"command":"echo one && echo two","description":"[current working directory /home/ada/project] (Run a command)"} -> done (approved)',
    'text "Now a file."',
    'write_file {"file_path":"/home/ada/project/new.txt","content":"hello file"} -> done (approved)',
    'text "And a plan.All done."',
  ]);
});

test('a turn of opencode shows cumulative output once, and its todos', () => {
  assert.deepEqual(shown('opencode-turn'), [
    ...INTRO,
    'Bash {"cwd":"/home/ada/project","command":"echo one"} -> done "one\\n" (approved)',
    'text "Now a file."',
    'Edit {"file_path":"/home/ada/project/new.txt","content":"hello file"} -> done "Wrote file successfully." (approved)',
    'text "And a plan."',
    `TodoWrite {"todos":${TODOS.replaceAll('"}', '","priority":"high"}')}} -> done`,
    'text "All done."',
  ]);
});

test('a turn of Qwen shows calls with the input that comes late', () => {
  assert.deepEqual(shown('qwen-turn'), [
    ...INTRO,
    'run_shell_command {"command":"echo one && echo two","description":"Run a command"} -> done "one\\ntwo"',
    'text "Now a file."',
    'write_file {"file_path":"/home/ada/project/new.txt","content":"hello file"} -> done (approved)',
    'text "And a plan."',
    'todowrite {"title":"todowrite"} -> failed "Tool \\"todowrite\\" not found in registry."',
    'text "All done."',
  ]);
});

test('an edit shows the changed lines', () => {
  assert.equal(shown('opencode-edit')[1], edit('Edit', ' "Edit applied successfully."'));
  assert.equal(shown('copilot-edit')[1], edit('Edit', ' "File /home/ada/project/README.md updated with changes."'));
  assert.match(
    shown('claude-edit')[1],
    /^Edit \{"file_path":"\/home\/ada\/project\/README.md","old_string":"line two","new_string":"line 2","replace_all":false\} -> done ".*" \(approved\)$/,
  );
  for (const [agent, tool, index] of [
    ['codex', 'Edit', 0],
    ['gemini', 'replace', 1],
    ['qwen', 'edit', 1],
  ]) {
    assert.equal(shown(`${agent}-edit`)[index], wholeEdit(tool));
  }
});

test('a request to edit a file shows the change', () => {
  for (const agent of AGENTS) {
    const [{ id, tool, arguments: input }] = replay(`${agent}-edit`).hub.requests;
    assert.ok(id && tool);
    assert.equal(input.file_path, '/home/ada/project/README.md');
    assert.match(input.old_string, /line two/);
    assert.match(input.new_string, /line 2/);
    assert.ok(!('diff' in input), agent);
  }
});

test('a denied call is shown as failed once, even if the agent does not report the failure', () => {
  for (const agent of ['claude', 'copilot', 'gemini', 'opencode', 'qwen']) {
    const calls = shown(`${agent}-reject`).filter((line) => line.includes('touch no.txt'));
    assert.equal(calls.length, 1, agent);
    assert.match(calls[0], /-> failed "Denied\." \(denied\)$/, agent);
  }
});

test('the denial of a call is not shown as an abort of the turn', () => {
  for (const agent of ['copilot', 'opencode', 'qwen']) assert.equal(shown(`${agent}-reject`).length, 1, agent);
});

test('an abort ends the calls that the agent leaves open', () => {
  for (const agent of ['codex', 'copilot']) {
    const lines = shown(`${agent}-cancelrun`);
    assert.match(lines[0], /^Bash .*sleep 30.* -> failed "Aborted\."/, agent);
    assert.deepEqual(lines.slice(1), ['text "Aborted."'], agent);
  }
  for (const agent of ['claude', 'copilot', 'gemini', 'opencode', 'qwen']) {
    const lines = shown(`${agent}-cancelperm`);
    assert.match(lines[0], /touch x\.txt.* -> failed "/, agent);
    assert.equal(lines.at(-1), 'text "Aborted."', agent);
  }
});

test('two requests at a time are two calls, each with its own decision', () => {
  for (const agent of AGENTS.filter((name) => name !== 'codex')) {
    const calls = replay(`${agent}-parallel`).timeline.filter(({ kind }) => kind === 'tool');
    assert.deepEqual(
      calls.map(({ input, state, permission }) => [input.command, state, permission.status]),
      [
        ['touch p1.txt', 'done', 'approved'],
        ['touch p2.txt', 'done', 'approved'],
      ],
    );
  }
});

test('a plan becomes todos', () => {
  assert.deepEqual(shown('claude-plan').slice(1), ['plan a: pending', 'text "planned"']);
  assert.match(shown('opencode-plan')[0], /^TodoWrite /);
});

test('a question is a question card, and the answer reaches the agent', () => {
  const claude = replay('claude-ask');
  const [question] = questionsOf(claude.hub.requests[0]);
  assert.deepEqual(question, {
    key: 'question_0',
    text: 'Which colour?',
    header: 'Choice',
    options: [
      { label: 'red', description: 'red it is' },
      { label: 'blue', description: 'blue it is' },
    ],
    isMultiple: false,
  });
  assert.deepEqual(claude.responses, [{ action: 'accept', content: { question_0: 'red' } }]);
  const qwen = replay('qwen-ask', { decide: () => ({ status: 'approved', answers: { question_0: ['blue'] } }) });
  assert.equal(questionsOf(qwen.hub.requests[0])[0].text, 'Which colour?');
  assert.deepEqual(qwen.responses, [{ outcome: { outcome: 'selected', optionId: 'proceed_once' }, answers: { 0: 'blue' } }]);
});

test('a change of the mode that Gemini reports as text is not shown', () => {
  const { hub, timeline } = replay('gemini-modes');
  assert.deepEqual(timeline, []);
  assert.deepEqual(
    hub.of('mode').map(({ mode }) => mode),
    ['autoEdit', 'yolo', 'plan'],
  );
});

test('a title that arrives after the reply becomes the summary', () => {
  assert.deepEqual(replay('claude-reject').hub.of('summary'), [{ type: 'summary', text: '@@RUN touch no.txt;SAY It was refused.@@' }]);
});

test('commands that are sent again are reported once', () => {
  const [commands, ...more] = replay('copilot-turn').hub.of('commands');
  assert.deepEqual(more, []);
  assert.deepEqual(Object.keys(commands.commands[0]), ['name', 'description']);
  assert.equal(commands.commands[0].name, 'add-dir');
});

test('a replayed session gives its commands and its title, and no messages', () => {
  for (const agent of ['claude', 'codex', 'copilot', 'gemini', 'opencode']) {
    const { hub, timeline } = replay(`${agent}-load-2-load`);
    assert.ok(hub.of('commands').length > 0, agent);
    assert.deepEqual(
      describe(timeline).filter((line) => !line.startsWith('event warning')),
      ['text "I am back."'],
      agent,
    );
  }
  assert.match(replay('codex-load-2-load').hub.of('summary')[0].text, /^remember me/);
});

test('an approval never chooses an option that writes a rule', () => {
  for (const name of LOGS) {
    for (const { outcome } of replay(name, { decide: () => ({ status: 'approved', decision: 'approved_for_session' }) }).responses) {
      if (outcome) assert.match(outcome.optionId, /^(allow.once|once|proceed_once)$/, name);
    }
  }
});

for (const name of LOGS) {
  test(`${name} ends without open calls, unknown records and duplicates; its live text is what is stored`, () => {
    const { hub, translator, deltas, timeline } = replay(name);
    assert.deepEqual(translator.openCalls, []);
    for (const item of timeline) {
      assert.notEqual(item.kind, 'unknown');
      assert.notEqual(item.state, 'running');
      // A result or a decision without its call.
      assert.ok(item.kind !== 'result' && item.kind !== 'permission', `${item.kind} is alone`);
    }
    const texts = new Map(
      hub.messages.flatMap(({ localId, content }) => {
        const block = content.content.data.message?.content?.[0];
        return block?.type === 'text' || block?.type === 'thinking' ? [[localId, block.text ?? block.thinking]] : [];
      }),
    );
    for (const [id, text] of deltas) assert.equal(text.trim(), texts.get(id), `live text ${id}`);
  });
}
