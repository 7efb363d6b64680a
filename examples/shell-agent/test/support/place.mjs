/** A place for the agent as a whole: a hub in memory, a repository, and agents that end with the test. */

import { startApp } from '../../src/app.mjs';
import { FakeHub, TOKEN } from './fake-hub.mjs';
import { repository, tempDir } from './repository.mjs';
import { quietLog } from './wait.mjs';

/** A hub, a repository, and a way to start agents that end with the test. */
export async function place(t) {
  const hub = await FakeHub.start();
  const log = quietLog();
  const apps = new Set();
  // Before the directories: what is registered first is run first.
  t.after(async () => {
    try {
      await Promise.all([...apps].map((app) => app.stop()));
    } finally {
      await hub.stop();
    }
  });
  const { dir, git, write } = repository(t);
  const home = tempDir(t);
  const start = async (options = {}) => {
    const app = await startApp({
      dir,
      home,
      hub: hub.url,
      token: TOKEN,
      flavor: 'alpha',
      machine: false,
      log,
      reconnectMs: 10,
      patienceMs: 0,
      ...options,
    });
    apps.add(app);
    return app;
  };
  return { hub, dir, git, write, home, log, start };
}

/** Approves what the agent asks, as soon as it does. */
export const approve = async (hub, sid, answer = {}) => {
  const id = await hub.until(() => hub.pending(sid), 'a permission request');
  return hub.call(sid, 'permission', { id, approved: true, ...answer });
};
