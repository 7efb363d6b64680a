/**
 * Records for each large query of an object whether the event loop ran before the next query. `GET /e2e/large-queries` returns the records.
 * Replaces the entry module of the built worker.
 */

import Worker, { NamespaceHub as BuiltHub } from './index.js';

const LARGE_BYTES = 1_000_000;

/** The bytes of the parameters of each large query, and whether a timer fired between its result and the next query. */
const queries = [];

const override = (target, methods) => Object.assign(Object.create(target), methods);

const wrapStatement = (statement, bytes) =>
  override(statement, {
    bytes,
    bind: (...values) =>
      wrapStatement(
        statement.bind(...values),
        values.reduce((sum, value) => sum + (value?.length ?? 0), 0),
      ),
  });

/** Returns the bindings with a database that records the queries. */
function withRecords(env) {
  let last = null;
  const batch = async (statements) => {
    if (last) queries.push(last);
    last = null;
    const bytes = statements.reduce((sum, statement) => sum + statement.bytes, 0);
    const results = await env.DB.batch(statements);
    if (bytes > LARGE_BYTES) {
      const query = { bytes, hasYielded: false };
      last = query;
      setTimeout(() => (query.hasYielded = true), 0);
    }
    return results;
  };
  return { ...env, DB: override(env.DB, { prepare: (sql) => wrapStatement(env.DB.prepare(sql), 0), batch }) };
}

export class NamespaceHub extends BuiltHub {
  constructor(state, env) {
    super(state, withRecords(env));
  }
}

export default class extends Worker {
  async fetch(request) {
    return new URL(request.url).pathname === '/e2e/large-queries' ? Response.json(queries) : super.fetch(request);
  }
}
