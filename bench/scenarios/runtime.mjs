/** The runtime without a hub: the cost of a request, and of a Durable Object. */

import { expectOk } from '../lib/http.mjs';
import { compare } from '../lib/measure.mjs';

const PATHS = { 'bare worker': '/text', 'worker -> object': '/object' };
const CONCURRENCIES = [1, 16];

export const rows = Object.keys(PATHS).flatMap((name) =>
  CONCURRENCIES.map((concurrency) => ({
    id: `${name}-${concurrency}`,
    work: `${name}, ${concurrency} concurrent`,
    mainFigure: 'perSecond',
  })),
);

export async function run({ servers: [floor], schedule, report }) {
  for (const [name, path] of Object.entries(PATHS)) {
    for (const concurrency of CONCURRENCIES) {
      const newCaller = () => {
        const connection = floor.newConnection();
        const request = connection.get(path);
        return async () => void expectOk(await connection.send(request), `GET ${path}`);
      };
      report(`${name}-${concurrency}`, await compare([floor], () => Array.from({ length: concurrency }, newCaller), schedule));
    }
  }
}
