/**
 * The built worker on a database with faults, and with its wasm memory in view. Runs inside the runtime, in place of the
 * entry.
 */

import { memories } from './memory.worker.js';
import Worker, { NamespaceHub as BuiltHub } from './index.js';

/** What the next batches meet; the worker and all objects share it. @type {{on: string, kind: string, ms?: number}[]} */
let faults = [];

/** `target` with some methods in place of its own. */
const over = (target, methods) => Object.assign(Object.create(target), methods);

/** Whether a statement reads, or begins the epoch in which something is read. */
const reads = (sql) => /^\s*(SELECT|INSERT INTO fences .* VALUES)/.test(sql);

/** Runs what is asked of D1, or what the next fault for its kind makes of that. */
async function meet(sqls, run) {
  const on = sqls.every(reads) ? 'reads' : 'writes';
  const at = faults.findIndex((fault) => fault.on === on);
  if (at < 0) return run();
  const [fault] = faults.splice(at, 1);
  if (fault.kind === 'slow') await scheduler.wait(fault.ms);
  if (fault.kind === 'passing') throw new Error('D1_ERROR: Network connection lost.');
  if (fault.kind === 'lasting') throw new Error('D1_ERROR: disk I/O error: SQLITE_IOERR');
  const answer = await run();
  if (fault.kind === 'lost') throw new Error('D1_ERROR: Network connection lost.');
  return answer;
}

const statement = (bare, sql) =>
  over(bare, {
    sql,
    bare,
    bind: (...values) => statement(bare.bind(...values), sql),
    raw: () => meet([sql], () => bare.raw()),
  });

const withFaults = (env) => ({
  ...env,
  DB: over(env.DB, {
    prepare: (sql) => statement(env.DB.prepare(sql), sql),
    batch: (list) => meet(list.map(({ sql }) => sql), () => env.DB.batch(list.map(({ bare }) => bare))),
  }),
});

export class NamespaceHub extends BuiltHub {
  constructor(state, env) {
    super(state, withFaults(env));
  }
}

export default class extends Worker {
  constructor(context, env) {
    super(context, withFaults(env));
  }

  async fetch(request) {
    switch (new URL(request.url).pathname) {
      case '/e2e/faults':
        faults = await request.json();
        return new Response(null, { status: 204 });
      case '/e2e/memory':
        return Response.json(memories.reduce((sum, memory) => sum + memory.buffer.byteLength, 0));
      default:
        return super.fetch(request);
    }
  }
}
