/** The definition of a user service that keeps the machine online: systemd on Linux, launchd on macOS. */

import path from 'node:path';

/** Options that a service does not take over: the token would be visible in the list of processes. */
const LEFT_OUT = new Map([
  ['--service', { hasValue: false }],
  ['--token', { hasValue: true }],
  ['--dir', { hasValue: true }],
]);

/**
 * @param {{argv: string[], env: Record<string, string | undefined>, platform: string, node: string, entry: string,
 *   dir: string, home: string}} program `argv`: the command line after the script's name; `node`, `entry`: paths of Node and
 *   of the main module; `dir`: the resolved directory; `home`: the user's home directory
 * @returns {string} the definition, with a comment that says how to install it
 * @throws {Error} on a system with neither
 */
export function describeService({ argv, env, platform, node, entry, dir, home }) {
  const command = [node, entry, ...serviceArgs(argv, dir)];
  const name = `session-gateway-agent-${path.basename(dir).replace(/[^A-Za-z0-9_-]/g, '-') || 'root'}`;
  const variables = { PATH: env.PATH ?? '/usr/bin:/bin', ...(env.HUB_URL ? { HUB_URL: env.HUB_URL } : {}) };
  if (platform === 'linux') return systemdUnit({ name, command, variables, dir });
  if (platform === 'darwin') return launchdAgent({ name, command, variables, dir, home });
  throw new Error(`--service knows systemd (Linux) and launchd (macOS), not ${platform}.`);
}

/** The command line without the options that a service does not take over, and with the resolved directory. */
function serviceArgs(argv, dir) {
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length;
  const args = ['--dir', dir];
  for (let i = 0; i < end; i += 1) {
    const [name] = argv[i].split('=', 1);
    if (!LEFT_OUT.has(name)) args.push(argv[i]);
    else if (LEFT_OUT.get(name).hasValue && !argv[i].includes('=')) i += 1;
  }
  return [...args, ...argv.slice(end)];
}

function systemdUnit({ name, command, variables, dir }) {
  return `# Save this as ~/.config/systemd/user/${name}.service. Write the line CLI_API_TOKEN=TOKEN into the file
# ~/.config/session-gateway-agent.env, which only you can read (chmod 600), and the API keys of your agents. Then run:
#   systemctl --user daemon-reload
#   systemctl --user enable --now ${name}
#   loginctl enable-linger    # keeps it running while you are logged out
[Unit]
Description=Coding agents in ${dir.replaceAll('%', '%%')}

[Service]
ExecStart=${command.map(systemdWord).join(' ')}
EnvironmentFile=%h/.config/session-gateway-agent.env
${Object.entries(variables).map(([key, value]) => `Environment=${systemdWord(`${key}=${value}`)}`).join('\n')}
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
`;
}

/** Quotes a word of a unit file (systemd.syntax(7)); % and $ are doubled. */
const systemdWord = (word) => `"${word.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%').replaceAll('$', '$$$$')}"`;

function launchdAgent({ name, command, variables, dir, home }) {
  const strings = (values) => values.map((value) => `    <string>${escapeXml(value)}</string>`).join('\n');
  const entries = Object.entries(variables).map(([key, value]) => `    <key>${key}</key>\n    <string>${escapeXml(value)}</string>`);
  return `<?xml version="1.0" encoding="UTF-8"?>
<!-- Save this as ~/Library/LaunchAgents/${name}.plist, readable only by you (chmod 600), with your token in place of TOKEN.
     Then run: launchctl load -w ~/Library/LaunchAgents/${name}.plist -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>${name}</string>
  <key>ProgramArguments</key>
  <array>
${strings(command)}
  </array>
  <key>WorkingDirectory</key>
  <string>${escapeXml(dir)}</string>
  <key>EnvironmentVariables</key>
  <dict>
    <key>CLI_API_TOKEN</key>
    <string>TOKEN</string>
${entries.join('\n')}
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
}

const escapeXml = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
