/** The built worker with a tally of the statements that it sends to D1. Runs inside the runtime, in place of the entry. */

import Worker, { NamespaceHub as BuiltHub } from './index.js';

/** Since it was asked for last. The worker and all objects share it, and it outlives the sleep of an object. */
let statements = [];

/** `target` with some methods in place of its own. */
const over = (target, methods) => Object.assign(Object.create(target), methods);

function tallied(statement, sql) {
  const noting = (way) => [way, (...args) => (statements.push(sql), statement[way](...args))];
  return over(statement, {
    sql,
    bind: (...values) => tallied(statement.bind(...values), sql),
    ...Object.fromEntries(['all', 'first', 'raw', 'run'].map(noting)),
  });
}

const withTally = (env) => ({
  ...env,
  DB: over(env.DB, {
    prepare: (sql) => tallied(env.DB.prepare(sql), sql),
    batch(batch) {
      statements.push(...batch.map(({ sql }) => sql));
      return env.DB.batch(batch);
    },
  }),
});

export class NamespaceHub extends BuiltHub {
  constructor(state, env) {
    super(state, withTally(env));
  }
}

export default class extends Worker {
  constructor(context, env) {
    super(context, withTally(env));
  }

  async fetch(request) {
    if (new URL(request.url).pathname !== '/e2e/statements') return super.fetch(request);
    const answer = Response.json(statements);
    statements = [];
    return answer;
  }
}
