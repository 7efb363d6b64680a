// The status of a namespace as text.

import { formatSize, formatTable, formatTime, printable } from '../../lib/table.mjs';

/**
 * The answer of `GET /api/status` (`Status` in docs/openapi.yaml).
 * @typedef {object} Status
 * @property {string} version
 * @property {number} protocolVersion
 * @property {string} namespace
 * @property {string} hash
 * @property {number} loadedAt Unix milliseconds
 * @property {{total: number, active: number}} sessions
 * @property {{total: number, online: number}} machines
 * @property {number} messages
 * @property {{clis: number, webClients: number}} sockets
 * @property {{name?: string, isStalled: boolean, queuedBytes: number}} database
 * @property {{bytes: number, maxBytes?: number}} [storage]
 * @property {{at: number, line: {event: string} & Record<string, unknown>}[]} faults
 * @property {{at: number, kind: string, outcome: string, title: string, body: string, sent: number, failed: number}[]} pushes
 */

/** @param {number} count @param {string} noun */
const counted = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** @param {NonNullable<Status['storage']>} storage */
function describeStorage({ bytes, maxBytes }) {
  if (!maxBytes) return formatSize(bytes);
  return `${formatSize(bytes)} of ${formatSize(maxBytes)} (${Math.floor((100 * bytes) / maxBytes)} %)`;
}

/** @param {Status['database']} database */
function describeDatabase({ name, isStalled, queuedBytes }) {
  const answer = isStalled ? 'stalled: a query waits for longer than usual' : 'answers';
  const state = name === undefined ? answer : `${printable(name)} ${answer}`;
  return queuedBytes > 0 ? `${state}, ${formatSize(queuedBytes)} of changes are not written yet` : state;
}

/** @param {Status['faults'][number]} fault */
function rowOfFault({ at, line: { event, ...details } }) {
  const texts = Object.entries(details).map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`);
  return [formatTime(at), printable(event), printable(texts.join(', '))];
}

/** @param {Status['pushes'][number]} push */
function rowOfPush({ at, outcome, title, body, sent, failed }) {
  const counts = [...(sent > 0 ? [`${sent} sent`] : []), ...(failed > 0 ? [`${failed} failed`] : [])];
  return [formatTime(at), printable(outcome), counts.join(', '), printable(`${title}: ${body}`)];
}

/** Returns a list with its title. @param {string} title @param {string[][]} rows @param {string} none the text without rows */
function section(title, rows, none) {
  if (rows.length === 0) return `${title}: ${none}`;
  return `${title} (UTC, newest first):\n${formatTable(rows).replace(/^/gm, '  ')}`;
}

/**
 * Returns the status for a terminal.
 * @param {string} hub its address
 * @param {Status} status
 */
export function describeStatus(hub, status) {
  const { namespace, hash, version, protocolVersion, sessions, machines, sockets } = status;
  const facts = [
    ['Hub', `${hub}, version ${printable(version)}, protocol ${protocolVersion}`],
    ['Namespace', `${printable(namespace)} (in logs: ${printable(hash)})`],
    ['Sessions', `${sessions.total}, ${sessions.active} active`],
    ['Messages', String(status.messages)],
    ['Machines', `${machines.total}, ${machines.online} online`],
    ['Connections', `${counted(sockets.clis, 'CLI')}, ${counted(sockets.webClients, 'web client')}`],
    ...(status.storage ? [['Storage', describeStorage(status.storage)]] : []),
    ['Database', describeDatabase(status.database)],
    ['Loaded', `${formatTime(status.loadedAt)} UTC`],
  ];
  return [
    formatTable(facts),
    section('Faults', status.faults.map(rowOfFault), 'none since the namespace was loaded'),
    section('Notifications', status.pushes.map(rowOfPush), 'none'),
  ].join('\n\n');
}
