/** The runtime without a hub: the cost of a request, of a Durable Object, of a database row, and of the load generator. */

import { Connection } from '../lib/http.mjs';
import { compare } from '../lib/measure.mjs';

export const rows = [
  { id: 'generator-c1', work: 'load generator, constant response, 1 concurrent', mainFigure: 'perSecond' },
  { id: 'generator-c16', work: 'load generator, constant response, 16 concurrent', mainFigure: 'perSecond' },
  { id: 'worker-c1', work: 'bare worker, 1 concurrent', mainFigure: 'perSecond' },
  { id: 'worker-c16', work: 'bare worker, 16 concurrent', mainFigure: 'perSecond' },
  { id: 'object-c1', work: 'worker -> object, 1 concurrent', mainFigure: 'perSecond' },
  { id: 'object-c16', work: 'worker -> object, 16 concurrent', mainFigure: 'perSecond' },
  { id: 'd1-insert', work: 'object -> D1: rows of 1 KB, 500 a batch', mainFigure: 'rowsPerSecond' },
];

function callers(newConnection, path, concurrency) {
  return Array.from({ length: concurrency }, () => {
    const connection = newConnection();
    const request = connection.get(path);
    return async () => {
      const answer = await connection.send(request);
      if (answer.status !== 200) throw new Error(`the bare worker returned status ${answer.status} for ${path}`);
    };
  });
}

export async function run({ servers, schedule, report, constantUrl }) {
  const [bareWorker] = servers;
  // The figures of a server are reported under its name. The constant response comes from a plain server, not from a worker. This
  // server has no `pid`, so that its CPU time is not measured.
  const targets = [
    ['generator', { name: 'floor' }, () => new Connection(constantUrl), '/'],
    ['worker', bareWorker, () => bareWorker.newConnection(), '/text'],
    ['object', bareWorker, () => bareWorker.newConnection(), '/object'],
  ];
  for (const [name, server, newConnection, path] of targets) {
    for (const concurrency of [1, 16]) {
      report(`${name}-c${concurrency}`, await compare([server], () => callers(newConnection, path, concurrency), schedule));
    }
  }
  const batchSize = 500;
  const newInserter = () => callers(() => bareWorker.newConnection(), `/insert?rows=${batchSize}`, 1);
  const { floor: insert } = await compare([bareWorker], newInserter, schedule);
  report('d1-insert', { floor: { p50: insert.p50, rowsPerSecond: insert.perSecond * batchSize, cpuMs: insert.cpuMs / batchSize } });
}
