// The command-line options of the commands that run the hub, and the address at which the hub listens.

import { DEFAULT_HUB } from '../../../packages/cli-kit/src/hub-address.mjs';
import { parseCommandLine } from '../../lib/command-line.mjs';
import { UsageError } from '../../lib/errors.mjs';

export const DEFAULT_PORT = Number(new URL(DEFAULT_HUB).port);

/** The lines of the usage text for the options of {@link readHubOptions}. */
export const HUB_OPTIONS_HELP = `
  --port N         port to listen on (default ${DEFAULT_PORT})
  --host [ADDRESS] address to listen on (default 127.0.0.1; without ADDRESS all interfaces)
  --verbose        show all output of wrangler, including each request and each log line of the hub
  --help           this text`.slice(1);

/**
 * @typedef {object} HubOptions
 * @property {string} host
 * @property {number} port
 * @property {boolean} verbose
 */

/**
 * @param {string[]} args
 * @param {string} usage
 * @returns {HubOptions}
 */
export function readHubOptions(args, usage) {
  // parseArgs does not support options with an optional value.
  const expanded = args.map((arg, i) => (arg === '--host' && (args[i + 1] ?? '-').startsWith('-') ? '--host=0.0.0.0' : arg));
  const { port, ...options } = parseCommandLine(expanded, usage, {
    port: { type: 'string', default: String(DEFAULT_PORT) },
    host: { type: 'string', default: '127.0.0.1' },
    verbose: { type: 'boolean', default: false },
  });
  return { ...options, port: parsePort(port, usage) };
}

/**
 * @param {string} port the value of `--port`
 * @param {string} usage
 */
export function parsePort(port, usage) {
  if (/^\d{1,5}$/.test(port) && Number(port) >= 1 && Number(port) <= 65535) return Number(port);
  throw new UsageError(`--port must be a number from 1 to 65535, not ${port || 'empty'}.`, usage);
}

/** Returns the option of a hub's port; empty for the default port. @param {{port: number}} options */
export const portOption = ({ port }) => (port === DEFAULT_PORT ? '' : `--port ${port}`);

/** Returns the address at which programs on this computer reach the hub. @param {{host: string, port: number}} options */
export function localAddress({ host, port }) {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`;
}
