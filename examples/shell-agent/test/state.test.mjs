import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { readArgs } from '../src/args.mjs';
import { Catalog } from '../src/catalog.mjs';
import { LockHeldError } from '../src/lock.mjs';
import { StateStore } from '../src/state.mjs';
import { Todos } from '../src/todos.mjs';
import { findToken, namespaceOf } from '../src/token.mjs';
import { repository, tempDir } from './support/repository.mjs';

test('a machine id is stable per hub, namespace and directory', (t) => {
  const home = tempDir(t);
  const id = (namespace, dir) => new StateStore({ home, hub: 'http://hub', namespace }).machineId(dir);
  assert.equal(id('a', '/dir'), id('a', '/dir'));
  assert.notEqual(id('a', '/dir'), id('b', '/dir'));
  assert.notEqual(id('a', '/dir'), id('a', '/other'));
});

test('one process at a time holds the lock of a machine', (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  const release = store.lockMachine('one');
  assert.throws(() => store.lockMachine('one'), { name: 'Error', pid: process.pid });
  store.lockMachine('two')();
  release();
  const again = store.lockMachine('one');
  // A second release does not release the lock of the next holder.
  release();
  assert.throws(() => store.lockMachine('one'), LockHeldError);
  again();
});

test('the last handled seq is stored per session, not per tag', (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  const first = store.openSession('/dir');
  first.attach('one', 7);
  assert.equal(first.lastSeq, 7);
  first.markHandled(9);
  first.markHandled(10, true);
  first.release();
  const second = store.openSession('/dir');
  second.attach('one', 30);
  assert.deepEqual([second.lastSeq, second.agentId], [10, first.agentId]);
  second.release();
  const third = store.openSession('/dir');
  third.attach('two', 0);
  assert.equal(third.lastSeq, 0);
  third.release();
});

test('the shell state is stored per session, not per tag', (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  const shell = { cwd: '/dir/sub', env: { A: '1', B: null } };
  const first = store.openSession('/dir');
  first.attach('one', 0);
  first.saveShell(shell);
  first.release();
  const second = store.openSession('/dir');
  second.attach('one', 0);
  assert.deepEqual(second.shell, shell);
  second.release();
  const third = store.openSession('/dir');
  third.attach('two', 0);
  assert.equal(third.shell, undefined);
  third.release();
});

test('one process at a time serves a session, and stale locks are removed', (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  const first = store.openSession('/dir');
  assert.throws(() => store.openSession('/dir'), /already serves this session/);
  store.openSession('/other').release();
  writeFileSync(first.lockFile, JSON.stringify({ pid: 2 ** 30, born: '1' }));
  store.openSession('/dir').release();
  // Truncated by a crash.
  writeFileSync(first.lockFile, '');
  store.openSession('/dir').release();
  writeFileSync(first.lockFile, JSON.stringify({ pid: process.ppid, born: 'another time' }));
  store.openSession('/dir').release();
});

test('a call stays recorded until its last message is stored, also over restarts', (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  const open = (sessionId) => {
    const state = store.openSession('/dir');
    state.attach(sessionId, 5);
    return state;
  };
  const [first, second] = ['one', 'two'].map((id) => ({ id, name: 'Bash', input: { command: `echo ${id}` } }));
  const initial = open('s');
  initial.recordCall(first, 6);
  initial.recordCall(second);
  initial.handleStored('one-result');
  initial.release();
  const restarted = open('s');
  assert.deepEqual([restarted.calls, restarted.lastSeq], [[first, second], 6]);
  restarted.handleStored('one-ready');
  restarted.release();
  const later = open('s');
  assert.deepEqual(later.calls, [second]);
  later.release();
  const other = open('another');
  assert.deepEqual(other.calls, []);
  other.release();
});

test('a session id from the hub cannot move the uploads to another folder', (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  for (const id of ['..', '../x', 'a/b', '']) assert.throws(() => store.uploadFolder(id), /cannot be a folder name/);
});

test('the token comes from the option, the environment or .dev.vars', (t) => {
  const file = path.join(tempDir(t), '.dev.vars');
  assert.throws(() => findToken(undefined, {}, file), /npm run dev/);
  writeFileSync(file, '# made\nJWT_SECRET=x\nCLI_API_TOKEN="from file"\n');
  assert.equal(findToken(undefined, {}, file), 'from file');
  for (const [line, token] of [
    ['CLI_API_TOKEN=first\nCLI_API_TOKEN=the last', 'the last'],
    ['export CLI_API_TOKEN = plain # a comment', 'plain'],
    ["CLI_API_TOKEN='with # in it' # a comment", 'with # in it'],
    ['CLI_API_TOKEN=`quoted`\r\nOTHER=x', 'quoted'],
    ["CLI_API_TOKEN=' blanks count '", ' blanks count '],
    ['CLI_API_TOKEN="two\\nlines"', 'two\nlines'],
    ['#CLI_API_TOKEN=out\nCLI_API_TOKEN=in', 'in'],
  ]) {
    writeFileSync(file, line);
    assert.equal(findToken(undefined, {}, file), token, line);
  }
  assert.equal(findToken(undefined, { CLI_API_TOKEN: 'env' }, file), 'env');
  assert.equal(findToken('option', { CLI_API_TOKEN: 'env' }, file), 'option');
  assert.deepEqual(['secret', 'secret:team', 'se:cret:team'].map(namespaceOf), ['default', 'team', 'team']);
});

test('invalid command lines are refused with the reason', () => {
  for (const [argv, reason] of [
    [[], /--dir PATH is missing/],
    [['--dir', '.', '--nonsense'], /--nonsense/],
    [['--dir', '.', '--hub', 'nowhere'], /must be a URL such as/],
    [['--dir', '.', '--hub', 'ftp://x'], /http/],
    [['--dir', '.', '--flavor', 'a b'], /--flavor must be .*not "a b"/],
  ]) {
    assert.throws(() => readArgs(argv, {}), reason);
  }
  const npm = { npm_lifecycle_event: 'agent', INIT_CWD: '/home/me' };
  assert.equal(readArgs(['--dir', 'project'], npm).dir, '/home/me/project');
  assert.equal(readArgs(['--dir', '.'], { HUB_URL: 'https://hub.example/' }).hub, 'https://hub.example');
  assert.equal(readArgs(['--dir', '.'], { HUB_URL: '' }).hub, 'http://127.0.0.1:8787');
});

test('commands and skills are read from the directory', async (t) => {
  const { dir, write } = repository(t);
  write('.agents/commands/check.md', '# Check\n\nRuns the checks.\n\n```sh\necho "checking $1"\n```\n');
  write('.agents/commands/not a name.md', 'x');
  write('.agents/skills/review/SKILL.md', '---\nname: "review-code"\ndescription: Reads a change.\n---\nBody');
  write('.agents/skills/bare/SKILL.md', 'no front matter');
  const catalog = new Catalog(dir);
  assert.deepEqual(await catalog.commands(), ['help', 'todo', 'check']);
  assert.equal(await catalog.script('check'), 'echo "checking $1"');
  assert.equal(await catalog.script('../check'), null);
  assert.deepEqual(await catalog.skills(), [
    { name: 'bare', description: '' },
    { name: 'review-code', description: 'Reads a change.' },
  ]);
});

test('todos are added, completed and listed', () => {
  const todos = new Todos();
  assert.equal(todos.command('').text, 'There are no todos.');
  todos.command('add write the tests');
  assert.equal(todos.command('add run them').text, '1. [ ] write the tests\n2. [ ] run them');
  assert.equal(todos.command('done 1').text, '1. [x] write the tests\n2. [ ] run them');
  assert.deepEqual(
    todos.items.map(({ status, priority }) => [status, priority]),
    [
      ['completed', 'medium'],
      ['pending', 'medium'],
    ],
  );
  assert.equal(todos.command('done 9').changed, false);
  assert.equal(todos.command('fly').changed, false);
});
