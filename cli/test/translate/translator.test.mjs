// Turns, requests and the state of a session.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { createTranslator } from '../../src/translate/translator.mjs';
import { createSession, textContent } from './support/session.mjs';

const COMMAND = { toolCallId: 'c', kind: 'execute', name: 'Bash', rawInput: { command: 'make' } };

test('a turn that ended before the answer was complete says why', () => {
  for (const [stopReason, expected] of [
    ['end_turn', []],
    [undefined, []],
    ['cancelled', ['text "Aborted."']],
    ['max_tokens', ['text "The answer was cut off at the limit of output tokens."']],
    ['max_turn_requests', ['text "The agent stopped at its limit of requests to the model in one turn."']],
    ['refusal', ['text "The model refused to continue."']],
    ['constructor', ['text "The turn ended: constructor."']],
  ]) {
    const session = createSession();
    session.say('Hello');
    session.hub.store(session.translator.endTurn(stopReason));
    assert.deepEqual(session.shown(), ['text "Hello"', ...expected]);
  }
});

test('the request to leave the plan mode shows the preceding plan, and after the approval the agent still asks for each action', () => {
  const session = createSession({ agent: 'claude' });
  session.call('c', {
    title: 'Ready to code?',
    kind: 'switch_mode',
    status: 'pending',
    rawInput: {},
    _meta: { claudeCode: { toolName: 'ExitPlanMode' } },
  });
  session.callUpdate('c', { rawInput: { plan: '# Plan' }, content: textContent('# Plan') });
  const options = [
    { optionId: 'exit-plan-auto', kind: 'allow_always' },
    { optionId: 'exit-plan-default', kind: 'allow_once' },
  ];
  const request = session.ask({ toolCallId: 'c', rawInput: {} }, { options });
  assert.equal(request.tool, 'ExitPlanMode');
  assert.deepEqual(request.arguments, { plan: '# Plan' });
  assert.deepEqual([request.choices, request.needsChoice], [[{ id: 'exit-plan-auto', label: 'exit-plan-auto' }], undefined]);
  assert.deepEqual(session.decide(request, { status: 'approved' }), { outcome: { outcome: 'selected', optionId: 'exit-plan-default' } });
});

test('the approval of a plan selects the option in which the agent asks, and the other options are choices', () => {
  const option = (optionId, kind, name) => ({ optionId, kind, name });
  const options = [
    option('restore_previous', 'allow_once', 'Yes, restore previous mode (auto)'),
    option('proceed_always', 'allow_always', 'Yes, and auto-accept edits'),
    option('bypass', 'allow_always', 'Yes, and bypass permissions'),
    option('proceed_once', 'allow_once', 'Yes, and manually approve edits'),
    option('cancel', 'reject_once', 'No, keep planning (esc)'),
  ];
  const decide = (decision) => {
    const session = createSession({ agent: 'qwen' });
    const toolCall = { toolCallId: 'p', title: 'Plan:', kind: 'switch_mode', content: textContent('# Plan'), rawInput: {} };
    const request = session.ask(toolCall, { options });
    assert.deepEqual(request.arguments, { plan: '# Plan' });
    assert.deepEqual(request.choices, [
      { id: 'restore_previous', label: 'Yes, restore previous mode (auto)' },
      { id: 'proceed_always', label: 'Yes, and auto-accept edits' },
      { id: 'bypass', label: 'Yes, and bypass permissions', neverAsks: true },
    ]);
    return session.decide(request, decision).outcome.optionId;
  };
  assert.equal(decide({ status: 'approved' }), 'proceed_once');
  assert.equal(decide({ status: 'approved', answers: { choice: ['proceed_always'] } }), 'proceed_always');
  assert.equal(decide({ status: 'approved', answers: { choice: { answers: ['bypass'] } } }), 'bypass');
  assert.equal(decide({ status: 'approved', answers: { choice: ['cancel'] } }), 'proceed_once');
  assert.equal(decide({ status: 'denied' }), 'cancel');
});

test('a permanent approval of a call is offered only if the agent has no other approval, except for plans', () => {
  const session = createSession();
  const always = { optionId: 'always', kind: 'allow_always', name: 'Always allow `make`' };
  assert.equal(session.ask(COMMAND, { options: [always, { optionId: 'once', kind: 'allow_once' }] }).choices, undefined);
  const request = session.ask({ ...COMMAND, toolCallId: 'd' }, { options: [always, { optionId: 'no', kind: 'reject_once' }] });
  assert.deepEqual([request.choices, request.needsChoice], [[{ id: 'always', label: 'Always allow `make`' }], true]);
  assert.equal(session.decide(request, { status: 'approved', answers: { choice: ['always'] } }).outcome.optionId, 'always');
});

test('two requests for one call have different ids, and can be answered in any order', () => {
  const session = createSession();
  const requests = [session.ask(COMMAND), session.ask(COMMAND)];
  assert.deepEqual(pluck(requests, 'id'), ['c', 'c#2']);
  assert.equal(session.decide(requests[1], { status: 'approved' }).outcome.optionId, 'once');
  assert.equal(session.decide(requests[0], { status: 'approved' }).outcome.optionId, 'once');
  session.callUpdate('c', { status: 'completed' });
  assert.deepEqual(
    session.shown().filter((line) => line.startsWith('Bash')),
    ['Bash {"command":"make"} -> done (approved)'],
  );
});

test('a request of a sub-agent, with another session id, is shown like any other', () => {
  const session = createSession();
  const request = session.ask({ toolCallId: 'sub', title: 'rm old', kind: 'execute' }, { sessionId: 'another' });
  assert.deepEqual([request.id, request.tool, request.arguments], ['sub', 'Bash', { title: 'rm old' }]);
  session.decide(request, { status: 'denied', reason: 'keep it' });
  assert.deepEqual(session.shown(), ['Bash {"title":"rm old"} -> failed "Denied.\\nReason: keep it" (denied)']);
});

test('ids of requests of an earlier process are not used again', () => {
  const session = createSession({ usedIds: ['c', 'c#2'] });
  assert.equal(session.ask(COMMAND).id, 'c#3');
});

test('a call that the agent offers to allow only permanently is not run', () => {
  const session = createSession();
  const request = session.ask(COMMAND, { options: [{ optionId: 'always', kind: 'allow_always' }] });
  assert.deepEqual(session.decide(request, { status: 'approved' }), { outcome: { outcome: 'cancelled' } });
  assert.match(session.shown()[0], /-> failed "Not run: the agent offers no approval of this call alone\."/);
});

test('a request that is decided after its turn is answered, and does not change the next turn', () => {
  const session = createSession();
  const request = session.ask(COMMAND);
  session.endTurn();
  assert.deepEqual(session.decide(request, { status: 'denied' }).outcome, { outcome: 'selected', optionId: 'reject' });
  assert.throws(() => session.translator.responseTo(request.id, { status: 'denied' }), /no open request c/);
  session.endTurn('cancelled');
  assert.deepEqual(session.shown(), [
    'Bash {"command":"make"} -> failed "The turn ended before this call ran." (denied)',
    'text "Aborted."',
  ]);
});

test('an abort is shown, unless the agent ended the turn because of a denial', () => {
  for (const { continueTurn, expected } of [
    { continueTurn: () => {}, expected: false },
    { continueTurn: (session) => session.say('Then I try another way.'), expected: true },
    { continueTurn: (session) => session.call('d', { ...COMMAND, toolCallId: 'd', status: 'in_progress' }), expected: true },
  ]) {
    const session = createSession();
    session.decide(session.ask(COMMAND), { status: 'denied' });
    continueTurn(session);
    session.endTurn('cancelled');
    assert.equal(session.shown().includes('text "Aborted."'), expected);
  }
});

test('a question without a call is a request of its own', () => {
  const session = createSession();
  const requestedSchema = { properties: { name: { type: 'string' } } };
  const request = session.form({ mode: 'form', message: 'Your name?', requestedSchema });
  assert.equal(request.tool, 'AskUserQuestion');
  assert.equal(request.arguments.questions[0].question, 'Your name?');
  assert.deepEqual(session.decide(request, { status: 'approved', answers: { name: ['Ada'] } }), {
    action: 'accept',
    content: { name: 'Ada' },
  });
  assert.deepEqual(session.form({ message: 'Continue?' }).arguments, { message: 'Continue?' });
  assert.throws(() => session.form({ mode: 'url', url: 'https://example.com' }), /mode url/);
});

test('a large question fits a request of the hub', () => {
  const session = createSession();
  const request = session.form({ message: 'x'.repeat(3_000_000), requestedSchema: { properties: { a: {} } } });
  assert.ok(JSON.stringify(request).length < 1_000_000);
});

test('after a crash, open calls are closed with the reason, and the text so far is stored', () => {
  const session = createSession();
  session.call('never', { title: 'Bash', kind: 'execute', status: 'pending', rawInput: {} });
  session.call('c', { ...COMMAND, status: 'in_progress' });
  session.say('Half a sen');
  assert.deepEqual(session.translator.openCalls, [{ id: 'c', name: 'Bash', input: { command: 'make' } }]);
  session.hub.store(session.translator.closeOpenCalls('The agent ended.'));
  assert.deepEqual(session.translator.openCalls, []);
  assert.deepEqual(session.shown(), ['Bash {"command":"make"} -> failed "The agent ended."', 'text "Half a sen"']);
});

test('text outside of a turn is stored when nothing follows', () => {
  const session = createSession();
  session.say('Background task finished.');
  session.clock.ms = 9_000;
  session.hub.store(session.translator.takeDueRecords());
  assert.deepEqual(session.shown(), []);
  session.clock.ms = 10_000;
  session.hub.store(session.translator.takeDueRecords());
  assert.deepEqual(session.shown(), ['text "Background task finished."']);
});

test('characters that an agent splits are joined, in live text and in stored text', () => {
  const session = createSession();
  const live = [];
  for (const chunk of ['a \uD83D', '\uDE00 b', ' \uDE00 c']) {
    session.say(chunk);
    live.push(...session.translator.takeDeltas().map(({ text }) => text));
  }
  session.endTurn();
  assert.equal(live.join(''), 'a \u{1F600} b \uFFFD c');
  assert.deepEqual(session.shown(), ['text "a \u{1F600} b \uFFFD c"']);
});

test('pictures are shown between texts, and what cannot be shown is named', () => {
  const session = createSession();
  const chunk = (content) => session.update({ sessionUpdate: 'agent_message_chunk', content });
  session.say('Look:');
  chunk({ type: 'image', mimeType: 'image/png', data: 'QUJD' });
  chunk({ type: 'image', uri: 'https://example.com/a.png' });
  chunk({ type: 'audio', mimeType: 'audio/wav', data: '' });
  chunk({ type: 'resource_link', uri: 'file:///a.txt', name: 'a.txt' });
  session.endTurn();
  const [before, picture, after] = session.hub.timeline();
  assert.deepEqual([before.text, picture.kind, picture.url], ['Look:', 'image', 'data:image/png;base64,QUJD']);
  assert.equal(after.text, '[image that cannot be shown][audio, audio/wav][a.txt](file:///a.txt)');
});

test('a long message that the agent repeats with another id is stored once', () => {
  const session = createSession({ agent: 'claude' });
  const long = `## Context\n\n${'| a | b |\n'.repeat(20)}`;
  const say = (messageId, text) => session.update({ sessionUpdate: 'agent_message_chunk', messageId, content: { type: 'text', text } });
  for (const [id, text] of [
    ['1', long],
    ['2', `${long}\n`],
    ['3', 'Yes.'],
    ['4', 'Yes.'],
  ])
    say(id, text);
  session.hub.store(session.translator.endTurn('end_turn'));
  assert.deepEqual(session.shown(), [`text ${JSON.stringify(long.trimEnd())}`, 'text "Yes."', 'text "Yes."']);
});

test('notices and summaries of a compacted conversation are events', () => {
  const session = createSession();
  session.update({ sessionUpdate: 'notice', severity: 'warning', title: 'No sandbox', description: 'Install it.' });
  session.update({ sessionUpdate: 'notice', severity: 'ready', title: 'Not the event of the hub' });
  session.update({ sessionUpdate: 'compaction_update', compactionId: '1', status: 'in_progress' });
  session.update({ sessionUpdate: 'compaction_summary_chunk', compactionId: '1', content: { type: 'text', text: 'In short' } });
  session.update({ sessionUpdate: 'compaction_update', compactionId: '1', status: 'completed' });
  // Claude Code repeats the end.
  session.update({ sessionUpdate: 'compaction_update', compactionId: '1', status: 'completed' });
  session.update({ sessionUpdate: 'compaction_update', compactionId: '2', status: 'failed', error: 'too long' });
  assert.deepEqual(session.shown(), [
    'event warning: No sandbox\nInstall it.',
    'event notice: Not the event of the hub',
    'event summary: In short',
    'event compaction_failed: too long',
  ]);
});

test('modes, options, usage and titles are no part of the conversation', () => {
  const session = createSession();
  const updates = [
    { sessionUpdate: 'current_mode_update', currentModeId: 'plan' },
    { sessionUpdate: 'config_option_update', configOptions: [{ id: 'model' }] },
    { sessionUpdate: 'usage_update', used: 10, size: 100, cost: { amount: 1, currency: 'USD' } },
    { sessionUpdate: 'session_info_update', title: 'New session - 2026-11-01' },
    { sessionUpdate: 'session_info_update', title: 'Fix the build\nand more' },
    { sessionUpdate: 'session_info_update', _meta: {} },
    { sessionUpdate: 'user_message_chunk', content: { type: 'text', text: 'the prompt' } },
    { sessionUpdate: 'of_a_later_version' },
  ];
  for (const update of [...updates, ...updates.slice(2)]) session.update(update);
  assert.deepEqual(session.shown(), []);
  assert.deepEqual(session.hub.otherRecords, [
    { type: 'mode', mode: 'plan' },
    { type: 'options', options: [{ id: 'model' }] },
    { type: 'usage', used: 10, size: 100, cost: { amount: 1, currency: 'USD' } },
    { type: 'summary', text: 'Fix the build' },
  ]);
});

test('half a megabyte of commands becomes names and descriptions', () => {
  const session = createSession();
  const availableCommands = Array.from({ length: 600 }, (_, index) => ({
    name: `c${index}`,
    description: `${'d'.repeat(900)}\nmore`,
    _meta: { text: 'x'.repeat(900) },
  }));
  session.update({ sessionUpdate: 'available_commands_update', availableCommands: [...availableCommands, null, { name: 1 }] });
  const [{ commands }] = session.hub.recordsOf('commands');
  assert.equal(commands.length, 500);
  assert.ok(JSON.stringify(commands).length < 200_000);
});

test('a plan is stored when it changes, and limited', () => {
  const session = createSession();
  const plan = (entries) => session.update({ sessionUpdate: 'plan', entries });
  const entries = [{ content: 'one', status: 'pending', priority: 'high', more: 1 }, null, { status: 'pending' }];
  plan(entries);
  plan(entries);
  plan(Array.from({ length: 300 }, () => ({ content: 'x'.repeat(5000) })));
  const plans = session.hub.messages.map(({ content }) => content.content.data.entries);
  assert.deepEqual(plans[0], [{ content: 'one', status: 'pending', priority: 'high' }]);
  assert.deepEqual([plans.length, plans[1].length], [2, 200]);
  assert.ok(JSON.stringify(plans[1]).length < 250_000);
});

test('a replayed session gives only its state', () => {
  const translator = createTranslator({ agent: 'any' });
  const replayed = (sessionUpdate, fields) => translator.onReplayedUpdate({ sessionUpdate, ...fields }).map(({ type }) => type);
  const content = { type: 'text', text: 'old' };
  assert.deepEqual(replayed('available_commands_update', { availableCommands: [] }), ['commands']);
  assert.deepEqual(replayed('session_info_update', { title: 'Old' }), ['summary']);
  assert.deepEqual(replayed('agent_message_chunk', { content }), []);
  assert.deepEqual(replayed('tool_call', COMMAND), []);
  assert.deepEqual(replayed('plan', { entries: [{ content: 'old' }] }), []);
  assert.deepEqual(translator.endTurn('end_turn'), []);
});
