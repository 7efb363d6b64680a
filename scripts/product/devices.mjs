// `npm run devices`, and a command of the npm package: lists, adds, renames and revokes the devices of a namespace.

import { parseCommandLine } from '../lib/command-line.mjs';
import { main, UsageError } from '../lib/errors.mjs';
import { ACCESS_OPTIONS, ACCESS_USAGE, openAccess } from './hub/access.mjs';
import { requestHub } from './hub/hub-request.mjs';
import { commandLine } from '../lib/invocation.mjs';
import { bold } from '../lib/progress.mjs';
import { createSignInCode } from './hub/sign-in.mjs';
import { formatTable, formatTime, printable } from '../lib/table.mjs';

const KINDS = ['browser', 'phone', 'cli'];

const USAGE = `Usage: ${commandLine('devices', '[list] [--hub URL]')}
       ${commandLine('devices', 'add [--name NAME] [--kind KIND]')}
       ${commandLine('devices', 'rename ID NAME')}
       ${commandLine('devices', 'revoke ID')}

Lists the devices of a namespace; prints a code that adds a device; renames a device; ends the access of a device. ID is the
id of a device or its first characters.

${ACCESS_USAGE}
  --name NAME        the name of the new device (default: the device proposes it)
  --kind KIND        the kind of the new device: ${KINDS.join(', ')} (default: the device proposes it)
  --help             this text`;

/**
 * `createdAt`, `lastSeenAt`: Unix milliseconds. `isCurrent`: whether the token of the request is the device's.
 * @typedef {{id: string, name: string, kind: string, createdAt: number, lastSeenAt: number | null, isCurrent: boolean}} Device
 */

/** @param {Device[]} devices */
function formatDevices(devices) {
  const rows = devices.map(({ id, name, kind, createdAt, lastSeenAt, isCurrent }) => [
    id.slice(0, 8),
    kind,
    lastSeenAt ? formatTime(lastSeenAt) : 'never',
    formatTime(createdAt),
    `${printable(name)}${isCurrent ? ' (this computer)' : ''}`,
  ]);
  return formatTable([['ID', 'KIND', 'LAST SEEN (UTC)', 'ADDED (UTC)', 'NAME'], ...rows]);
}

/**
 * @param {Device[]} devices
 * @param {string} prefix
 */
function findDevice(devices, prefix) {
  const found = devices.filter(({ id }) => id.startsWith(prefix));
  if (found.length === 1) return found[0];
  throw new UsageError(
    found.length === 0 ? `There is no device with the id ${prefix}.` : `Several ids begin with ${prefix}: give more characters.`,
    `The ids are listed by: ${commandLine('devices')}`,
  );
}

/** @param {string[]} words */
function parseWords([action = 'list', id, ...name]) {
  const count = { list: 0, add: 0, rename: 2, revoke: 1 }[action];
  if (count === undefined) throw new UsageError(`There is no action ${action}.`, USAGE);
  const givenWords = [id, ...name].filter((word) => word !== undefined);
  if (givenWords.length < count || (action !== 'rename' && givenWords.length > count)) {
    const needs = {
      list: 'no arguments',
      add: 'no arguments',
      rename: 'the id of a device and its new name',
      revoke: 'the id of a device',
    };
    throw new UsageError(`${action} takes ${needs[action]}.`, USAGE);
  }
  return { action, id, name: name.join(' ') };
}

await main(async () => {
  const options = parseCommandLine(
    process.argv.slice(2),
    USAGE,
    {
      ...ACCESS_OPTIONS,
      name: { type: 'string' },
      kind: { type: 'string' },
    },
    { words: true },
  );
  const { action, id, name } = parseWords(options.words ?? []);
  if (options.kind !== undefined && !KINDS.includes(options.kind))
    throw new UsageError(`--kind must be one of ${KINDS.join(', ')}.`, USAGE);
  const { hub, token } = await openAccess(options);
  const request = (method, id = '', body) => requestHub({ hub, token }, method, `/api/devices${id && `/${encodeURIComponent(id)}`}`, body);
  if (action === 'add') {
    const { link, code, minutes } = await createSignInCode(hub, token, { name: options.name, kind: options.kind });
    // Imported here, because this module needs the npm packages.
    const { qrCode } = await import('../../packages/cli-kit/src/qr-code.mjs');
    console.log(`\nOpen this link on the new device, or enter the code on its sign-in page:\n\n  ${link}\n`);
    if (process.stdout.isTTY) console.log(`${qrCode(link).replace(/^/gm, '  ')}\n`);
    console.log(`  ${bold(code)}\n\nThe code works once, for ${minutes} minutes. Anyone who has it gets access: do not share it.`);
    return 0;
  }
  const { devices } = await request('GET');
  if (action === 'list') {
    console.log(devices.length > 0 ? formatDevices(devices) : `There are no devices. To add one: ${commandLine('devices', 'add')}`);
    return 0;
  }
  const device = findDevice(devices, id);
  if (action === 'rename') await request('PATCH', device.id, { name });
  else await request('DELETE', device.id);
  console.log(action === 'rename' ? `Renamed ${device.name} to ${name}.` : `Revoked ${device.name}: it is signed out.`);
  return 0;
});
