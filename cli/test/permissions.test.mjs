/** Permission requests of the agent, and their answers. */

import assert from 'node:assert/strict';
import { symlinkSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { eventually } from '../../packages/cli-kit/test/support/wait.mjs';
import { OPTIONS, askToRun, setUp } from './support/setup.mjs';

const selected = (optionId) => ({ outcome: { outcome: 'selected', optionId } });
const CANCELED = { outcome: { outcome: 'cancelled' } };

/** The steps of an edit that needs permission. */
const askToEdit = (id, file) => {
  const toolCall = {
    toolCallId: id,
    title: `Edit ${file}`,
    kind: 'edit',
    status: 'pending',
    content: [{ type: 'diff', path: file, oldText: 'a', newText: 'b' }],
  };
  const [, { ask }, done] = askToRun(id, file);
  return [{ update: { sessionUpdate: 'tool_call', ...toolCall } }, { ask: { ...ask, toolCall } }, done];
};

test('an approval for the session covers commands of the same shape, and each covered call is allowed once', async (t) => {
  const { hub, calls, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start();
  prompt(session.id, [
    ...askToRun('a', 'git commit -m one'),
    ...askToRun('b', 'git commit -m two'),
    ...askToRun('c', 'git push'),
    ...askToRun('d', 'git commit -m x && rm -r src'),
  ]);
  const id = await untilRequest(session.id);
  assert.deepEqual(hub.sessions.get(session.id).agentState.requests[id].sessionRule, {
    kind: 'command',
    label: '`git commit` with any message and path in the folder',
  });
  await hub.call(session.id, 'permission', { id, approved: true, decision: 'approved_for_session' });
  for (const asked of ['c', 'd']) {
    assert.equal(await hub.waitUntil(() => hub.pendingRequest(session.id), `the request ${asked}`), asked);
    await hub.call(session.id, 'permission', { id: asked, approved: false });
  }
  await hub.untilReady(session.id, 1);
  assert.deepEqual(calls('answer'), [selected('yes'), selected('yes'), selected('no'), selected('no')]);
  assert.ok(hub.transcript(session.id).includes('ran git commit -m two'));
});

test('after a change of the directory, a shape is covered again only from the session’s directory', async (t) => {
  const { hub, dir, calls, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start();
  const withoutAsking = (id, command) => askToRun(id, command).filter(({ ask }) => !ask);
  prompt(session.id, [
    ...askToRun('a', 'cp x y'),
    ...withoutAsking('b', 'cd .git'),
    ...askToRun('c', 'cp x pre-commit'),
    ...askToRun('d', `cd ${dir} && touch x`),
    ...askToRun('e', `cd ${dir} && touch y`),
  ]);
  await hub.call(session.id, 'permission', { id: await untilRequest(session.id), approved: true, decision: 'approved_for_session' });
  for (const [asked, decision] of [
    ['c', 'denied'],
    ['d', 'approved_for_session'],
  ]) {
    assert.equal(await hub.waitUntil(() => hub.pendingRequest(session.id), `the request ${asked}`), asked);
    await hub.call(session.id, 'permission', { id: asked, approved: decision !== 'denied', decision });
  }
  await hub.untilReady(session.id, 1);
  assert.deepEqual(calls('answer'), ['yes', 'no', 'yes', 'yes'].map(selected));
});

test('an approval of an edit for the session covers edits under the session’s directory', async (t) => {
  const { hub, dir, calls, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start();
  symlinkSync('/etc', path.join(dir, 'link'));
  const configFiles = ['opencode.json', 'opencode.jsonc', 'src/mcp.json', 'web/Gemini-Extension.json'];
  const files = ['a.txt', 'src/b.txt', 'link/hosts', '.git/config', '../c.txt', ...configFiles];
  prompt(
    session.id,
    files.flatMap((file, index) => askToEdit(`edit-${index}`, `${dir}/${file}`)),
  );
  await hub.call(session.id, 'permission', { id: await untilRequest(session.id), approved: true, decision: 'approved_for_session' });
  for (const asked of files.map((_, index) => `edit-${index}`).slice(2)) {
    assert.equal(await hub.waitUntil(() => hub.pendingRequest(session.id), `the request ${asked}`), asked);
    await hub.call(session.id, 'permission', { id: asked, approved: false });
  }
  await hub.untilReady(session.id, 1);
  assert.deepEqual(calls('answer'), ['yes', 'yes', ...files.slice(2).map(() => 'no')].map(selected));
});

test('a call that a rule or a mode approves is recorded with the rule or the mode', async (t) => {
  const { hub, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start();
  const completed = () => hub.sessions.get(session.id).agentState.completedRequests;
  prompt(session.id, [...askToRun('a', 'git commit -m one'), ...askToRun('b', 'git commit -m two')]);
  await hub.call(session.id, 'permission', { id: await untilRequest(session.id), approved: true, decision: 'approved_for_session' });
  await hub.waitUntil(() => completed().b, 'the record of the second call');
  const { createdAt, completedAt, ...record } = completed().b;
  assert.ok(createdAt > 0 && completedAt === createdAt);
  assert.deepEqual(record, {
    tool: 'Bash',
    status: 'approved',
    decision: 'approved',
    approvedBy: { kind: 'command', label: '`git commit` with any message and path in the folder' },
  });
  await hub.call(session.id, 'set-session-config', { permissionMode: 'yolo' });
  prompt(session.id, askToRun('c', 'rm -r src'));
  await hub.waitUntil(() => completed().c, 'the record of the third call');
  assert.deepEqual(completed().c.approvedBy, { kind: 'mode', label: 'Approve everything' });
  await hub.untilReady(session.id, 2);
});

test('selecting a mode that asks ends the rules, even if the mode is already selected; a mode that accepts edits keeps the rules', async (t) => {
  const script = {
    newSession: {
      modes: { currentModeId: 'default', availableModes: ['default', 'acceptEdits', 'plan', 'other'].map((id) => ({ id, name: id })) },
    },
  };
  const { hub, prompt, untilRequest, start } = await setUp(t, script);
  const { session } = await start();
  const rules = () => hub.sessions.get(session.id).agentState.sessionRules.length;
  let count = 0;
  for (const [mode, expectedCount] of [
    ['acceptEdits', 1],
    ['plan', 0],
    ['other', 0],
    ['default', 0],
    ['default', 0],
  ]) {
    prompt(session.id, askToRun(`call-${count}`, 'ls'));
    if (count !== 1)
      await hub.call(session.id, 'permission', { id: await untilRequest(session.id), approved: true, decision: 'approved_for_session' });
    await hub.untilReady(session.id, (count += 1));
    await hub.call(session.id, 'set-session-config', { permissionMode: mode });
    await hub.waitUntil(() => rules() === expectedCount, `${expectedCount} rules in mode ${mode}`);
  }
});

test('a withdrawn rule covers no further calls, and the end of the agent’s process ends all rules', async (t) => {
  const script = { initialize: { agentCapabilities: { sessionCapabilities: { resume: {} } } } };
  const { hub, prompt, untilRequest, start } = await setUp(t, script);
  const { session } = await start();
  const rules = () => hub.sessions.get(session.id).agentState.sessionRules;
  const approve = async (id) => {
    assert.equal(await untilRequest(session.id), id);
    await hub.call(session.id, 'permission', { id, approved: true, decision: 'approved_for_session' });
  };
  prompt(session.id, askToRun('a', 'ls'));
  await approve('a');
  await hub.untilReady(session.id, 1);
  assert.deepEqual(await hub.call(session.id, 'revokeSessionRule', { id: rules()[0].id }), { success: true });
  assert.deepEqual(rules(), []);
  prompt(session.id, askToRun('b', 'ls'));
  await approve('b');
  await hub.untilReady(session.id, 2);
  prompt(session.id, [{ crash: 'out of memory' }]);
  await hub.waitUntil(() => rules().length === 0, 'the end of the rules');
  await hub.untilReady(session.id, 3);
  prompt(session.id, askToRun('c', 'ls'));
  await approve('c');
  await hub.untilReady(session.id, 4);
});

test('if an agent offers only permanent approvals, its request lists the approvals, and the user must choose one by its name', async (t) => {
  const { hub, calls, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start();
  const options = OPTIONS.filter(({ kind }) => kind !== 'allow_once');
  await hub.call(session.id, 'set-session-config', { permissionMode: 'yolo' });
  prompt(session.id, askToRun('a', 'ls', { options }));
  const id = await untilRequest(session.id);
  const { choices, needsChoice } = hub.sessions.get(session.id).agentState.requests[id];
  assert.deepEqual([choices, needsChoice], [[{ id: 'for-ever', label: 'Always' }], true]);
  for (const answers of [undefined, { choice: ['no'] }, { choice: 'for-ever' }]) {
    const { success, error } = await hub.call(session.id, 'permission', { id, approved: true, answers });
    assert.deepEqual([success, error], [false, 'The agent offers no approval of this call alone. Choose one of its own approvals.']);
  }
  await hub.call(session.id, 'permission', { id, approved: true, answers: { choice: ['for-ever'] } });
  await hub.untilReady(session.id, 1);
  assert.deepEqual(calls('answer'), [selected('for-ever')]);
});

test('the reason of a denial precedes the next prompt once, also after a restart', async (t) => {
  const script = { initialize: { agentCapabilities: { sessionCapabilities: { resume: {} } } } };
  const { hub, calls, prompt, untilRequest, start } = await setUp(t, script);
  const first = await start();
  const { id: sid } = first.session;
  prompt(sid, askToRun('a', 'touch published.txt\n'));
  await hub.call(sid, 'permission', { id: await untilRequest(sid), approved: false, reason: 'Not before the review' });
  await hub.untilReady(sid, 1);
  await first.stop();
  await start();
  const promptText = () => calls('session/prompt').at(-1).prompt[0].text;
  hub.postMessage(sid, '/compact');
  await hub.untilReady(sid, 2);
  assert.equal(promptText(), '/compact');
  hub.postMessage(sid, 'What is left?');
  await hub.untilReady(sid, 3);
  assert.equal(promptText(), 'The user denied Bash (touch published.txt): Not before the review\n\nWhat is left?');
  hub.postMessage(sid, 'And now?');
  await hub.untilReady(sid, 4);
  assert.equal(promptText(), 'And now?');
});

test('a command above the limit of a request is approved only after all of it was read', async (t) => {
  const { hub, calls, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start();
  const command = `echo ${'x'.repeat(1_000_000)} && rm -r src`;
  prompt(session.id, askToRun('a', command));
  const id = await untilRequest(session.id);
  const request = hub.sessions.get(session.id).agentState.requests[id];
  assert.match(request.arguments.command, /\[\d+ more characters\]$/);
  assert.deepEqual([request.sessionRule, request.shortened.parts], [null, 6]);
  const unread = await hub.call(session.id, 'permission', { id, approved: true });
  assert.deepEqual([unread.success, hub.pendingRequest(session.id)], [false, id]);
  const parts = [];
  for (let part = 0; part < request.shortened.parts; part += 1)
    parts.push(await hub.call(session.id, 'readPermissionRequest', { id, part }));
  assert.deepEqual(JSON.parse(parts.map(({ text }) => text).join('')), { command });
  const proof = parts.map((part) => part.proof).join('');
  assert.deepEqual(await hub.call(session.id, 'permission', { id, approved: true, answers: { proof: [proof] } }), { success: true });
  await hub.untilReady(session.id, 1);
  assert.deepEqual(calls('answer'), [selected('yes')]);
});

test('questions above the limit of a request are shortened, too', async (t) => {
  const { hub, calls, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start();
  prompt(session.id, [
    { elicit: { message: `Delete it? ${'x'.repeat(700_000)}`, requestedSchema: { properties: { sure: { type: 'boolean' } } } } },
  ]);
  const id = await untilRequest(session.id);
  assert.equal((await hub.call(session.id, 'permission', { id, approved: true, answers: { sure: ['Yes'] } })).success, false);
  const { parts } = hub.sessions.get(session.id).agentState.requests[id].shortened;
  let proof = '';
  for (let part = 0; part < parts; part += 1) proof += (await hub.call(session.id, 'readPermissionRequest', { id, part })).proof;
  await hub.call(session.id, 'permission', { id, approved: true, answers: { sure: ['Yes'], proof: [proof] } });
  await hub.untilReady(session.id, 1);
  assert.deepEqual(calls('answer'), [{ action: 'accept', content: { sure: true } }]);
});

test('an abort cancels the prompt, answers all open requests and closes all open calls', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t);
  const { session } = await start();
  const stored = hub.sessions.get(session.id);
  const [announced] = askToRun('c', 'sleep 60');
  announced.update.status = 'in_progress';
  const ask = (id) => ({ askLater: { afterMs: 0, ...askToRun(id, `run ${id}`)[1].ask } });
  prompt(session.id, [announced, ask('a'), ask('b'), { wait: 60_000 }]);
  await hub.waitUntil(() => Object.keys(stored.agentState.requests).length === 2, 'two requests');
  assert.deepEqual(await hub.abort(session.id), { success: true, aborted: true, dropped: 0 });
  await hub.untilReady(session.id, 1);
  await eventually(() => calls('answer').length === 2, 'the answers');
  assert.deepEqual(calls('answer'), [CANCELED, CANCELED]);
  assert.equal(calls('session/cancel').length, 1);
  const { requests, completedRequests } = stored.agentState;
  assert.deepEqual([requests, completedRequests.a.status, completedRequests.b.status], [{}, 'canceled', 'canceled']);
  const results = stored.messages
    .map(({ content }) => content.content.data?.message?.content[0])
    .filter((part) => part?.type === 'tool_result');
  assert.deepEqual(results.map((part) => [part.tool_use_id, part.is_error]).sort(), [
    ['a', true],
    ['b', true],
    ['c', true],
  ]);
  prompt(session.id, [{ say: 'next' }]);
  await hub.untilReady(session.id, 2);
  assert.ok(hub.transcript(session.id).includes('next'));
});

test('the decision to abort cancels the prompt too', async (t) => {
  const { hub, calls, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start();
  prompt(session.id, askToRun('a', 'ls'));
  await hub.call(session.id, 'permission', { id: await untilRequest(session.id), approved: false, decision: 'abort' });
  await hub.untilReady(session.id, 1);
  assert.deepEqual(calls('answer'), [CANCELED]);
});

test('an agent that ignores the cancellation is ended, and resumes with the next prompt', async (t) => {
  const script = { ignoresCancel: true, initialize: { agentCapabilities: { sessionCapabilities: { resume: {} } } } };
  const { hub, calls, prompt, start } = await setUp(t, script);
  const { session } = await start({ cancelTimeoutMs: 100 });
  const call = { toolCallId: 'a', title: 'sleep', kind: 'execute', status: 'in_progress', rawInput: { command: 'sleep 60' } };
  prompt(session.id, [{ update: { sessionUpdate: 'tool_call', ...call } }, { wait: 60_000 }]);
  await hub.waitUntil(() => hub.transcript(session.id).includes('> sleep 60'), 'the call');
  assert.equal((await hub.abort(session.id)).aborted, true);
  prompt(session.id, [{ say: 'again' }]);
  await hub.untilReady(session.id, 2);
  assert.deepEqual(hub.transcript(session.id), ['> sleep 60', '! Aborted.', 'Aborted.', '(ready)', 'again', '(ready)']);
  assert.equal(calls('session/resume').length, 1);
});

test('an abort cancels a request of background work after the turn', async (t) => {
  const { hub, calls, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start();
  prompt(session.id, [{ askLater: { afterMs: 600, ...askToRun('a', 'ls')[1].ask } }]);
  await hub.untilReady(session.id, 1);
  await untilRequest(session.id);
  assert.equal((await hub.abort(session.id)).aborted, false);
  await eventually(() => calls('answer').length === 1, 'the answer');
  assert.deepEqual(calls('answer'), [CANCELED]);
});

test('a question is answered with the values of its form', async (t) => {
  const { hub, calls, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start();
  const property = {
    type: 'string',
    oneOf: [
      { const: 'red', title: 'Red' },
      { const: 'blue', title: 'Blue' },
    ],
  };
  const form = { message: 'Which color?', requestedSchema: { type: 'object', properties: { question_0: property } } };
  prompt(session.id, [{ elicit: form }]);
  const id = await untilRequest(session.id);
  const [question] = hub.sessions.get(session.id).agentState.requests[id].arguments.questions;
  assert.deepEqual([question.question, question.options.map(({ label }) => label)], ['Which color?', ['Red', 'Blue']]);
  await hub.call(session.id, 'permission', { id, approved: true, answers: { question_0: ['Blue'] } });
  await hub.untilReady(session.id, 1);
  assert.deepEqual(calls('answer'), [{ action: 'accept', content: { question_0: 'blue' } }]);
});

test('a question is always for the user, also in a mode that approves everything', async (t) => {
  const { hub, calls, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start({ autoApprove: true });
  const form = { message: 'Sure?', requestedSchema: { type: 'object', properties: { sure: { type: 'boolean' } } } };
  const question = {
    toolCallId: 'q',
    title: 'Ask',
    _meta: { qwenInteractionKind: 'user_question' },
    rawInput: { questions: [{ question: 'Which?', options: [] }] },
  };
  prompt(session.id, [
    { elicit: form },
    { elicit: form },
    { elicit: { message: 'Go on?' } },
    { ask: { toolCall: question, options: OPTIONS } },
  ]);
  const answer = async (params) => hub.call(session.id, 'permission', { id: await untilRequest(session.id), ...params });
  // The approval for the session does not cover later questions.
  await answer({ approved: true, decision: 'approved_for_session', answers: { sure: ['Yes'] } });
  await answer({ approved: false });
  await answer({ approved: true });
  await answer({ approved: false });
  await hub.untilReady(session.id, 1);
  assert.deepEqual(calls('answer'), [
    { action: 'accept', content: { sure: true } },
    { action: 'decline' },
    { action: 'accept', content: {} },
    selected('no'),
  ]);
});

test('a request waits for a day, during which the connection is lost', async (t) => {
  const { hub, calls, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start();
  prompt(session.id, askToRun('a', 'ls'));
  const id = await untilRequest(session.id);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 24 * 60 * 60_000 });
  hub.cutConnections();
  await hub.waitUntil(() => hub.registeredMethods(session.id).length === 0, 'the connection to be lost');
  await hub.waitUntil(() => hub.registeredMethods(session.id).includes('permission'), 'the session to be back');
  assert.deepEqual([hub.pendingRequest(session.id), session.agent.thinking], [id, true]);
  await hub.call(session.id, 'permission', { id, approved: true });
  await hub.untilReady(session.id, 1);
  assert.deepEqual(calls('answer'), [selected('yes')]);
});

test('a mode that the user chooses ends --auto-approve, also after a restart of the agent', async (t) => {
  const script = { initialize: { agentCapabilities: { sessionCapabilities: { resume: {} } } } };
  const { hub, calls, prompt, untilRequest, start } = await setUp(t, script);
  const { session } = await start({ autoApprove: true, flavor: 'other' });
  prompt(session.id, askToRun('a', 'ls'));
  await hub.untilReady(session.id, 1);
  assert.deepEqual(calls('answer'), [selected('yes')]);
  const chosen = await hub.call(session.id, 'set-session-config', { permissionMode: 'default' });
  assert.deepEqual(chosen, { success: true, applied: { permissionMode: 'default' } });
  prompt(session.id, askToRun('b', 'ls'));
  await hub.call(session.id, 'permission', { id: await untilRequest(session.id), approved: false });
  await hub.untilReady(session.id, 2);
  prompt(session.id, [{ crash: 'out of memory' }]);
  await hub.untilReady(session.id, 3);
  prompt(session.id, askToRun('c', 'ls'));
  await hub.call(session.id, 'permission', { id: await untilRequest(session.id), approved: false });
  await hub.untilReady(session.id, 4);
  assert.deepEqual(calls('answer'), [selected('yes'), selected('no'), selected('no')]);
});
