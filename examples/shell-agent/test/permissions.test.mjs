import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freeMode, isHarmless, isValidMode, isValidModel, verdict } from '../src/modes.mjs';
import { Permissions } from '../src/permissions.mjs';
import { Versioned } from '../src/versioned.mjs';
import { quietLog, turn } from './support/wait.mjs';

/** The hub's copy of an agent state. */
class Stored {
  version = 1;
  errors = 0;
  code = 'unavailable';
  value = { requests: {}, completedRequests: {} };

  async request(_event, { expectedVersion, agentState }) {
    await turn();
    if (this.errors-- > 0) return { result: 'error', reason: 'The hub could not store the update.', code: this.code };
    if (expectedVersion !== this.version)
      return { result: 'version-mismatch', version: this.version, agentState: this.value };
    this.change(agentState);
    return { result: 'success', version: this.version, agentState: this.value };
  }

  change(value) {
    this.value = value;
    this.version += 1;
  }
}

function setup() {
  const hub = new Stored();
  const modes = [];
  const state = new Versioned({
    request: (event, payload) => hub.request(event, payload),
    event: 'update-state',
    field: 'agentState',
    scope: { sid: 's' },
    value: hub.value,
    version: hub.version,
    retryMs: 1,
  });
  const permissions = new Permissions({ state, onMode: (mode) => modes.push(mode), log: quietLog(), now: () => 1000 });
  const pendingId = async () => {
    while (Object.keys(hub.value.requests).length === 0) await turn();
    return Object.keys(hub.value.requests)[0];
  };
  return { hub, state, permissions, modes, pendingId };
}

test('an approved request moves to completedRequests with all that was answered', async () => {
  const { hub, permissions, modes, pendingId } = setup();
  const outcome = permissions.ask('Bash', { command: 'ls' }, 'default');
  const id = await pendingId();
  assert.deepEqual(hub.value.requests[id], { tool: 'Bash', arguments: { command: 'ls' }, createdAt: 1000 });
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
    completedAt: 1000,
    status: 'approved',
    decision: 'approved_for_session',
    mode: 'acceptEdits',
    allowTools: ['Edit'],
  });
  assert.deepEqual(modes, ['acceptEdits']);
  assert.ok(permissions.isAllowed('Bash') && permissions.isAllowed('Edit'));
});

test('of two answers one wins', async () => {
  const { permissions, pendingId } = setup();
  const outcome = permissions.ask('Bash', { command: 'ls' }, 'default');
  const id = await pendingId();
  const [first, second] = await Promise.all([
    permissions.answer({ id, approved: false }),
    permissions.answer({ id, approved: true }),
  ]);
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

test('a denial tells the agent why', async () => {
  const { hub, permissions, pendingId } = setup();
  const outcome = permissions.ask('Bash', {}, 'default');
  const id = await pendingId();
  await permissions.answer({ id, approved: false, reason: 'Not on a Friday' });
  assert.deepEqual(await outcome, { status: 'denied', id, decision: 'denied', reason: 'Not on a Friday' });
  assert.equal(hub.value.completedRequests[id].reason, 'Not on a Friday');
});

test('what the hub cancels of a session that is about to end is not asked again', async () => {
  const { hub, state, permissions, pendingId } = setup();
  permissions.ask('Bash', {}, 'default');
  const id = await pendingId();
  permissions.close();
  hub.change({ requests: {}, completedRequests: { [id]: { tool: 'Bash', status: 'canceled' } } });
  state.adopt(hub.version, hub.value);
  for (let i = 0; i < 20; i += 1) await turn();
  assert.deepEqual(hub.value.requests, {});
});

test('a change by somebody else in between is merged, not lost', async () => {
  const { hub, permissions, pendingId } = setup();
  const outcome = permissions.ask('Bash', { command: 'ls' }, 'default');
  const id = await pendingId();
  hub.change({ ...hub.value, controlledByUser: true });
  await permissions.answer({ id, approved: true });
  await outcome;
  assert.equal(hub.value.controlledByUser, true);
  assert.equal(hub.value.completedRequests[id].status, 'approved');
});

test('a hub that cannot store a request for a moment still gets it, and one that never can ends the wait', async () => {
  const { hub, permissions, pendingId } = setup();
  hub.errors = 3;
  const outcome = permissions.ask('Bash', { command: 'ls' }, 'default');
  await permissions.answer({ id: await pendingId(), approved: true });
  assert.equal((await outcome).status, 'approved');
  hub.errors = 100;
  assert.equal((await permissions.ask('Bash', { command: 'ls' }, 'default')).status, 'canceled');
});

test('a request that the hub refuses as it is is not sent again', async () => {
  const { hub, permissions } = setup();
  hub.errors = 100;
  hub.code = 'too-large';
  assert.equal((await permissions.ask('Bash', { command: 'ls' }, 'default')).status, 'canceled');
  assert.equal(hub.errors, 99);
});

test('when the hub already moved the request, its entry stays as it is', async () => {
  const { hub, permissions, pendingId } = setup();
  permissions.ask('Bash', { command: 'ls' }, 'default');
  const id = await pendingId();
  hub.change({ requests: {}, completedRequests: { [id]: { tool: 'Bash', status: 'approved', completedAt: 5 } } });
  await permissions.answer({ id, approved: true });
  assert.equal(hub.value.completedRequests[id].completedAt, 5);
});

test('a request that the hub canceled while nobody listened is asked again', async () => {
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

test('an aborted task cancels its request, a restart those of the process before', async () => {
  const { hub, permissions, pendingId } = setup();
  const outcome = permissions.ask('Bash', { command: 'ls' }, 'default');
  const id = await pendingId();
  await permissions.cancelAll('Aborted');
  assert.equal((await outcome).status, 'canceled');
  assert.equal(hub.value.completedRequests[id].status, 'canceled');
  hub.change({ ...hub.value, requests: { left: { tool: 'Bash', arguments: {} } } });
  // The copy held here is old: the left-over request is found by the mismatch of a later change.
  permissions.ask('Bash', { command: 'pwd' }, 'default');
  while (Object.keys(hub.value.requests).length < 2) await turn();
  await permissions.cancelStale();
  assert.equal(hub.value.completedRequests.left.status, 'canceled');
  assert.equal(Object.keys(hub.value.requests).length, 1);
});

test('each agent kind has its modes, and an unknown one only the default', () => {
  assert.ok(isValidMode('alpha', 'acceptEdits') && isValidMode('beta', 'safe-yolo') && isValidMode('gamma', 'ask'));
  assert.ok(!isValidMode('alpha', 'yolo') && !isValidMode('epsilon', 'plan') && !isValidMode('toString', 'yolo'));
  assert.ok(isValidMode('other', 'default') && !isValidMode('other', 'yolo'));
  assert.deepEqual(['alpha', 'beta', 'other'].map(freeMode), ['bypassPermissions', 'yolo', null]);
  assert.ok(isValidModel('alpha', 'model_fast') && !isValidModel('beta', 'model_fast') && !isValidModel('alpha', 'x'));
});

test('a mode decides about a command', () => {
  assert.deepEqual(
    ['default', 'acceptEdits', 'ask', 'bypassPermissions', 'yolo', 'plan', 'read-only'].map((mode) =>
      verdict(mode, 'ls', true),
    ),
    ['ask', 'ask', 'ask', 'run', 'run', 'never', 'never'],
  );
  assert.equal(verdict('safe-yolo', 'ls -la src', true), 'run');
  assert.equal(verdict('safe-yolo', 'rm -rf src', true), 'ask');
  assert.equal(verdict('safe-yolo', 'ls -la src', false), 'ask');
});

test('only plain reading below the directory is harmless', () => {
  for (const command of ['ls', 'cat a.txt', 'head -n 3 src/a.rs', 'git status', 'echo hello'])
    assert.ok(isHarmless(command), command);
  for (const command of [
    'ls; rm a',
    'cat /etc/passwd',
    'cat ../a',
    'echo a > b',
    'cat `x`',
    'git push',
    'git status --x',
    'ls\nrm a',
    '$(x)',
    'ls & x',
    'A=1 ls',
  ])
    assert.ok(!isHarmless(command), command);
});
