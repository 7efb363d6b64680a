/**
 * Counts the operations of the built worker that the platform bills. Replaces the entry module.
 *
 * For each object: how many times the object was loaded, its events, its busy time, its SQL statements, and the rows that these
 * statements read and wrote. For the worker: its requests, its SQL statements and their rows.
 */

import Worker, { NamespaceHub as BuiltHub } from './clock.worker.js';

/** The tallies by object id. The worker and all objects share them, and an object keeps its tally when it hibernates. */
const tallies = new Map();

/** Returns zero counts for a client of D1. A query or a batch is one round trip. `databaseBytes`: the last size of the database. */
const newDatabaseCounts = () => ({ roundTrips: 0, rowsRead: 0, rowsWritten: 0, databaseBytes: 0, statements: [] });

/** The counts of the worker itself, without objects. */
const workerCounts = { requests: 0, ...newDatabaseCounts() };

/** The number of log lines of the worker and of all objects. */
let logLines = 0;
for (const level of ['debug', 'log', 'info', 'warn', 'error']) {
  const write = console[level];
  console[level] = (...args) => {
    logLines += 1;
    write.apply(console, args);
  };
}

/**
 * Returns the tally of an object. `busyMs`: how long the object handled events or waited for D1, which the platform bills as the
 * duration of the object.
 */
function tallyOf(id) {
  const key = id.toString();
  if (!tallies.has(key)) {
    const storage = { rowsRead: 0, rowsWritten: 0, alarmsSet: 0 };
    tallies.set(key, { wakes: 0, events: [], runningCount: 0, busySince: 0, busyMs: 0, storage, ...newDatabaseCounts() });
  }
  return tallies.get(key);
}

/** Runs `work`, and adds its time to `busyMs`. Time in which an object runs several functions counts once. */
async function whileBusy(tally, work) {
  tally.runningCount += 1;
  if (tally.runningCount === 1) tally.busySince = Date.now();
  try {
    return await work();
  } finally {
    tally.runningCount -= 1;
    if (tally.runningCount === 0) tally.busyMs += Date.now() - tally.busySince;
  }
}

/** Returns `target` with replaced methods. */
const override = (target, methods) => Object.assign(Object.create(target), methods);

function addRows(counts, results) {
  for (const { meta } of results) {
    // What D1 bills: rows of tables and entries of indexes.
    counts.rowsRead += meta.rows_read;
    counts.rowsWritten += meta.rows_written;
    counts.databaseBytes = meta.size_after;
  }
}

function wrapStatement(statement, sql, counts) {
  return override(statement, {
    sql,
    bind: (...values) => wrapStatement(statement.bind(...values), sql, counts),
    // `raw` of D1 returns no counts.
    async raw() {
      counts.statements.push(sql);
      counts.roundTrips += 1;
      const result = await statement.all();
      addRows(counts, [result]);
      return result.results.map(Object.values);
    },
  });
}

/** Returns the bindings with a database that adds its statements and rows to `counts`. `run` runs each batch. */
const withCounts = (env, counts, run = (batch) => batch()) => ({
  ...env,
  DB: override(env.DB, {
    prepare: (sql) => wrapStatement(env.DB.prepare(sql), sql, counts),
    async batch(batch) {
      counts.statements.push(...batch.map(({ sql }) => sql));
      counts.roundTrips += 1;
      const results = await run(() => env.DB.batch(batch));
      addRows(counts, results);
      return results;
    },
  }),
});

/** Makes an object's storage count its rows, and the alarms that are set. */
function countStorage(storage, counts) {
  const { sql } = storage;
  const exec = sql.exec.bind(sql);
  sql.exec = (...args) => {
    const cursor = exec(...args);
    counts.rowsWritten += cursor.rowsWritten;
    // The caller reads the rows at once.
    queueMicrotask(() => (counts.rowsRead += cursor.rowsRead));
    return cursor;
  };
  const setAlarm = storage.setAlarm.bind(storage);
  storage.setAlarm = (...args) => {
    counts.alarmsSet += 1;
    return setAlarm(...args);
  };
}

export class NamespaceHub extends BuiltHub {
  constructor(state, env) {
    const tally = tallyOf(state.id);
    tally.wakes += 1;
    // The platform may have removed the previous instance of this object while that instance was busy.
    tally.runningCount = 0;
    countStorage(state.storage, tally.storage);
    super(
      state,
      withCounts(env, tally, (batch) => whileBusy(tally, batch)),
    );
    this.tally = tally;
  }
}

for (const name of ['fetch', 'webSocketMessage', 'webSocketClose', 'webSocketError', 'alarm']) {
  NamespaceHub.prototype[name] = async function handle(...args) {
    if (name === 'fetch' && args[0].url.includes('/e2e/advance?')) return BuiltHub.prototype.fetch.apply(this, args);
    const { wakes, events } = this.tally;
    const event = { name, wake: wakes, from: Date.now(), to: null };
    events.push(event);
    try {
      return await whileBusy(this.tally, () => BuiltHub.prototype[name].apply(this, args));
    } finally {
      event.to = Date.now();
    }
  };
}

export default class extends Worker {
  constructor(context, env) {
    super(context, withCounts(env, workerCounts));
  }

  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === '/e2e/tally') {
      return Response.json({ ...tallyOf(this.env.HUB.idFromName(searchParams.get('namespace'))), worker: workerCounts, logLines });
    }
    workerCounts.requests += 1;
    return super.fetch(request);
  }
}
