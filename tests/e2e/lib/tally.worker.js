/**
 * The built worker with a tally of its objects: when each woke, which events it handled, and what it sent to D1. Runs
 * inside the runtime, in place of the entry.
 */

import Worker, { NamespaceHub as BuiltHub } from './index.js';

/** By the id of the object. The worker and all objects share these, and they outlive the sleep of an object. */
const tallies = new Map();

function tallyOf(id) {
  const key = id.toString();
  if (!tallies.has(key)) tallies.set(key, { wakes: 0, events: [], statements: [] });
  return tallies.get(key);
}

/** `target` with some methods in place of its own. */
const over = (target, methods) => Object.assign(Object.create(target), methods);

function tallied(statement, sql, statements) {
  const noting = (way) => [way, (...args) => (statements.push(sql), statement[way](...args))];
  return over(statement, {
    sql,
    bind: (...values) => tallied(statement.bind(...values), sql, statements),
    ...Object.fromEntries(['all', 'first', 'raw', 'run'].map(noting)),
  });
}

const withTally = (env, { statements }) => ({
  ...env,
  DB: over(env.DB, {
    prepare: (sql) => tallied(env.DB.prepare(sql), sql, statements),
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
