// Checks whether the hub can listen on its address.

import net from 'node:net';
import { UserError } from '../errors.mjs';
import { startLine } from '../invocation.mjs';
import { localAddress } from './options.mjs';

const PROBE_TIMEOUT_MS = 2_000;

/**
 * @param {{host: string, port: number}} options
 * @throws {UserError} when the hub cannot listen there, with the reason
 */
export async function requireFreePort(options) {
  const { host, port } = options;
  const server = net.createServer();
  const outcome = await new Promise((resolve) => {
    server.once('error', (/** @type {NodeJS.ErrnoException} */ error) => resolve(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => resolve('free'));
  });
  server.close();
  if (outcome === 'free') return;
  if (outcome === 'EADDRINUSE') {
    const user = (await isHub(localAddress(options))) ? 'a hub, such as one in another folder' : 'another program';
    const other = startLine(`--port ${port === 65535 ? 1024 : port + 1}`);
    throw new UserError(`Port ${port} is in use by ${user}.`, `Stop it, or choose another port: ${other}`);
  }
  const reasons = {
    EACCES: 'this user may not listen on that port; choose another --port',
    EADDRNOTAVAIL: 'this computer does not have that address; choose another --host',
  };
  throw new UserError(`The hub cannot listen on ${host}, port ${port}: ${reasons[outcome] ?? outcome}.`);
}

/** Whether a hub answers at an address. @param {string} address */
export async function isHub(address) {
  try {
    const answer = await fetch(`${address}/health`, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
    return (await answer.json()).protocolVersion !== undefined;
  } catch {
    return false;
  }
}
