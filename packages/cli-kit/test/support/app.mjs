/** Set-up for tests of a whole CLI. */

import { startApp } from '../../src/app.mjs';
import { FakeHub, TOKEN } from './fake-hub.mjs';
import { repository, tempDir } from './repository.mjs';
import { quietLog } from './wait.mjs';

/**
 * Starts an in-memory hub and creates a repository. `start` starts the CLI, which ends with the test.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {import('../../src/program.mjs').Program} program
 * @param {Record<string, any>} defaults options of `startApp`
 */
export async function setUpApp(t, program, defaults) {
  const hub = await FakeHub.start();
  const log = quietLog();
  const apps = new Set();
  // Registered before the directories are created, so that it runs before they are removed.
  t.after(async () => {
    try {
      await Promise.all([...apps].map((app) => app.stop()));
    } finally {
      await hub.stop();
    }
  });
  const { dir, git, write, commit } = repository(t);
  const home = tempDir(t);
  const start = async (options = {}) => {
    /** @type {any} */
    const appOptions = {
      program,
      dir,
      home,
      hub: hub.url,
      token: TOKEN,
      machine: false,
      log,
      reconnectDelayMs: 10,
      startTimeoutMs: 0,
      ...defaults,
      ...options,
    };
    const app = await startApp(appOptions);
    apps.add(app);
    return app;
  };
  return { hub, dir, git, write, commit, home, log, start };
}

/** Waits for a permission request and approves it. */
export const approve = async (hub, sid, answer = {}) => {
  const id = await hub.waitUntil(() => hub.pendingRequest(sid), 'a permission request');
  return hub.call(sid, 'permission', { id, approved: true, ...answer });
};
