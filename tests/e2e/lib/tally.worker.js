/**
 * The built worker with counters of its objects: how often each was loaded, which events it handled, and which SQL it sent to
 * D1. Replaces the entry module.
 */

import Worker, { NamespaceHub as BuiltHub } from './index.js';

/** By object id. The worker and all objects share them, and the hibernation of an object keeps them. */
const tallies = new Map();

function tallyOf(id) {
  const key = id.toString();
  if (!tallies.has(key)) tallies.set(key, { wakes: 0, events: [], statements: [] });
  return tallies.get(key);
}

/** `target` with replaced methods. */
const override = (target, methods) => Object.assign(Object.create(target), methods);

function wrapStatement(statement, sql, statements) {
  const recorded = (method) => [method, (...args) => (statements.push(sql), statement[method](...args))];
  return override(statement, {
    sql,
    bind: (...values) => wrapStatement(statement.bind(...values), sql, statements),
    ...Object.fromEntries(['all', 'first', 'raw', 'run'].map(recorded)),
  });
}

const withTally = (env, { statements }) => ({
  ...env,
  DB: override(env.DB, {
    prepare: (sql) => wrapStatement(env.DB.prepare(sql), sql, statements),
    batch(batch) {
      statements.push(...batch.map(({ sql }) => sql));
      return env.DB.batch(batch);
    },
  }),
});

export class NamespaceHub extends BuiltHub {
  constructor(state, env) {
    const tally = tallyOf(state.id);
    tally.wakes += 1;
    super(state, withTally(env, tally));
    this.tally = tally;
  }
}

for (const name of ['fetch', 'webSocketMessage', 'webSocketClose', 'webSocketError', 'alarm']) {
  NamespaceHub.prototype[name] = async function handle(...args) {
    const { wakes, events } = this.tally;
    const event = { name, wake: wakes, from: Date.now(), to: null };
    events.push(event);
    try {
      return await BuiltHub.prototype[name].apply(this, args);
    } finally {
      event.to = Date.now();
    }
  };
}

export default class extends Worker {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname !== '/e2e/tally') return super.fetch(request);
    return Response.json(tallyOf(this.env.HUB.idFromName(searchParams.get('namespace'))));
  }
}
