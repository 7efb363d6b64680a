/** Temporary folders and git repositories. */

import { mkdirSync } from 'node:fs';
import { repository, tempDir } from '../../../packages/cli-kit/test/support/repository.mjs';

/** Creates a folder, which is removed after the test. */
export const temporaryFolder = tempDir;

/** A git repository on branch `main`, independent of the user's git settings. */
export class Repository {
  constructor(t, folder = temporaryFolder(t)) {
    mkdirSync(folder, { recursive: true });
    const { git, write, commit } = repository(t, folder);
    this.folder = folder;
    this.git = git;
    /** Writes a file and creates its folder. */
    this.write = write;
    /** Commits all changes. */
    this.commit = (message) => commit({}, message);
  }
}
