// Where sessions can start, breadcrumbs, the suggested names of worktrees, and the command that connects a computer.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AGENTS } from '../../cli/src/agents.mjs';
import type { Machine, SessionSummary } from '../src/api/types.ts';
import { BRIDGE_AGENTS, connectCommand } from '../src/content/bridge-agents.ts';
import { breadcrumbsOf } from '../src/content/breadcrumbs.ts';
import { suggestWorktreeName } from '../src/content/worktree-name.ts';
import { placeKey, recentPlaces } from '../src/state/places.ts';
import { readySession } from '../src/state/start-place.ts';

const machine = (id: string, host: string, more = {}) =>
  ({ id, metadata: { host, displayName: host, platform: 'linux', homeDir: '/home/ada' }, ...more }) as unknown as Machine;
const session = (createdAt: number, machineId: string, path: string, more = {}) =>
  ({ id: String(createdAt), createdAt, metadata: { path, host: 'h', machineId, ...more } }) as unknown as SessionSummary;

test('recent places are the directories of online machines, with the directories of the newest sessions first', () => {
  const machines = { a: machine('a', 'laptop', { runnerState: { directories: ['/home/ada/demo', '/srv'] } }), b: machine('b', 'server') };
  const sessions = [
    session(1, 'b', '/code/old'),
    session(2, 'a', '/home/ada/demo'),
    session(5, 'gone', '/code/gone'),
    session(4, 'b', '/code/x/.worktrees/fix', { worktree: { basePath: '/code/x' } }),
    session(3, 'a', '/home/ada/demo'),
    session(6, 'constructor', '/code/x'),
    session(7, 'a', ''),
    { ...session(8, 'a', '/x'), metadata: null },
  ];
  assert.deepEqual(
    recentPlaces(sessions, machines).map(({ label, path }) => `${label} ${path}`),
    ['x on server /code/x', 'demo on laptop ~/demo', 'old on server /code/old', 'srv on laptop /srv'],
  );
  assert.equal(recentPlaces(sessions, machines)[1]?.session?.id, '3');
  assert.equal(recentPlaces([session(1, 'a', '/')], machines)[0]?.label, '/ on laptop');
});

test('the suggested name of a worktree is made of the first words of the task', () => {
  for (const [task, name] of [
    ['Fix the login page', 'fix-the-login-page'],
    ['Don’t crash: très «grave» at 10% of all starts', 'dont-crash-tres-grave-at'],
    ['修正登录页', 'task'],
    ['', 'task'],
    ['a'.repeat(100), 'a'.repeat(40)],
    ['../../etc/passwd', 'etc-passwd'],
    ['one thereallylongwordthatdoesnotfitintothename two', 'one'],
  ] as const) {
    assert.equal(suggestWorktreeName(task), name, task);
    assert.match(name, /^[a-z0-9][a-z0-9-]{0,63}$/);
  }
  assert.equal(suggestWorktreeName('Fix it', new Set(['fix-it', 'fix-it-2'])), 'fix-it-3');
});

test('the quick start offers the agents of the bridge, and a command with the address of the hub and the code', () => {
  assert.deepEqual(
    BRIDGE_AGENTS.map(({ id, name }) => [id, name]),
    Object.entries(AGENTS).map(([id, { title }]) => [id, title]),
  );
  assert.equal(
    connectCommand('codex', 'https://hub.example.com', 'ABCD-EFGH'),
    'npx session-gateway-agent --agent codex --hub https://hub.example.com --code ABCD-EFGH',
  );
  assert.equal(connectCommand('claude', 'http://127.0.0.1:8787'), 'npx session-gateway-agent --agent claude --hub http://127.0.0.1:8787');
});

test('pinned directories of machines that are online come first, in the order of their pins', () => {
  const machines = { a: machine('a', 'laptop', { runnerState: { directories: ['/srv'] } }) };
  const sessions = [session(1, 'a', '/code/one'), session(2, 'a', '/code/two')];
  const pin = (machineId: string, directory: string) => ({ machineId, directory, pinnedAt: 0 });
  const places = recentPlaces(sessions, machines, [pin('a', '/code/new'), pin('gone', '/x'), pin('a', '/code/one')]);
  assert.deepEqual(
    places.map(({ directory, session: newest }) => [directory, newest?.id]),
    [
      ['/code/new', undefined],
      ['/code/one', '1'],
      ['/code/two', '2'],
      ['/srv', undefined],
    ],
  );
});

test('the breadcrumbs of a directory begin at the served directory', () => {
  const crumbs = (path: string, roots: string[]) =>
    breadcrumbsOf(path, roots, '/home/ada').map(({ label, path: target }) => [label, target]);
  assert.deepEqual(crumbs('/home/ada/code/app', ['/srv', '/home/ada/code', '/home/ada/co']), [
    ['~/code', '/home/ada/code'],
    ['app', '/home/ada/code/app'],
  ]);
  assert.deepEqual(crumbs('/a/b', ['/']), [
    ['/', '/'],
    ['a', '/a'],
    ['b', '/a/b'],
  ]);
  assert.deepEqual(crumbs('/a/b/c', ['/a/b', '/a']), [
    ['/a', '/a'],
    ['b', '/a/b'],
    ['c', '/a/b/c'],
  ]);
  assert.deepEqual(crumbs('C:\\code\\app', ['C:\\code']), [
    ['C:\\code', 'C:\\code'],
    ['app', 'C:\\code\\app'],
  ]);
  assert.deepEqual(crumbs('/elsewhere', ['/srv']), [['/elsewhere', '/elsewhere']]);
});

test('the ready session of a place is the newest one that is connected and has no messages', () => {
  const ready = { lifecycleState: 'initializing' };
  const connected = (...values: Parameters<typeof session>) => ({ ...session(...values), active: true });
  const find = (...sessions: SessionSummary[]) => readySession(sessions, placeKey('a', '/code'))?.createdAt;
  assert.equal(find(connected(1, 'a', '/code', ready), connected(3, 'a', '/code', ready), connected(2, 'a', '/code', ready)), 3);
  const others = [
    connected(1, 'a', '/code'),
    session(2, 'a', '/code', ready),
    connected(3, 'b', '/code', ready),
    connected(4, 'a', '/x', ready),
  ];
  assert.equal(find(...others), undefined);
  assert.equal(find(connected(5, 'a', '/code/.worktrees/fix', { ...ready, worktree: { basePath: '/code' } })), 5);
});
