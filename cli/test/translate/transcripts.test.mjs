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

test('a turn of Claude shows thoughts, text, a command, a new file and its todos', () => {
  assert.deepEqual(shown('claude-turn'), [
    ...INTRO,
    'Bash {"command":"echo one && echo two","description":"Runs a command"} -> done "one\\ntwo"',
    'text "Now a file."',
    'Write {"file_path":"/home/ada/project/new.txt","content":"hello file"} -> done "File created successfully at: /home/ada/project/new.txt (file state is current in your context — no need to Read it back)" (approved)',
    'text "And a plan."',
    'plan first: completed, second: in_progress, third: pending',
    'text "All done."',
  ]);
});

test('the texts and calls of a sub-agent of Claude are below the call that started the sub-agent', () => {
  const { timeline, hub } = replay('claude-subagent');
  const [before, agent, after, ...others] = timeline;
  assert.deepEqual([before.text, agent.name, after.text, others], ['I start a helper.', 'Agent', 'The helper is done.', []]);
  assert.deepEqual(describe(agent.children), [
    'text "I look."',
    'Read {"file_path":"/home/ada/project/notes.txt"} -> done "1\\tThe word is zebra."',
    'Bash {"command":"touch made.txt","description":"Runs a command"} -> done "(Bash completed with no output)" (approved)',
    'text "The word is zebra."',
  ]);
  // Clients that do not know sub-agents show the messages in the order in which they were stored.
  const kinds = hub.messages.map(({ content }) => content.content.data.message.content[0].type);
  assert.deepEqual(kinds, [
    'text',
    'tool_use',
    'text',
    'tool_use',
    'tool_result',
    'tool_use',
    'tool_result',
    'text',
    'tool_result',
    'text',
  ]);
});

test('the texts and calls of a sub-agent of Codex are below a call for the sub-agent', () => {
  const { timeline, hub } = replay('codex-subagent');
  const [before, agent, ...others] = timeline;
  assert.equal(before.text, 'I start a helper.');
  assert.deepEqual(describe([agent]), ['Agent {"prompt":"Look for the word."} -> done']);
  assert.deepEqual(describe(agent.children), [
    'text "I look."',
    `Bash {"file_path":"/home/ada/project/two.txt","title":"Read file '/home/ada/project/two.txt'"} -> done "two\\n"`,
    'Bash {"command":"touch made.txt","cwd":"/home/ada/project"} -> done (approved)',
    'text "I have it."',
  ]);
  assert.deepEqual(describe(others), [
    'Bash {"command":"sleep 3","cwd":"/home/ada/project"} -> done (approved)',
    'text "The helper is done."',
  ]);
  // The sub-agent's model and tokens are not those of the session.
  assert.deepEqual([hub.recordsOf('options'), hub.recordsOf('usage')], [[], [{ type: 'usage', used: 1290, size: 258400 }]]);
});

test('a turn of Codex shows the output of the terminal and the change that the request leaves out', () => {
  assert.deepEqual(shown('codex-turn'), [
    ...INTRO,
    'Bash {"command":"echo one && echo two","cwd":"/home/ada/project"} -> done "one\\ntwo\\n"',
    'text "Now a file."',
    'Edit {"file_path":"/home/ada/project/new.txt","content":"hello file\\n"} -> done (approved)',
    'text "And a plan."',
    'plan first: completed, second: in_progress, third: pending',
    'text "All done."',
  ]);
});

test('a turn of Copilot shows repeated output once and no notes of the client, and a refused todo list is a failed call', () => {
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
    'run_shell_command {"command":"echo one && echo two","description":"[current working directory /home/ada/project] (Runs a command)"} -> done (approved)',
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

test('a turn of Qwen shows calls with the input that arrives late', () => {
  assert.deepEqual(shown('qwen-turn'), [
    ...INTRO,
    'run_shell_command {"command":"echo one && echo two","description":"Runs a command"} -> done "one\\ntwo"',
    'text "Now a file."',
    'write_file {"file_path":"/home/ada/project/new.txt","content":"hello file"} -> done (approved)',
    'text "And a plan."',
    'TodoWrite {"title":"TodoWrite"} -> failed "Tool \\"TodoWrite\\" is a built-in tool that is disabled by default. Enable it with the tools.todoWrite.enabled setting and restart Qwen Code."',
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
    ['codex', 'Edit', 1],
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

test('a question becomes a question card, and the answer reaches the agent', () => {
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
    hub.recordsOf('mode').map(({ mode }) => mode),
    ['autoEdit', 'yolo', 'plan'],
  );
});

test('a title that arrives after the reply becomes the summary', () => {
  assert.deepEqual(replay('claude-reject').hub.recordsOf('summary'), [{ type: 'summary', text: 'This is prompt 1.' }]);
});

test('commands that are sent again are reported once', () => {
  const [commands, ...more] = replay('copilot-turn').hub.recordsOf('commands');
  assert.deepEqual(more, []);
  assert.deepEqual(Object.keys(commands.commands[0]), ['name', 'description']);
  assert.equal(commands.commands[0].name, 'add-dir');
});

test('a replayed session gives its commands and its title, and no messages', () => {
  for (const agent of ['claude', 'codex', 'copilot', 'gemini', 'opencode']) {
    const { hub, timeline } = replay(`${agent}-load-2-load`);
    assert.ok(hub.recordsOf('commands').length > 0, agent);
    assert.deepEqual(
      describe(timeline).filter((line) => !line.startsWith('event warning')),
      ['text "I am back."'],
      agent,
    );
  }
  assert.match(replay('codex-load-2-load').hub.recordsOf('summary')[0].text, /^remember me/);
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
