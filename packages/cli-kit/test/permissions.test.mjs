import assert from 'node:assert/strict';
import { test } from 'node:test';
import { autoApproveMode, isValidMode, isValidModel } from '../src/modes.mjs';
import { Permissions } from '../src/permissions.mjs';
import { VersionedValue } from '../src/versioned-value.mjs';
import { deferred, quietLog, nextTurn } from './support/wait.mjs';
import { pluck } from './support/pluck.mjs';

/** The hub's copy of an agent state. The next `errors` updates fail with `code`. */
class StoredState {
  version = 1;
  errors = 0;
  code = 'unavailable';
  value = { requests: {}, completedRequests: {} };

  async request(_event, { expectedVersion, agentState }) {
    await nextTurn();
    if (this.errors-- > 0) return { result: 'error', reason: 'The hub could not store the update.', code: this.code };
    if (expectedVersion !== this.version) return { result: 'version-mismatch', version: this.version, agentState: this.value };
    this.change(agentState);
    return { result: 'success', version: this.version, agentState: this.value };
  }

  change(value) {
    this.value = value;
    this.version += 1;
  }
}

/** `pauses`: how long each pause after a transient error would have been. `onPause`: called instead of waiting. */
function setup({ onPause = nextTurn } = {}) {
  const hub = new StoredState();
  const modes = [];
  const pauses = [];
  const state = new VersionedValue({
    socket: { sendUntilAcked: (event, payload) => hub.request(event, payload) },
    event: 'update-state',
    field: 'agentState',
    scope: { sid: 's' },
    record: { agentState: hub.value, agentStateVersion: hub.version },
    wait: (ms) => {
      pauses.push(ms);
      return onPause();
    },
  });
  const permissions = new Permissions({ state, root: '/code/shop', onMode: (mode) => modes.push(mode), log: quietLog(), now: () => 1000 });
  const pendingId = async () => {
    for (let turns = 0; Object.keys(hub.value.requests).length === 0; turns += 1) {
      assert.ok(turns < 10_000, 'no request is published');
      await nextTurn();
    }
    return Object.keys(hub.value.requests)[0];
  };
  return { hub, state, permissions, modes, pauses, pendingId };
}

test('an approved request moves to completedRequests with the fields of the answer', async () => {
  const { hub, permissions, modes, pendingId } = setup();
  const call = { tool: 'Bash', args: { command: 'ls' } };
  const outcome = permissions.ask(call.tool, call.args, 'default', { scope: permissions.scopeOf(call) });
  const id = await pendingId();
  const sessionRule = { kind: 'command', label: '`ls` with any path in the folder' };
  assert.deepEqual(hub.value.requests[id], { tool: 'Bash', arguments: { command: 'ls' }, createdAt: 1000, sessionRule });
  const answer = await permissions.answer({
    id,
    approved: true,
    decision: 'approved_for_session',
    mode: 'acceptEdits',
    allowTools: ['Edit'],
  });
  assert.deepEqual(answer, { success: true });
  assert.deepEqual(await outcome, { status: 'approved', id, decision: 'approved_for_session' });
  assert.deepEqual(hub.value.requests, {});
  assert.deepEqual(hub.value.completedRequests[id], {
    tool: 'Bash',
    arguments: { command: 'ls' },
    createdAt: 1000,
    sessionRule,
    completedAt: 1000,
    status: 'approved',
    decision: 'approved_for_session',
    mode: 'acceptEdits',
    allowTools: ['Edit'],
  });
  assert.deepEqual(modes, [], 'the agent has its answer first');
  await nextTurn();
  assert.deepEqual(modes, ['acceptEdits']);
  const isCovered = (args, tool = 'Bash') => permissions.findRule(permissions.scopeOf({ tool, args })) !== undefined;
  assert.deepEqual([isCovered({ command: 'ls -a' }), isCovered({ command: 'rm a' }), isCovered({ id: 1 }, 'Edit')], [true, false, true]);
  assert.deepEqual(pluck(hub.value.sessionRules, 'kind', 'label'), [
    ['command', '`ls` with any path in the folder'],
    ['tool', 'Edit, except commands'],
  ]);
});

test('an approval of a line of several commands adds a rule for each, and each can be withdrawn', async () => {
  const { hub, permissions, pendingId } = setup();
  const run = (command) => ({ tool: 'Bash', args: { command } });
  const isCovered = (command) => permissions.findRule(permissions.scopeOf(run(command))) !== undefined;
  permissions.ask('Bash', run('git status && git diff').args, 'default', { scope: permissions.scopeOf(run('git status && git diff')) });
  await permissions.answer({ id: await pendingId(), approved: true, decision: 'approved_for_session' });
  const labels = ['`git status` with any path in the folder', '`git diff` with any revision or path'];
  assert.deepEqual(pluck(hub.value.sessionRules, 'label'), labels);
  assert.deepEqual(permissions.findRule(permissions.scopeOf(run('git diff | git status'))), {
    kind: 'command',
    label: [...labels].reverse().join(' and '),
  });
  await permissions.revokeRule({ id: hub.value.sessionRules[0].id });
  assert.deepEqual([isCovered('git diff HEAD'), isCovered('git status'), isCovered('git status && git diff')], [true, false, false]);
});

test('after a command that changes the shell, only exactly the approved commands are covered, until the shell has ended', async () => {
  const { permissions, pendingId } = setup();
  const scopeOf = (command) => permissions.scopeOf({ tool: 'Bash', args: { command } });
  permissions.ask('Bash', { command: 'touch a' }, 'default', { scope: scopeOf('touch a') });
  await permissions.answer({ id: await pendingId(), approved: true, decision: 'approved_for_session' });
  const isCovered = () => permissions.findRule(scopeOf('touch b')) !== undefined;
  permissions.recordCommand('cd .git', 'nothing');
  permissions.recordCommand('export PATH=.', 'directory');
  assert.equal(isCovered(), true);
  permissions.recordCommand('cd .git', 'directory');
  assert.equal(isCovered(), false);
  permissions.forgetShell();
  assert.equal(isCovered(), true);
  permissions.recordCommand('export PATH=.');
  permissions.recordCommand('cd src');
  assert.deepEqual([isCovered(), scopeOf('cd /code/shop && touch b').label], [false, 'exactly `cd /code/shop && touch b`']);
});

test('after each change of the directory, an exact command is asked about again, unless it names its directory', async () => {
  const { permissions, pendingId } = setup();
  const scopeOf = (command) => permissions.scopeOf({ tool: 'Bash', args: { command } });
  const isCovered = (command) => permissions.findRule(scopeOf(command)) !== undefined;
  permissions.recordCommand('cd src', 'directory');
  for (const command of ['rm -r build', 'cd /code/shop/web && ./x', 'cd ../x && ./x']) {
    permissions.ask('Bash', { command }, 'default', { scope: scopeOf(command) });
    await permissions.answer({ id: await pendingId(), approved: true, decision: 'approved_for_session' });
    assert.equal(isCovered(command), true);
    permissions.recordCommand('cd ..', 'directory');
    assert.equal(isCovered(command), command.startsWith('cd /'), command);
  }
});

test('revokeRule removes a rule by its id, and refuses an unknown id', async () => {
  const { hub, permissions, pendingId } = setup();
  const call = { tool: 'Bash', args: { command: 'ls' } };
  permissions.ask(call.tool, call.args, 'default', { scope: permissions.scopeOf(call) });
  await permissions.answer({ id: await pendingId(), approved: true, decision: 'approved_for_session' });
  const [{ id }] = hub.value.sessionRules;
  assert.equal((await permissions.revokeRule({ id: 'another' })).success, false);
  assert.deepEqual(await permissions.revokeRule({ id }), { success: true });
  assert.deepEqual(hub.value.sessionRules, []);
  assert.equal(permissions.findRule(permissions.scopeOf(call)), undefined);
  assert.match((await permissions.revokeRule({ id })).error, /no such rule/);
});

test('if no rule can cover a call, an approval for the session approves only this call', async () => {
  const { hub, permissions, pendingId } = setup();
  const call = { tool: 'Bash', args: { command: 'x'.repeat(20_001) } };
  const outcome = permissions.ask(call.tool, call.args, 'default', { scope: permissions.scopeOf(call) });
  const id = await pendingId();
  assert.equal(hub.value.requests[id].sessionRule, null);
  await permissions.answer({ id, approved: true, decision: 'approved_for_session', allowTools: ['Bash'] });
  assert.equal((await outcome).decision, 'approved');
  assert.equal(hub.value.completedRequests[id].decision, 'approved');
  assert.equal(hub.value.sessionRules, undefined);
});

test('a restarted process removes the rules of the earlier process', async () => {
  const { hub, state, permissions } = setup();
  hub.change({ ...hub.value, sessionRules: [{ id: 'r', kind: 'command', label: 'ls …' }] });
  state.adopt(hub.version, hub.value);
  await permissions.cancelStale();
  assert.deepEqual(hub.value.sessionRules, []);
});

test('of two answers to a request, the first applies', async () => {
  const { permissions, pendingId } = setup();
  const outcome = permissions.ask('Bash', { command: 'ls' }, 'default');
  const id = await pendingId();
  const [first, second] = await Promise.all([permissions.answer({ id, approved: false }), permissions.answer({ id, approved: true })]);
  assert.equal(first.success, true);
  assert.match(second.error, /no pending permission request/);
  assert.equal((await outcome).status, 'denied');
});

test('an approval with the decision to abort is a denial', async () => {
  const { permissions, pendingId } = setup();
  const outcome = permissions.ask('Bash', {}, 'default');
  const id = await pendingId();
  await permissions.answer({ id, approved: true, decision: 'abort' });
  assert.deepEqual(await outcome, { status: 'denied', id, decision: 'abort' });
});

test('a denial has its reason in the outcome and the agent state', async () => {
  const { hub, permissions, pendingId } = setup();
  const outcome = permissions.ask('Bash', {}, 'default');
  const id = await pendingId();
  await permissions.answer({ id, approved: false, reason: 'Not on a Friday' });
  assert.deepEqual(await outcome, { status: 'denied', id, decision: 'denied', reason: 'Not on a Friday' });
  assert.equal(hub.value.completedRequests[id].reason, 'Not on a Friday');
});

test('after close, a request that the hub cancels is not published again', async () => {
  const { hub, state, permissions, pendingId } = setup();
  permissions.ask('Bash', {}, 'default');
  const id = await pendingId();
  permissions.close();
  hub.change({ requests: {}, completedRequests: { [id]: { tool: 'Bash', status: 'canceled' } } });
  state.adopt(hub.version, hub.value);
  for (let i = 0; i < 20; i += 1) await nextTurn();
  assert.deepEqual(hub.value.requests, {});
});

test('a concurrent change of the agent state is merged', async () => {
  const { hub, permissions, pendingId } = setup();
  const outcome = permissions.ask('Bash', { command: 'ls' }, 'default');
  const id = await pendingId();
  hub.change({ ...hub.value, controlledByUser: true });
  await permissions.answer({ id, approved: true });
  await outcome;
  assert.equal(hub.value.controlledByUser, true);
  assert.equal(hub.value.completedRequests[id].status, 'approved');
});

test('storing a request is retried until the hub stores the request, with pauses of up to 15 s', async () => {
  const { hub, permissions, pauses, pendingId } = setup();
  hub.errors = 100;
  hub.code = 'overloaded';
  const outcome = permissions.ask('Bash', { command: 'ls' }, 'default');
  await permissions.answer({ id: await pendingId(), approved: true });
  assert.equal((await outcome).status, 'approved');
  assert.deepEqual(pauses.slice(0, 8), [250, 500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
  assert.equal(pauses.length, 100);
});

test('a request that is withdrawn while the hub refuses to store it is not sent again', async () => {
  const { promise: paused, resolve: onPaused } = deferred();
  const { promise: end, resolve: endPause } = deferred();
  const { hub, permissions } = setup({ onPause: () => (onPaused(), end) });
  hub.errors = 1;
  const withdrawal = new AbortController();
  const outcome = permissions.ask('Bash', {}, 'default', { id: 'call-1', signal: withdrawal.signal });
  await paused;
  withdrawal.abort();
  endPause();
  assert.deepEqual(await outcome, { status: 'canceled', id: 'call-1' });
  assert.deepEqual([hub.value.requests, hub.version], [{}, 2]);
  assert.equal(hub.value.completedRequests['call-1'].status, 'canceled');
});

test('the outcome of a request is stored even if the hub is overloaded for a long time', async () => {
  const { hub, permissions, pendingId } = setup();
  const outcome = permissions.ask('Bash', {}, 'default');
  const id = await pendingId();
  hub.errors = 100;
  await permissions.answer({ id, approved: true });
  assert.equal((await outcome).status, 'approved');
  assert.deepEqual([hub.value.requests, hub.value.completedRequests[id].status], [{}, 'approved']);
});

test('storing a request is not retried after a permanent error', async () => {
  const { hub, permissions } = setup();
  hub.errors = 100;
  hub.code = 'too-large';
  assert.equal((await permissions.ask('Bash', { command: 'ls' }, 'default')).status, 'canceled');
  assert.equal(hub.errors, 99);
});

test('a request that the hub already completed is not changed', async () => {
  const { hub, permissions, pendingId } = setup();
  permissions.ask('Bash', { command: 'ls' }, 'default');
  const id = await pendingId();
  hub.change({ requests: {}, completedRequests: { [id]: { tool: 'Bash', status: 'approved', completedAt: 5 } } });
  await permissions.answer({ id, approved: true });
  assert.equal(hub.value.completedRequests[id].completedAt, 5);
});

test('a request that the hub canceled is published again', async () => {
  const { hub, state, permissions, pendingId } = setup();
  const outcome = permissions.ask('Bash', { command: 'ls' }, 'default');
  const id = await pendingId();
  hub.change({ requests: {}, completedRequests: { [id]: { tool: 'Bash', status: 'canceled' } } });
  state.adopt(hub.version, hub.value);
  const again = await pendingId();
  assert.notEqual(again, id);
  await permissions.answer({ id: again, approved: true });
  assert.equal((await outcome).status, 'approved');
});

test('cancelAll cancels the requests of this process, and cancelStale the requests of an earlier process', async () => {
  const { hub, permissions, pendingId } = setup();
  const outcome = permissions.ask('Bash', { command: 'ls' }, 'default');
  const id = await pendingId();
  await permissions.cancelAll('Aborted');
  assert.equal((await outcome).status, 'canceled');
  assert.equal(hub.value.completedRequests[id].status, 'canceled');
  hub.change({ ...hub.value, requests: { left: { tool: 'Bash', arguments: {} } } });
  // The local copy is outdated. The version mismatch of the next change delivers the stale request.
  permissions.ask('Bash', { command: 'pwd' }, 'default');
  while (Object.keys(hub.value.requests).length < 2) await nextTurn();
  await permissions.cancelStale();
  assert.equal(hub.value.completedRequests.left.status, 'canceled');
  assert.equal(Object.keys(hub.value.requests).length, 1);
});

test('each flavor has its modes, and an unknown flavor only the default', () => {
  assert.ok(isValidMode('alpha', 'acceptEdits') && isValidMode('beta', 'safe-yolo') && isValidMode('gamma', 'ask'));
  assert.ok(!isValidMode('alpha', 'yolo') && !isValidMode('epsilon', 'plan') && !isValidMode('toString', 'yolo'));
  assert.ok(isValidMode('other', 'default') && !isValidMode('other', 'yolo'));
  assert.deepEqual(['alpha', 'beta', 'other'].map(autoApproveMode), ['bypassPermissions', 'yolo', null]);
  assert.ok(isValidModel('alpha', 'model_fast') && !isValidModel('beta', 'model_fast') && !isValidModel('alpha', 'x'));
});

test('a request has the wanted id, with a number at its end if an earlier request had this id', async () => {
  const { permissions, pendingId } = setup();
  const first = permissions.ask('Bash', {}, 'default', { id: 'call-1' });
  assert.equal(await pendingId(), 'call-1');
  await permissions.answer({ id: 'call-1', approved: true });
  assert.equal((await first).id, 'call-1');
  permissions.ask('Bash', {}, 'default', { id: 'call-1' });
  assert.equal(await pendingId(), 'call-1#2');
});

test('a withdrawn request is canceled', async () => {
  const { hub, permissions, pendingId } = setup();
  const withdrawal = new AbortController();
  const outcome = permissions.ask('Bash', {}, 'default', { signal: withdrawal.signal });
  const id = await pendingId();
  withdrawal.abort();
  assert.deepEqual(await outcome, { status: 'canceled', id });
  assert.deepEqual(hub.value.requests, {});
  assert.equal(hub.value.completedRequests[id].reason, 'Withdrawn by the agent');
});

test('the outcome has the answers to questions', async () => {
  const { permissions, pendingId } = setup();
  const outcome = permissions.ask('Question', {}, 'default');
  const answers = { color: ['Blue'] };
  await permissions.answer({ id: await pendingId(), approved: true, answers });
  assert.deepEqual((await outcome).answers, answers);
});

test('a shortened request is approved only with the proof of all its parts', async () => {
  const { hub, permissions, pendingId } = setup();
  const args = { file_path: '/code/shop/a', content: `${'a'.repeat(199_970)}${'\u{1F600}'.repeat(200_000)}` };
  const content = JSON.stringify(args);
  const outcome = permissions.ask('Write', { file_path: '/code/shop/a', content: 'aaa' }, 'default', { fullArguments: args });
  const id = await pendingId();
  const { shortened } = hub.value.requests[id];
  assert.deepEqual(shortened, { parts: 4, bytes: Buffer.byteLength(content) });
  const parts = [0, 1, 2, 3].map((part) => permissions.readContent({ id, part }));
  assert.equal(parts.map(({ text }) => text).join(''), content);
  assert.ok(parts.every(({ text }) => text.isWellFormed()));
  const proofs = parts.map(({ proof }) => proof);
  const approve = (proof, more = {}) =>
    permissions.answer({ id, approved: true, ...(proof === undefined ? {} : { answers: { proof } }), ...more });
  for (const wrong of [undefined, [], [proofs[2]], [proofs.slice(0, 2).join('')], [proofs.toReversed().join('')], proofs.join(''), [5]]) {
    for (const decision of ['approved', 'approved_for_session', undefined]) {
      const { success, error } = await approve(wrong, { decision, allowTools: ['Write'] });
      assert.equal(success, false);
      assert.match(error, /shortened: \d+ bytes are to be approved/);
    }
  }
  assert.deepEqual(Object.keys(hub.value.requests), [id]);
  assert.deepEqual(await approve([proofs.join('')]), { success: true });
  assert.deepEqual(await outcome, { status: 'approved', id, decision: 'approved' });
  assert.equal(hub.value.completedRequests[id].answers, undefined);
  assert.equal(permissions.readContent({ id, part: 0 }).success, false);
});

test('a shortened request can be denied without a proof, and only its existing parts can be read', async () => {
  const { permissions, pendingId } = setup();
  const outcome = permissions.ask('Write', {}, 'default', { fullArguments: {} });
  const id = await pendingId();
  for (const part of [-1, 1, 0.5, '0', undefined]) assert.match(permissions.readContent({ id, part }).error, /from 0 to 0/);
  assert.equal(permissions.readContent({ id: 'another', part: 0 }).success, false);
  assert.deepEqual(await permissions.answer({ id, approved: false }), { success: true });
  assert.equal((await outcome).status, 'denied');
});

test('an update has the newest 100 completed requests, and the ids of older requests are not used again', async () => {
  const { hub, permissions, pendingId } = setup();
  for (let index = 0; index < 130; index += 1)
    permissions.recordApproval({ id: `call-${index}`, tool: 'Bash' }, { kind: 'command', label: 'ls …' });
  while (!hub.value.completedRequests['call-129']) await nextTurn();
  const ids = Object.keys(hub.value.completedRequests);
  assert.deepEqual([ids.length, ids[0]], [100, 'call-30']);
  assert.equal(permissions.requestIds.length, 130);
  permissions.recordApproval({ id: '7', tool: 'Bash' }, { kind: 'command', label: 'ls …' });
  permissions.ask('Bash', {}, 'default', { id: 'call-0' });
  assert.equal(await pendingId(), 'call-0#2');
  // An object lists a number before its other keys.
  assert.ok(hub.value.completedRequests['7']);
});
