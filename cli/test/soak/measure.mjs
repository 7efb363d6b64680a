/** Measures what could grow in a process that serves sessions for a long time. */

import { readFileSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { queryObjects, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Outbox } from 'session-gateway-cli-kit/outbox';
import { AcpProcess } from '../../src/acp-process.mjs';
import { AcpSession } from '../../src/acp-session.mjs';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc');

/** The classes whose objects are counted. The numbers of objects of other classes depend on Node's caches. */
const COUNTED = { AcpSession, AcpProcess, Outbox, AbortController, Promise };

const countListeners = (emitter) => emitter.eventNames().reduce((sum, name) => sum + emitter.listenerCount(name), 0);

/**
 * Returns numbers that must not grow. To be called while nothing runs.
 * @param {{clock: import('./clock.mjs').SimulatedClock, apps: {session: any}[], hub: any, home: string}} world
 * @returns {Promise<Record<string, number>>}
 */
export async function measure({ clock, apps, hub, home }) {
  // Finalizers free further objects.
  for (let i = 0; i < 4; i += 1) {
    collectGarbage();
    await new Promise((resolve) => setImmediate(resolve));
  }
  const count = (type) => process.getActiveResourcesInfo().filter((name) => name === type).length;
  const sessions = apps.map(({ session }) => session);
  const states = sessions.map(({ state }) => JSON.parse(readFileSync(state.file, 'utf8')));
  const ofHub = sessions.map(({ id }) => hub.sessions.get(id));
  const sumOf = (list, size) => list.reduce((sum, item) => sum + size(item), 0);
  const bytesOf = (value) => JSON.stringify(value ?? null).length;
  return {
    ...Object.fromEntries(Object.entries(COUNTED).map(([name, type]) => [`objects of ${name}`, queryObjects(type, { format: 'count' })])),
    timers: clock.timers.size,
    'agent processes': count('ProcessWrap'),
    pipes: count('PipeWrap'),
    'listeners of the process': countListeners(process),
    'listeners of the connections': sumOf(sessions, ({ socket }) => countListeners(socket)),
    'unsent messages': sumOf(sessions, ({ outbox }) => outbox.size),
    'locks and sockets': readdirSync(path.join(home, 'sessions')).filter((name) => /\.(lock|sock)$/.test(name)).length,
    // The last message of each turn is stored for forks, up to a limit on the turns.
    'bytes of the state': sumOf(states, ({ saved, ...state }) => bytesOf({ ...state, saved: { ...saved, turns: [] } })),
    'bytes of the uploads': sumOf(sessions, ({ id }) => folderBytes(path.join(home, 'uploads', id))),
    'bytes of the metadata': sumOf(ofHub, ({ metadata }) => bytesOf(metadata)),
    'pending requests': sumOf(ofHub, ({ agentState }) => Object.keys(agentState.requests).length),
    'rules and queued messages': sumOf(
      ofHub,
      ({ agentState: { sessionRules = [], queuedMessages = [] } }) => sessionRules.length + queuedMessages.length,
    ),
    'KB of the heap': Math.round(process.memoryUsage().heapUsed / 1024),
  };
}

function folderBytes(folder) {
  try {
    return readdirSync(folder).reduce((sum, name) => sum + statSync(path.join(folder, name)).size, 0);
  } catch {
    return 0;
  }
}
