/**
 * Each real agent from npm, with a scripted model and an in-memory hub. `npm run test:agents` runs these tests, and the tests in a browser
 * (`tests/e2e/agents`). The variable AGENTS selects agents.
 */

import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { AGENTS } from '../../src/agents.mjs';
import { repository } from '../../../packages/cli-kit/test/support/repository.mjs';
import { listeningPorts } from './ports.mjs';
import { hashRecord } from './records.mjs';
import { setUpAgent } from './setup.mjs';

const TURN_MS = 60_000;

const PICTURE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** The agents that ask for the approval of a plan, with: their plan mode, the mode that accepts edits, and the approval that selects it. */
const PLAN_MODES = {
  claude: { mode: 'plan', editsMode: 'acceptEdits' },
  qwen: { mode: 'read-only', editsMode: 'safe-yolo', choice: 'proceed_always' },
};

/** The agents that report no tokens in their context. */
const WITHOUT_USAGE = ['gemini'];

/** The agents that have an effort, with the effort in a request to the model. */
const EFFORTS = {
  claude: (body) => body.output_config?.effort,
  codex: (body) => body.reasoning?.effort,
  opencode: (body) => body.reasoning_effort,
};

/** The agents whose sub-agents send their steps. */
const SUBAGENTS = ['claude', 'codex', 'opencode', 'qwen'];

/** The agents that write todos: Copilot CLI and Gemini CLI have no tool for todos, and that of Qwen Code is disabled. */
const TODOS = ['claude', 'codex', 'opencode'];

/** Which forks an agent itself has: of the whole session, before an earlier message, and of the whole session in another directory. */
const FORKS = { claude: ['whole', 'before', 'moved'], codex: ['whole', 'before', 'moved'], opencode: ['whole'] };

const limitsRequests = /^\(warning: The model's provider limits the requests \(status 429\)\. /;

/** The status of a refused request that an agent repeats, and what the conversation says. */
const RETRIES = {
  claude: { status: 401, said: /^\(warning: The model's provider refuses the key or the sign-in \(status 401\)\. .*ANTHROPIC_API_KEY/ },
  // Codex ends the turn after a 429.
  codex: { status: 503, said: /^\(warning: The model's provider has a fault or is overloaded \(status 503\)\. .* up to 5 times\. / },
  copilot: { status: 429, said: limitsRequests },
  gemini: { status: 429, said: limitsRequests },
  opencode: { status: 429, said: /^\(warning: The model answers: No more\.\nopencode repeats its request\. / },
  qwen: { status: 429, said: limitsRequests },
};

/** The agents that take a message during a turn. */
const STEERING = ['claude', 'codex'];

const chosen = process.env.AGENTS?.split(',') ?? Object.keys(AGENTS);

for (const name of chosen) {
  test(`${AGENTS[name].title} is prompted, approved, aborted and resumed`, { timeout: 15 * 60_000 }, (t) => runScenario(t, name));
}

async function runScenario(t, name) {
  const { model, hub, base, dir, agentEnv, start, callUntilStarted } = await setUpAgent(t, name);
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

  const skip =
    (!AGENTS[name].passwordVariables && 'it runs no server') || (process.platform !== 'linux' && 'the ports of a process are unknown');
  await t.test('the server that the agent runs refuses requests without a password', { skip }, async () => {
    const ports = listeningPorts(dir);
    assert.ok(ports.length > 0);
    for (const port of ports) assert.equal((await fetch(`http://127.0.0.1:${port}/session`)).status, 401);
  });

  await t.test('the tokens in the context are reported', { skip: WITHOUT_USAGE.includes(name) && 'it reports none' }, async () => {
    const { used, size } = await hub.waitUntil(() => stored.metadata.usage, 'the usage');
    assert.ok(used > 0 && size > used, JSON.stringify({ used, size }));
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

  await t.test(
    'the next prompt has the reason of the denial, and an approval for the session covers the program with other paths',
    async () => {
      prompt([{ run: 'touch three.txt' }, { run: 'touch four.txt' }, { run: 'mkdir five' }]);
      const id = await answer({ approved: true, decision: 'approved_for_session' });
      assert.ok(model.hasSeenText('The user denied') && model.hasSeenText('Not before the review'));
      const other = await answer({ approved: true });
      assert.notEqual(other, id);
      assert.equal(stored.agentState.completedRequests[other].arguments.command, 'mkdir five');
      await untilReady();
      const byRule = Object.values(stored.agentState.completedRequests).filter(({ approvedBy }) => approvedBy);
      assert.deepEqual(pluck(byRule, 'approvedBy'), [{ kind: 'command', label: '`touch` with any path in the folder' }]);
      assert.ok(['three.txt', 'four.txt', 'five'].every((at) => existsSync(file(at))));
    },
  );

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

  /** The option that is changed, and its new value. */
  let changed;
  const hasChangedOption = () => stored.metadata.options.some(({ id, value }) => id === changed.id && value === changed.value);

  const effortOf = (request) => EFFORTS[name](JSON.parse(request));

  await t.test('the effort is set and reaches the model, and a value that does not exist is refused', async (test) => {
    const option = (stored.metadata.options ?? []).find(({ category }) => category === 'thought_level');
    assert.equal(option !== undefined, EFFORTS[name] !== undefined);
    if (!option) return test.skip('it has no effort');
    const { id } = option.choices.find((choice) => choice.id !== option.value);
    const set = (value) => hub.call(sid, 'set-session-option', { id: option.id, value });
    assert.deepEqual(await set(id), { success: true });
    const { success, error } = await set('no-such-value');
    assert.equal(success, false);
    assert.ok(error.startsWith(`${AGENTS[name].title} refused ${option.name}: `), error);
    changed = { id: option.id, value: id };
    await hub.waitUntil(hasChangedOption, 'the option in the metadata');
    const before = model.requests.length;
    prompt([{ say: 'I think.' }]);
    await untilReady();
    assert.equal(effortOf(model.requests[before]), id);
  });
  await t.test('the steps of a sub-agent name the call that started it', { skip: !SUBAGENTS.includes(name) && 'not seen' }, async () => {
    const from = stored.messages.length;
    model.answer('Look for the word.', [{ say: 'I look.' }, { read: file('two.txt') }, { say: 'I have it.' }]);
    prompt([{ task: 'Look for the word.' }, { say: 'The helper is done.' }]);
    // Qwen Code asks before it starts a sub-agent.
    await hub.waitUntil(() => isReady() || hub.pendingRequest(sid), 'the sub-agent', TURN_MS);
    if (!isReady()) await answer({ approved: true });
    await untilReady();
    const data = () => stored.messages.slice(from).flatMap(({ content }) => content.content.data ?? []);
    const steps = () => data().filter(({ parent_tool_use_id: parent }) => parent !== undefined);
    // Codex may end its turn before its sub-agent is done.
    await hub.waitUntil(() => steps().at(-1)?.message.content[0].text === 'I have it.', 'the end of the sub-agent', TURN_MS);
    const call = data()
      .map(({ message }) => message?.content[0])
      .find((part) => /^agent$/i.test(part?.name));
    assert.deepEqual([...new Set(steps().map(({ parent_tool_use_id: parent }) => parent))], [call.id]);
    const types = steps().map(({ message }) => message.content[0].type);
    // The result of a command may be stored in parts.
    const isNext = (type, at) => type !== types[at - 1];
    assert.deepEqual(types.filter(isNext), ['text', 'tool_use', 'tool_result', 'text']);
  });

  await t.test('a request of a sub-agent is answered', { skip: !SUBAGENTS.includes(name) && 'not seen' }, async () => {
    const calls = () => stored.messages.flatMap(({ content }) => content.content.data?.message?.content ?? []);
    const resultOf = (id) => calls().find(({ type, tool_use_id: call }) => type === 'tool_result' && call === id);
    for (const approved of [true, false]) {
      const made = `sub-agent-${approved}`;
      model.answer(`Make ${made}.`, [{ run: `mkdir ${made}` }, { say: 'I have tried.' }]);
      prompt([{ task: `Make ${made}.` }, { say: 'The helper is done.' }]);
      // Qwen Code also asks before it starts the sub-agent.
      let id = await untilRequest();
      while (!stored.agentState.requests[id].arguments.command) {
        await answer({ approved: true });
        id = await hub.waitUntil(() => hub.pendingRequest(sid) !== id && hub.pendingRequest(sid), 'the request of the sub-agent', TURN_MS);
      }
      assert.equal(stored.agentState.requests[id].arguments.command, `mkdir ${made}`);
      await answer({ approved });
      await untilReady();
      await hub.waitUntil(() => resultOf(id), 'the result of the command', TURN_MS);
      assert.equal(Boolean(resultOf(id).is_error), !approved);
      assert.equal(existsSync(file(made)), approved);
    }
  });

  await t.test('each list of todos is stored', { skip: !TODOS.includes(name) && 'it writes none' }, async () => {
    const from = stored.messages.length;
    const todos = [
      ['Find the word', 'in_progress'],
      ['Write it down', 'pending'],
    ];
    const done = todos.map(([text]) => [text, 'completed']);
    prompt([{ todos }, { say: 'I have found it.' }, { todos: done }, { say: 'Both are done.' }]);
    await untilReady();
    assert.deepEqual(stored.messages.slice(from).flatMap(todosOf), [todos, done]);
  });

  await t.test('an abort ends the turn, whose text is live', async () => {
    prompt([{ slow: 600 }]);
    await hub.waitUntil(() => stored.deltas.some(({ text }) => text.includes('word')), 'live text', TURN_MS);
    assert.equal((await hub.abort(sid)).aborted, true);
    await untilReady();
    assert.equal(hub.transcript(sid).at(-2), 'Aborted.');
  });

  await t.test('the repetition of a refused request is reported once, and counted', async () => {
    const { status, said } = RETRIES[name];
    const { length } = hub.transcript(sid);
    const reports = () =>
      hub
        .transcript(sid)
        .slice(length)
        .filter((line) => said.test(line));
    prompt([{ fail: { status, message: 'No more.' } }]);
    await hub.waitUntil(() => reports().length > 0 && /, attempt [3-9]/.test(stored.activity), 'the report and the activity', TURN_MS);
    assert.equal((await hub.abort(sid)).aborted, true);
    await untilReady();
    assert.equal(reports().length, 1, hub.transcript(sid).slice(length).join('\n'));
  });

  await t.test('a message that is sent now reaches the agent during its turn, or ends the turn', async () => {
    const pieces = stored.deltas.length;
    prompt([{ slow: 600 }]);
    await hub.waitUntil(() => stored.deltas.slice(pieces).some(({ text }) => text.includes('word')), 'live text', TURN_MS);
    model.answer('This message waited.', [{ say: 'I have read it.' }]);
    const { seq } = hub.postMessage(sid, 'This message waited.');
    await hub.waitUntil(() => stored.agentState.queuedMessages?.includes(seq), 'the queue');
    const { steers } = stored.agentState.queue;
    assert.equal(steers, STEERING.includes(name));
    if (!steers) turns += 1;
    assert.deepEqual(await hub.call(sid, 'queue', { action: 'send', seq }), { success: true });
    await untilReady();
    const lines = hub.transcript(sid);
    assert.equal(lines.at(-2), 'I have read it.');
    assert.equal(lines.includes('(message: Stopped, because another message is sent now.)'), !steers);
  });

  await t.test('queued messages are edited, canceled and moved, and run once each after kill -9 of the bridge', async () => {
    const pieces = stored.deltas.length;
    prompt([{ slow: 600 }]);
    await hub.waitUntil(() => stored.deltas.slice(pieces).some(({ text }) => text.includes('word')), 'live text', TURN_MS);
    const { length } = hub.transcript(sid);
    const seqs = ['Alpha waits.', 'Beta waits.', 'Gamma waits.', 'Delta waits.'].map((text) => hub.postMessage(sid, text).seq);
    const [alpha, beta, gamma, delta] = seqs;
    const isQueue = (wanted) => JSON.stringify(stored.agentState.queuedMessages ?? []) === JSON.stringify(wanted);
    await hub.waitUntil(() => isQueue(seqs), 'the queue');
    for (const params of [
      { action: 'edit', seq: beta, text: 'Beta was edited.' },
      { action: 'cancel', seq: gamma },
      { action: 'order', seqs: [delta, beta, alpha] },
    ]) {
      assert.deepEqual(await hub.call(sid, 'queue', params), { success: true });
    }
    await hub.waitUntil(() => isQueue([delta, beta, alpha]), 'the changed queue');
    for (const word of ['Alpha waits', 'Beta was edited', 'Delta waits']) model.answer(`${word}.`, [{ say: `Answer: ${word}.` }]);
    first.child.kill('SIGKILL');
    await first.exit;
    first = { ...first, ...(await start()) };
    const said = () => hub.transcript(sid).slice(length);
    // Gemini CLI may wait for the next minute.
    const isDone = () => said().filter((line) => line.startsWith('Answer: ')).length >= 3 && said().at(-1) === '(ready)';
    await hub.waitUntil(isDone, 'the answers', 2 * TURN_MS);
    const answers = ['Delta waits', 'Beta was edited', 'Alpha waits'].map((word) => `Answer: ${word}.`);
    assert.deepEqual(
      said().filter((line) => line.startsWith('Answer: ')),
      answers,
    );
    assert.ok(isQueue([]));
    assert.ok(!model.hasSeenText('Beta waits.') && !model.hasSeenText('Gamma waits.'));
    turns = hub.transcript(sid).filter((line) => line === '(ready)').length;
  });

  const upload = async (filename, content) => {
    const { path: uploaded } = await hub.call(sid, 'uploadFile', { filename, content, mimeType: '' });
    return { filename, path: uploaded };
  };

  await t.test('the name and the content of a file and the picture beside it reach the model', async () => {
    const [picture, notes] = [await upload('a.png', PICTURE), await upload('notes.txt', btoa('The word is zebra.'))];
    const before = model.requests.length;
    // Most agents only name the file, and their model reads it.
    prompt([...(AGENTS[name].needsInlineFiles ? [] : [{ read: notes.path }]), { say: 'I see.' }], [picture, notes]);
    await hub.waitUntil(() => isReady() || hub.pendingRequest(sid), 'the end of the turn', TURN_MS);
    if (!isReady() && !AGENTS[name].needsInlineFiles) await answer({ approved: true });
    await untilReady();
    const [first, ...others] = model.requests.slice(before);
    assert.ok(first.includes('notes.txt'), first.slice(-2000));
    assert.ok(AGENTS[name].needsInlineFiles ? first.includes('zebra') : [first, ...others].some((body) => body.includes('zebra')));
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
    if (!changed) return;
    await hub.waitUntil(hasChangedOption, 'the option after the restart');
    assert.equal(effortOf(model.requests[before]), changed.value);
  });

  /**
   * Forks the session, and runs a turn in the fork. The messages and the agent's own record of the session must not change.
   * @param {'whole' | 'before' | 'moved'} kind of the fork; the fork `before` the last message does not have it
   * @param {{prompt: string, steps?: import('./model/script.mjs').Step[], more?: object}} options `more`: further parameters of the request
   * @returns {Promise<{id: string, directory: string}>} the hub's id and the directory of the fork
   */
  async function fork(kind, { prompt: text, steps = [], more }) {
    const isWhole = kind !== 'before';
    const users = stored.messages.filter(({ content }) => content.role === 'user');
    const [seq, last] = [isWhole ? stored.messages.length + 1 : users.at(-1).seq, `This is prompt ${turns}.`];
    const { flavor, [`${flavor}SessionId`]: agentId } = stored.metadata;
    const readOriginal = () => [JSON.stringify(stored.messages), hashRecord(name, agentEnv.HOME, agentId)];
    const original = readOriginal();
    const params = { sessionId: sid, resumeSessionId: agentId, seq, directory: dir, agent: flavor, ...more };
    const { sessionId: id, error } = await callUntilStarted(first.ids.machine, 'forkSession', params);
    assert.ok(id, error);
    const notice = await hub.waitUntil(() => hub.transcript(id).find((line) => line.startsWith('This is a fork')), 'the notice', TURN_MS);
    const remembers = !notice.includes('does not remember');
    assert.equal(remembers, FORKS[name]?.includes(kind) ?? false, notice);
    const copied = hub.sessions.get(id).messages.slice(0, -1);
    const history = stored.messages.filter((message) => message.seq < seq && message.content.content.data?.type !== 'ready');
    const toIds = (messages) => messages.map(({ localId }) => localId);
    assert.deepEqual(toIds(copied), toIds(history));
    const before = model.requests.length;
    model.answer(text, [...steps, { say: 'Forked.' }]);
    hub.postMessage(id, text);
    const hasEnded = () => hub.transcript(id).includes('(ready)');
    await hub.waitUntil(() => hasEnded() || hub.pendingRequest(id), 'the end of the turn', TURN_MS);
    const requestId = hub.pendingRequest(id);
    if (!hasEnded()) await hub.call(id, 'permission', { id: requestId, approved: true });
    await hub.waitUntil(hasEnded, 'the end of the turn', TURN_MS);
    assert.equal(hub.transcript(id).at(-2), 'Forked.');
    const [request] = model.requests.slice(before);
    assert.ok(request.includes('This is prompt 1.') && request.includes('<conversation>') === !remembers, notice);
    assert.equal(request.includes(last), isWhole);
    assert.deepEqual(readOriginal(), original);
    const directory = hub.sessions.get(id).metadata.path;
    await hub.call(id, 'killSession');
    return { id, directory };
  }

  await t.test('a fork before the last message has its history', () => fork('before', { prompt: 'In the fork before.' }));
  await t.test('a fork of the whole conversation has its history', () => fork('whole', { prompt: 'In the whole fork.' }));
  await t.test('a fork in a new worktree works in the worktree', async (test) => {
    repository(test, dir).git('commit', '--allow-empty', '--message=Start');
    const { directory } = await fork('moved', {
      prompt: 'In the worktree.',
      steps: [{ run: 'touch forked.txt' }],
      more: { sessionType: 'worktree', worktreeName: 'forked' },
    });
    assert.notEqual(directory, dir);
    assert.deepEqual([existsSync(path.join(directory, 'forked.txt')), existsSync(file('forked.txt'))], [true, false]);
  });

  await t.test('an agent that has lost its session reports the loss and starts a new session', async () => {
    first.child.kill('SIGKILL');
    await first.exit;
    const folder = path.join(base, 'state', 'sessions');
    const files = readdirSync(folder).filter((at) => at.endsWith('.json'));
    const state = files.map((at) => path.join(folder, at)).find((at) => JSON.parse(readFileSync(at, 'utf8')).sessionId === sid);
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

/** The texts and the states of the todos in a message. */
function todosOf({ content }) {
  const { data } = content.content;
  const [part] = data?.message?.content ?? [];
  const todos = data?.type === 'plan' ? data.entries : part?.name === 'TodoWrite' ? part.input.todos : undefined;
  return todos === undefined ? [] : [todos.map((todo) => [todo.content, todo.status])];
}
