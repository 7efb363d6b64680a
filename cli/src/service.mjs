/** The definition of a user service that keeps the machine online: systemd on Linux, launchd on macOS. */

import { createHash } from 'node:crypto';
import path from 'node:path';
import { REFUSED_EXIT_CODE, REFUSED_EXIT_CODE_VARIABLE, USAGE_EXIT_CODE } from 'session-gateway-cli-kit/errors';

/**
 * Options that are not copied into a service's command line: the service has its own copy of the token, a code works once, and
 * `--dir` is added with the resolved directory.
 */
const OMITTED_OPTIONS = ['--code', '--token', '--token-file', '--dir'];

/** The environment variable with the folder of the state. */
export const HOME_VARIABLE = 'SESSION_GATEWAY_HOME';

/** Replaces the access token in a definition that is printed. */
const PLACEHOLDER = 'TOKEN';

/**
 * A service of one directory.
 * @typedef {object} Service
 * @property {string} name
 * @property {string} file path of the definition
 * @property {(token?: string | null) => string} define returns the definition; by default with a placeholder for the token, with null
 *   without a token
 * @property {string} [environmentFile] path of the file with the token and the agents' API keys; without it, the definition
 *   has the token
 * @property {{start: string[][], stop: string[][], persist?: string[]}} commands `start`: run after the definition was written;
 *   `stop`: run before the definition is removed; `persist`: keeps the service running while the user is logged out
 */

/**
 * @param {{argv: string[], env: Record<string, string | undefined>, platform: string, node: string, entry: string,
 *   dir: string, home: string}} program `argv`: the command line without `--service`; `node`, `entry`: paths of Node and
 *   of the main module; `dir`: the resolved directory; `home`: the user's home directory
 * @returns {Service}
 * @throws {Error} on a system other than Linux and macOS, or if a path cannot be written into a definition
 */
export function describeService({ argv, env, platform, node, entry, dir, home }) {
  const command = [node, entry, ...serviceArgs(argv, dir)];
  const inherited = ['HUB_URL', HOME_VARIABLE].filter((name) => env[name]).map((name) => [name, env[name]]);
  const variables = { PATH: env.PATH ?? '/usr/bin:/bin', ...Object.fromEntries(inherited) };
  // The suffix distinguishes directories with the same last component.
  const suffix = createHash('sha256').update(dir).digest('hex').slice(0, 6);
  const name = `session-gateway-agent-${path.basename(dir).replace(/[^A-Za-z0-9_-]/g, '-') || 'root'}-${suffix}`;
  if (platform === 'linux')
    return systemdService({ name, command, variables, dir, config: env.XDG_CONFIG_HOME || path.join(home, '.config') });
  if (platform === 'darwin') return launchdService({ name, command, variables, dir, home });
  throw new Error(`--service supports systemd (Linux) and launchd (macOS), not ${platform}.`);
}

/** Returns the command line without the options of `OMITTED_OPTIONS`, and with the resolved directory. */
function serviceArgs(argv, dir) {
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length;
  const args = ['--dir', dir];
  for (let i = 0; i < end; i += 1) {
    const [name] = argv[i].split('=', 1);
    if (!OMITTED_OPTIONS.includes(name)) args.push(argv[i]);
    else if (!argv[i].includes('=')) i += 1;
  }
  return [...args, ...argv.slice(end)];
}

function systemdService({ name, command, variables, dir, config }) {
  if (config.search(CONTROL_CHARACTERS) >= 0)
    throw new Error(`The path of the configuration has control characters: ${JSON.stringify(config)}.`);
  const file = path.join(config, 'systemd', 'user', `${name}.service`);
  const environmentFile = path.join(config, 'session-gateway-agent', `${name}.env`);
  const unit = `# ${file}
# ${environmentFile} has the line CLI_API_TOKEN=${PLACEHOLDER}, and may have the API keys of your agents. Only you may read it.
[Unit]
Description=Coding agents in “${dir.replace(CONTROL_CHARACTERS, '?').replaceAll('%', '%%')}”

[Service]
ExecStart=${command.map((word) => systemdWord(word).replaceAll('$', '$$$$')).join(' ')}
EnvironmentFile=${environmentFile.replaceAll('%', '%%')}
${Object.entries(variables)
  .map(([key, value]) => `Environment=${systemdWord(`${key}=${value}`)}`)
  .join('\n')}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=${USAGE_EXIT_CODE} ${REFUSED_EXIT_CODE}

[Install]
WantedBy=default.target
`;
  const systemctl = (...args) => ['systemctl', '--user', ...args];
  return {
    name,
    file,
    environmentFile,
    define: () => unit,
    commands: {
      start: [systemctl('daemon-reload'), systemctl('enable', name), systemctl('restart', name)],
      stop: [systemctl('disable', '--now', name)],
      persist: ['loginctl', 'enable-linger'],
    },
  };
}

const CONTROL_CHARACTERS = /\p{Cc}/gu;

/** Quotes a word of a unit file (systemd.syntax(7)); % is doubled, and control characters are escaped: a line break would add a line. */
const systemdWord = (word) =>
  `"${word
    .replace(/[\\"]/g, '\\$&')
    .replaceAll('%', '%%')
    .replace(CONTROL_CHARACTERS, (character) =>
      [...Buffer.from(character)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join(''),
    )}"`;

function launchdService({ name, command, variables, dir, home }) {
  const file = path.join(home, 'Library', 'LaunchAgents', `${name}.plist`);
  const strings = command.map((value) => `    <string>${escapeXml(value)}</string>`).join('\n');
  const define = (token = PLACEHOLDER) => `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>${name}</string>
  <key>ProgramArguments</key>
  <array>
${strings}
  </array>
  <key>WorkingDirectory</key>
  <string>${escapeXml(dir)}</string>
  <key>EnvironmentVariables</key>
  <dict>
${Object.entries({ ...(token === null ? {} : { CLI_API_TOKEN: token }), ...variables, [REFUSED_EXIT_CODE_VARIABLE]: '0' })
  .map(([key, value]) => `    <key>${key}</key>\n    <string>${escapeXml(value)}</string>`)
  .join('\n')}
  </dict>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>StandardErrorPath</key>
  <string>${escapeXml(path.join(home, 'Library', 'Logs', `${name}.log`))}</string>
</dict>
</plist>
`;
  return { name, file, define, commands: { start: [['launchctl', 'load', '-w', file]], stop: [['launchctl', 'unload', '-w', file]] } };
}

const escapeXml = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
