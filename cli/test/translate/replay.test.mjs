/** The history that an agent replays, as messages of the user and of the agent. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Replay } from '../../src/replay.mjs';

const chunk = (sessionUpdate, text) => ({ sessionUpdate, content: { type: 'text', text } });

const HIDDEN = {
  codex: 'Config warning: unknown key',
  gemini: '<session_context>\nThis is the Gemini CLI.\n</session_context>',
  qwen: '(empty content)',
};

test('the name of a tool in a replay of Gemini CLI is not shown as a command', () => {
  const replay = new Replay({ agent: 'gemini', flavor: 'delta', sessionId: 's' });
  const call = { sessionUpdate: 'tool_call', toolCallId: 'run_shell_command__1', status: 'completed', title: 'Shell', kind: 'execute' };
  const [record] = /** @type {any[]} */ (replay.onUpdate(call));
  const [{ name, input }] = record.content.content.data.message.content;
  assert.deepEqual({ name, input }, { name: 'run_shell_command', input: { title: 'Shell' } });
});

for (const [agent, hidden] of Object.entries(HIDDEN)) {
  test(`a text that ${agent} itself adds to a replay is no message, but the same words of a user are a message`, () => {
    const textsOf = (update) => {
      const replay = new Replay({ agent, flavor: 'alpha', sessionId: 's' });
      const records = [...replay.onUpdate(chunk('agent_message_chunk', 'Before.')), ...replay.onUpdate(update), ...replay.end()];
      return records.map(({ content }) => content.content.text ?? content.content.data.message.content[0].text);
    };
    assert.deepEqual(textsOf(chunk('agent_message_chunk', hidden)), ['Before.']);
    assert.deepEqual(textsOf(chunk('user_message_chunk', `I mean: ${hidden}`)), ['Before.', `I mean: ${hidden}`]);
  });
}
