/** Temporary directories and real git repositories for tests. */

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** A fresh directory, removed when the test has ended. */
export function tempDir(t) {
  const dir = realpathSync(mkdtempSync(path.join(tmpdir(), 'shell-agent-')));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** A directory that is a git repository, with helpers to write files into it and to run git. */
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
  git('init', '--initial-branch=main');
  return { dir, git, write };
}
