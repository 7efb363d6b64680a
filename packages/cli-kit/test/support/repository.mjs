/** Temporary directories and real git repositories for tests. */

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** Creates a directory, which is removed when the test ends. The children of a killed program may still write. */
export function tempDir(t) {
  const dir = realpathSync(mkdtempSync(path.join(tmpdir(), 'test-')));
  t.after(() => rmSync(dir, { recursive: true, force: true, maxRetries: 10 }));
  return dir;
}

/** Creates a git repository. Returns functions that run git, write files and commit them. */
export function repository(t, dir = tempDir(t)) {
  const env = {
    ...process.env,
    GIT_AUTHOR_NAME: 'Test',
    GIT_AUTHOR_EMAIL: 'test@example.com',
    GIT_COMMITTER_NAME: 'Test',
    GIT_COMMITTER_EMAIL: 'test@example.com',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_SYSTEM: '/dev/null',
  };
  const git = (...args) => execFileSync('git', args, { cwd: dir, env, stdio: ['ignore', 'pipe', 'ignore'] }).toString();
  const write = (name, content) => {
    mkdirSync(path.dirname(path.join(dir, name)), { recursive: true });
    writeFileSync(path.join(dir, name), content);
  };
  /** Writes files, and commits all changes. */
  const commit = (files = {}, message = 'commit') => {
    for (const [name, content] of Object.entries(files)) write(name, content);
    git('add', '.');
    git('commit', '-m', message);
  };
  git('init', '--initial-branch=main');
  return { dir, git, write, commit };
}
