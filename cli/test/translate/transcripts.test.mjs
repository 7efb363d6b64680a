// The conversation in the web console after turns of six agents, from the wire logs of the agents.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
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

test('the texts and calls of a sub-agent are below the call that started the sub-agent', () => {
  const read = (tool, output) => `${tool} {"file_path":"/home/ada/project/notes.txt"} -> done ${JSON.stringify(output)}`;
  const made = 'touch made.txt';
  const expected = {
    claude: {
      start:
        'Agent {"description":"Look around","prompt":"Helper prompt A.","subagent_type":"general-purpose","run_in_background":false} -> done "<tools-used-before-summary>Bash, Read</tools-used-before-summary>\\n\\nThe word is zebra."',
      calls: [
        read('Read', '1\tThe word is zebra.\n2\t'),
        `Bash {"command":"${made}","description":"Runs a command"} -> done "(Bash completed with no output)" (approved)`,
      ],
    },
    codex: {
      start: 'Agent {"prompt":"Helper prompt A."} -> done',
      calls: [
        `Bash {"file_path":"/home/ada/project/notes.txt","title":"Read file '/home/ada/project/notes.txt'"} -> done "The word is zebra.\\n"`,
        `Bash {"command":"${made}","cwd":"/home/ada/project"} -> done (approved)`,
      ],
    },
    // Qwen Code also describes the steps in the content of the call, which is no output.
    qwen: {
      start:
        'agent {"description":"Look around","prompt":"Helper prompt A.","subagent_type":"general-purpose","run_in_background":false} -> done "The word is zebra." (approved)',
      calls: [
        read('read_file', 'The word is zebra.\n'),
        `run_shell_command {"command":"${made}","description":"Runs a command"} -> done (approved)`,
      ],
    },
  };
  for (const [agent, { start, calls }] of Object.entries(expected)) {
    const [before, helper, wait, after, ...others] = replay(`${agent}-subagent`).timeline;
    assert.deepEqual([before.text, after.text, others], ['I start a helper.', 'The helper is done.', []], agent);
    assert.match(JSON.stringify(wait.input), /sleep 3|Shell/);
    assert.deepEqual(describe([helper, ...helper.children]), [start, 'text "I look."', ...calls, 'text "The word is zebra."']);
  }
});

test('clients that do not know sub-agents show the messages of a sub-agent in the order in which they were stored', () => {
  const kinds = replay('claude-subagent').hub.messages.map(({ content }) => content.content.data.message.content[0].type);
  const call = ['tool_use', 'tool_result'];
  assert.deepEqual(kinds, ['text', 'tool_use', 'text', ...call, ...call, 'text', 'tool_result', ...call, 'text']);
});

test('the model and the tokens of a sub-agent of Codex are not those of the session', () => {
  const { hub } = replay('codex-subagent');
  const models = hub.recordsOf('options').map(({ options }) => options.find(({ id }) => id === 'model').currentValue);
  assert.deepEqual([models, hub.recordsOf('usage')], [['gpt-5.5'], [{ type: 'usage', used: 1290, size: 258400 }]]);
});

test('each request of Qwen to its model reports the tokens and the size of the context once', () => {
  assert.deepEqual(replay('qwen-turn').hub.recordsOf('usage'), [{ type: 'usage', used: 1234, size: 262144 }]);
});

test('the 5-hour and the weekly limit of a plan of Claude are reported once', () => {
  assert.deepEqual(replay('claude-limits').hub.recordsOf('limits'), [
    {
      type: 'limits',
      limits: [
        { id: 'five_hour', used: 0.42, resetsAt: 1_795_993_353_000 },
        { id: 'seven_day', used: 0.17, resetsAt: 1_796_580_153_000 },
      ],
    },
  ]);
});

test('the description of a command that Gemini runs without a request is input, not output', () => {
  const command = (text) =>
    `run_shell_command {"command":"touch esc.txt","description":"[current working directory /home/ada/project] (Runs a command)"} -> done${text}`;
  assert.deepEqual(shown('gemini-execperm'), [command(' (approved)'), command(''), 'text "after"']);
});

test('a command that Codex runs without a request, because the user allowed it earlier, is a call without a decision', () => {
  const command = 'Bash {"command":"touch esc.txt","cwd":"/home/ada/project"} -> done';
  assert.deepEqual(shown('codex-execperm'), [`${command} (approved)`, command, 'text "after"']);
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
    'Bash {"command":"echo one && echo two","description":"Runs a command"} -> done "one\\ntwo\\n<shellId: 0 completed with exit code 0>" (approved)',
    'text "Now a file."',
    'Edit {"file_path":"/home/ada/project/new.txt","content":"hello file"} -> done "Created file /home/ada/project/new.txt with 10 characters" (approved)',
    'text "And a plan."',
    `TodoWrite {"todos":${TODOS.replaceAll(/("content":("\w+"),"status":"\w+")/g, '$1,"activeForm":$2')}} -> failed "Tool 'TodoWrite' does not exist."`,
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
    'Bash {"cwd":"/home/ada/project","command":"echo one && echo two"} -> done "one\\ntwo\\n" (approved)',
    'text "Now a file."',
    'Edit {"file_path":"/home/ada/project/new.txt","content":"hello file"} -> done "Wrote file successfully." (approved)',
    'text "And a plan."',
    `TodoWrite {"todos":${TODOS.replaceAll('"}', '","priority":"medium"}')}} -> done`,
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
  for (const agent of AGENTS) {
    const calls = replay(`${agent}-parallel`).timeline.filter(({ kind }) => kind === 'tool');
    // Codex starts both at once, in any order.
    assert.deepEqual(calls.map(({ input, state, permission }) => [input.command, state, permission.status]).sort(), [
      ['touch p1.txt', 'done', 'approved'],
      ['touch p2.txt', 'done', 'approved'],
    ]);
  }
});

test('a plan that is written twice is shown once, with its last states', () => {
  for (const agent of ['claude', 'codex'])
    assert.deepEqual(shown(`${agent}-plan`), ['plan first: completed, second: pending', 'text "planned"'], agent);
  const [todos, text] = shown('opencode-plan');
  assert.match(todos, /^TodoWrite .*"first","status":"completed"/);
  assert.equal(text, 'text "planned"');
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
  assert.deepEqual(pluck(hub.recordsOf('mode'), 'mode'), ['autoEdit', 'yolo', 'plan']);
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
