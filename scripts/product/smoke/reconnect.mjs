// The check `reconnect`: many CLIs lose their connections and return at once, as after a deployment of the hub.

import { inLanes } from '../../lib/parallel.mjs';
import { Failure, LANES } from './client.mjs';

const CLI_COUNT = 200;

/** Does what a CLI does when it starts: connects, registers a method, and sends a keep-alive. */
async function startCli(smoke, id) {
  const cli = await smoke.connectCli(id);
  const acks = [await cli.serve(`${id}:listSkills`, () => ({ success: true, skills: [{ name: id }] })), await cli.keepAlive(id)];
  const refused = acks.find((ack) => ack?.ok !== true);
  if (refused) throw new Failure(`A CLI was refused: ${JSON.stringify(refused)}.`);
  return cli;
}

/** @type {import('./checks.mjs').Check['run']} */
export async function checkReconnect(smoke, figures) {
  const ids = [];
  const clis = [];
  await inLanes(
    Array.from({ length: CLI_COUNT }, (_, index) => index),
    LANES,
    async (index) => {
      const { id } = await smoke.openSession(`reconnect-${index}`);
      ids.push(id);
      clis.push(await startCli(smoke, id));
    },
  );
  for (const cli of clis) cli.terminate();
  const startedAt = performance.now();
  await Promise.all(ids.map((id) => figures.time(() => startCli(smoke, id))));
  const ms = performance.now() - startedAt;
  await inLanes(ids, LANES, async (id) => {
    const { body } = await smoke.request('GET', `/api/sessions/${id}/skills`);
    if (body.skills?.[0]?.name !== id) throw new Failure(`The CLI of session ${id} cannot be called after it reconnected: ${body.error}`);
  });
  return `${CLI_COUNT} CLIs served again in ${(ms / 1000).toFixed(1)} s`;
}
