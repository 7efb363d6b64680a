/** All kinds of sockets that a namespace's object can have. */

import { connectCli, liveSession } from '../../../scripts/product/clients/cli.mjs';

/** Opens all kinds of sockets in one namespace, none of which sends anything: two CLIs of a session, a machine's CLI, an event stream, an event socket. */
export async function connectAll(t, { target, namespace, tokenIn }) {
  const web = target.web(namespace);
  const { session, cli } = await liveSession(t, target, { namespace, tag: namespace, tokenIn, isSilent: true });
  const second = await connectCli(t, target, { namespace, tokenIn, auth: { sessionId: session.id } });
  const machine = await web.registerMachine({ id: `machine of ${namespace}` });
  const runner = await connectCli(t, target, { namespace, tokenIn, auth: { machineId: machine.id } });
  await runner.emitWithAck('machine-alive', { machineId: machine.id, time: Date.now() });
  const query = { all: 'true', sessionId: session.id };
  const feeds = [await web.openStream(query), await web.openSocket({ ...query, visibility: 'hidden' })];
  for (const feed of feeds) {
    t.after(() => feed.close());
    await feed.waitForGreeting();
  }
  await cli.serve('listSkills', () => ({ success: true, skills: [] }));
  await cli.serve(`${session.id}:permission`, () => ({ success: true }));
  await runner.serve('checkPathExists', ({ paths }) => Object.fromEntries(paths.map((path) => [path, true])));
  const ids = [cli, second, runner].map(({ socket }) => socket.id);
  return { target, namespace, tokenIn, web, session, cli, second, machine, runner, feeds, ids };
}
