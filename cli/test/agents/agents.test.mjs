/**
 * Each real agent from npm, with a scripted model and an in-memory hub. `npm run test:agents` runs these tests, and the tests in a browser
 * (`tests/e2e/agents`). The variable AGENTS selects agents.
 */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { installAgent } from '../../../scripts/lib/agents.mjs';
import { FakeHub, TOKEN } from '../../../packages/cli-kit/test/support/fake-hub.mjs';
import { tempDir } from '../../../packages/cli-kit/test/support/repository.mjs';
import { AGENTS } from '../../src/agents.mjs';
import { startCli } from '../support/cli-process.mjs';
import { environmentFor } from './environments.mjs';
import { startModel } from './model/server.mjs';

const TURN_MS = 60_000;

const PICTURE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** The agents that ask for the approval of a plan, with: their plan mode, the mode that accepts edits, and the approval that selects it. */
const PLAN_MODES = {
  claude: { mode: 'plan', editsMode: 'acceptEdits' },
  qwen: { mode: 'read-only', editsMode: 'safe-yolo', choice: 'proceed_always' },
};

const chosen = process.env.AGENTS?.split(',') ?? Object.keys(AGENTS);

for (const name of chosen) {
  test(`${AGENTS[name].title} is prompted, approved, aborted and resumed`, { timeout: 15 * 60_000 }, (t) => tellStory(t, name));
}

async function tellStory(t, name) {
  const bin = await installAgent(name);
  const model = await startModel();
  t.after(() => model.stop());
  const hub = await FakeHub.start();
  t.after(() => hub.stop());
  const base = tempDir(t);
  const [dir, home] = ['served', 'home'].map((folder) => path.join(base, folder));
  for (const folder of [dir, home]) mkdirSync(folder);
  const env = {
    ...environmentFor(name, { url: model.url, home, bin }),
    CLI_API_TOKEN: TOKEN,
    SESSION_GATEWAY_HOME: path.join(base, 'state'),
  };
  const start = () => startCli(t, hub, ['--agent', name, '--dir', dir, '--hub', hub.url], env);
  let first = await start();
  const sid = first.ids.session;
  const stored = hub.sessions.get(sid);
  const file = (at) => path.join(dir, at);
  let turns = 0;
  const prompt = (steps, attachments) => {
    turns += 1;
    const text = `This is prompt ${turns}.`;
    model.answer(text, steps);
    hub.postMessage(sid, text, attachments);
  };
  const isReady = () => hub.transcript(sid).filter((line) => line === '(ready)').length >= turns;
  const untilReady = () => hub.waitUntil(isReady, 'the end of the turn', TURN_MS);
  const untilRequest = () => hub.waitUntil(() => hub.pendingRequest(sid), 'a permission request', TURN_MS);
  const answer = async (params) => {
    const id = await untilRequest();
    assert.deepEqual(await hub.call(sid, 'permission', { id, ...params }), { success: true });
    return id;
  };

  await t.test('an approved command and an approved edit are done', async () => {
    prompt([{ say: 'I will run a command.' }, { run: 'touch one.txt' }, { write: [file('two.txt'), 'two'] }, { say: 'Done.' }]);
    const id = await answer({ approved: true });
    assert.deepEqual(stored.agentState.completedRequests[id].arguments.command, 'touch one.txt');
    // Some agents do not ask for edits in their directory.
    await hub.waitUntil(() => isReady() || hub.pendingRequest(sid), 'the edit', TURN_MS);
    if (!isReady()) await answer({ approved: true });
    await untilReady();
    assert.ok(existsSync(file('one.txt')));
    assert.equal(readFileSync(file('two.txt'), 'utf8').trim(), 'two');
    const lines = hub.transcript(sid);
    assert.equal(lines[0], 'I will run a command.');
    assert.ok(lines.includes('Done.') && lines.includes('> touch one.txt'), lines.join('\n'));
  });

  await t.test('a denied command is not run, and is shown as a failed call', async () => {
    prompt([{ run: 'touch denied.txt' }]);
    await answer({ approved: false, reason: 'Not before the review' });
    await untilReady();
    assert.equal(existsSync(file('denied.txt')), false);
    assert.ok(
      hub.transcript(sid).some((line) => /^! .*Denied/.test(line)),
      hub.transcript(sid).join('\n'),
    );
  });

  await t.test('the next prompt has the reason of the denial, and an approval for the session covers the same program', async () => {
    prompt([{ run: 'touch three.txt' }, { run: 'touch four.txt' }, { run: 'mkdir five' }]);
    const id = await answer({ approved: true, decision: 'approved_for_session' });
    assert.ok(model.hasSeenText('The user denied') && model.hasSeenText('Not before the review'));
    const other = await answer({ approved: true });
    assert.notEqual(other, id);
    assert.equal(stored.agentState.completedRequests[other].arguments.command, 'mkdir five');
    await untilReady();
    const byRule = Object.values(stored.agentState.completedRequests).filter(({ approvedBy }) => approvedBy);
    assert.deepEqual(
      byRule.map(({ approvedBy }) => approvedBy),
      [{ kind: 'command', label: 'touch …' }],
    );
    assert.ok(['three.txt', 'four.txt', 'five'].every((at) => existsSync(file(at))));
  });

  await t.test(
    'a plan is asked for, and is approved together with edits',
    { skip: !PLAN_MODES[name] && 'it asks for no plan' },
    async () => {
      const { mode, editsMode, choice } = PLAN_MODES[name];
      assert.deepEqual(await hub.call(sid, 'set-session-config', { permissionMode: mode }), {
        success: true,
        applied: { permissionMode: mode },
      });
      prompt([{ plan: '# Plan one' }]);
      const denied = await answer({ approved: false, reason: 'Also round it' });
      assert.deepEqual(stored.agentState.completedRequests[denied].arguments, { plan: '# Plan one' });
      await untilReady();
      prompt([{ plan: '# Plan two' }, { write: [file('planned.txt'), 'planned'] }, { say: 'The plan is done.' }]);
      await answer({ approved: true, ...(choice ? { answers: { choice: [choice] } } : { mode: editsMode }) });
      await untilReady();
      assert.ok(model.hasSeenText('The user did not approve the plan: Also round it'));
      assert.equal(readFileSync(file('planned.txt'), 'utf8').trim(), 'planned');
      await hub.waitUntil(() => stored.permissionMode === editsMode, 'the mode that accepts edits');
      await hub.call(sid, 'set-session-config', { permissionMode: 'default' });
    },
  );

  await t.test('an abort ends the turn, whose text is live', async () => {
    prompt([{ slow: 600 }]);
    await hub.waitUntil(() => stored.deltas.some(({ text }) => text.includes('word')), 'live text', TURN_MS);
    assert.equal((await hub.abort(sid)).aborted, true);
    await untilReady();
    assert.equal(hub.transcript(sid).at(-2), 'Aborted.');
  });

  const upload = async (filename, content) => {
    const { path: uploaded } = await hub.call(sid, 'uploadFile', { filename, content, mimeType: '' });
    return { filename, path: uploaded };
  };

  await t.test('the name and the content of a file and the picture beside it reach the model', async () => {
    const [picture, notes] = [await upload('a.png', PICTURE), await upload('notes.txt', btoa('The word is zebra.'))];
    const before = model.requests.length;
    // Most agents only name the file, and their model reads it.
    prompt([...(AGENTS[name].losesLinks ? [] : [{ read: notes.path }]), { say: 'I see.' }], [picture, notes]);
    await hub.waitUntil(() => isReady() || hub.pendingRequest(sid), 'the end of the turn', TURN_MS);
    if (!isReady() && !AGENTS[name].losesLinks) await answer({ approved: true });
    await untilReady();
    const [first, ...others] = model.requests.slice(before);
    assert.ok(first.includes('notes.txt'), first.slice(-2000));
    assert.ok(AGENTS[name].losesLinks ? first.includes('zebra') : [first, ...others].some((body) => body.includes('zebra')));
    assert.ok(model.hasSeenPicture());
  });

  await t.test('a file without a text reaches the model', async () => {
    const before = model.requests.length;
    const { length } = hub.transcript(sid);
    turns += 1;
    hub.postMessage(sid, '', [await upload('alone.txt', btoa('The word is giraffe.'))]);
    await untilReady();
    assert.ok(model.requests.slice(before).some((body) => body.includes('alone.txt')));
    assert.deepEqual(
      hub
        .transcript(sid)
        .slice(length)
        .filter((line) => line.startsWith('Error')),
      [],
    );
  });

  await t.test('the session is resumed after the bridge was killed several times in a minute', async () => {
    const { length } = hub.transcript(sid);
    let { child, exit } = first;
    for (let i = 0; i < 3; i += 1) {
      child.kill('SIGKILL');
      await exit;
      const again = await start();
      assert.equal(again.ids.session, sid);
      ({ child, exit } = again);
    }
    const before = model.requests.length;
    prompt([{ say: 'Back again.' }]);
    await untilReady();
    // Gemini CLI first says that it waits for the next minute.
    const said = hub
      .transcript(sid)
      .slice(length)
      .filter((text) => !/ resumes this session in \d+ s: |^\(warning: /.test(text));
    assert.deepEqual(said, ['Back again.', '(ready)']);
    assert.ok(model.requests[before].includes('This is prompt 1.'), 'The agent has forgotten the conversation.');
    first = { ...first, child, exit };
  });

  await t.test('an agent that has lost its session reports the loss and starts a new session', async () => {
    first.child.kill('SIGKILL');
    await first.exit;
    const folder = path.join(base, 'state', 'sessions');
    const state = path.join(
      folder,
      readdirSync(folder).find((at) => at.endsWith('.json')),
    );
    const { saved, ...others } = JSON.parse(readFileSync(state, 'utf8'));
    const lostId = saved.sessionId.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
    writeFileSync(state, JSON.stringify({ ...others, saved: { ...saved, sessionId: lostId, startedAt: 0 } }));
    const { length } = hub.transcript(sid);
    await start();
    prompt([{ say: 'A new start.' }]);
    await untilReady();
    const [notice, ...said] = hub.transcript(sid).slice(length);
    assert.ok(notice.startsWith(`${AGENTS[name].title} cannot resume its session ${lostId}: `), notice);
    assert.match(notice, /It has started a new session, and does not remember the conversation above\.$/);
    assert.deepEqual(said, ['A new start.', '(ready)']);
  });

  assert.ok(!existsSync(path.join(dir, '.qwen', 'settings.json')), 'The agent wrote a permanent rule into the project.');
}
