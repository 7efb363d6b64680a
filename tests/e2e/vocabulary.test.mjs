/** A CLI that has other words for agents, models and methods than the interface, on hubs that know its words or do not. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { connectCli, liveSession } from './lib/cli.mjs';
import { startHub } from './lib/hub.mjs';

const WORDS = {
  agents: { 'zeta-coder': 'alpha', 'zeta-sketch': 'gamma' },
  models: { swift: 'model_fast', thorough: 'model_strong' },
  methods: { 'git-status': 'gitStatus', 'spawn-session': 'spawnSession', configure: 'set-session-config' },
};

const hub = await startHub({ vars: { VOCABULARY: JSON.stringify(WORDS) } });
const tableHub = await startHub({ vars: { VOCABULARY: WORDS } });
const plainHub = await startHub();
after(() => Promise.all([hub.stop(), tableHub.stop(), plainHub.stop()]));

/** An active session whose CLI serves its methods under its own names and notes what it was asked. */
async function speaking(t, on, { namespace, flavor = 'zeta-coder', ...metadata }) {
  const { session, cli } = await liveSession(t, on, { namespace, tag: flavor, metadata: { flavor, ...metadata } });
  const heard = [];
  await cli.serve('configure', (params) => {
    heard.push(params);
    return { applied: params };
  });
  await cli.serve(`${session.id}:git-status`, ({ cwd }) => ({ success: true, branch: 'main', files: [], cwd }));
  const web = on.web(namespace);
  const path = `/api/sessions/${session.id}`;
  const shown = async () => (await web.get(path)).body.session;
  return { web, session, cli, heard, path, shown };
}

/** A machine whose runner serves `spawn-session`, starts nothing, and notes what it was asked. */
async function runner(t, on, namespace) {
  const id = `machine-of-${namespace}`;
  await on.web(namespace).registerMachine({ id });
  const cli = await connectCli(t, on, { namespace, auth: { machineId: id } });
  await cli.emitWithAck('machine-alive', { machineId: id, time: Date.now() });
  const heard = [];
  const spawn = { start: () => ({ success: true, sessionId: 'made-up' }) };
  await cli.serve(`${id}:spawn-session`, (params) => {
    heard.push(params);
    return spawn.start(params);
  });
  return { id, cli, heard, spawn };
}

const ok = (answer) => {
  assert.equal(answer.status, 200, answer.text);
  return answer.body;
};

function refused(answer, field) {
  assert.deepEqual([answer.status, answer.body.code, answer.body.field], [400, 'invalid_field', field], answer.text);
  return answer.body.error;
}

describe('a CLI with words of its own', () => {
  test('has the permission modes of the agent that its flavor stands for', async (t) => {
    for (const [flavor, taken, not] of [
      ['zeta-coder', 'acceptEdits', 'ask'],
      ['zeta-sketch', 'ask', 'acceptEdits'],
      ['gamma', 'ask', 'acceptEdits'],
    ]) {
      const { web, path, heard, shown } = await speaking(t, hub, { namespace: 'modes', flavor });
      assert.deepEqual(ok(await web.post(`${path}/permission-mode`, { mode: taken })), { ok: true }, flavor);
      refused(await web.post(`${path}/permission-mode`, { mode: not }), 'mode');
      assert.deepEqual(heard, [{ permissionMode: taken }], flavor);
      const { permissionMode, metadata } = await shown();
      assert.deepEqual([permissionMode, metadata.flavor], [taken, flavor]);
    }
  });

  test('gets a model in the word that the client wrote, and so do those who read it', async (t) => {
    const { web, session, cli, path, heard, shown } = await speaking(t, hub, { namespace: 'models' });
    const feed = await web.socket({ sessionId: session.id });
    t.after(() => feed.close());
    await feed.waitForGreeting();
    for (const model of ['swift', 'model_fast', 'thorough']) {
      ok(await web.post(`${path}/model`, { model }));
      await feed.nextUpdate({ modelMode: model });
      assert.equal((await shown()).modelMode, model);
    }
    assert.deepEqual(heard.map(({ modelMode }) => modelMode), ['swift', 'model_fast', 'thorough']);
    assert.match(refused(await web.post(`${path}/model`, { model: 'huge' }), 'model'), /model_strong, swift, thorough/);
    await cli.keepAlive(session.id, { modelMode: 'swift' });
    assert.equal((await shown()).modelMode, 'swift');

    const sketch = await speaking(t, hub, { namespace: 'models', flavor: 'zeta-sketch' });
    refused(await sketch.web.post(`${sketch.path}/model`, { model: 'swift' }), 'model');
  });

  test('is called under the name that it registered, and has one handler whatever its name', async (t) => {
    const { web, session, cli, path } = await speaking(t, hub, { namespace: 'calls', path: '/code/calls' });
    const status = async () => ok(await web.get(`${path}/git-status`));
    assert.deepEqual(await status(), { success: true, branch: 'main', files: [], cwd: '/code/calls' });
    const other = await connectCli(t, hub, { namespace: 'calls', auth: { sessionId: session.id } });
    await other.serve('gitStatus', () => ({ success: true, by: 'other' }));
    assert.equal((await status()).by, 'other');
    await cli.serve('git-status', () => ({ success: true, by: 'first' }));
    assert.equal((await status()).by, 'first');
    await cli.emitWithAck('rpc-unregister', { method: 'git-status' });
    assert.deepEqual(await status(), { success: false, error: 'No handler registered for gitStatus' });
  });

  test('spawns an agent of either word, sent as it was written', async (t) => {
    const { id, heard } = await runner(t, hub, 'spawns');
    const spawn = (body) => hub.web('spawns').post(`/api/machines/${id}/spawn`, { directory: '/code/demo', ...body });
    for (const body of [{ agent: 'zeta-coder' }, { agent: 'alpha' }, { agent: 'zeta-sketch' }, {}]) {
      assert.deepEqual(ok(await spawn(body)), { success: true, sessionId: 'made-up' });
    }
    // Without a word of the client the CLI's own is taken: it may know no other.
    assert.deepEqual(heard.map(({ agent }) => agent), ['zeta-coder', 'alpha', 'zeta-sketch', 'zeta-coder']);
    assert.match(refused(await spawn({ agent: 'theta' }), 'agent'), /epsilon, zeta-coder, zeta-sketch/);
  });

  test('is resumed by the id that it keeps under its own word', async (t) => {
    const { heard, spawn } = await runner(t, hub, 'resumes');
    const web = hub.web('resumes');
    for (const [tag, metadata, own] of [
      ['its word', { flavor: 'zeta-coder', 'zeta-coderSessionId': 'own-1' }, 'own-1'],
      ['its word first', { flavor: 'zeta-coder', alphaSessionId: 'own-2', 'zeta-coderSessionId': 'own-3' }, 'own-3'],
      ['the other word', { flavor: 'zeta-coder', alphaSessionId: 'own-4' }, 'own-4'],
      ['the other way round', { flavor: 'alpha', 'zeta-coderSessionId': 'own-5' }, 'own-5'],
    ]) {
      const { id } = await web.openSession({ tag, metadata: { path: '/code/demo', ...metadata } });
      spawn.start = async ({ sessionId }) => {
        const cli = await connectCli(t, hub, { namespace: 'resumes', auth: { sessionId } });
        await cli.keepAlive(sessionId);
        return { success: true, sessionId };
      };
      assert.deepEqual(ok(await web.post(`/api/sessions/${id}/resume`)), { success: true, sessionId: id }, tag);
      const asked = { directory: '/code/demo', agent: metadata.flavor, sessionId: id, resumeSessionId: own };
      assert.deepEqual(heard.at(-1), asked, tag);
    }
    const { id } = await web.openSession({ tag: 'another agent’s', metadata: { flavor: 'zeta-sketch', 'zeta-coderSessionId': 'x' } });
    const answer = await web.post(`/api/sessions/${id}/resume`);
    assert.deepEqual([answer.status, answer.body.code], [409, 'resume_unavailable']);
  });

  test('shows its todos, written in records of its own kind', async (t) => {
    const { cli, session, shown } = await speaking(t, hub, { namespace: 'todos' });
    for (const kind of ['zeta-coder', 'alpha', 'zeta-sketch']) {
      const todos = [{ id: '1', content: `by ${kind}`, status: 'in_progress', priority: 'high' }];
      const data = { type: 'tool-call', name: 'TodoWrite', input: { todos } };
      await cli.sendMessage(session.id, { role: 'agent', content: { type: kind, data } });
      assert.deepEqual((await shown()).todos, todos);
    }
    const entries = [{ content: 'plan', status: 'pending', priority: 'low' }];
    await cli.sendMessage(session.id, { role: 'agent', content: { type: 'zeta-coder', data: { type: 'plan', entries } } });
    assert.deepEqual((await shown()).todos, [{ id: 'plan-1', ...entries[0] }]);
  });

  test('is understood just as well when the words stand in a table of wrangler.toml', async (t) => {
    const { web, path, heard } = await speaking(t, tableHub, { namespace: 'table' });
    ok(await web.post(`${path}/model`, { model: 'swift' }));
    assert.deepEqual(heard, [{ modelMode: 'swift' }]);
    assert.equal(ok(await web.get(`${path}/git-status`)).branch, 'main');
  });

  test('is a stranger to a hub that was not told its words', async (t) => {
    const { web, cli, session, path, heard, shown } = await speaking(t, plainHub, { namespace: 'plain' });
    for (const [what, body, field] of [
      ['permission-mode', { mode: 'acceptEdits' }, 'mode'],
      ['model', { model: 'swift' }, 'model'],
      ['model', { model: 'model_fast' }, 'model'],
    ]) {
      refused(await web.post(`${path}/${what}`, body), field);
    }
    assert.deepEqual(heard, []);
    assert.deepEqual(ok(await web.get(`${path}/git-status`)), { success: false, error: 'No handler registered for gitStatus' });
    const data = { type: 'plan', entries: [{ content: 'plan', status: 'pending' }] };
    await cli.sendMessage(session.id, { role: 'agent', content: { type: 'zeta-coder', data } });
    assert.equal((await shown()).todos, undefined);

    const machine = await runner(t, plainHub, 'plain');
    const spawn = (agent) => web.post(`/api/machines/${machine.id}/spawn`, { directory: '/code/demo', agent });
    refused(await spawn('zeta-coder'), 'agent');
    assert.deepEqual([(await spawn('alpha')).body.code, machine.heard], ['cli_unreachable', []]);
    await machine.cli.serve('spawnSession', () => assert.fail('There is nothing to resume.'));
    const ended = await web.openSession({ tag: 'ended', metadata: { flavor: 'zeta-coder', 'zeta-coderSessionId': 'own' } });
    assert.equal((await web.post(`/api/sessions/${ended.id}/resume`)).body.code, 'resume_unavailable');
  });
});

describe('a vocabulary that can’t be meant', () => {
  for (const [what, words, sentence] of [
    ['is no JSON', 'agents', /VOCABULARY must be a JSON object/],
    ['names an agent that there is not', { agents: { 'zeta-coder': 'omega' } }, /`agents\.zeta-coder` is `omega`: .*alpha, beta/],
    ['has a word of the interface for something else', { models: { default: 'model_fast' } }, /`models\.default`/],
    ['has a part that there is not', { flavors: {} }, /`flavors`/],
  ]) {
    test(`${what}: every request is told so`, async (t) => {
      const vars = { VOCABULARY: typeof words === 'string' ? words : JSON.stringify(words) };
      const broken = await startHub({ vars, schema: false });
      t.after(() => broken.stop());
      for (const path of ['/health', '/api/sessions']) {
        const { status, body } = await broken.web().get(path);
        assert.deepEqual([status, body.code], [503, 'not_configured'], path);
        assert.match(body.error, sentence);
      }
    });
  }
});
