/** The agent as a whole, against a hub in memory. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { HubSocket } from '../src/hub-socket.mjs';
import { Outage } from '../src/outage.mjs';
import { TOKEN } from './support/fake-hub.mjs';
import { approve, place } from './support/place.mjs';
import { turn } from './support/wait.mjs';

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
  await hub.ready(session.id, 1);
  assert.deepEqual(hub.heard(session.id), [
    '> echo hello; echo problem >&2; exit 4',
    '! hello\nproblem\n',
    'Exit code 4.',
    '(ready)',
  ]);
  assert.deepEqual(stored.thoughts.slice(-2), [true, false]);
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
  const attachments = [
    { filename: 'a.txt', path: file },
    { filename: 'x', path: '/etc/passwd' },
  ];
  hub.say(session.id, 'cat "$ATTACHMENTS"; echo', attachments);
  await hub.ready(session.id, 5);
  const heard = hub.heard(session.id);
  assert.deepEqual(heard.slice(0, 3), ['(todos: 1)', '1. [ ] write it', '(ready)']);
  assert.ok(heard.includes('hello world\n'));
  assert.ok(heard.includes('There is no command /nothing. Try /help.'));
  assert.ok(heard.some((one) => one.endsWith('/greet')));
  const list = `- a.txt (8 bytes): ${file}\n- x: not an upload of this session, left out`;
  assert.ok(heard.includes(`Attached, in $ATTACHMENTS for a command:\n${list}`));
  assert.ok(heard.includes('attached\n'));
  hub.say(session.id, '', attachments.slice(0, 1));
  await hub.ready(session.id, 6);
  assert.deepEqual(hub.heard(session.id).slice(-2), [
    `Attached, in $ATTACHMENTS for a command:\n- a.txt (8 bytes): ${file}`,
    '(ready)',
  ]);
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
  await hub.ready(session.id, 12);
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
  await hub.ready(session.id, 1);
  await hub.until(() => known >= 1, 'a message sent again');
  assert.deepEqual(hub.heard(session.id), ['> echo once', 'once\n', 'Exit code 0.', '(ready)']);
});

test('a goodbye of the server is no reason to stay away', async (t) => {
  const { hub, start } = await place(t);
  const { session } = await start({ autoApprove: true });
  hub.cli.disconnectSockets(true);
  hub.say(session.id, 'echo back');
  await hub.ready(session.id, 1);
  assert.ok(hub.heard(session.id).includes('back\n'));
});

test('a restarted agent goes on where it stopped, and asks again what was not answered', async (t) => {
  const { hub, dir, start } = await place(t);
  const first = await start({ autoApprove: true });
  hub.say(first.session.id, 'echo x >> log');
  await hub.ready(first.session.id, 1);
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
  await hub.ready(first.session.id, 2);
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
  await hub.ready(third.session.id, 3);
  assert.equal(readFileSync(path.join(dir, 'log'), 'utf8'), 'x\ny\nz\n');
  assert.equal(stored.metadata.lifecycleState, 'running');
});

test('a command that cannot be started is closed like any other', async (t) => {
  const { hub, start } = await place(t);
  const { session } = await start({ autoApprove: true });
  // More than the system takes as an argument.
  const command = `: ${'x'.repeat(3_000_000)}`;
  hub.say(session.id, command);
  await hub.ready(session.id, 1);
  const [use, result, ...rest] = hub.heard(session.id);
  assert.equal(use, `> ${command}`);
  assert.match(result, /^! .*E2BIG/);
  assert.deepEqual(rest, ['It could not be run.', '(ready)']);
});

test('an agent without a past does not run the history', async (t) => {
  const { hub, dir, start, home } = await place(t);
  const first = await start({ autoApprove: true });
  hub.say(first.session.id, 'echo x >> log');
  await hub.ready(first.session.id, 1);
  await first.stop();
  const second = await start({ autoApprove: true, home: `${home}/elsewhere` });
  hub.say(second.session.id, 'echo y >> log');
  await hub.ready(second.session.id, 2);
  assert.equal(readFileSync(path.join(dir, 'log'), 'utf8'), 'x\ny\n');
});

test('a second agent on the same session is turned away', async (t) => {
  const { start } = await place(t);
  await start();
  await assert.rejects(start(), /already serves this session/);
});

test('a bad token and a session that is gone are final, with a reason', async (t) => {
  const { hub, start } = await place(t);
  await assert.rejects(start({ token: 'wrong' }), /does not accept the token.*npm run token -- NAMESPACE/);
  const app = await start();
  hub.sessions.delete(app.session.id);
  hub.cut();
  assert.match((await app.ended).message, /session is gone|Session not found/);
});

test('a token that is refused later gives up nothing: what was said goes out when it is taken again', async (t) => {
  const { hub, dir, log, start } = await place(t);
  const { session } = await start({ autoApprove: true, machine: true });
  hub.say(session.id, 'until [ -e go ]; do sleep 0.05; done; echo done');
  await hub.until(() => hub.heard(session.id).length === 1, 'the command to begin');
  hub.token = 'another';
  hub.cut();
  while (log.warnings.length < 2) await turn();
  assert.match(log.warnings[0], /is away/);
  assert.match(log.warnings[1], /does not take the token any more \(Invalid token\).*npm run token -- NAMESPACE/);
  writeFileSync(path.join(dir, 'go'), '');
  while (session.outbox.size < 3) await turn();
  hub.token = TOKEN;
  await hub.ready(session.id, 1);
  assert.deepEqual(hub.heard(session.id).slice(1), ['done\n', 'Exit code 0.', '(ready)']);
  assert.equal(log.warnings.length, 2, 'each is told once');
});

test('of two connections the one that is back first brings the other back', async (t) => {
  const { hub, log } = await place(t);
  const outage = new Outage({ hub: hub.url, log });
  const sockets = ['first', 'second'].map((clientType, i) => {
    // The second one would not try again before the test has given up.
    const reconnectMs = i === 0 ? 10 : 3_600_000;
    const socket = new HubSocket({ hub: hub.url, token: TOKEN, auth: { clientType }, log, outage, reconnectMs });
    t.after(() => socket.close());
    socket.connect();
    return socket;
  });
  await Promise.all(sockets.map((socket) => socket.whenConnected()));
  const back = sockets.map((socket) => once(socket, 'connect'));
  hub.cut();
  await Promise.all(back);
  assert.deepEqual(log.infos, ['The hub is back.']);
});

test('without a hub the error says where it was looked for, and what to do is said once', async (t) => {
  const { log, start } = await place(t);
  const address = { hub: 'http://127.0.0.1:9' };
  await assert.rejects(start(address), /Cannot reach the hub at http:\/\/127\.0\.0\.1:9/);
  assert.deepEqual(log.warnings, []);
  await assert.rejects(start({ ...address, patienceMs: 1000 }), /Cannot reach the hub/);
  assert.equal(log.warnings.length, 1);
  assert.match(log.warnings[0], /127\.0\.0\.1:9 is away \(.*\)\. Is it running\?/);
});

test('what the hub reports again and again is told once', async (t) => {
  const { hub, log, start } = await place(t);
  const { session } = await start();
  for (let i = 0; i < 3; i += 1) hub.cli.emit('error', { message: 'The database is away', code: 'unavailable' });
  hub.cli.emit('error', { message: 'Something else', code: 'unavailable' });
  await session.socket.ask('ping', {});
  assert.deepEqual(log.warnings, [
    'the hub reports: The database is away (unavailable)',
    'the hub reports: Something else (unavailable)',
  ]);
});
