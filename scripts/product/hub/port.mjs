// Checks whether the hub can listen on its address.

import net from 'node:net';
import { UserError } from '../../lib/errors.mjs';
import { startLine } from '../../lib/invocation.mjs';
import { localAddress } from './options.mjs';

const PROBE_TIMEOUT_MS = 2_000;

/**
 * Finds out whether a program can listen on an address.
 * @param {{host: string, port: number}} options
 * @returns {Promise<string | undefined>} the error code; undefined if a program can listen on the address
 */
export async function findPortProblem({ host, port }) {
  const server = net.createServer();
  const problem = await new Promise((resolve) => {
    server.once('error', (/** @type {NodeJS.ErrnoException} */ error) => resolve(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => resolve(undefined));
  });
  server.close();
  return problem;
}

/** What to do about an error of {@link findPortProblem}. */
const ADVICE = {
  EACCES: 'this user may not listen on that port; choose another --port',
  EADDRNOTAVAIL: 'this computer does not have that address; choose another --host',
};

/**
 * @param {{host: string, port: number}} options
 * @throws {UserError} with the reason, when the hub cannot listen on the address
 */
export async function requireFreePort(options) {
  const { host, port } = options;
  const problem = await findPortProblem(options);
  if (problem === undefined) return;
  if (problem === 'EADDRINUSE') {
    const listener = (await findHub(localAddress(options))) ? 'a hub, such as a hub in another folder' : 'another program';
    const otherCommand = startLine(`--port ${port === 65535 ? 1024 : port + 1}`);
    throw new UserError(`Port ${port} is in use by ${listener}.`, `Stop that program, or choose another port: ${otherCommand}`);
  }
  throw new UserError(`The hub cannot listen on ${host}, port ${port}: ${ADVICE[problem] ?? problem}.`);
}

/**
 * Finds the hub at an address.
 * @param {string} address
 * @returns {Promise<{protocolVersion: number, version: string} | undefined>} the health report of the hub; undefined without a hub
 */
export async function findHub(address) {
  try {
    const answer = await fetch(`${address}/health`, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
    const health = await answer.json();
    return health.protocolVersion === undefined ? undefined : health;
  } catch {
    return undefined;
  }
}
