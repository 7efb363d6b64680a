/** Temporary folders and git repositories. */

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** Creates a folder, which is removed after the test. */
export function temporaryFolder(t) {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'hub-e2e-dir-')));
  // The children of a killed program may still write.
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));
  return folder;
}

/** A git repository on branch `main`, independent of the user's git settings. */
export class Repository {
  constructor(t, folder = temporaryFolder(t)) {
    this.folder = folder;
    mkdirSync(folder, { recursive: true });
    this.git('init', '--quiet', '--initial-branch=main');
  }

  git(...args) {
    const author = { NAME: 'Test', EMAIL: 'test@example.com' };
    const names = Object.entries(author).flatMap(([key, value]) => [
      [`GIT_AUTHOR_${key}`, value],
      [`GIT_COMMITTER_${key}`, value],
    ]);
    const env = { ...process.env, ...Object.fromEntries(names), GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null' };
    return execFileSync('git', args, { cwd: this.folder, env, encoding: 'utf8' });
  }

  /** Writes a file and creates its folder. */
  write(name, content) {
    const file = path.join(this.folder, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, content);
  }

  /** Commits all changes. */
  commit(message) {
    this.git('add', '--all');
    this.git('commit', '--quiet', '--message', message);
  }
}
