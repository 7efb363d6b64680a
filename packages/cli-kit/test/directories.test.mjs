import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { directoryMethods } from '../src/directories.mjs';
import { repository, tempDir } from './support/repository.mjs';

/** Two served directories beside a folder that is not served. */
function setUp(t) {
  const base = tempDir(t);
  const [code, notes, secret] = ['code', 'notes', 'secret'].map((name) => path.join(base, name));
  for (const folder of [code, notes, secret]) mkdirSync(path.join(folder, 'below'), { recursive: true });
  return { base, code, notes, secret, ...directoryMethods([code, notes]) };
}

test('the folders of a directory are listed by name, hidden ones last, and git repositories are marked', async (t) => {
  const { base, code, notes, listDirectory } = setUp(t);
  for (const name of ['.config', 'beta/.git', 'Alpha', 'worktree']) mkdirSync(path.join(code, name), { recursive: true });
  writeFileSync(path.join(code, 'worktree', '.git'), 'gitdir: elsewhere\n');
  writeFileSync(path.join(code, 'file.txt'), '');
  symlinkSync(path.join(notes, 'below'), path.join(code, 'linked'));
  const entry = (name, isGitRepository) => ({ name, path: path.join(code, name), ...(isGitRepository ? { isGitRepository } : {}) });
  assert.deepEqual(await listDirectory({ path: code }), {
    success: true,
    path: code,
    entries: [entry('Alpha'), entry('below'), entry('beta', true), entry('linked'), entry('worktree', true), entry('.config')],
    roots: [code, notes],
  });
  assert.equal((await listDirectory({ path: path.join(code, 'linked') })).path, path.join(notes, 'below'));
  assert.equal((await listDirectory({ path: path.join(code, 'below') })).parent, code);
  assert.equal((await directoryMethods([base]).listDirectory({ path: code })).parent, base);
});

test('without a path, only the served directories are listed', async (t) => {
  const { code, notes, listDirectory } = setUp(t);
  const roots = { success: true, entries: [], roots: [code, notes] };
  assert.deepEqual([await listDirectory(), await listDirectory({ path: '' }), await listDirectory({ path: null })], [roots, roots, roots]);
});

test('a path outside the served directories gives one answer, whether it exists or not', async (t) => {
  const { base, code, secret, listDirectory, listBranches } = setUp(t);
  symlinkSync(secret, path.join(code, 'out'));
  symlinkSync('..', path.join(code, 'up'));
  symlinkSync('loop', path.join(code, 'loop'));
  symlinkSync('nowhere', path.join(code, 'broken'));
  assert.deepEqual(
    (await listDirectory({ path: code })).entries.map(({ name }) => name),
    ['below'],
  );
  const outside = [
    ...['/', '/etc', '/etc/none', '~', homedir(), '..', '../secret', base, secret, path.join(base, 'none'), `${code}-2`],
    ...[`${code}/../secret`, `${code}/out`, `${code}/out/below`, `${code}/up/secret`, `${code}/below/../../secret/none`],
  ];
  for (const list of [listDirectory, listBranches]) {
    for (const name of outside) {
      await assert.rejects(list({ path: name }), { message: `${name} is outside the directories this machine serves.` }, name);
    }
  }
});

test('a path that names no directory is refused with the reason', async (t) => {
  const { code, listDirectory, listBranches } = setUp(t);
  writeFileSync(path.join(code, 'file'), '');
  symlinkSync('loop', path.join(code, 'loop'));
  /** @type {[unknown, RegExp][]} */
  const refusals = [
    [5, /^"path" must be the path/],
    [[code], /^"path" must be the path/],
    [{ toString: () => code }, /^"path" must be the path/],
    [`${code}\0`, /NUL/],
    [`${code}/below\0/../../secret`, /NUL/],
    [`${code}/file`, /^There is no directory/],
    [`${code}/file/below`, /^There is no directory/],
    [`${code}/loop`, /^There is no directory/],
    [`${code}/none`, /^There is no directory/],
    [`${code}/${'x'.repeat(100_000)}`, /^There is no directory/],
  ];
  for (const list of [listDirectory, listBranches]) {
    for (const [name, reason] of refusals) await assert.rejects(list({ path: name }), { message: reason }, String(name).slice(0, 80));
  }
  await assert.rejects(listBranches({}), /^Error: "path" must be the path/);
});

test('a folder that the user must not read is refused with this reason', {
  skip: process.getuid?.() === 0 && 'root reads every folder',
}, async (t) => {
  const { code, listDirectory } = setUp(t);
  chmodSync(path.join(code, 'below'), 0);
  t.after(() => chmodSync(path.join(code, 'below'), 0o700));
  await assert.rejects(listDirectory({ path: path.join(code, 'below') }), /^Error: Permission denied: /);
});

test('of a directory with very many folders, the first 1,000 are listed and the others are counted', async (t) => {
  const { code, listDirectory } = setUp(t);
  for (let index = 0; index < 1004; index += 1) mkdirSync(path.join(code, `f${index}`));
  const { entries, more } = await listDirectory({ path: code });
  assert.deepEqual([entries.length, more], [1000, 5]);
});

test('the branches of a repository are listed, the newest first and the remote ones last', async (t) => {
  const { dir, git, write } = repository(t);
  write('a.txt', 'a\n');
  git('add', '.');
  git('commit', '-m', 'first', '--date=2020-01-01T00:00:00Z');
  git('branch', 'old/one');
  git('update-ref', 'refs/remotes/origin/main', 'HEAD');
  git('symbolic-ref', 'refs/remotes/origin/HEAD', 'refs/remotes/origin/main');
  const { listBranches } = directoryMethods([dir]);
  const main = git('branch', '--show-current').trim();
  const { branches, ...others } = await listBranches({ path: dir });
  assert.deepEqual(others, { success: true, current: main, available: ['old/one'] });
  assert.deepEqual([branches.slice(0, 2).sort(), branches.slice(2)], [[main, 'old/one'].sort(), ['origin/main']]);
  git('switch', '--quiet', '--detach');
  assert.equal((await listBranches({ path: dir })).current, undefined);
  for (let index = 0; index < 201; index += 1) write(`.git/refs/heads/many-${index}`, git('rev-parse', 'HEAD'));
  const many = await listBranches({ path: dir });
  assert.deepEqual([many.branches.length, many.more], [200, 4]);
});

test('branches are listed only of repositories inside the served directories', async (t) => {
  const { dir } = repository(t);
  mkdirSync(path.join(dir, 'sub'));
  await assert.rejects(directoryMethods([path.join(dir, 'sub')]).listBranches({ path: path.join(dir, 'sub') }), /outside the directories/);
  const plain = tempDir(t);
  await assert.rejects(directoryMethods([plain]).listBranches({ path: plain }), /^Error: Not a git repository: /);
  assert.deepEqual((await directoryMethods([dir]).listBranches({ path: dir })).branches, []);
});
