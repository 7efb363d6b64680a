/** The runtime without a hub: the cost of a request, of a Durable Object, of a database row, and of the load generator. */

import { Connection } from '../lib/http.mjs';
import { compare } from '../lib/measure.mjs';

export const rows = [
  { id: 'generator-c1', work: 'load generator, constant response, at 1', headline: 'perSecond' },
  { id: 'generator-c16', work: 'load generator, constant response, at 16', headline: 'perSecond' },
  { id: 'worker-c1', work: 'bare worker, at 1', headline: 'perSecond' },
  { id: 'worker-c16', work: 'bare worker, at 16', headline: 'perSecond' },
  { id: 'object-c1', work: 'worker -> object, at 1', headline: 'perSecond' },
  { id: 'object-c16', work: 'worker -> object, at 16', headline: 'perSecond' },
  { id: 'd1-insert', work: 'object -> D1: rows of 1 KB, 500 a batch', headline: 'rowsPerSecond' },
];

function callers(newConnection, path, concurrency) {
  return Array.from({ length: concurrency }, () => {
    const connection = newConnection();
    const request = connection.get(path);
    return async () => {
      const answer = await connection.send(request);
      if (answer.status !== 200) throw new Error(`${path} of the floor returned status ${answer.status}`);
    };
  });
}

export async function run({ sides, pace, report, cannedUrl }) {
  const [floor] = sides;
  const targets = [
    // Has no `pid`, because the server is no worker: its CPU time is not measured.
    ['generator', { name: 'floor' }, () => new Connection(cannedUrl), '/'],
    ['worker', floor, () => floor.newConnection(), '/text'],
    ['object', floor, () => floor.newConnection(), '/object'],
  ];
  for (const [name, side, newConnection, path] of targets) {
    for (const concurrency of [1, 16]) {
      report(`${name}-c${concurrency}`, await compare([side], () => callers(newConnection, path, concurrency), pace));
    }
  }
  const batchSize = 500;
  const { floor: insert } = await compare([floor], () => callers(() => floor.newConnection(), `/insert?rows=${batchSize}`, 1), pace);
  report('d1-insert', { floor: { p50: insert.p50, rowsPerSecond: insert.perSecond * batchSize, cpuMs: insert.cpuMs / batchSize } });
}
