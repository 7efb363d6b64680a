// `npm run devices`, and a command of the npm package: lists, adds, renames and revokes the devices of a namespace.

import { homedir } from 'node:os';
import path from 'node:path';
import { makeLog } from '../packages/cli-kit/src/log.mjs';
import { parseCommandLine } from './lib/command-line.mjs';
import { DEV_VARS_NAME } from './lib/dev-vars.mjs';
import { DevicesClient } from './lib/devices.mjs';
import { main, UsageError } from './lib/errors.mjs';
import { DEFAULT_PORT } from './lib/hub/options.mjs';
import { commandLine } from './lib/invocation.mjs';
import { DEV_VARS } from './lib/paths.mjs';
import { bold } from './lib/progress.mjs';
import { prepareTools } from './lib/prepare.mjs';
import { createSignInCode } from './lib/sign-in.mjs';

const DEFAULT_HUB = `http://127.0.0.1:${DEFAULT_PORT}`;

const KINDS = ['browser', 'phone', 'cli'];

const USAGE = `Usage: ${commandLine('devices', '[list] [--hub URL]')}
       ${commandLine('devices', 'add [--name NAME] [--kind KIND]')}
       ${commandLine('devices', 'rename ID NAME')}
       ${commandLine('devices', 'revoke ID')}

Lists the devices of a namespace; prints a code that adds a device; renames a device; ends the access of a device. ID is the
id of a device or its first characters.

  --hub URL          address of the hub (default: HUB_URL, else ${DEFAULT_HUB})
  --token-file FILE  file with the access token (default: the variable CLI_API_TOKEN; else, for a hub on this computer,
                     ${DEV_VARS_NAME}; else this computer asks for access, and a signed-in person approves it)
  --name NAME        the name of the new device (default: the device proposes it)
  --kind KIND        the kind of the new device: ${KINDS.join(', ')} (default: the device says it)
  --help             this text`;

/** @param {string} text */
function parseHub(text) {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new UsageError(`The address \`${text}\` is not a URL.`, 'Example: --hub https://hub.example.com');
  }
  return text.replace(/\/+$/, '');
}

/** @param {import('./lib/devices.mjs').Device[]} devices */
function formatDevices(devices) {
  const date = (time) => new Date(time).toISOString().slice(0, 16).replace('T', ' ');
  const rows = devices.map(({ id, name, kind, createdAt, lastSeenAt, isCurrent }) => [
    id.slice(0, 8),
    kind,
    lastSeenAt ? date(lastSeenAt) : 'never',
    date(createdAt),
    // A name must not move the cursor or change colours.
    `${name.replace(/[\p{Cc}\p{Cf}]/gu, '')}${isCurrent ? ' (this computer)' : ''}`,
  ]);
  const all = [['ID', 'KIND', 'LAST SEEN (UTC)', 'ADDED (UTC)', 'NAME'], ...rows];
  const widths = all[0].map((_, column) => Math.max(...all.map((row) => row[column].length)));
  return all
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/**
 * @param {import('./lib/devices.mjs').Device[]} devices
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
  const given = [id, ...name].filter((word) => word !== undefined);
  if (given.length < count || (action !== 'rename' && given.length > count)) {
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
      hub: { type: 'string', default: process.env.HUB_URL || DEFAULT_HUB },
      'token-file': { type: 'string' },
      name: { type: 'string' },
      kind: { type: 'string' },
    },
    { words: true },
  );
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const { action, id, name } = parseWords(options.words ?? []);
  if (options.kind !== undefined && !KINDS.includes(options.kind))
    throw new UsageError(`--kind must be one of ${KINDS.join(', ')}.`, USAGE);
  const hub = parseHub(options.hub);
  await prepareTools();
  // Imported here, because these modules need the npm packages.
  const { signIn } = await import('../packages/cli-kit/src/sign-in.mjs');
  const { qrCode } = await import('../packages/cli-kit/src/qr-code.mjs');
  const home = process.env.SESSION_GATEWAY_HOME || path.join(homedir(), '.session-gateway-agent');
  const { token } = await signIn(
    { hub, home, tokenFile: options['token-file'] },
    { env: process.env, devVars: DEV_VARS, log: makeLog(), input: process.stdin, output: process.stderr },
  );
  const client = new DevicesClient({ hub, token });
  if (action === 'add') {
    const { link, code, minutes } = await createSignInCode(hub, token, { name: options.name, kind: options.kind });
    console.log(`\nOpen this link on the new device, or enter the code on its sign-in page:\n\n  ${link}\n`);
    if (process.stdout.isTTY) console.log(`${qrCode(link).replace(/^/gm, '  ')}\n`);
    console.log(`  ${bold(code)}\n\nThe code works once, for ${minutes} minutes. Anyone who has it gets access: do not share it.`);
    return 0;
  }
  const devices = await client.list();
  if (action === 'list') {
    console.log(devices.length > 0 ? formatDevices(devices) : `There are no devices. To add one: ${commandLine('devices', 'add')}`);
    return 0;
  }
  const device = findDevice(devices, id);
  if (action === 'rename') await client.rename(device.id, name);
  else await client.revoke(device.id);
  console.log(action === 'rename' ? `Renamed ${device.name} to ${name}.` : `Revoked ${device.name}: it is signed out.`);
  return 0;
});
