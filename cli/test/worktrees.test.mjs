/** The command `worktrees`. */

import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { HubClient } from 'session-gateway-cli-kit/hub-client';
import { openWorktree } from 'session-gateway-cli-kit/worktree';
import { TOKEN } from '../../packages/cli-kit/test/support/fake-hub.mjs';
import { program } from '../src/program.mjs';
import { tidyWorktrees } from '../src/worktrees.mjs';
import { setUp } from './support/setup.mjs';

/** A repository with worktrees of these names, of which `used` has a session. `run` runs the command with answers to its questions. */
async function setUpWorktrees(t, names) {
  const { hub, dir, git, commit, home } = await setUp(t);
  commit({ 'a.txt': 'a\n' });
  const [used] = names;
  for (const name of names) await openWorktree({ directory: dir, directories: [dir], name });
  const client = new HubClient({ hub: hub.url, token: TOKEN });
  for (const folder of [dir, path.join(dir, '.worktrees', used, 'sub')])
    await client.openSession({ tag: folder, metadata: { path: folder, host: 'h', flavor: 'alpha' } });
  const run = async (...answers) => {
    const input = Object.assign(new PassThrough(), { isTTY: answers.length > 0 });
    const output = new PassThrough();
    let shown = '';
    let asked = 0;
    output.on('data', (chunk) => {
      shown += chunk;
      for (; shown.split('[y/N]').length - 1 > asked; asked += 1) input.write(`${answers[asked]}\n`);
    });
    const options = /** @type {any} */ ({ dir, home, hub: hub.url, token: TOKEN, allowDirs: [] });
    await tidyWorktrees(options, { program, env: {}, input: /** @type {any} */ (input), output });
    return shown;
  };
  const isThere = (name) => existsSync(path.join(dir, '.worktrees', name, 'a.txt'));
  return { dir, git, run, isThere };
}

test('a worktree without a session is removed after a yes, and its branch remains', async (t) => {
  const { dir, git, run, isThere } = await setUpWorktrees(t, ['used', 'one', 'feature/two', 'edited']);
  writeFileSync(path.join(dir, '.worktrees', 'edited', 'new.txt'), 'not committed');
  const shown = await run('yes', '', 'y');
  assert.match(shown, /used \(branch used\): has a session\n/);
  assert.match(shown, /feature\/two \(branch feature\/two\): has no session\nRemove this worktree\?/);
  assert.match(shown, /Not removed\. It has changes that are not committed\./);
  assert.deepEqual(['used', 'one', 'feature/two', 'edited'].map(isThere), [true, false, true, true]);
  assert.match(git('branch'), /^ *one$/m);
});

test('without a terminal, the worktrees are only listed', async (t) => {
  const { run, isThere } = await setUpWorktrees(t, ['used', 'one']);
  assert.match(await run(), /one \(branch one\): has no session\n/);
  assert.ok(isThere('one'));
});

test('a worktree whose path is too long to look for a session is kept without a question', async (t) => {
  const { dir, git, run, isThere } = await setUpWorktrees(t, ['used']);
  const long = ['x', 'y'].map((letter) => letter.repeat(200)).join('/');
  git('worktree', 'add', '-b', 'long', path.join(dir, '.worktrees', long));
  assert.match(await run('y'), /: is not removed: its path is too long to look for a session\n/);
  assert.ok(isThere(long));
});

test('a worktree that contains another worktree is not removed', async (t) => {
  const { dir, run, isThere } = await setUpWorktrees(t, ['used', 'outer']);
  const outer = path.join(dir, '.worktrees', 'outer');
  await openWorktree({ directory: outer, directories: [outer], name: 'inner' });
  assert.match(await run('y', 'n'), /Not removed\. It contains the worktree /);
  assert.ok(isThere('outer'));
});
