/** The built worker with injected database faults. Also reports the size of the wasm memory. Replaces the entry module. */

import { memories } from './memory.worker.js';
import Worker, { NamespaceHub as BuiltHub } from './clock.worker.js';

/** The faults of the next batches, of the worker and all objects. @type {{on: string, kind: string, ms?: number}[]} */
let faults = [];

/**
 * The stall of the database, or null: all batches of `victims` fail, or get no result (`silent`).
 * @type {{kind: 'failing' | 'silent', victims: ('worker' | 'object')[]} | null}
 */
let stall = null;

/** Returns `target` with replaced methods. */
const override = (target, methods) => Object.assign(Object.create(target), methods);

/** Whether a statement is a read, or starts the epoch of an object before a read. */
const isRead = (sql) => /^\s*(SELECT|INSERT INTO fences .* VALUES)/.test(sql);

/** Runs statements of the worker or of an object, with the next fault for reads or writes. */
async function runWithFault(client, sqls, run) {
  if (stall?.victims.includes(client)) {
    if (stall.kind === 'silent') await new Promise((resolve) => setTimeout(resolve, 60_000));
    throw new Error('D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset.');
  }
  const on = sqls.every(isRead) ? 'reads' : 'writes';
  const index = faults.findIndex((fault) => fault.on === on);
  if (index < 0) return run();
  const [fault] = faults.splice(index, 1);
  if (fault.kind === 'slow') await new Promise((resolve) => setTimeout(resolve, fault.ms));
  if (fault.kind === 'transient') throw new Error('D1_ERROR: Network connection lost.');
  if (fault.kind === 'permanent') throw new Error('D1_ERROR: string or blob too big: SQLITE_TOOBIG');
  const result = await run();
  if (fault.kind === 'lost') throw new Error('D1_ERROR: Network connection lost.');
  return result;
}

const wrapStatement = (client, original, sql) =>
  override(original, {
    sql,
    original,
    bind: (...values) => wrapStatement(client, original.bind(...values), sql),
    raw: () => runWithFault(client, [sql], () => original.raw()),
  });

/** @param {'worker' | 'object'} client */
const withFaults = (client, env) => ({
  ...env,
  DB: override(env.DB, {
    prepare: (sql) => wrapStatement(client, env.DB.prepare(sql), sql),
    batch: (list) =>
      runWithFault(
        client,
        list.map(({ sql }) => sql),
        () => env.DB.batch(list.map(({ original }) => original)),
      ),
  }),
});

export class NamespaceHub extends BuiltHub {
  constructor(state, env) {
    super(state, withFaults('object', env));
  }
}

export default class extends Worker {
  constructor(context, env) {
    super(context, withFaults('worker', env));
  }

  async fetch(request) {
    switch (new URL(request.url).pathname) {
      case '/e2e/faults':
        faults = await request.json();
        return new Response(null, { status: 204 });
      case '/e2e/stall':
        stall = await request.json();
        return new Response(null, { status: 204 });
      case '/e2e/memory':
        return Response.json(memories.reduce((sum, memory) => sum + memory.buffer.byteLength, 0));
      default:
        return super.fetch(request);
    }
  }
}
