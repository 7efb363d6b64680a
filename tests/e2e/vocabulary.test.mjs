/** A CLI with its own names for agents, models and methods, on hubs with and without the setting VOCABULARY. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { connectCli, liveSession } from '../../scripts/lib/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

const VOCABULARY = {
  agents: { 'zeta-coder': 'alpha', 'zeta-sketch': 'gamma' },
  models: { swift: 'model_fast', thorough: 'model_strong' },
  methods: { 'git-status': 'gitStatus', 'spawn-session': 'spawnSession', configure: 'set-session-config' },
};

const hub = await startHub({ vars: { VOCABULARY: JSON.stringify(VOCABULARY) } });
const tableHub = await startHub({ vars: { VOCABULARY } });
const plainHub = await startHub();
after(() => Promise.all([hub.stop(), tableHub.stop(), plainHub.stop()]));

/** Starts a session whose CLI serves methods under its own names. `received` has the parameters of each call of `configure`. */
async function openSession(t, target, { namespace, flavor = 'zeta-coder', ...metadata }) {
  const { session, cli } = await liveSession(t, target, { namespace, tag: flavor, metadata: { flavor, ...metadata } });
  const received = [];
  await cli.serve('configure', ({ sessionId, ...params }) => {
    assert.equal(sessionId, session.id);
    received.push(params);
    return { applied: params };
  });
  await cli.serve(`${session.id}:git-status`, ({ cwd }) => ({ success: true, branch: 'main', files: [], cwd }));
  const web = target.web(namespace);
  const path = `/api/sessions/${session.id}`;
  const read = async () => (await web.get(path)).body.session;
  return { web, session, cli, received, path, read };
}

/** Registers a machine that serves `spawn-session` with `spawn.start`. `received` has the parameters of each call. */
async function registerMachine(t, target, namespace) {
  const id = `machine-of-${namespace}`;
  await target.web(namespace).registerMachine({ id });
  const cli = await connectCli(t, target, { namespace, auth: { machineId: id } });
  await cli.emitWithAck('machine-alive', { machineId: id, time: Date.now() });
  const received = [];
  const spawn = { start: async (_params) => ({ success: true, sessionId: 'made-up' }) };
  await cli.serve(`${id}:spawn-session`, (params) => {
    received.push(params);
    return spawn.start(params);
  });
  return { id, cli, received, spawn };
}

function assertOk(answer) {
  assert.equal(answer.status, 200, answer.text);
  return answer.body;
}

function assertRefused(answer, field) {
  assert.deepEqual([answer.status, answer.body.code, answer.body.field], [400, 'invalid_field', field], answer.text);
  return answer.body.error;
}

describe('a CLI with names of its own', () => {
  test('has the permission modes of the agent that its flavor maps to', async (t) => {
    for (const [flavor, valid, invalid] of [
      ['zeta-coder', 'acceptEdits', 'ask'],
      ['zeta-sketch', 'ask', 'acceptEdits'],
      ['gamma', 'ask', 'acceptEdits'],
    ]) {
      const { web, path, received, read } = await openSession(t, hub, { namespace: 'modes', flavor });
      assert.deepEqual(assertOk(await web.post(`${path}/permission-mode`, { mode: valid })), { ok: true }, flavor);
      assertRefused(await web.post(`${path}/permission-mode`, { mode: invalid }), 'mode');
      assert.deepEqual(received, [{ permissionMode: valid }], flavor);
      const { permissionMode, metadata } = await read();
      assert.deepEqual([permissionMode, metadata.flavor], [valid, flavor]);
    }
  });

  test('gets a model in its own words, and web clients get the same words', async (t) => {
    const { web, session, cli, path, received, read } = await openSession(t, hub, { namespace: 'models' });
    const feed = await web.openSocket({ sessionId: session.id });
    t.after(() => feed.close());
    await feed.waitForGreeting();
    for (const [model, word] of [
      ['swift', 'swift'],
      ['model_strong', 'thorough'],
      ['model_fast', 'swift'],
    ]) {
      assertOk(await web.post(`${path}/model`, { model }));
      await feed.nextUpdate({ modelMode: word });
      assert.equal((await read()).modelMode, word);
    }
    assert.deepEqual(
      received.map(({ modelMode }) => modelMode),
      ['swift', 'thorough', 'swift'],
    );
    assert.match(assertRefused(await web.post(`${path}/model`, { model: 'huge' }), 'model'), /model_strong, swift, thorough/);
    await cli.keepAlive(session.id, { modelMode: 'swift' });
    assert.equal((await read()).modelMode, 'swift');

    const sketch = await openSession(t, hub, { namespace: 'models', flavor: 'zeta-sketch' });
    assertRefused(await sketch.web.post(`${sketch.path}/model`, { model: 'swift' }), 'model');
  });

  test('is called by the name that it registered; both names of a method share one handler', async (t) => {
    const { web, session, cli, path } = await openSession(t, hub, { namespace: 'calls', path: '/code/calls' });
    const readGitStatus = async () => assertOk(await web.get(`${path}/git-status`));
    assert.deepEqual(await readGitStatus(), { success: true, branch: 'main', files: [], cwd: '/code/calls' });
    const other = await connectCli(t, hub, { namespace: 'calls', auth: { sessionId: session.id } });
    await other.serve('gitStatus', () => ({ success: true, by: 'other' }));
    assert.equal((await readGitStatus()).by, 'other');
    await cli.serve('git-status', () => ({ success: true, by: 'first' }));
    assert.equal((await readGitStatus()).by, 'first');
    await cli.emitWithAck('rpc-unregister', { method: 'git-status' });
    assert.deepEqual(await readGitStatus(), { success: false, error: 'No handler registered for gitStatus' });
  });

  test('gets the agent to spawn in its own words', async (t) => {
    const { id, received } = await registerMachine(t, hub, 'spawns');
    const requestSpawn = (body) => hub.web('spawns').post(`/api/machines/${id}/spawn`, { directory: '/code/demo', ...body });
    for (const body of [{ agent: 'zeta-coder' }, { agent: 'alpha' }, { agent: 'zeta-sketch' }, {}]) {
      assert.deepEqual(assertOk(await requestSpawn(body)), { success: true, type: 'success', sessionId: 'made-up' });
    }
    assert.deepEqual(
      received.map(({ agent }) => agent),
      ['zeta-coder', 'zeta-coder', 'zeta-sketch', 'zeta-coder'],
    );
    assert.match(assertRefused(await requestSpawn({ agent: 'theta' }), 'agent'), /epsilon, zeta-coder, zeta-sketch/);
  });

  test('is resumed with the agent’s session id under its own name, or else under the protocol’s name', async (t) => {
    const { received, spawn } = await registerMachine(t, hub, 'resumes');
    const web = hub.web('resumes');
    for (const [tag, metadata, own] of /** @type {any[]} */ ([
      ['its name', { flavor: 'zeta-coder', 'zeta-coderSessionId': 'own-1' }, 'own-1'],
      ['its name first', { flavor: 'zeta-coder', alphaSessionId: 'own-2', 'zeta-coderSessionId': 'own-3' }, 'own-3'],
      ['the other name', { flavor: 'zeta-coder', alphaSessionId: 'own-4' }, 'own-4'],
      ['the other flavor', { flavor: 'alpha', 'zeta-coderSessionId': 'own-5' }, 'own-5'],
    ])) {
      const { id } = await web.openSession({ tag, metadata: { path: '/code/demo', ...metadata } });
      spawn.start = async ({ sessionId }) => {
        const cli = await connectCli(t, hub, { namespace: 'resumes', auth: { sessionId } });
        await cli.keepAlive(sessionId);
        return { success: true, sessionId };
      };
      assert.deepEqual(assertOk(await web.post(`/api/sessions/${id}/resume`)), { success: true, sessionId: id }, tag);
      const expected = { directory: '/code/demo', agent: 'zeta-coder', sessionId: id, resumeSessionId: own };
      assert.deepEqual(received.at(-1), expected, tag);
    }
    const { id } = await web.openSession({ tag: 'another agent’s', metadata: { flavor: 'zeta-sketch', 'zeta-coderSessionId': 'x' } });
    const answer = await web.post(`/api/sessions/${id}/resume`);
    assert.deepEqual([answer.status, answer.body.code], [409, 'resume_unavailable']);
  });

  test('has todos, even from records with its own type', async (t) => {
    const { cli, session, read } = await openSession(t, hub, { namespace: 'todos' });
    for (const kind of ['zeta-coder', 'alpha', 'zeta-sketch']) {
      const todos = [{ id: '1', content: `by ${kind}`, status: 'in_progress', priority: 'high' }];
      const data = { type: 'tool-call', name: 'TodoWrite', input: { todos } };
      await cli.sendMessage(session.id, { role: 'agent', content: { type: kind, data } });
      assert.deepEqual((await read()).todos, todos);
    }
    const entries = [{ content: 'plan', status: 'pending', priority: 'low' }];
    await cli.sendMessage(session.id, { role: 'agent', content: { type: 'zeta-coder', data: { type: 'plan', entries } } });
    assert.deepEqual((await read()).todos, [{ id: 'plan-1', ...entries[0] }]);
  });

  test('works the same if VOCABULARY is a table in wrangler.toml', async (t) => {
    const { web, path, received } = await openSession(t, tableHub, { namespace: 'table' });
    assertOk(await web.post(`${path}/model`, { model: 'swift' }));
    assert.deepEqual(received, [{ modelMode: 'swift' }]);
    assert.equal(assertOk(await web.get(`${path}/git-status`)).branch, 'main');
  });

  test('cannot use its names on a hub without VOCABULARY', async (t) => {
    const { web, cli, session, path, received, read } = await openSession(t, plainHub, { namespace: 'plain' });
    for (const [what, body, field] of [
      ['permission-mode', { mode: 'acceptEdits' }, 'mode'],
      ['model', { model: 'swift' }, 'model'],
      ['model', { model: 'model_fast' }, 'model'],
    ]) {
      assertRefused(await web.post(`${path}/${what}`, body), field);
    }
    assert.deepEqual(received, []);
    assert.match(
      assertOk(await web.get(`${path}/git-status`)).error,
      /^No handler registered for gitStatus\. .* configure, git-status: .*VOCABULARY/,
    );
    const data = { type: 'plan', entries: [{ content: 'plan', status: 'pending' }] };
    await cli.sendMessage(session.id, { role: 'agent', content: { type: 'zeta-coder', data } });
    assert.equal((await read()).todos, undefined);

    const machine = await registerMachine(t, plainHub, 'plain');
    const requestSpawn = (agent) => web.post(`/api/machines/${machine.id}/spawn`, { directory: '/code/demo', agent });
    assertRefused(await requestSpawn('zeta-coder'), 'agent');
    assert.deepEqual([(await requestSpawn('alpha')).body.code, machine.received], ['cli_unreachable', []]);
  });
});

describe('an invalid VOCABULARY', () => {
  for (const [what, vocabulary, message] of /** @type {[string, unknown, RegExp][]} */ ([
    ['is not JSON', 'agents', /VOCABULARY must be a JSON object/],
    ['names an unknown preset', 'preset:omega', /unknown preset `omega`, expected one of hapi/],
    ['maps to an unknown agent', { agents: { 'zeta-coder': 'omega' } }, /`agents\.zeta-coder` is `omega`: .*alpha, beta/],
    ['redefines a name of the interface', { models: { default: 'model_fast' } }, /`models\.default`/],
    ['has an unknown part', { flavors: {} }, /`flavors`/],
  ])) {
    test(`that ${what} fails every request`, async (t) => {
      const vars = { VOCABULARY: typeof vocabulary === 'string' ? vocabulary : JSON.stringify(vocabulary) };
      const broken = await startHub({ vars, schema: false });
      t.after(() => broken.stop());
      for (const path of /** @type {const} */ (['/health', '/api/sessions'])) {
        const { status, body } = await broken.web().get(path);
        assert.deepEqual([status, body.code], [503, 'not_configured'], path);
        assert.match(body.error, message);
      }
    });
  }
});
