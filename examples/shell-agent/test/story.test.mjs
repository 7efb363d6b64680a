/** The agent as a whole, against a hub in memory. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { startApp } from '../src/app.mjs';
import { FakeHub, TOKEN } from './support/fake-hub.mjs';
import { repository, tempDir } from './support/repository.mjs';
import { quietLog } from './support/wait.mjs';

/** A hub, a repository, and a way to start agents that end with the test. */
async function place(t) {
  const hub = await FakeHub.start();
  const log = quietLog();
  const apps = new Set();
  // Before the directories: what is registered first is run first.
  t.after(async () => {
    try {
      await Promise.all([...apps].map((app) => app.stop()));
    } finally {
      await hub.stop();
    }
  });
  const { dir, git, write } = repository(t);
  const home = tempDir(t);
  const start = async (options = {}) => {
    const app = await startApp({
      dir,
      home,
      hub: hub.url,
      token: TOKEN,
      flavor: 'alpha',
      machine: false,
      log,
      reconnectMs: 10,
      patienceMs: 0,
      ...options,
    });
    apps.add(app);
    return app;
  };
  return { hub, dir, git, write, home, log, start };
}

/** Waits until the agent has said that it is ready `times` times. */
const readyTimes = (hub, sid, times) =>
  hub.until(
    () => hub.heard(sid).filter((one) => one === '(ready)').length >= times,
    `the agent to be ready ${times} times`,
  );

const approve = async (hub, sid, answer = {}) => {
  const id = await hub.until(() => hub.pending(sid), 'a permission request');
  return hub.call(sid, 'permission', { id, approved: true, ...answer });
};

test('a message is asked about, approved, run, and its output comes back', async (t) => {
  const { hub, start } = await place(t);
  const { session } = await start();
  hub.say(session.id, 'echo hello; echo problem >&2; exit 4');
  const id = await hub.until(() => hub.pending(session.id), 'a permission request');
  const stored = hub.sessions.get(session.id);
  assert.deepEqual(stored.agentState.requests[id].arguments, { command: 'echo hello; echo problem >&2; exit 4' });
  assert.deepEqual(hub.heard(session.id), []);
  assert.deepEqual(await approve(hub, session.id), { success: true });
  assert.equal(stored.agentState.completedRequests[id].status, 'approved');
  await readyTimes(hub, session.id, 1);
  assert.deepEqual(hub.heard(session.id), [
    '> echo hello; echo problem >&2; exit 4',
    '! hello\nproblem\n',
    'Exit code 4.',
    '(ready)',
  ]);
  assert.deepEqual(stored.thoughts.slice(-2), [true, false]);
});

test('a denied command is not run, and nothing is asked any more after approval for the session', async (t) => {
  const { hub, dir, start } = await place(t);
  const { session } = await start();
  hub.say(session.id, 'touch made');
  const id = await hub.until(() => hub.pending(session.id), 'a permission request');
  await hub.call(session.id, 'permission', { id, approved: false, decision: 'denied' });
  await readyTimes(hub, session.id, 1);
  assert.deepEqual(hub.heard(session.id), ['Denied: touch made', '(ready)']);
  assert.equal(existsSync(path.join(dir, 'made')), false);
  hub.say(session.id, 'touch one');
  await approve(hub, session.id, { decision: 'approved_for_session' });
  hub.say(session.id, 'touch two');
  await readyTimes(hub, session.id, 3);
  assert.ok(existsSync(path.join(dir, 'one')) && existsSync(path.join(dir, 'two')));
});

test('messages wait their turn, and abort ends the running one and drops the rest', async (t) => {
  const { hub, dir, start } = await place(t);
  const { session } = await start({ autoApprove: true });
  hub.say(session.id, 'echo first; sleep 600');
  hub.say(session.id, 'touch second');
  await hub.until(() => hub.heard(session.id).includes('first\n'), 'the first output');
  const answer = await hub.call(session.id, 'abort', { reason: 'enough' });
  assert.deepEqual(answer, { success: true, aborted: true, dropped: 1 });
  await hub.until(
    () => hub.heard(session.id).at(-1) === 'Dropped, not run:\ntouch second',
    'the note about what was dropped',
  );
  assert.deepEqual(hub.heard(session.id), [
    '> echo first; sleep 600',
    '! first\n',
    'Aborted. Ended by SIGTERM.',
    '(ready)',
    'Dropped, not run:\ntouch second',
  ]);
  assert.equal(existsSync(path.join(dir, 'second')), false);
  hub.say(session.id, 'echo again');
  await readyTimes(hub, session.id, 2);
  assert.ok(hub.heard(session.id).includes('again\n'));
});

test('an answer with the decision to abort drops what waits behind the request', async (t) => {
  const { hub, start } = await place(t);
  const { session } = await start();
  hub.say(session.id, 'echo one');
  hub.say(session.id, 'echo two');
  const id = await hub.until(() => hub.pending(session.id), 'a permission request');
  await hub.call(session.id, 'permission', { id, approved: false, decision: 'abort' });
  await hub.until(() => hub.heard(session.id).at(-1)?.startsWith('Dropped'), 'the note about what was dropped');
  assert.deepEqual(hub.heard(session.id), ['Denied: echo one', '(ready)', 'Dropped, not run:\necho two']);
  assert.equal(hub.pending(session.id), undefined);
});

test('todos, help, own commands and attachments', async (t) => {
  const { hub, write, start } = await place(t);
  write('.agents/commands/greet.md', '```sh\necho "hello $1"\n```\n');
  const { session } = await start({ autoApprove: true });
  assert.deepEqual(hub.sessions.get(session.id).metadata.slashCommands, ['help', 'todo', 'greet']);
  const { path: file } = await hub.call(session.id, 'uploadFile', {
    filename: 'a.txt',
    content: btoa('attached'),
    mimeType: 'text/plain',
  });
  hub.say(session.id, '/todo add write it');
  hub.say(session.id, '/greet world');
  hub.say(session.id, '/nothing');
  hub.say(session.id, '/help');
  hub.say(session.id, 'cat "$ATTACHMENTS"; echo; echo "[$CLI_API_TOKEN]"', [{ path: file }, { path: '/etc/passwd' }]);
  await readyTimes(hub, session.id, 5);
  const heard = hub.heard(session.id);
  assert.deepEqual(heard.slice(0, 3), ['(todos: 1)', '1. [ ] write it', '(ready)']);
  assert.ok(heard.includes('hello world\n'));
  assert.ok(heard.includes('There is no command /nothing. Try /help.'));
  assert.ok(heard.some((one) => one.endsWith('/greet')));
  assert.ok(heard.includes('1 attachment(s) are not uploads of this session and are left out.'));
  assert.ok(heard.includes('attached\n[]\n'));
});

test('every method of the specification is registered and answers from the real directory', async (t) => {
  const { hub, dir, git, write, start } = await place(t);
  write('src/main.rs', 'fn main() {}\n');
  git('add', '.');
  git('commit', '-m', 'first');
  write('src/main.rs', 'fn main() { }\n');
  const { session, machine } = await start({ machine: true });
  await hub.until(() => hub.registered(machine.id).length === 2, 'the methods of the machine');
  const call = (method, params) => hub.call(session.id, method, params);
  const status = await call('gitStatus', { cwd: dir });
  assert.deepEqual([status.branch, status.files[0].path, status.files[0].status], ['main', 'src/main.rs', 'modified']);
  assert.deepEqual((await call('gitDiffNumstat', { cwd: dir, staged: false })).files, [
    { path: 'src/main.rs', added: 1, removed: 1 },
  ]);
  assert.match((await call('gitDiffFile', { cwd: dir, filePath: 'src/main.rs' })).diff, /^\+fn main\(\) \{ \}$/m);
  assert.equal(atob((await call('readFile', { path: 'src/main.rs' })).content), 'fn main() { }\n');
  assert.equal(
    (await call('runRipgrep', { args: ['--files', '--iglob', '*MAIN*'], cwd: dir })).stdout,
    'src/main.rs\n',
  );
  assert.deepEqual((await call('listDirectory', { path: 'src' })).entries, [
    { name: 'main.rs', type: 'file', size: 14 },
  ]);
  assert.deepEqual(await call('listSlashCommands', { agent: 'alpha' }), { success: true, commands: ['help', 'todo'] });
  assert.deepEqual(await call('listSkills'), { success: true, skills: [] });
  const { path: file } = await call('uploadFile', { filename: 'a', content: 'AAAA', mimeType: 'x/y' });
  assert.deepEqual([...readFileSync(file)], [0, 0, 0]);
  assert.deepEqual(await call('deleteUploadFile', { path: file }), { success: true });
  assert.deepEqual(await hub.call(machine.id, 'checkPathExists', { paths: [dir, '/nope'] }), {
    [dir]: true,
    '/nope': false,
  });
  for (const name of ['permission', 'abort', 'switch', 'killSession', 'set-session-config']) {
    assert.ok(hub.registered(session.id).includes(name), name);
  }
  const refused = await call('readFile', { path: '../../etc/passwd' });
  assert.deepEqual(refused, { success: false, error: '"path" must not contain "..".' });
});

test('the token comes with the upgrade, or only inside CONNECT when the hub bridges', async (t) => {
  const { hub, start } = await place(t);
  const app = await start();
  assert.equal(hub.upgradeToken, `Bearer ${TOKEN}`);
  await app.stop();
  await start({ bridged: true });
  assert.equal(hub.upgradeToken, undefined);
});

test('modes are applied, or refused when the agent kind does not have them', async (t) => {
  const { hub, start } = await place(t);
  const { session } = await start();
  const config = (params) => hub.call(session.id, 'set-session-config', params);
  assert.match((await config({ permissionMode: 'yolo' })).error, /alpha has no permission mode yolo/);
  assert.deepEqual((await config({ permissionMode: 'plan' })).applied, { permissionMode: 'plan' });
  assert.deepEqual((await config({ modelMode: 'model_fast' })).applied, { modelMode: 'model_fast' });
  hub.say(session.id, 'echo planned');
  await readyTimes(hub, session.id, 1);
  assert.deepEqual(hub.heard(session.id), ['Not run in plan mode: echo planned', '(ready)']);
  assert.equal(hub.sessions.get(session.id).permissionMode, 'plan');
  await config({ permissionMode: 'bypassPermissions' });
  hub.say(session.id, 'echo free');
  await readyTimes(hub, session.id, 2);
  assert.ok(hub.heard(session.id).includes('free\n'));
});

test('while the terminal is in control messages of the web wait for the switch', async (t) => {
  const { hub, start } = await place(t);
  let shown = '';
  const { session } = await start({ local: true, autoApprove: true, echo: (text) => (shown += text) });
  const stored = hub.sessions.get(session.id);
  await hub.until(() => stored.mode === 'local', 'local mode');
  assert.equal(stored.agentState.controlledByUser, true);
  hub.say(session.id, 'echo from the web');
  session.type('echo from the terminal');
  await readyTimes(hub, session.id, 1);
  assert.equal(shown, 'from the terminal\n');
  assert.equal(stored.messages[1].content.meta.sentFrom, 'cli');
  assert.ok(!hub.heard(session.id).includes('from the web\n'));
  assert.deepEqual(await hub.call(session.id, 'switch', { to: 'remote' }), { success: true, mode: 'remote' });
  await readyTimes(hub, session.id, 2);
  assert.ok(hub.heard(session.id).includes('from the web\n'));
  await hub.until(() => stored.agentState.controlledByUser === false, 'the web in control');
});

test('a lost connection loses and doubles nothing, in either direction', async (t) => {
  const { hub, start } = await place(t);
  const { session } = await start({ autoApprove: true });
  let lost = 0;
  // The hub stores the message, but its answer is lost with the connection: seven times.
  hub.swallow = ({ seq }) => {
    if (lost === 7 || seq % 3 !== 0) return false;
    lost += 1;
    hub.cut();
    return true;
  };
  const texts = Array.from({ length: 12 }, (_, i) => `echo ${i}`);
  for (const text of texts) hub.say(session.id, text);
  await readyTimes(hub, session.id, 12);
  assert.equal(lost, 7);
  assert.ok(hub.count('rpc-register') >= 2 * hub.registered(session.id).length);
  const heard = hub.heard(session.id);
  assert.deepEqual(
    heard,
    texts.flatMap((text, i) => [`> ${text}`, `${i}\n`, 'Exit code 0.', '(ready)']),
  );
});

test('an acknowledgement that never comes makes the agent connect anew and send again', async (t) => {
  const { hub, start } = await place(t);
  const { session } = await start({ autoApprove: true, ackMs: 200 });
  let known = 0;
  hub.swallow = (_stored, again) => {
    known += again ? 1 : 0;
    return known === 0;
  };
  hub.say(session.id, 'echo once');
  await readyTimes(hub, session.id, 1);
  await hub.until(() => known >= 1, 'a message sent again');
  assert.deepEqual(hub.heard(session.id), ['> echo once', 'once\n', 'Exit code 0.', '(ready)']);
});

test('a goodbye of the server is no reason to stay away', async (t) => {
  const { hub, start } = await place(t);
  const { session } = await start({ autoApprove: true });
  hub.cli.disconnectSockets(true);
  hub.say(session.id, 'echo back');
  await readyTimes(hub, session.id, 1);
  assert.ok(hub.heard(session.id).includes('back\n'));
});

test('a restarted agent goes on where it stopped, and asks again what was not answered', async (t) => {
  const { hub, dir, start } = await place(t);
  const first = await start({ autoApprove: true });
  hub.say(first.session.id, 'echo x >> log');
  await readyTimes(hub, first.session.id, 1);
  await hub.call(first.session.id, 'set-session-config', { permissionMode: 'default' });
  await first.stop();
  assert.equal(hub.sessions.get(first.session.id).active, false);
  assert.equal(hub.sessions.get(first.session.id).metadata.lifecycleState, 'completed');
  assert.deepEqual(hub.registered(first.session.id), []);
  hub.say(first.session.id, 'echo y >> log');
  const second = await start();
  assert.equal(second.session.id, first.session.id);
  const stored = hub.sessions.get(first.session.id);
  await approve(hub, second.session.id);
  await readyTimes(hub, first.session.id, 2);
  hub.say(first.session.id, 'echo z >> log');
  const asked = await hub.until(() => hub.pending(first.session.id), 'a permission request');
  await second.stop();
  const third = await start();
  await hub.until(
    () => stored.agentState.completedRequests[asked]?.status === 'canceled',
    'the old request to be canceled',
  );
  await hub.until(() => hub.pending(third.session.id), 'a new request');
  await approve(hub, third.session.id);
  await readyTimes(hub, third.session.id, 3);
  assert.equal(readFileSync(path.join(dir, 'log'), 'utf8'), 'x\ny\nz\n');
  assert.equal(stored.metadata.lifecycleState, 'running');
});

test('an agent without a past does not run the history', async (t) => {
  const { hub, dir, start, home } = await place(t);
  const first = await start({ autoApprove: true });
  hub.say(first.session.id, 'echo x >> log');
  await readyTimes(hub, first.session.id, 1);
  await first.stop();
  const second = await start({ autoApprove: true, home: `${home}/elsewhere` });
  hub.say(second.session.id, 'echo y >> log');
  await readyTimes(hub, second.session.id, 2);
  assert.equal(readFileSync(path.join(dir, 'log'), 'utf8'), 'x\ny\n');
});

test('a second agent on the same session is turned away', async (t) => {
  const { start } = await place(t);
  await start();
  await assert.rejects(start(), /already serves this session/);
});

test('a request that the hub canceled is put again on the next connection', async (t) => {
  const { hub, start } = await place(t);
  const { session } = await start();
  hub.say(session.id, 'echo patient');
  const id = await hub.until(() => hub.pending(session.id), 'a permission request');
  hub.changeState(session.id, ({ requests }) => ({
    requests: {},
    completedRequests: { [id]: { ...requests[id], status: 'canceled' } },
  }));
  assert.notEqual(await hub.until(() => hub.pending(session.id), 'a new request'), id);
  await approve(hub, session.id);
  await readyTimes(hub, session.id, 1);
  assert.ok(hub.heard(session.id).includes('patient\n'));
});

test('killSession ends the process', async (t) => {
  const { hub, start } = await place(t);
  const app = await start();
  assert.deepEqual(await hub.call(app.session.id, 'killSession'), { success: true });
  assert.equal(await app.ended, null);
  assert.equal(hub.sessions.get(app.session.id).active, false);
});

test('a bad token and a session that is gone are final, with a reason', async (t) => {
  const { hub, start } = await place(t);
  await assert.rejects(start({ token: 'wrong' }), /does not accept the token/);
  const app = await start();
  hub.sessions.delete(app.session.id);
  hub.cut();
  assert.match((await app.ended).message, /session is gone|Session not found/);
});

test('without a hub the error says where it was looked for', async (t) => {
  const { start } = await place(t);
  await assert.rejects(start({ hub: 'http://127.0.0.1:9' }), /Cannot reach the hub at http:\/\/127\.0\.0\.1:9/);
});
